"""A process of a case: it takes jobs until it is told to leave, or killed."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....durability import Job
from .adapter import Adapter
from .notes import Note, Notes
from .plan import doing


@dataclass(frozen=True, kw_only=True)
class Orders:
    """What such a process does."""

    name: str
    adapter: Adapter
    more: Mapping[str, Any] | None
    folder: str
    path: list[str]
    at_once: int
    """0: it submits, and is killed by itself as soon as that has returned."""
    submits: tuple[Job, ...] = ()


def main(orders: Orders) -> None:
    """Do it. What the process prints goes into files in the folder."""
    sys.path[:] = orders.path
    for number, name in ((1, "out"), (2, "err")):
        file = os.open(f"{orders.folder}/{orders.name}.{name}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(file, number)
        os.close(file)
    _quieten()
    asyncio.run(_serve(orders))


def _quieten() -> None:
    """Our own warnings go to the error stream; what comes to standard output has no business there."""
    import structlog

    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))


async def _serve(orders: Orders) -> None:
    notes = Notes(Path(orders.folder))
    queue = orders.adapter.queue(orders.more)
    await queue.open()
    for job in orders.submits:
        await queue.submit(job)
    if orders.submits:
        notes.add(Note(orders.name, "submitted"))
    if not orders.at_once:
        os.kill(os.getpid(), signal.SIGKILL)
    async with queue.working(orders.name, doing(orders.name, notes), at_once=orders.at_once):
        notes.add(Note(orders.name, "working"))
        await notes.gate(f"leave-{orders.name}")
    await queue.close()
    notes.add(Note(orders.name, "left"))

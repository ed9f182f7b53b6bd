"""Workers that freeze and wake, again and again, for shorter and for longer than their lease.

A worker that wakes may still do what it was about to do when it froze, though its run has gone on elsewhere meanwhile:
nothing that it had asked before could tell it. What comes of that is kept nowhere. So a request, or a call that reads,
that comes again at that moment is no fault; a later one is, and one that writes always.
"""

from __future__ import annotations

import asyncio
import random
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

from .checked import check_record, resumptions
from .fleet import Fleet, Member
from .ledger import Ledger, Line
from .script import Script

LEASE = 1.0
JUST_WOKEN = 0.5
"""Seconds in which a worker does what it was about to do when it froze."""


@dataclass
class Wakings:
    """Who was woken, and when (`time.monotonic_ns`)."""

    times: list[tuple[Member, int]] = field(default_factory=list)

    def excuse(self, line: Line) -> bool:
        """Whether this was done by somebody who had just been woken."""
        return any(
            (line.get("by") == who.name or line.get("pid") == who.pid) and 0 <= line["t"] - at < JUST_WOKEN * 1e9
            for who, at in self.times
        )


def check_woken(ledger: Ledger, script: Script, *, frozen: Member, woken: int, other: Member) -> None:
    """A run that ended at `other` before `frozen` woke (`time.monotonic_ns`): who woke began one thing at most."""
    late = [line for line in ledger.requests + ledger.calls if line["t"] > woken]
    assert len(late) <= 1, "it may do what it was about to do as it froze, and nothing more"
    assert ledger.faults(script, late.__contains__) == []
    before = Ledger(ledger.who, [line for line in ledger.lines if line not in late])
    assert before.askers == [frozen.name, other.name]


async def freeze(workers: list[Member], times: int, dice: random.Random) -> Wakings:
    """Freeze one of them so many times."""
    wakings = Wakings()
    for _ in range(times):
        worker = dice.choice(workers)
        worker.send(signal.SIGSTOP)
        await asyncio.sleep(dice.uniform(0.3, 2.5) * LEASE)
        wakings.times.append((worker, time.monotonic_ns()))
        worker.send(signal.SIGCONT)
        await asyncio.sleep(dice.uniform(0.05, 1.2) * LEASE)
    return wakings


async def check_freezes(ships: Fleet, folder: Path, *, workers: int, freezes: int, seed: int) -> None:
    """Freeze so many workers so many times while they have twelve sessions: all of these end, whole."""
    _, *company = await asyncio.gather(ships.serve(lease=LEASE), *(ships.worker(lease=LEASE) for _ in range(workers)))
    scripts = [Script(who=f"frozen-{place}", steps=40, pace=0.003) for place in range(12)]
    ids = [await ships.start(script) for script in scripts]
    wakings = await freeze(company, freezes, random.Random(seed))
    taken_over = 0
    for script, id in zip(scripts, ids, strict=True):
        await ships.reached(id, "completed", patience=120)
        assert ships.side.of(script.who).faults(script, wakings.excuse) == []
        taken_over += resumptions(await check_record(await ships.record(id, folder), script))
    assert taken_over > 0
    assert any("taken for dead" in worker.said for worker in company)
    assert not any("Traceback" in worker.said for worker in company), ships.trouble()

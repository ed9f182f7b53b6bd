"""A worker that stops at the end of some runs: `python halting.py STORE QUEUE`; prints which have ended.

A run whose prompt is `HALT` is over in the store, and the queue is not told of it.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from endstop import Engine
from endstop.durability import Job, Steps, Work
from endstop.durable.dbos import Dbos
from endstop.providers import Scripted
from endstop.service import Service

HALT = "Halt at the end"


class Halting(Dbos):
    """A queue whose work never returns for some runs."""

    @asynccontextmanager
    async def working(self, process: str, work: Work, *, at_once: int) -> AsyncIterator[None]:
        """The same, but for the end of a run."""

        async def do(job: Job, steps: Steps) -> None:
            await work(job, steps)
            print("OVER", job.run_id, flush=True)
            if job.text == HALT:
                await asyncio.Event().wait()

        async with super().working(process, do, at_once=at_once):
            yield


async def main(store: str, queue: str) -> None:
    """Work until somebody ends this process."""
    works_on = Halting(queue, poll_seconds=0.02)
    async with Service(Engine(Scripted("Done.", "Done.")), store=store, queue=works_on, lease=60.0):
        print("WORKS", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

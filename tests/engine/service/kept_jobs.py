"""A queue that keeps its jobs until a test wants one to be done."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from endstop.durability import Work
from endstop.durable import GivenRun, Job


class Queue:
    """Keeps jobs in memory. `work` does one of them, once the service works the queue off."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.dropped: list[str] = []
        self.recovered: list[str] = []
        self.given: list[tuple[GivenRun, str]] = []
        """What `given_to_others` tells of, in pages of two, each with its process."""
        self.pages = 0

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def submit(self, job: Job) -> None:
        self.jobs.append(job)

    async def recover(self, run_id: str) -> None:
        self.recovered.append(run_id)

    async def lost(self, run_ids: Sequence[str], seconds: float) -> list[str]:
        there = {job.run_id for job in self.jobs}
        return [run_id for run_id in run_ids if run_id not in there]

    async def given_to_others(self, processes: Sequence[str], after: GivenRun | None = None) -> list[GivenRun]:
        self.pages += 1
        place = (after.at, after.run_id) if after is not None else (-1, "")
        others = [run for run, process in self.given if process not in processes]
        return sorted((run for run in others if (run.at, run.run_id) > place), key=lambda run: (run.at, run.run_id))[:2]

    async def drop(self, *run_ids: str) -> None:
        self.dropped += run_ids

    @asynccontextmanager
    async def working(self, process: str, work: Work, *, at_once: int) -> AsyncIterator[None]:
        self.work = work
        yield

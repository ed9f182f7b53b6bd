"""A background worker: a queue of jobs, one engine, a limit of concurrent runs, and a shutdown that loses nothing.

    python docs/examples/background_worker.py [JOB ...]          a scripted model
    ENDSTOP_MODEL=anthropic/claude-sonnet-4-5 python ... [JOB ...]

SIGTERM (and Ctrl-C) ends it gracefully: no further job is begun, those that run have `GRACE` seconds to end by
themselves, and then end as cancelled, each with an outcome and a complete record. What was not begun is named, so that
it can be queued again. A real worker takes its jobs from a broker or a table; here they are the arguments.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from endstop import Engine, Run, tool
from endstop.decision import ToolResult
from endstop.providers import LiteLLM, Provider, Scripted, call

LIMIT = 2
"""Runs at once."""
GRACE = float(os.environ.get("GRACE", "10"))
"""Seconds that runs have to end after SIGTERM."""
JOBS = ("count: a rose is a rose", "count: to be or not to be", "count: hello", "wait: 0.2")


@tool(reads=True)
async def count_words(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())


@tool(reads=True)
async def wait(seconds: float) -> str:
    """Wait."""
    await asyncio.sleep(seconds)
    return f"waited {seconds:g} s"


class Worker:
    """Works off a queue of jobs. `stop` may be called at any time, also from a signal handler."""

    def __init__(self, engine: Engine, records: Path) -> None:
        self.queue: asyncio.Queue[tuple[int, str] | None] = asyncio.Queue()
        self.left: list[str] = []
        """Jobs that were not begun."""
        self._engine = engine
        self._records = records
        self._running: set[Run] = set()
        self._stopping = asyncio.Event()

    def add(self, jobs: Iterable[str]) -> None:
        """Queue jobs, and then the end of the queue."""
        for number, job in enumerate(jobs, 1):
            self.queue.put_nowait((number, job))
        self._close()

    def stop(self) -> None:
        """Begin no further job."""
        while not self.queue.empty():
            job = self.queue.get_nowait()
            if job is not None:
                self.left.append(job[1])
        self._close()
        self._stopping.set()

    async def work(self) -> None:
        """Work until the queue has come to its end, or until it is stopped."""
        async with self._engine:  # connections to the model stay open from run to run
            each = [asyncio.create_task(self._work_off()) for _ in range(LIMIT)]
            stopped = asyncio.create_task(self._stopping.wait())
            done = asyncio.gather(*each)
            await asyncio.wait([done, stopped], return_when=asyncio.FIRST_COMPLETED)
            if self._stopping.is_set():
                print(f"stopping: {len(self._running)} running, {len(self.left)} not begun", flush=True)
                await asyncio.wait([done], timeout=GRACE)
                for run in self._running:
                    run.cancel("shutdown")
            stopped.cancel()
            await done

    async def _work_off(self) -> None:
        while (job := await self.queue.get()) is not None:
            number, prompt = job
            async with self._engine.start(prompt, record=self._records / f"job_{number}.jsonl") as run:
                self._running.add(run)
                print(f"job {number} begun", flush=True)
                outcome = await run.wait()
                self._running.discard(run)
            print(f"job {number} {outcome.status}: {outcome.answer or outcome.detail}", flush=True)

    def _close(self) -> None:
        for _ in range(LIMIT):
            self.queue.put_nowait(None)


def provider() -> Provider:
    """The model that the environment names, or a script that does what a model would."""
    model = os.environ.get("ENDSTOP_MODEL")
    return LiteLLM(model) if model else Scripted(as_a_model_would)


def as_a_model_would(request):
    last = request.messages[-1]
    if isinstance(last, ToolResult):
        return call("finish_task", summary=f"{last.name}: {last.content}")
    what, _, about = last.text.partition(": ")
    return call("wait", seconds=float(about)) if what == "wait" else call("count_words", text=about)


async def main(jobs: Iterable[str], records: Path) -> None:
    worker = Worker(Engine(provider(), tools=[count_words, wait]), records)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, worker.stop)
    worker.add(jobs)
    await worker.work()
    for job in worker.left:
        print(f"not begun: {job}")
    print(f"{len(list(records.glob('*.jsonl')))} records")


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        asyncio.run(main(sys.argv[1:] or JOBS, Path(folder)))

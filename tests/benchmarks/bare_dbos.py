"""DBOS without sessions, in a process of its own: CPU of a workflow of trivial steps, DBOS's own or endstop's.

    python tests/benchmarks/bare_dbos.py work URL dbos|endstop WORKFLOWS STEPS
    python tests/benchmarks/bare_dbos.py submit URL dbos|endstop WORKFLOWS

`work` executes a first workflow, prints `ready`, and when WORKFLOWS more have ended the CPU seconds that one of them
took. `submit` puts workflows into the queue, as the server does, so that this costs the worker nothing. A step's work
gives a text of 500 letters at once. `tests/benchmarks/fleet.py` starts both.
"""

from __future__ import annotations

import asyncio
import sys
import time
import uuid
from collections.abc import Callable

from dbos import DBOS, DBOSClient
from endstop.durable import Job, StepKey, Steps
from endstop.durable.dbos import Dbos
from endstop.durable.dbos.database_url import parse_database_url

TEXT = "x" * 500
QUEUE = "bare"
APPLICATION = "bare"
VERSION = "bare"
POLL = 0.2
"""Seconds between two looks for workflows: endstop's default."""
AT_ONCE = 100

ended = 0
steps_of_one = 0


async def give() -> str:
    """The work of a step."""
    return TEXT


@DBOS.workflow(name="bare.run", max_recovery_attempts=None)
async def run(number: int) -> None:
    """A workflow of steps as DBOS offers them."""
    global ended
    for _ in range(steps_of_one):
        await DBOS.run_step_async({"name": "give"}, give)
    ended += 1


async def execute(job: Job, steps: Steps) -> None:
    """The same number of steps of endstop's on DBOS."""
    global ended
    for number in range(steps_of_one):
        await steps.step(StepKey("session", job.run_id, number), give)
    ended += 1


async def until_ended(number: int) -> None:
    """Wait for so many workflows in all."""
    deadline = time.monotonic() + 300
    while ended < number:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{ended} of {number} workflows have ended")
        await asyncio.sleep(0.01)


async def measured(first: Callable[[], None], workflows: int) -> None:
    """Print what a workflow costs, once one has made this process ready."""
    first()
    await until_ended(1)
    print("ready", flush=True)
    cpu = time.process_time()
    await until_ended(1 + workflows)
    await asyncio.sleep(0.3)  # the ends of the last ones are stored a moment later
    print((time.process_time() - cpu) / workflows, flush=True)


async def work(url: str, way: str, workflows: int) -> None:
    """Execute workflows."""
    if way == "endstop":
        queue = Dbos(url)
        await queue.open()
        await queue.submit(a_job())
        async with queue.working(f"process-{uuid.uuid4().hex}", execute, at_once=AT_ONCE):
            await measured(lambda: None, workflows)
        await queue.close()
        return
    whole = parse_database_url(url).url
    DBOS(
        config={
            "name": APPLICATION,
            "application_version": VERSION,
            "system_database_url": whole,
            "enable_otlp": False,
            "log_level": "ERROR",
        }
    )
    DBOS.listen_queues([QUEUE])
    DBOS.launch()
    client = a_client(whole)
    await client.register_queue_async(
        QUEUE, worker_concurrency=AT_ONCE, polling_interval_sec=POLL, application_name=APPLICATION
    )
    await measured(lambda: enqueue(client), workflows)
    client.destroy()
    DBOS.destroy()


async def submit(url: str, way: str, workflows: int) -> None:
    """Put workflows into the queue, twenty at a time as the load of `fleet.py` does."""
    turn = asyncio.Semaphore(20)
    queue, client = Dbos(url), a_client(parse_database_url(url).url)
    await queue.open()

    async def one() -> None:
        async with turn:
            await (queue.submit(a_job()) if way == "endstop" else asyncio.to_thread(enqueue, client))

    await asyncio.gather(*(one() for _ in range(workflows)))
    client.destroy()
    await queue.close()


def a_job() -> Job:
    """A job of a run that nobody had."""
    return Job(run_id=uuid.uuid4().hex, session_id="session", agent="agent", opening="prompt")


def a_client(url: str) -> DBOSClient:
    """DBOS's client."""
    return DBOSClient(system_database_url=url, application_name=APPLICATION)


def enqueue(client: DBOSClient) -> None:
    """Put one workflow into DBOS's queue."""
    client.enqueue(
        {"workflow_name": "bare.run", "queue_name": QUEUE, "app_version": VERSION, "application_name": APPLICATION}, 1
    )


if __name__ == "__main__":
    if sys.argv[1] == "submit":
        asyncio.run(submit(sys.argv[2], sys.argv[3], int(sys.argv[4])))
    else:
        steps_of_one = int(sys.argv[5])
        asyncio.run(work(sys.argv[2], sys.argv[3], int(sys.argv[4])))

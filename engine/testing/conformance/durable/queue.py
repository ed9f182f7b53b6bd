"""Cases of `Queue`: submitting, limits, sharing, dropping and leaving."""

from __future__ import annotations

import asyncio
import traceback

import anyio

from ....durability import Job, JobAnswer, StepKey, Steps
from .harness import GRACE, DurableTrial, ScriptedStep, job


async def brings_it_whole(trial: DurableTrial) -> None:
    """A job arrives as it was submitted."""
    answers = (
        JobAnswer(call_id="call:1", approved=True, arguments={"path": "ü\n", "deep": [{"n": 1.5, "no": None}]}),
        JobAnswer(call_id="call:2", text="größte", approved=False),
    )
    sent = [
        Job(
            run_id="one", session_id="s 1/ü", agent="a\u0000b", opening="prompt", text="größte \N{PILE OF POO}\u0000\n"
        ),
        Job(run_id="two", session_id="s", agent="a", opening="answer", text="x" * 300_000, call_id="call:1"),
        Job(run_id="four", session_id="s", agent="a", opening="answer", answers=answers),
        Job(run_id="three", session_id="s", agent="a", opening="resume", heard=("m1", "m\u2028")),
    ]
    got: list[Job] = []

    async def work(job: Job, steps: Steps) -> None:
        got.append(job)

    await trial.submit(*sent)
    async with trial.work_here(work):
        await trial.wait_until(lambda: len(got) == len(sent), "all jobs")
    if sorted(got, key=lambda one: one.run_id) != sorted(sent, key=lambda one: one.run_id):
        trial.fail(f"jobs came out as {got}")


async def takes_it_once(trial: DurableTrial) -> None:
    """A job that is submitted again, while it waits or is being executed, is executed once."""
    await trial.submit_plan("run", ScriptedStep(1, within="end"))
    await trial.submit_plan("run", ScriptedStep(1, within="end"))
    async with trial.work_here():
        await trial.wait_logged("began", "run")
        await trial.submit_plan("run", ScriptedStep(1, within="end"))
        await trial.pause(GRACE)
        trial.log.open_gate("end")
        await trial.wait_logged("done", "run")
        await trial.pause(GRACE)
    if len(trial.logged("taken", "run")) != 1:
        trial.fail("a run that was submitted three times before it ended was taken more than once")


async def takes_it_anew(trial: DurableTrial) -> None:
    """A job whose work has ended, by itself or by an exception, can be submitted anew, several times."""
    async with trial.work_here():
        for run, raises in (("whole", False), ("broken", True)):
            for times in (1, 2, 3):
                await _submit_until_taken(trial, job(run, [ScriptedStep(times, value=times)], raises=raises), times)
                await trial.wait_logged("raised" if raises else "done", run, times=times)
    results = [note.key for note in trial.logged("result")]
    if results != [f"{run}/{times}/" for run in ("whole", "broken") for times in (1, 2, 3)]:
        trial.fail(f"each of two runs was submitted three times with another step, and these were done: {results}")


async def _submit_until_taken(trial: DurableTrial, job: Job, times: int) -> None:
    """Submit until the job is taken: until the engine knows that the run has ended, a submit has no effect."""
    while len(trial.logged("taken", job.run_id)) < times:
        await trial.submit(job)
        with anyio.move_on_after(GRACE):
            await trial.wait_logged("taken", job.run_id, times=times)


async def goes_on_after_errors(trial: DurableTrial) -> None:
    """Work that raises stops neither the queue nor other jobs that are being executed."""
    await trial.submit_plan("long", ScriptedStep(1, within="end"))
    async with trial.work_here(at_once=2):
        await trial.wait_logged("began", "long")
        for number in range(3):
            await trial.submit_plan(f"broken-{number}", ScriptedStep(1), raises=True)
            await trial.wait_logged("raised", f"broken-{number}")
        await trial.submit_plan("whole", ScriptedStep(1))
        await trial.wait_logged("done", "whole")
        trial.log.open_gate("end")
        await trial.wait_logged("done", "long")


async def holds_at_once(trial: DurableTrial) -> None:
    """A process executes at most `at_once` jobs at a time, and that many if there are enough."""
    await _holds(trial, 2)


async def _holds(trial: DurableTrial, most: int) -> None:
    runs = [f"run-{number}" for number in range(6)]
    for run in runs:
        await trial.submit_plan(run, ScriptedStep(1, within="end"))
    async with trial.work_here(at_once=most):
        await trial.wait_until(lambda: len(trial.logged("began")) >= most, f"{most} jobs in work")
        await trial.pause(GRACE)
        trial.log.open_gate("end")
        await trial.wait_until(lambda: len(trial.logged("done")) == len(runs), "all jobs")
    _check_at_once(trial, most)


def _check_at_once(trial: DurableTrial, most: int) -> None:
    now: set[tuple[str, str]] = set()
    for note in trial.log.all():
        if note.what == "taken":
            now.add((note.process, note.run))
        elif note.what in ("done", "raised", "lost", "cancelled"):
            now.discard((note.process, note.run))
        if len(now) > most:
            trial.fail(f"{most} jobs may be in work at once, and these were: {sorted(now)}")


async def holds_the_limit(trial: DurableTrial) -> None:
    """With a limit of two, exactly two jobs are executed at once in all processes together, if there are enough."""
    trial.more = trial.adapter.limited
    await trial.start_processes(2)
    runs = [f"run-{number}" for number in range(6)]
    for run in runs:
        await trial.submit_plan(run, ScriptedStep(1, within="end"))
    await trial.wait_until(lambda: len(trial.logged("began")) >= 2, "two jobs in work")
    await trial.pause(GRACE)
    if len(trial.logged("taken")) != 2:
        trial.fail(f"two jobs may be in work in all, and {len(trial.logged('taken'))} were taken")
    trial.log.open_gate("end")
    await trial.wait_until(lambda: len(trial.logged("done")) == len(runs), "all jobs")
    _check_at_once(trial, 2)


async def is_shared(trial: DurableTrial) -> None:
    """Two processes with `at_once=1` execute one job each."""
    one, two = await trial.start_processes(2, at_once=1)
    for number in range(4):
        await trial.submit_plan(f"run-{number}", ScriptedStep(1, within="end"))
    for process in (one, two):
        await trial.wait_until(lambda name=process.name: trial.logged("began", process=name), "a job in each process")  # type: ignore[misc]
    trial.log.open_gate("end")
    await trial.wait_until(lambda: len(trial.logged("done")) == 4, "all jobs")
    if len(trial.logged("taken")) != 4:
        trial.fail("four jobs were submitted, and one of them was taken twice")


async def forgets_what_waits(trial: DurableTrial) -> None:
    """A run that is dropped while it waits is not executed; after another `submit` it is."""
    await trial.submit_plan("gone", ScriptedStep(1))
    queue = await trial.queue()
    await queue.drop("gone")
    await queue.drop("nobody's")
    async with trial.work_here():
        await trial.submit_plan("run", ScriptedStep(1))
        await trial.wait_logged("done", "run")
        await trial.pause(GRACE)
        if trial.logged("taken", "gone"):
            trial.fail("a run that was dropped while it waited was taken")
        await trial.submit_plan("gone", ScriptedStep(1))
        await trial.wait_logged("done", "gone")


async def forgets_results(trial: DurableTrial) -> None:
    """Dropping a run that has ended deletes its results: when it is submitted again, its steps do their work again."""
    work: list[str] = []
    ended: list[str] = []

    async def done(job: Job, steps: Steps) -> None:
        async def once() -> str:
            work.append("once")
            return "result"

        await steps.step(StepKey("session", job.run_id, 1), once)
        ended.append(job.run_id)

    async with trial.work_here(done):
        for times in (1, 2):
            await trial.submit(job("run"))
            await trial.wait_until(lambda times=times: len(ended) == times, "the run")  # type: ignore[misc]
            await trial.pause(GRACE)
            await (await trial.queue()).drop("run")
    if len(work) != 2:
        trial.fail(f"a run was dropped and submitted again; the work of its step happened {len(work)} times")


async def takes_it_away(trial: DurableTrial) -> None:
    """A run that is dropped while it is executed gets RunLost at its next step, and is not executed again."""
    await trial.submit_plan("run", ScriptedStep(1), ScriptedStep(2, before="end"))
    async with trial.work_here():
        await trial.wait_logged("result", "run", "run/1/")
        await (await trial.queue()).drop("run")
        trial.log.open_gate("end")
        await trial.wait_until(lambda: trial.logged("lost", "run") or trial.logged("cancelled", "run"), "RunLost")
        await trial.submit_plan("next", ScriptedStep(1))
        await trial.wait_logged("done", "next")
    if len(trial.logged("taken", "run")) != 1 or trial.logged("began", "run", "run/2/"):
        trial.fail("a run was dropped while it was in work, and something more was done for it")


async def leaves(trial: DurableTrial) -> None:
    """Leaving `working` awaits no work and claims no more; after `recover` another process does what was unfinished."""
    await trial.submit_plan("run", ScriptedStep(1), ScriptedStep(2, within="end"), ScriptedStep(3))
    async with trial.work_here(at_once=1) as name:
        await trial.wait_logged("began", "run", "run/2/")
        await trial.submit_plan("waits", ScriptedStep(1))
        at = asyncio.get_running_loop().time()
    took = asyncio.get_running_loop().time() - at
    if took > 10:
        trial.fail(f"leaving took {took:.1f} s: it must not wait for work")
    await trial.submit_plan("later", ScriptedStep(1))
    await trial.pause(GRACE)
    if [note.run for note in trial.logged("taken")] != ["run"]:
        trial.fail("something was taken while or after `working` was left")
    other = await trial.start_process()
    await trial.wait_logged("done", "waits", process=other.name)
    await trial.wait_logged("done", "later", process=other.name)
    if trial.logged("taken", "run", process=other.name):
        trial.fail("what a process left unfinished was taken without `recover`")
    trial.log.open_gate("end")
    await trial.recover("run")
    await trial.wait_logged("done", "run", process=other.name)
    if trial.logged("done", "run", process=name):
        trial.fail("work went on to its end in a process that had left")


async def works_again(trial: DurableTrial) -> None:
    """A queue that was left, closed and opened anew works, in the same process."""
    for times in (1, 2, 3):
        queue = await trial.queue()
        await trial.submit_plan(f"run-{times}", ScriptedStep(1))
        async with trial.work_here():
            await trial.wait_logged("done", f"run-{times}")
        if times == 2:
            await queue.close()
            await queue.open()


async def says_that_it_is_away(trial: DurableTrial) -> None:
    """If no server answers, `open` raises ConnectionError, and no text contains the password."""
    queue = trial.adapter.queue(trial.adapter.away)
    secret = trial.adapter.secret
    try:
        await queue.open()
    except ConnectionError as error:
        texts = [str(error), repr(error), "".join(traceback.format_exception(error)), repr(queue)]
        if secret and any(secret in text for text in texts):
            trial.fail("the password stands in the error, its traceback or the queue's repr")
        if len(str(error)) < 20:
            trial.fail(f"an error must say what is away, and where; this one says {str(error)!r}")
    else:
        trial.fail("nobody answers, and `open` said nothing")
    finally:
        await queue.close()

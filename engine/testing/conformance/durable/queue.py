"""Cases of `Queue`: submitting, limits, sharing, dropping and leaving."""

from __future__ import annotations

import asyncio
import traceback

import anyio

from ....durability import Job, JobAnswer, StepKey, Steps
from .harness import GRACE, DurableTrial, ScriptedStep, job


async def brings_it_whole(trial: DurableTrial) -> None:
    """Check that a job arrives as it was submitted."""
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
    """Check that a job that is submitted again, while it waits or is being executed, is executed once."""
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
    """Check that a job whose work has ended, by itself or by an exception, can be submitted again, several times."""
    async with trial.work_here():
        for run, raises in (("whole", False), ("broken", True)):
            for times in (1, 2, 3):
                await _submit_until_taken(trial, job(run, [ScriptedStep(times, value=times)], raises=raises), times)
                await trial.wait_logged("raised" if raises else "done", run, times=times)
    results = [note.key for note in trial.logged("result")]
    if results != [f"{run}/{times}/" for run in ("whole", "broken") for times in (1, 2, 3)]:
        trial.fail(f"each of two runs was submitted three times with another step, but these were done: {results}")


async def _submit_until_taken(trial: DurableTrial, job: Job, times: int) -> None:
    """Submit until the job is taken, because a submit has no effect until the engine knows that the run has ended."""
    while len(trial.logged("taken", job.run_id)) < times:
        await trial.submit(job)
        with anyio.move_on_after(GRACE):
            await trial.wait_logged("taken", job.run_id, times=times)


async def goes_on_after_errors(trial: DurableTrial) -> None:
    """Check that work that raises stops neither the queue nor other jobs that are being executed."""
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
    """Check that a process executes at most `at_once` jobs at a time, and that many if there are enough."""
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
    """Check that with a limit of two, exactly two jobs are executed at once in all processes together.

    There must be enough jobs.
    """
    trial.more = trial.adapter.limited
    await trial.start_processes(2)
    runs = [f"run-{number}" for number in range(6)]
    for run in runs:
        await trial.submit_plan(run, ScriptedStep(1, within="end"))
    await trial.wait_until(lambda: len(trial.logged("began")) >= 2, "two jobs being executed")
    await trial.pause(GRACE)
    if len(trial.logged("taken")) != 2:
        trial.fail(f"two jobs may be executed in all, but {len(trial.logged('taken'))} were taken")
    trial.log.open_gate("end")
    await trial.wait_until(lambda: len(trial.logged("done")) == len(runs), "all jobs")
    _check_at_once(trial, 2)


async def is_shared(trial: DurableTrial) -> None:
    """Check that two processes with `at_once=1` execute one job each."""
    one, two = await trial.start_processes(2, at_once=1)
    for number in range(4):
        await trial.submit_plan(f"run-{number}", ScriptedStep(1, within="end"))
    for process in (one, two):
        await trial.wait_until(lambda name=process.name: trial.logged("began", process=name), "a job in each process")  # type: ignore[misc]
    trial.log.open_gate("end")
    await trial.wait_until(lambda: len(trial.logged("done")) == 4, "all jobs")
    if len(trial.logged("taken")) != 4:
        trial.fail("four jobs were submitted, but one of them was taken twice")


async def forgets_what_waits(trial: DurableTrial) -> None:
    """Check that a run that is dropped while it waits is not executed.

    After another `submit` it is executed.
    """
    await trial.submit_plan("gone", ScriptedStep(1))
    queue = await trial.queue()
    await queue.drop("gone", "nobody's")
    async with trial.work_here():
        await trial.submit_plan("run", ScriptedStep(1))
        await trial.wait_logged("done", "run")
        await trial.pause(GRACE)
        if trial.logged("taken", "gone"):
            trial.fail("a run that was dropped while it waited was taken")
        await trial.submit_plan("gone", ScriptedStep(1))
        await trial.wait_logged("done", "gone")


async def keeps_what_is_there(trial: DurableTrial) -> None:
    """Check that `lost` names a run that is unknown or has ended, and none that waits or was just given out."""
    queue = await trial.queue()
    runs = ["nobody's", "over", "run", "waits"]
    async with trial.work_here(at_once=1):
        await trial.submit_plan("over", ScriptedStep(1))
        await trial.wait_logged("done", "over")
        await trial.submit_plan("run", ScriptedStep(1, within="end"))
        await trial.wait_logged("began", "run", "run/1/")
        await trial.submit_plan("waits", ScriptedStep(1))
        while "over" not in (lost := await queue.lost(runs, 3600)):  # the engine may note the end a moment later
            await trial.pause(0.01)
        if sorted(lost) != ["nobody's", "over"]:
            trial.fail(f"of the runs {runs} an unknown and an ended one are lost, and `lost` named {lost}")
        trial.log.open_gate("end")
        await trial.wait_logged("done", "waits")


async def tells_what_others_have(trial: DurableTrial) -> None:
    """Check that `given_to_others` names no run that waits, that one of these processes has, or that was dropped.

    It may name none at all.
    """
    queue = await trial.queue()
    async with trial.work_here(at_once=1) as name:
        await trial.submit_plan("run", ScriptedStep(1, within="end"))
        await trial.wait_logged("began", "run")
        await trial.submit_plan("waits", ScriptedStep(1))
        if own := await queue.given_to_others(["another", name]):
            trial.fail(f"all was given to {name} or waits, and to other processes `given_to_others` named {own}")
        given = await queue.given_to_others(["another"])
        if [(run.run_id, run.ended) for run in given] not in ([], [("run", False)]):
            trial.fail(f"a process executes 'run', and 'waits' waits, and `given_to_others` named {given}")
        if given and (more := await queue.given_to_others(["another"], given[-1])):
            trial.fail(f"'run' was on the first page, and the next one named {more}")
        trial.log.open_gate("end")
        await trial.wait_logged("done", "waits")
    await queue.drop("run", "waits")
    if given := await queue.given_to_others(["another"]):
        trial.fail(f"all was dropped, and `given_to_others` named {given}")


async def forgets_results(trial: DurableTrial) -> None:
    """Check that dropping a run that has ended deletes its results.

    When it is submitted again, its steps do their work again.
    """
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
        trial.fail(f"a run was dropped and submitted again; the work of its step was done {len(work)} times")


async def takes_it_away(trial: DurableTrial) -> None:
    """Check that a run dropped during its execution gets RunLost at its next step.

    It is not executed again.
    """
    await trial.submit_plan("run", ScriptedStep(1), ScriptedStep(2, before="end"))
    async with trial.work_here():
        await trial.wait_logged("result", "run", "run/1/")
        await (await trial.queue()).drop("run")
        trial.log.open_gate("end")
        await trial.wait_until(lambda: trial.logged("lost", "run") or trial.logged("cancelled", "run"), "RunLost")
        await trial.submit_plan("next", ScriptedStep(1))
        await trial.wait_logged("done", "next")
    if len(trial.logged("taken", "run")) != 1 or trial.logged("began", "run", "run/2/"):
        trial.fail("a run was dropped during its execution, but more was done for it")


async def leaves(trial: DurableTrial) -> None:
    """Check that leaving `working` waits for no work and claims no more.

    After `recover`, another process does the unfinished work.
    """
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
        trial.fail("work that a process left unfinished was taken without `recover`")
    trial.log.open_gate("end")
    await trial.recover("run")
    await trial.wait_logged("done", "run", process=other.name)
    if trial.logged("done", "run", process=name):
        trial.fail("work ran to its end in a process that had left")


async def works_again(trial: DurableTrial) -> None:
    """Check that a queue that was left, closed and opened again works, in the same process."""
    for times in (1, 2, 3):
        queue = await trial.queue()
        await trial.submit_plan(f"run-{times}", ScriptedStep(1))
        async with trial.work_here():
            await trial.wait_logged("done", f"run-{times}")
        if times == 2:
            await queue.close()
            await queue.open()


async def says_that_it_is_away(trial: DurableTrial) -> None:
    """Check that `open` raises ConnectionError if no server responds.

    No text may contain the password.
    """
    queue = trial.adapter.queue(trial.adapter.away)
    secret = trial.adapter.secret
    try:
        await queue.open()
    except ConnectionError as error:
        texts = [str(error), repr(error), "".join(traceback.format_exception(error)), repr(queue)]
        if secret and any(secret in text for text in texts):
            trial.fail("the password is in the error, its traceback or the queue's repr")
        if len(str(error)) < 20:
            trial.fail(f"an error must say which server does not respond, and where; this one says {str(error)!r}")
    else:
        trial.fail("no server responds, but `open` did not raise")
    finally:
        await queue.close()

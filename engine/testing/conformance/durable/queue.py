"""What the queue must do with jobs."""

from __future__ import annotations

import asyncio
import traceback

import anyio

from ....durability import Job, StepKey, Steps
from .harness import GRACE, Act, Trial, job


async def brings_it_whole(trial: Trial) -> None:
    """A job comes out as it was put in."""
    sent = [
        Job(
            run_id="one", session_id="s 1/ü", agent="a\u0000b", opening="prompt", text="größte \N{PILE OF POO}\u0000\n"
        ),
        Job(run_id="two", session_id="s", agent="a", opening="answer", text="x" * 300_000, call_id="call:1"),
        Job(run_id="three", session_id="s", agent="a", opening="resume", heard=("m1", "m\u2028")),
    ]
    got: list[Job] = []

    async def work(job: Job, steps: Steps) -> None:
        got.append(job)

    await trial.submit(*sent)
    async with trial.here(work):
        await trial.until(lambda: len(got) == 3, "three jobs")
    if sorted(got, key=lambda one: one.run_id) != sorted(sent, key=lambda one: one.run_id):
        trial.complain(f"jobs came out as {got}")


async def takes_it_once(trial: Trial) -> None:
    """Submitted twice, while it waits and while it is in work, it is one run."""
    await trial.planned("run", Act(1, within="end"))
    await trial.planned("run", Act(1, within="end"))
    async with trial.here():
        await trial.until_noted("began", "run")
        await trial.planned("run", Act(1, within="end"))
        await trial.pause(GRACE)
        trial.notes.open_gate("end")
        await trial.until_noted("done", "run")
        await trial.pause(GRACE)
    if len(trial.noted("taken", "run")) != 1:
        trial.complain("a run that was submitted three times before it ended was taken more than once")


async def takes_it_anew(trial: Trial) -> None:
    """A job whose work has ended, by itself or by an exception, can be submitted anew, several times."""
    async with trial.here():
        for run, raises in (("whole", False), ("broken", True)):
            for times in (1, 2, 3):
                await _submit_until_taken(trial, job(run, [Act(times, value=times)], raises=raises), times)
                await trial.until_noted("raised" if raises else "done", run, times=times)
    results = [note.key for note in trial.noted("result")]
    if results != [f"{run}/{times}/" for run in ("whole", "broken") for times in (1, 2, 3)]:
        trial.complain(f"each of two runs was submitted three times with another step, and these were done: {results}")


async def _submit_until_taken(trial: Trial, job: Job, times: int) -> None:
    """The work may have ended, and the engine not know it yet: then the run stays as it is, and is submitted again."""
    while len(trial.noted("taken", job.run_id)) < times:
        await trial.submit(job)
        with anyio.move_on_after(GRACE):
            await trial.until_noted("taken", job.run_id, times=times)


async def goes_on_after_errors(trial: Trial) -> None:
    """Work that raises does not stop the queue, nor what else is in work."""
    await trial.planned("long", Act(1, within="end"))
    async with trial.here(at_once=2):
        await trial.until_noted("began", "long")
        for number in range(3):
            await trial.planned(f"broken-{number}", Act(1), raises=True)
            await trial.until_noted("raised", f"broken-{number}")
        await trial.planned("whole", Act(1))
        await trial.until_noted("done", "whole")
        trial.notes.open_gate("end")
        await trial.until_noted("done", "long")


async def holds_at_once(trial: Trial) -> None:
    """A process has `at_once` jobs in work at the most, and has as many if there are."""
    await _holds(trial, 2)


async def _holds(trial: Trial, most: int) -> None:
    runs = [f"run-{number}" for number in range(6)]
    for run in runs:
        await trial.planned(run, Act(1, within="end"))
    async with trial.here(at_once=most):
        await trial.until(lambda: len(trial.noted("began")) >= most, f"{most} jobs in work")
        await trial.pause(GRACE)
        trial.notes.open_gate("end")
        await trial.until(lambda: len(trial.noted("done")) == len(runs), "all jobs")
    _check_at_once(trial, most)


def _check_at_once(trial: Trial, most: int) -> None:
    now: set[tuple[str, str]] = set()
    for note in trial.notes.all():
        if note.what == "taken":
            now.add((note.process, note.run))
        elif note.what in ("done", "raised", "lost", "cancelled"):
            now.discard((note.process, note.run))
        if len(now) > most:
            trial.complain(f"{most} jobs may be in work at once, and these were: {sorted(now)}")


async def holds_the_limit(trial: Trial) -> None:
    """With a limit of two, two jobs are in work in all processes together, and the limit is used."""
    trial.more = trial.adapter.limited
    await trial.several(2)
    runs = [f"run-{number}" for number in range(6)]
    for run in runs:
        await trial.planned(run, Act(1, within="end"))
    await trial.until(lambda: len(trial.noted("began")) >= 2, "two jobs in work")
    await trial.pause(GRACE)
    if len(trial.noted("taken")) != 2:
        trial.complain(f"two jobs may be in work in all, and {len(trial.noted('taken'))} were taken")
    trial.notes.open_gate("end")
    await trial.until(lambda: len(trial.noted("done")) == len(runs), "all jobs")
    _check_at_once(trial, 2)


async def is_shared(trial: Trial) -> None:
    """Two processes with `at_once=1` have a job each."""
    one, two = await trial.several(2, at_once=1)
    for number in range(4):
        await trial.planned(f"run-{number}", Act(1, within="end"))
    for process in (one, two):
        await trial.until(lambda name=process.name: trial.noted("began", process=name), "a job in each process")  # type: ignore[misc]
    trial.notes.open_gate("end")
    await trial.until(lambda: len(trial.noted("done")) == 4, "all jobs")
    if len(trial.noted("taken")) != 4:
        trial.complain("four jobs were submitted, and one of them was taken twice")


async def forgets_what_waits(trial: Trial) -> None:
    """A run that is dropped while it waits is never done; submitted again, it is a run like any other."""
    await trial.planned("gone", Act(1))
    queue = await trial.queue()
    await queue.drop("gone")
    await queue.drop("nobody's")
    async with trial.here():
        await trial.planned("run", Act(1))
        await trial.until_noted("done", "run")
        await trial.pause(GRACE)
        if trial.noted("taken", "gone"):
            trial.complain("a run that was dropped while it waited was taken")
        await trial.planned("gone", Act(1))
        await trial.until_noted("done", "gone")


async def forgets_results(trial: Trial) -> None:
    """A run that is dropped after its end has no results any more: submitted again, its steps happen anew."""
    work: list[str] = []
    ended: list[str] = []

    async def done(job: Job, steps: Steps) -> None:
        async def once() -> str:
            work.append("once")
            return "result"

        await steps.step(StepKey("session", job.run_id, 1), once)
        ended.append(job.run_id)

    async with trial.here(done):
        for times in (1, 2):
            await trial.submit(job("run"))
            await trial.until(lambda times=times: len(ended) == times, "the run")  # type: ignore[misc]
            await trial.pause(GRACE)
            await (await trial.queue()).drop("run")
    if len(work) != 2:
        trial.complain(f"a run was dropped and submitted again; the work of its step happened {len(work)} times")


async def takes_it_away(trial: Trial) -> None:
    """A run that is dropped while it is in work loses it: RunLost at its next step, and it is not taken again."""
    await trial.planned("run", Act(1), Act(2, before="end"))
    async with trial.here():
        await trial.until_noted("result", "run", "run/1/")
        await (await trial.queue()).drop("run")
        trial.notes.open_gate("end")
        await trial.until(lambda: trial.noted("lost", "run") or trial.noted("cancelled", "run"), "RunLost")
        await trial.planned("next", Act(1))
        await trial.until_noted("done", "next")
    if len(trial.noted("taken", "run")) != 1 or trial.noted("began", "run", "run/2/"):
        trial.complain("a run was dropped while it was in work, and something more was done for it")


async def leaves(trial: Trial) -> None:
    """Leaving waits for no work and takes nothing more; what was unfinished is done by another after `recover`."""
    await trial.planned("run", Act(1), Act(2, within="end"), Act(3))
    async with trial.here(at_once=1) as name:
        await trial.until_noted("began", "run", "run/2/")
        await trial.planned("waits", Act(1))
        at = asyncio.get_running_loop().time()
    took = asyncio.get_running_loop().time() - at
    if took > 10:
        trial.complain(f"leaving took {took:.1f} s: it must not wait for work")
    await trial.planned("later", Act(1))
    await trial.pause(GRACE)
    if [note.run for note in trial.noted("taken")] != ["run"]:
        trial.complain("something was taken while or after `working` was left")
    other = await trial.process()
    await trial.until_noted("done", "waits", process=other.name)
    await trial.until_noted("done", "later", process=other.name)
    if trial.noted("taken", "run", process=other.name):
        trial.complain("what a process left unfinished was taken without `recover`")
    trial.notes.open_gate("end")
    await trial.recover("run")
    await trial.until_noted("done", "run", process=other.name)
    if trial.noted("done", "run", process=name):
        trial.complain("work went on to its end in a process that had left")


async def works_again(trial: Trial) -> None:
    """A queue that was left, closed and opened anew works, in the same process."""
    for times in (1, 2, 3):
        queue = await trial.queue()
        await trial.planned(f"run-{times}", Act(1))
        async with trial.here():
            await trial.until_noted("done", f"run-{times}")
        if times == 2:
            await queue.close()
            await queue.open()


async def says_that_it_is_away(trial: Trial) -> None:
    """Nobody answers: `open` raises ConnectionError, and the password stands nowhere."""
    queue = trial.adapter.queue(trial.adapter.away)
    secret = trial.adapter.secret
    try:
        await queue.open()
    except ConnectionError as error:
        texts = [str(error), repr(error), "".join(traceback.format_exception(error)), repr(queue)]
        if secret and any(secret in text for text in texts):
            trial.complain("the password stands in the error, its traceback or the queue's repr")
        if len(str(error)) < 20:
            trial.complain(f"an error must say what is away, and where; this one says {str(error)!r}")
    else:
        trial.complain("nobody answers, and `open` said nothing")
    finally:
        await queue.close()

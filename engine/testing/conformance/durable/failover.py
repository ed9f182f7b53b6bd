"""Cases of failover: runs whose process is killed, or is frozen and resumes later."""

from __future__ import annotations

from typing import Any

from .harness import GRACE, DurableTrial, ScriptedStep, job

VALUES: dict[str, Any] = {
    "none": None,
    "true": True,
    "zero": 0,
    "empty": "",
    "list": [],
    "dict": {},
    "nested": {"a": [{"b": [None, True, [1, [2.5, {"c": {}}]]]}, "d"], "": {"": [""]}},
    "keys": {"type": 1, "__class__": "x", "$ref": "y", "payload": [], "1": 1, "\u2028": 2},
    "text": 'größte \N{PILE OF POO} \u2028\u00a0한 \t\r\n\x7f\x1b \\u0000 \\ "quoted" \'',
    "nul": ["\u0000", {"a\u0000b": "\u0000\u0001"}],
    "floats": [0.1, -0.0, 1.0, 1e308, 5e-324, 1e22, 123456789.123456789],
    "ints": [1, -1, 2**53 + 1, 2**63 - 1, -(2**63), 2**64 - 1],
    "long": "0123456789" * 30_000,
    "many": [{"n": number, "text": f"line {number}"} for number in range(3000)],
}
"""Values of all JSON types that a result may have."""


async def comes_back_equal(trial: DurableTrial) -> None:
    """Check that results of every JSON type come back equal, in the process that made them and in the next one."""
    acts = [ScriptedStep(1, call, value, bare=bare) for call, value in VALUES.items() for bare in (True,)]
    acts += [ScriptedStep(2, call, value) for call, value in VALUES.items()]
    first, second = await trial.start_processes(2)
    await trial.submit_plan("run", acts, ScriptedStep(3, within="end"))
    await trial.wait_logged("began", "run", "run/3/")
    owner, other = (first, second) if trial.logged("taken", process=first.name) else (second, first)
    owner.kill()
    await trial.recover("run")
    await trial.wait_logged("began", "run", "run/3/", process=other.name)
    again = [note.key for note in trial.logged("began", process=other.name)]
    if again != ["run/3/"]:
        trial.fail(f"in the second process, work was done again for {again}")
    trial.log.open_gate("end")
    await trial.wait_logged("done", "run")


async def is_done_by_another(trial: DurableTrial) -> None:
    """Check that after a kill within the third step, another process gets the first two results and does the rest."""
    await trial.submit_plan("run", ScriptedStep(1), ScriptedStep(2), ScriptedStep(3, within="end"), ScriptedStep(4))
    first = await trial.start_process()
    await trial.wait_logged("began", "run", "run/3/")
    first.kill()
    second = await trial.start_process()
    await trial.recover("run")
    await trial.wait_logged("began", "run", "run/3/", process=second.name)
    trial.log.open_gate("end")
    await trial.wait_logged("done", "run", process=second.name)
    made = {note.key: note.by for note in trial.logged("result", "run", process=second.name)}
    wanted = {"run/1/": first.name, "run/2/": first.name, "run/3/": second.name, "run/4/": second.name}
    if made != wanted:
        trial.fail(f"the results were made by {made}, and should have been made by {wanted}")


async def keeps_the_finished_of_five(trial: DurableTrial) -> None:
    """Check that a kill keeps the results of parallel steps that have ended.

    Of five parallel steps, three have ended at the kill: only the other two run again.
    """
    calls = [ScriptedStep(2, f"call-{number}", number, within="end" if number in (1, 3) else "") for number in range(5)]
    await trial.submit_plan("run", ScriptedStep(1), calls, ScriptedStep(3))
    first, second = await trial.start_processes(2)
    await trial.wait_until(lambda: len(trial.logged("result", "run")) == 4, "the first step and three of five calls")
    await trial.wait_until(lambda: len(trial.logged("began", "run")) == 6, "all five to begin")
    owner, other = (first, second) if trial.logged("taken", process=first.name) else (second, first)
    owner.kill()
    await trial.recover("run")
    await trial.wait_until(lambda: len(trial.logged("began", process=other.name)) == 2, "two calls that happen again")
    trial.log.open_gate("end")
    await trial.wait_logged("done", "run", process=other.name)
    began = sorted(note.key for note in trial.logged("began", process=other.name))
    if began != ["run/2/call-1", "run/2/call-3", "run/3/"]:
        trial.fail(f"in the second process, work was done for {began}")


async def survives_many_kills(trial: DurableTrial) -> None:
    """Check that a run of 13 steps survives five kills, one at every third step.

    No step with a stored result runs again.
    """
    gates = {number: f"gate-{number}" for number in (1, 4, 7, 10, 13)}
    acts = [ScriptedStep(number, value=number, within=gates.get(number, "")) for number in range(1, 14)]
    await trial.submit_plan("run", *acts)
    for number in (1, 4, 7, 10, 13):
        one = await trial.start_process()
        await trial.wait_logged("began", "run", f"run/{number}/", process=one.name)
        one.kill()
        trial.log.open_gate(f"gate-{number}")
        await trial.recover("run")  # before the next process starts, because the dead one must lose the run
    last = await trial.start_process()
    await trial.wait_logged("done", "run", process=last.name)
    worked = [note.key for note in trial.logged("ended", "run")]
    if worked != [f"run/{number}/" for number in range(1, 14)]:
        trial.fail(f"13 steps should have ended in all processes together; these did: {worked}")


async def loses_to_another_within(trial: DurableTrial) -> None:
    """Check that a process frozen within a step gets RunLost.

    It wakes up after another process has finished the run.
    """
    await _woken(trial, ScriptedStep(2, within="end"))


async def loses_to_another_between(trial: DurableTrial) -> None:
    """Check that a process frozen between two steps gets RunLost.

    It wakes up after another process has finished the run.
    """
    await _woken(trial, ScriptedStep(2, before="end"))


async def _woken(trial: DurableTrial, act: ScriptedStep) -> None:
    await trial.submit_plan("run", ScriptedStep(1), act, ScriptedStep(3))
    first = await trial.start_process()
    await trial.wait_logged(*(("began", "run", "run/2/") if act.within else ("result", "run", "run/1/")))
    first.freeze()
    second = await trial.start_process()
    await trial.recover("run")
    trial.log.open_gate("end")
    await trial.wait_logged("done", "run", process=second.name)
    first.wake()
    await trial.wait_until(
        lambda: [note for note in trial.log.all() if note.process == first.name and note.what in ENDS],
        "the end of the work in the process that was woken",
    )
    if not trial.logged("lost", "run", process=first.name):
        trial.fail("a process that was frozen, and whose run was done by another, must get RunLost")
    trial.check_exactly_once()
    # when the woken process leaves, the run must neither go back into the queue nor end a second time
    trial.log.open_gate(f"leave-{first.name}")
    await trial.pause(GRACE)
    if len(trial.logged("taken", "run")) != 2:
        trial.fail("the run was done, and was taken again after the first process was woken")


ENDS = ("lost", "done", "raised", "cancelled")


async def loses_in_the_middle(trial: DurableTrial) -> None:
    """Check that a frozen process gets RunLost if it wakes up while another one executes the run.

    The other process finishes the run.
    """
    await trial.submit_plan(
        "run", ScriptedStep(1), ScriptedStep(2, within="two"), ScriptedStep(3, within="three"), ScriptedStep(4)
    )
    first = await trial.start_process()
    await trial.wait_logged("began", "run", "run/2/")
    first.freeze()
    second = await trial.start_process()
    await trial.recover("run")
    trial.log.open_gate("two")
    await trial.wait_logged("began", "run", "run/3/", process=second.name)
    first.wake()
    await trial.wait_logged("lost", "run", process=first.name)
    trial.log.open_gate("three")
    await trial.wait_logged("done", "run", process=second.name)


async def is_durable_when_submitted(trial: DurableTrial) -> None:
    """Check that the job is in the queue if the submitting process is killed as soon as `submit` has returned."""
    await trial.start_process(at_once=0, submits=(job("run", [ScriptedStep(1)]),))
    worker = await trial.start_process()
    await trial.wait_logged("done", "run", process=worker.name)


async def changes_nothing_at_rest(trial: DurableTrial) -> None:
    """Check that `recover` changes nothing for a run that is unknown, waits in the queue or has ended."""
    await trial.recover("nobody's")
    await trial.submit_plan("run", ScriptedStep(1))
    await trial.recover("run")
    async with trial.work_here():
        await trial.wait_logged("done", "run")
        await trial.submit_plan("next", ScriptedStep(1))
        await trial.wait_logged("done", "next")
        await trial.recover("run")
        await trial.recover("next")
        await trial.pause(GRACE)
    taken = [note.run for note in trial.logged("taken")]
    if taken != ["run", "next"]:
        trial.fail(f"two runs were submitted, but these were taken: {taken}")

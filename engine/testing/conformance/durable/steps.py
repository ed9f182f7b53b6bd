"""Cases of `Steps` in the process that owns the run: one function per case, which fails its trial if need be."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from ....durability import Job, ResultNotStored, StepKey, Steps
from .harness import DurableTrial, describe_difference, job

ProbeScript = Callable[[DurableTrial, "StepProbe"], Awaitable[None]]


class StepProbe:
    """Requests steps of one run, and counts how often the work of each ran."""

    def __init__(self, run: str, steps: Steps) -> None:
        self.run = run
        self.steps = steps
        self.worked: list[str] = []

    async def step(self, step: int, call: str = "", gives: Any = None) -> Any:
        """Request a step whose work returns `gives`, raises it if it is an exception, or calls and awaits it."""
        key = StepKey("session", self.run, step, call)

        async def work() -> Any:
            self.worked.append(str(key))
            if isinstance(gives, BaseException):
                raise gives
            return await gives() if callable(gives) else gives

        return await self.steps.step(key, work)


async def inside(trial: DurableTrial, script: ProbeScript, run: str = "run") -> None:
    """Run a script as the work of a run in this process; an exception of the script is raised here."""
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def work(job: Job, steps: Steps) -> None:
        try:
            await script(trial, StepProbe(job.run_id, steps))
        except Exception as error:
            ended.set_exception(error)
        else:
            ended.set_result(None)

    await trial.submit(job(run))
    async with trial.work_here(work):
        await trial.wait_until(ended.done, "the work of the run")
    ended.result()


async def happens_once(trial: DurableTrial) -> None:
    """The work is done once; a step that is requested again returns the same result without work."""

    async def script(trial: DurableTrial, probe: StepProbe) -> None:
        for number in (1, 2, 3):
            for _ in range(2):
                given = await probe.step(number, "call", {"number": number})
                if given != {"number": number}:
                    trial.fail(f"step {number} gave {given!r}")
        if probe.worked != ["run/1/call", "run/2/call", "run/3/call"]:
            trial.fail(f"three steps were asked for, twice each, and work happened for {probe.worked}")

    await inside(trial, script)


async def keeps_the_first(trial: DurableTrial) -> None:
    """A step that is requested again, with other work, returns the stored result."""

    async def script(trial: DurableTrial, probe: StepProbe) -> None:
        first, second = await probe.step(1, "", None), await probe.step(1, "", "another")
        if first is not None or second is not None:
            trial.fail(f"the result None was kept, and then {first!r} and {second!r} were given")

    await inside(trial, script)


async def keeps_keys_apart(trial: DurableTrial) -> None:
    """Each key (run, step, call) has its own result, however similar the keys are."""

    async def script(trial: DurableTrial, probe: StepProbe) -> None:
        keys = [
            (1, ""),
            (2, ""),
            (11, ""),
            (1, "a"),
            (1, "b"),
            (2, "a"),
            (1, "1"),
            (1, "/1"),
            (1, "a/b"),
            (1, " é\u2028"),
        ]
        keys += [(1, "long" * 100), (1, "long" * 100 + "r"), (1, "A")]
        for _ in range(2):
            for key in keys:
                given = await probe.step(*key, [probe.run, *key])
                if given != [probe.run, *key]:
                    trial.fail(f"step {key} of run {probe.run!r} gave {given!r}")
        if len(probe.worked) != len(keys):
            trial.fail(f"{len(keys)} steps were asked for, and work happened for {probe.worked}")

    await inside(trial, script, "run")
    await inside(trial, script, "run-1")
    await inside(trial, script, "Run")


class _Odd(Exception):
    """An exception that cannot be serialized."""

    def __init__(self, one: object, *, two: object) -> None:
        super().__init__("odd")
        self.of = (one, two)


async def lets_errors_through(trial: DurableTrial) -> None:
    """An exception of the work propagates unchanged, nothing is stored, and the next request does the work again."""

    async def script(trial: DurableTrial, probe: StepProbe) -> None:
        raised: list[Exception] = [ValueError("no"), TimeoutError(), _Odd(asyncio.Lock(), two=probe)]
        raised += [ExceptionGroup("several", [OSError(5, "input")]), ResultNotStored("by its work")]
        for number, error in enumerate(raised, start=1):
            for times in (1, 2):
                try:
                    given = await probe.step(number, "", error)
                except Exception as gone:
                    if gone is not error:
                        trial.fail(f"work raised {error!r}, and {gone!r} came out")
                else:
                    trial.fail(f"work raised {error!r}, and the step gave {given!r}")
                if len(probe.worked) != times:
                    trial.fail(f"a step that had raised was asked for {times} times: work {len(probe.worked)} times")
            if await probe.step(number, "", number) != number or await probe.step(number, "", "again") != number:
                trial.fail("a step that had raised did not keep the result that it had then")
            probe.worked.clear()

    await inside(trial, script)


async def keeps_nothing_of_the_cancelled(trial: DurableTrial) -> None:
    """Work that is cancelled ends, nothing is stored, and the next request does the work again."""

    async def script(trial: DurableTrial, probe: StepProbe) -> None:
        ended: list[str] = []

        async def forever() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("task")

        for number, way in ((1, _task_cancelled), (2, _scope_cancelled)):
            before = len(probe.worked)
            await way(trial, probe, number, forever)
            if len(probe.worked) != before + 1 or len(ended) != number:
                trial.fail("work that was cancelled must have begun, and have ended by that")
            if await probe.step(number, "", "whole") != "whole":
                trial.fail("after its work was cancelled, a step must happen again")

    await inside(trial, script)


async def _task_cancelled(
    trial: DurableTrial, probe: StepProbe, number: int, work: Callable[[], Awaitable[None]]
) -> None:
    task = asyncio.ensure_future(probe.step(number, "", work))
    await trial.wait_until(lambda: f"run/{number}/" in probe.worked, "the work of a step")
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return
    trial.fail("a step whose task was cancelled gave a result")


async def _scope_cancelled(
    trial: DurableTrial, probe: StepProbe, number: int, work: Callable[[], Awaitable[None]]
) -> None:
    with anyio.CancelScope() as scope:

        async def cancel_begun_work() -> None:
            await trial.wait_until(lambda: f"run/{number}/" in probe.worked, "the work of a step")
            scope.cancel()

        canceller = asyncio.ensure_future(cancel_begun_work())
        try:
            await probe.step(number, "", work)
        finally:
            canceller.cancel()
    if not scope.cancelled_caught:
        trial.fail("a cancelled scope was not left by its cancellation")


async def keeps_five_apart(trial: DurableTrial) -> None:
    """Five steps at once keep their own results, in whatever order they end."""

    async def script(trial: DurableTrial, probe: StepProbe) -> None:
        after = [asyncio.Event() for _ in range(6)]
        after[5].set()

        def work(number: int) -> Callable[[], Awaitable[Any]]:
            async def at_its_time() -> Any:
                await after[number + 1].wait()
                after[number].set()
                return number

            return at_its_time

        for _ in range(2):
            given = await asyncio.gather(*(probe.step(1, f"call-{number}", work(number)) for number in range(5)))
            if given != [0, 1, 2, 3, 4]:
                trial.fail(f"five steps at once, which end in turn from the last, gave {given}")
        if len(probe.worked) != 5:
            trial.fail(f"five steps were asked for, twice, and work happened for {probe.worked}")

    await inside(trial, script)


async def survives_the_large(trial: DurableTrial) -> None:
    """A result of 20 MB is stored, or ResultNotStored is raised; either way the next step works."""

    async def script(trial: DurableTrial, probe: StepProbe) -> None:
        large = "x" * 20_000_000
        try:
            given = await probe.step(1, "", large)
        except ResultNotStored as error:
            if not str(error):
                trial.fail("ResultNotStored must say why")
        else:
            if describe_difference(given, large):
                trial.fail("a result of 20 MB came back as another one")
        if await probe.step(2, "", "small") != "small" or await probe.step(2, "", "again") != "small":
            trial.fail("after a result that was too large, the next one was not kept")

    await inside(trial, script)

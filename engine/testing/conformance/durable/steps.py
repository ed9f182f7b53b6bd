"""Cases of `Steps` in the process that owns the run: one function per case, which fails its trial if necessary."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from ....durability import Job, ResultNotStored, StepKey, Steps
from .harness import DurableTrial, describe_difference, job

ProbeScript = Callable[[DurableTrial, "StepProbe"], Awaitable[None]]


class StepProbe:
    """Requester of steps of one run, which counts how often the work of each ran."""

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
    """Run a script as the work of a run in this process. An exception of the script is raised here."""
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
    """Check that work is done once.

    A step that is requested again returns the same result without work.
    """

    async def script(trial: DurableTrial, probe: StepProbe) -> None:
        for number in (1, 2, 3):
            for _ in range(2):
                given = await probe.step(number, "call", {"number": number})
                if given != {"number": number}:
                    trial.fail(f"step {number} gave {given!r}")
        if probe.worked != ["run/1/call", "run/2/call", "run/3/call"]:
            trial.fail(f"three steps were requested, twice each, and work was done for {probe.worked}")

    await inside(trial, script)


async def keeps_the_first(trial: DurableTrial) -> None:
    """Check that a step that is requested again, with other work, returns the stored result."""

    async def script(trial: DurableTrial, probe: StepProbe) -> None:
        first, second = await probe.step(1, "", None), await probe.step(1, "", "another")
        if first is not None or second is not None:
            trial.fail(f"the result None was kept, but then {first!r} and {second!r} were returned")

    await inside(trial, script)


async def keeps_keys_apart(trial: DurableTrial) -> None:
    """Check that each key (run, step, call) has its own result, however similar the keys are."""

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
            trial.fail(f"{len(keys)} steps were requested, and work was done for {probe.worked}")

    await inside(trial, script, "run")
    await inside(trial, script, "run-1")
    await inside(trial, script, "Run")


class _Odd(Exception):
    """An exception that cannot be serialized."""

    def __init__(self, one: object, *, two: object) -> None:
        super().__init__("odd")
        self.of = (one, two)


async def lets_errors_through(trial: DurableTrial) -> None:
    """Check that an exception of the work propagates unchanged.

    Nothing is stored, and the next request does the work again.
    """

    async def script(trial: DurableTrial, probe: StepProbe) -> None:
        raised: list[Exception] = [ValueError("no"), TimeoutError(), _Odd(asyncio.Lock(), two=probe)]
        raised += [ExceptionGroup("several", [OSError(5, "input")]), ResultNotStored("by its work")]
        for number, error in enumerate(raised, start=1):
            for times in (1, 2):
                try:
                    given = await probe.step(number, "", error)
                except Exception as gone:
                    if gone is not error:
                        trial.fail(f"work raised {error!r}, but {gone!r} was raised to the caller")
                else:
                    trial.fail(f"work raised {error!r}, but the step returned {given!r}")
                if len(probe.worked) != times:
                    trial.fail(f"a step that raised was requested {times} times, and done {len(probe.worked)} times")
            if await probe.step(number, "", number) != number or await probe.step(number, "", "again") != number:
                trial.fail("a step that had raised did not keep its later result")
            probe.worked.clear()

    await inside(trial, script)


async def keeps_nothing_of_the_cancelled(trial: DurableTrial) -> None:
    """Check that cancelled work ends, and that nothing of it is stored.

    The next request does the work again.
    """

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
                trial.fail("cancelled work must have begun, and must have ended because of the cancellation")
            if await probe.step(number, "", "whole") != "whole":
                trial.fail("after its work was cancelled, a step must be done again")

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
    trial.fail("a step whose task was cancelled returned a result")


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
    """Check that five parallel steps keep their own results, in whatever order they end."""

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
                trial.fail(f"five parallel steps, which end in reverse order, returned {given}")
        if len(probe.worked) != 5:
            trial.fail(f"five steps were requested, twice, and work was done for {probe.worked}")

    await inside(trial, script)


async def survives_the_large(trial: DurableTrial) -> None:
    """Check that a result of 20 MB is stored, or that ResultNotStored is raised.

    Either way, the next step works.
    """

    async def script(trial: DurableTrial, probe: StepProbe) -> None:
        large = "x" * 20_000_000
        try:
            given = await probe.step(1, "", large)
        except ResultNotStored as error:
            if not str(error):
                trial.fail("ResultNotStored must say why")
        else:
            if describe_difference(given, large):
                trial.fail("a result of 20 MB was returned as a different one")
        if await probe.step(2, "", "small") != "small" or await probe.step(2, "", "again") != "small":
            trial.fail("after a result that was too large, the next one was not kept")

    await inside(trial, script)

"""What a step must do in the process that has its run: a function for each case, which takes a trial and complains."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from ....durability import Job, ResultNotStored, StepKey, Steps
from .harness import Trial, difference, job

Asking = Callable[[Trial, "Asked"], Awaitable[None]]


class Asked:
    """Steps of one run, and how often the work of each happened."""

    def __init__(self, run: str, steps: Steps) -> None:
        self.run = run
        self.steps = steps
        self.worked: list[str] = []

    async def step(self, step: int, call: str = "", gives: Any = None) -> Any:
        """Ask for a step whose work gives this; if that is an exception, it raises it, and awaits what can be."""
        key = StepKey("session", self.run, step, call)

        async def work() -> Any:
            self.worked.append(str(key))
            if isinstance(gives, BaseException):
                raise gives
            return await gives() if callable(gives) else gives

        return await self.steps.step(key, work)


async def inside(trial: Trial, asking: Asking, run: str = "run") -> None:
    """Ask for steps in the work of a run in this process; what is complained of there is complained of here."""
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def work(job: Job, steps: Steps) -> None:
        try:
            await asking(trial, Asked(job.run_id, steps))
        except Exception as error:
            ended.set_exception(error)
        else:
            ended.set_result(None)

    await trial.submit(job(run))
    async with trial.here(work):
        await trial.until(ended.done, "the work of the run")
    ended.result()


async def happens_once(trial: Trial) -> None:
    """The work happens once and gives its result; asked again, the result is the same, without work."""

    async def asking(trial: Trial, asked: Asked) -> None:
        for number in (1, 2, 3):
            for _ in range(2):
                given = await asked.step(number, "call", {"number": number})
                if given != {"number": number}:
                    trial.complain(f"step {number} gave {given!r}")
        if asked.worked != ["run/1/call", "run/2/call", "run/3/call"]:
            trial.complain(f"three steps were asked for, twice each, and work happened for {asked.worked}")

    await inside(trial, asking)


async def keeps_the_first(trial: Trial) -> None:
    """Asked again with other work, the kept result is given."""

    async def asking(trial: Trial, asked: Asked) -> None:
        first, second = await asked.step(1, "", None), await asked.step(1, "", "another")
        if first is not None or second is not None:
            trial.complain(f"the result None was kept, and then {first!r} and {second!r} were given")

    await inside(trial, asking)


async def keeps_keys_apart(trial: Trial) -> None:
    """Steps, calls and runs have results of their own."""

    async def asking(trial: Trial, asked: Asked) -> None:
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
                given = await asked.step(*key, [asked.run, *key])
                if given != [asked.run, *key]:
                    trial.complain(f"step {key} of run {asked.run!r} gave {given!r}")
        if len(asked.worked) != len(keys):
            trial.complain(f"{len(keys)} steps were asked for, and work happened for {asked.worked}")

    await inside(trial, asking, "run")
    await inside(trial, asking, "run-1")
    await inside(trial, asking, "Run")


class _Odd(Exception):
    """Nothing that could be written down."""

    def __init__(self, one: object, *, two: object) -> None:
        super().__init__("odd")
        self.of = (one, two)


async def lets_errors_through(trial: Trial) -> None:
    """An exception goes through as it is, nothing is kept, and the next ask works anew."""

    async def asking(trial: Trial, asked: Asked) -> None:
        raised: list[Exception] = [ValueError("no"), TimeoutError(), _Odd(asyncio.Lock(), two=asked)]
        raised += [ExceptionGroup("several", [OSError(5, "input")]), ResultNotStored("by its work")]
        for number, error in enumerate(raised, start=1):
            for times in (1, 2):
                try:
                    given = await asked.step(number, "", error)
                except Exception as gone:
                    if gone is not error:
                        trial.complain(f"work raised {error!r}, and {gone!r} came out")
                else:
                    trial.complain(f"work raised {error!r}, and the step gave {given!r}")
                if len(asked.worked) != times:
                    trial.complain(
                        f"a step that had raised was asked for {times} times: work {len(asked.worked)} times"
                    )
            if await asked.step(number, "", number) != number or await asked.step(number, "", "again") != number:
                trial.complain("a step that had raised did not keep the result that it had then")
            asked.worked.clear()

    await inside(trial, asking)


async def keeps_nothing_of_the_cancelled(trial: Trial) -> None:
    """Work that is cancelled ends, keeps nothing, and happens again at the next ask."""

    async def asking(trial: Trial, asked: Asked) -> None:
        ended: list[str] = []

        async def forever() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("task")

        for number, way in ((1, _task_cancelled), (2, _scope_cancelled)):
            before = len(asked.worked)
            await way(trial, asked, number, forever)
            if len(asked.worked) != before + 1 or len(ended) != number:
                trial.complain("work that was cancelled must have begun, and have ended by that")
            if await asked.step(number, "", "whole") != "whole":
                trial.complain("after its work was cancelled, a step must happen again")

    await inside(trial, asking)


async def _task_cancelled(trial: Trial, asked: Asked, number: int, work: Callable[[], Awaitable[None]]) -> None:
    task = asyncio.ensure_future(asked.step(number, "", work))
    await trial.until(lambda: f"run/{number}/" in asked.worked, "the work of a step")
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return
    trial.complain("a step whose task was cancelled gave a result")


async def _scope_cancelled(trial: Trial, asked: Asked, number: int, work: Callable[[], Awaitable[None]]) -> None:
    with anyio.CancelScope() as scope:
        asyncio.get_running_loop().call_later(0.05, scope.cancel)
        await asked.step(number, "", work)
    if not scope.cancelled_caught:
        trial.complain("a cancelled scope was not left by its cancellation")


async def keeps_five_apart(trial: Trial) -> None:
    """Five steps at once keep their own results, in whatever order they end."""

    async def asking(trial: Trial, asked: Asked) -> None:
        after = [asyncio.Event() for _ in range(6)]
        after[5].set()

        def work(number: int) -> Callable[[], Awaitable[Any]]:
            async def at_its_time() -> Any:
                await after[number + 1].wait()
                after[number].set()
                return number

            return at_its_time

        for _ in range(2):
            given = await asyncio.gather(*(asked.step(1, f"call-{number}", work(number)) for number in range(5)))
            if given != [0, 1, 2, 3, 4]:
                trial.complain(f"five steps at once, which end in turn from the last, gave {given}")
        if len(asked.worked) != 5:
            trial.complain(f"five steps were asked for, twice, and work happened for {asked.worked}")

    await inside(trial, asking)


async def survives_the_large(trial: Trial) -> None:
    """A result of 20 MB is kept, or ResultNotStored says that it is not; the run goes on in any case."""

    async def asking(trial: Trial, asked: Asked) -> None:
        large = "x" * 20_000_000
        try:
            given = await asked.step(1, "", large)
        except ResultNotStored as error:
            if not str(error):
                trial.complain("ResultNotStored must say why")
        else:
            if difference(given, large):
                trial.complain("a result of 20 MB came back as another one")
        if await asked.step(2, "", "small") != "small" or await asked.step(2, "", "again") != "small":
            trial.complain("after a result that was too large, the next one was not kept")

    await inside(trial, asking)

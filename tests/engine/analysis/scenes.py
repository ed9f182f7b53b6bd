"""Sessions of every kind that a report tells apart, really played and recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from endstop import Engine, Hooks, tool
from endstop.decision import Limits, Policy, Price, Repetition
from endstop.hooks import Accept, Reject
from endstop.providers import Prices, Scripted, call
from endstop.tools import finish_task

AGENT = Policy(reminder=None)
STRICT = Policy(name="strict", text="nudge", completion="required", reminder=None)
PRICES = Prices({"small": Price(input=1.0, output=1.0)}, listed=False)


@tool(reads=True)
async def look(path: str) -> str:
    """Look."""
    return f"this is {path}"


@tool
async def fails(path: str) -> str:
    """Fail."""
    raise ValueError(path)


@tool
async def save(path: str) -> str:
    """Save."""
    return "saved"


@tool(reads=True)
async def run_tests(path: str) -> str:
    """Run the tests."""
    return "3 passed in 0.1s"


def work(steps: int, first: int = 1) -> list[Any]:
    """So many steps that each look at something else."""
    return [[call("look", path=f"{number}.txt")] for number in range(first, first + steps)]


FINISH = [call("finish_task", summary="All done.")]


async def play(
    path: Path,
    script: list[Any],
    *,
    policy: Policy = AGENT,
    good: bool | None = None,
    gates: list[Any] | None = None,
    presets: tuple[Any, ...] = (finish_task,),
    model: str = "small",
    runs: int = 1,
    prompt: str = "Set the port",
) -> Path:
    """Play and record a session of so many runs; `good` is what its evaluation says."""
    engine = Engine(
        Scripted(*script, model=model),
        tools=[look, fails, save, run_tests],
        policy=policy,
        hooks=Hooks(evaluate=None if good is None else (lambda run: good), gates=gates or []),
        presets=presets,
        prices=PRICES,
    )
    session = engine.session(path.stem, record=path)
    for _ in range(runs):
        await session.run(prompt)
    return path


async def done(path: Path, steps: int = 3, **options: Any) -> Path:
    """Completes at this step."""
    return await play(path, [*work(steps - 1), FINISH], **options)


async def told(path: Path, steps: int = 3, **options: Any) -> Path:
    """Ends with plain text at this step."""
    return await play(path, [*work(steps - 1), "The port is 8080."], **options)


async def limited(path: Path, steps: int = 5, **options: Any) -> Path:
    """Works until its limit of steps."""
    policy = Policy(limits=Limits(steps=steps), reminder=None, closing=False)
    return await play(path, work(steps), policy=policy, **options)


async def talkative(path: Path, before: int = 3, after: int = 2, **options: Any) -> Path:
    """Says in plain text that it is done, which does not end it, and so often again until it completes."""
    script = [*work(before - 1), *["The port is 8080."] * after, FINISH]
    return await play(path, script, policy=STRICT, **options)


async def handed_back(path: Path, steps: int = 3, times: int = 2, **options: Any) -> Path:
    """A gate hands its completion back so often, and it does nothing but complete again."""
    left = [Reject("the tests fail")] * times
    script = [*work(steps - 1), *[FINISH] * (times + 1)]

    def tests_pass(completion: Any, progress: Any) -> Any:
        return left.pop() if left else Accept()

    return await play(path, script, gates=[tests_pass], **options)


async def repeating(path: Path, times: int = 4, **options: Any) -> Path:
    """Makes the same call so often, then completes."""
    policy = Policy(reminder=None, repetition=Repetition(nudge_at=(), stop_at=None))
    return await play(path, [[call("look", path="same.txt")]] * times + [FINISH], policy=policy, **options)


async def changing(path: Path, before: int = 2, after: int = 3, check: bool = False, **options: Any) -> Path:
    """Looks so often, saves, runs the tests if `check`, looks on, and completes so many steps after the change."""
    checks = [[call("run_tests", path="x")]] if check else []
    script = [*work(before), [call("save", path="x")], *checks, *work(after - 1 - len(checks), 50), FINISH]
    return await play(path, script, **options)

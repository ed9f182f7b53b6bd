"""Wrong uses, each on a line that tells type checkers to ignore it. One that is accepted makes the comment unnecessary.

Both mypy and pyright report an unnecessary comment as an error. Never run.
"""

from __future__ import annotations

from dataclasses import dataclass

from endstop import Engine, Limits, Policy, Run, RunContext, Session
from endstop.decision import Outcome
from endstop.providers import Scripted
from pydantic import BaseModel


class City(BaseModel):
    """A city."""

    name: str


@dataclass
class Deps:
    """What belongs to one run."""

    user: str


def make_deps(ctx: RunContext[None]) -> Deps:
    """Make what belongs to a run."""
    return Deps("jane")


async def make_deps_at_once(ctx: RunContext[None]) -> Deps:
    """Make what belongs to a run."""
    return Deps("jane")


engine = Engine[Deps, City](Scripted("done"), output=City)


async def main() -> None:
    """Use the engine wrongly."""
    outcome = await engine.run(3, deps=Deps("jane"))  # type: ignore
    print(outcome.output.size)  # type: ignore
    print(outcome.final_output)  # type: ignore
    await engine.run("x", deps="jane")  # type: ignore
    await engine.start("x")  # type: ignore
    with engine.start("x"):  # type: ignore
        pass
    for _ in engine.start("x"):  # type: ignore
        pass
    async with engine.start("x") as run:
        number: int = await anext(run.text())  # type: ignore
        print(number)
        for _ in run.text():  # type: ignore
            pass
        await run.text()  # type: ignore
        await run.cancel()  # type: ignore
        await run.messages()  # type: ignore
        print(outcome.usage.total_tokens)  # type: ignore
    print(engine.run("x").answer)  # type: ignore
    await engine.session()  # type: ignore


name: int = engine.run_sync("x", deps=Deps("jane")).output.name  # type: ignore
engine.run_sync("x", deps=3)  # type: ignore
engine.run_sync()  # type: ignore
engine.run_sync("x", limits=Limits(steps=3))  # type: ignore
other: Outcome[Deps] = engine.run_sync("x")  # type: ignore
engine.resume()  # type: ignore
engine.resume("a.jsonl", busy="wait")  # type: ignore
session: Session[None, City] = engine.resume("a.jsonl")  # type: ignore
run: Run[City] = engine.resume("a.jsonl")  # type: ignore
policy: Policy = Limits().replace(steps=3)  # type: ignore
Policy().replace(Limits())  # type: ignore
print(Policy().limits.replace(steps=3).patience)  # type: ignore
Engine[int, City](Scripted("done"), deps=make_deps)  # type: ignore
Engine[int, City](Scripted("done"), deps=make_deps_at_once)  # type: ignore
Engine(Scripted("done"), deps=Deps("jane"))  # type: ignore
Engine(Scripted("done"), polizy=Policy())  # type: ignore

"""A program with deps, approvals, typed output, as a strict user writes it. Never run; mypy and pyright read it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypedDict, assert_type

from endstop import (
    Accept,
    Completion,
    Engine,
    EvaluationInput,
    Hooks,
    Observers,
    Progress,
    Reject,
    RunContext,
    Session,
    Task,
    this_call,
    tool,
)
from endstop.decision import Outcome
from endstop.providers import Scripted
from msgspec import Struct
from pydantic import BaseModel


class Config(BaseModel):
    """The settings of a server."""

    host: str
    port: int


@dataclass
class Ticket:
    """A ticket."""

    number: int


class Row(TypedDict):
    """A row."""

    name: str


class Item(Struct):
    """An item."""

    name: str


@dataclass
class Deps:
    """What belongs to one run."""

    user: str


@tool
async def who(ctx: RunContext[Deps]) -> str:
    """Say whose run it is."""
    assert_type(ctx.deps, Deps)
    assert_type(ctx.owner, str | None)
    return f"{ctx.deps.user} {this_call().call_id}"


@tool(approval=True)
async def restart(ctx: RunContext[Deps], host: str) -> str:
    """Restart a host."""
    return f"{ctx.deps.user} has restarted {host}"


def port_is_free(completion: Completion, run: Progress[Deps]) -> Accept | Reject:
    """Check the port."""
    assert_type(run.context.deps, Deps)
    return Accept() if run.context.deps.user else Reject("nobody asked for it")


def evaluate(evaluated: EvaluationInput[Deps]) -> bool:
    """Check the work."""
    return evaluated.context.deps.user == evaluated.outcome.answer


def on_completed(outcome: Outcome) -> None:
    """Note any outcome."""


@asynccontextmanager
async def make_deps(ctx: RunContext[None]) -> AsyncGenerator[Deps, None]:
    """Make what belongs to a run."""
    yield Deps(ctx.owner or "nobody")


async def make_deps_at_once(ctx: RunContext[None]) -> Deps:
    """Make what belongs to a run."""
    return Deps(ctx.owner or "nobody")


def make_deps_plainly(ctx: RunContext[None]) -> Deps:
    """Make what belongs to a run."""
    return Deps(ctx.owner or "nobody")


async def make_deps_one_by_one(ctx: RunContext[None]) -> AsyncIterator[Deps]:
    """Make what belongs to a run, and clean up."""
    yield Deps(ctx.owner or "nobody")


def at_once() -> None:
    """A program without `async`."""
    engine = Engine[Deps, Config](Scripted("done"), tools=[who], output=Config)
    outcome = engine.run_sync("Set the port to 8080", deps=Deps("jane"), record="run.jsonl")
    assert_type(outcome, Outcome[Config])
    assert_type(outcome.output.port, int)
    session = engine.resume("run.jsonl", owner="jane", metadata={"plan": "free"})
    assert_type(session, Session[Deps, Config])


async def main() -> None:
    """Every way to a typed output."""
    provider = Scripted("done")
    engine = Engine[Deps, Config](
        provider,
        tools=[who, restart],
        output=Config,
        hooks=Hooks(gates=[port_is_free], evaluate=evaluate),
        observers=Observers(on_completed=on_completed),
    )
    outcome = await engine.run("Set the port to 8080", deps=Deps("jane"))
    assert_type(outcome, Outcome[Config])
    assert_type(outcome.output, Config)
    assert_type(outcome.output.port, int)
    assert_type(outcome.answer, str)

    async with engine.start("Set the port to 8080", deps=Deps("jane")) as run:
        assert_type(await run.wait(), Outcome[Config])
        assert_type(run.outcome.output, Config)

    session = engine.session("s", owner="jane", metadata={"plan": "free"})
    assert_type(session, Session[Deps, Config])
    assert_type((await session.run("Set it", deps=Deps("jane"))).output, Config)
    assert_type((await session.answer("call", "yes", deps=Deps("jane"))).output, Config)

    assert_type(await session.approve("call", {"host": "a"}, deps=Deps("jane")), Outcome[Config])
    assert_type((await session.deny("call", "not today", deps=Deps("jane"))).output, Config)

    async with engine.run_many([Task("Set it", deps=Deps("jane"))]) as fleet:
        async for result in fleet:
            assert_type(result.outcome.output, Config)

    assert_type((await Engine(provider, output=Config).run("Set it")).output, Config)
    assert_type((await Engine(provider, output=Ticket).run("Open one")).output, Ticket)
    assert_type((await Engine(provider, output=Row).run("Find one")).output, Row)
    assert_type((await Engine(provider, output=Item).run("Find one")).output, Item)
    assert_type((await Engine(provider, output=list[Item]).run("Find some")).output, list[Item])
    either: Engine[None, Ticket | Item] = Engine(provider, output=Ticket | Item)
    assert_type((await either.run("Open one")).output, Ticket | Item)

    made = Engine(provider, tools=[who], deps=make_deps, output=Ticket)
    assert_type(made, Engine[Deps, Ticket])
    assert_type((await made.run("Go")).output, Ticket)
    assert_type(Engine(provider, deps=make_deps_at_once, output=Ticket), Engine[Deps, Ticket])
    assert_type(Engine(provider, deps=make_deps_plainly, output=Ticket), Engine[Deps, Ticket])
    assert_type(Engine(provider, deps=make_deps_one_by_one, output=Ticket), Engine[Deps, Ticket])
    assert_type(Engine(provider, deps=lambda ctx: Deps("jane"), output=Ticket), Engine[Deps, Ticket])
    any_engine: Engine = engine
    assert_type(await any_engine.run("Go"), Outcome)

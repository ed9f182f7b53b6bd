"""Dependencies of one run: a database, opened and closed for it, and the user whose run it is.

    python docs/examples/deps.py          a scripted model
    ENDSTOP_MODEL=anthropic/claude-sonnet-4-5 python docs/examples/deps.py

Lines that are not blank, with imports: Pydantic AI's example of deps (docs/dependencies.md,
"system_prompt_dependencies.py", beside version 2.33) has 24, of which three open and hand in a client and six make
one HTTP request. Here `Deps`, the tool `balance` and `handed_in`, which is handed its client, have 16 with their
imports; `opened` and `made_for_each_run` let the engine open the database itself, as a worker process has to.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import closing
from dataclasses import dataclass

from endstop import Engine, RunContext, tool
from endstop.decision import ToolResult
from endstop.providers import LiteLLM, Provider, Request, Scripted, call


@dataclass
class Deps:
    """What a run needs."""

    database: sqlite3.Connection
    user: str


@tool(reads=True)
async def balance(ctx: RunContext[Deps]) -> str:
    """The balance of the user's account."""
    found = ctx.deps.database.execute("SELECT balance FROM accounts WHERE owner = ?", [ctx.deps.user])
    return f"{found.fetchone()[0]} euros"


async def handed_in(model: Provider, database: sqlite3.Connection) -> str:
    engine = Engine[Deps, str](model, tools=[balance])
    return (await engine.run("What is left on my account?", deps=Deps(database, "jane"))).answer


def open_database() -> sqlite3.Connection:
    """A bank."""
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE accounts (owner TEXT, balance INTEGER)")
    database.executemany("INSERT INTO accounts VALUES (?, ?)", [("jane", 12), ("joe", 7)])
    return database


async def opened(ctx: RunContext[None]) -> AsyncGenerator[Deps, None]:
    with closing(open_database()) as database:
        print(f"opened for {ctx.owner} ({ctx.metadata['plan']})")
        yield Deps(database, ctx.owner or "")
    print("closed")


async def made_for_each_run(model: Provider) -> str:
    engine = Engine(model, tools=[balance], deps=opened)
    session = engine.session(owner="joe", metadata={"plan": "free"})
    return (await session.run("What is left on my account?")).answer


def scripted(request: Request) -> object:
    """What a model would say."""
    last = request.messages[-1]
    return [call("finish_task", summary=last.content)] if isinstance(last, ToolResult) else [call("balance")]


async def main() -> None:
    name = os.environ.get("ENDSTOP_MODEL")
    model = LiteLLM(name) if name else Scripted(scripted)
    with closing(open_database()) as database:
        print(await handed_in(model, database))
    print(await made_for_each_run(model))


if __name__ == "__main__":
    asyncio.run(main())

"""Runs to be ended at any point by somebody else: over a real connection in each wire format, and with litellm.

Client and server share the loop with simulated time, and real sockets on 127.0.0.1.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from endstop import Engine, Run, Tool
from endstop.decision import (
    AnyChunk,
    FinishReport,
    Policy,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    Usage,
    UsageReport,
)
from endstop.providers import Fallback, Hedge, LiteLLM, OpenAICompatible, OpenAIResponses, Provider, Race, Retry
from endstop.providers.record import RecordedError
from endstop.testing.conformance.providers import Behaviour, Endpoint

from ..providers.anthropic_endpoint import AnthropicEndpoint, anthropic_to
from ..providers.gemini_endpoint import GeminiEndpoint, gemini_to
from ..providers.responses_wire import WORDS, ResponsesEndpoint


@cache
def tools(turns: int = 8) -> tuple[Tool, ...]:
    """Tools that take a few turns of the loop."""

    async def look(n: int) -> str:
        for _ in range(turns):
            await asyncio.sleep(0)
        return f"seen {n}"

    async def put(n: int) -> str:
        for _ in range(turns):
            await asyncio.sleep(0)
        return f"put {n}"

    return Tool(look, description="Look.", reads=True), Tool(put, description="Put.")


# ---- what the model says


def calls(step: int, *made: tuple[str, Mapping[str, Any]], then: Sequence[AnyChunk] = ()) -> tuple[AnyChunk, ...]:
    """A response with calls, whose arguments come in pieces."""
    chunks: list[AnyChunk] = []
    for index, (name, arguments) in enumerate(made):
        text = json.dumps(arguments)
        chunks.append(ToolCallDelta(index, f"c{step}{index}", name))
        chunks += [ToolCallDelta(index, arguments=text[at : at + 5]) for at in range(0, len(text), 5)]
    return (
        *chunks,
        *then,
        FinishReport("tool_calls", "tool_calls"),
        UsageReport(Usage(input_tokens=9, output_tokens=9)),
    )


DONE = ("finish_task", {"summary": "done"})
TEXT = (TextDelta("I look"), TextDelta(" at"), TextDelta(" it."))
STORY = (
    Behaviour(says=(ReasoningDelta("Hm."), *TEXT, *calls(1, ("look", {"n": 1}), ("look", {"n": 2})))),
    Behaviour(says=calls(2, ("put", {"n": 1}), ("look", {"n": 3}), ("put", {"n": 2}))),
    Behaviour(says=calls(3, ("look", {"n": 4}), DONE)),
)
TALK = (
    Behaviour(says=(*TEXT, FinishReport("stop", "stop"))),
    Behaviour(says=(TextDelta("Half of"), FinishReport("length", "length"))),
    Behaviour(says=calls(3, ("put", {"n": 1}))),
    Behaviour(says=calls(4, DONE, ("put", {"n": 9}), ("look", {"n": 9}))),
)
LOST = RecordedError(kind="interrupted", message="lost")
BUSY = Behaviour(ends="refused", failure=RecordedError(kind="server", status=503, message="Overloaded."))
TROUBLE = (
    Behaviour(ends="refused", failure=RecordedError(kind="rate_limit", status=429, message="Slow.", retry_after=7.0)),
    Behaviour(says=(*TEXT, *calls(1, ("look", {"n": 1}))[:2]), ends="cut", failure=LOST),
    STORY[0],
    Behaviour(says=TEXT, ends="error", failure=RecordedError(kind="server", status=503, message="Overloaded.")),
    Behaviour(says=calls(2, ("look", {"n": 3}))[:-3], ends="unfinished", failure=LOST),
    STORY[1],
    BUSY,
    STORY[2],
)


# ---- over which wire


class PieceByPiece(Endpoint):
    """Gives the client a turn after each event, so that it reads each in a turn of its own."""

    async def _answer(self, behaviour: Behaviour, keys: str, reader: Any, writer: Any) -> None:
        await super()._answer(behaviour, keys, reader, _Turning(writer))


class _Turning:
    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.write, self.transport, self._writer = writer.write, writer.transport, writer

    async def drain(self) -> None:
        await self._writer.drain()
        await asyncio.sleep(0)


class Chat(PieceByPiece):
    """Chat completions."""


class Responses(PieceByPiece, ResponsesEndpoint):
    """OpenAI's Responses API, which has other words for how a response ends."""

    def __init__(self, script: Sequence[Behaviour]) -> None:
        super().__init__([_in_words_of_responses(behaviour) for behaviour in script])


class Messages(PieceByPiece, AnthropicEndpoint):
    """Anthropic's messages."""


class GenerateContent(PieceByPiece, GeminiEndpoint):
    """Gemini's."""


def _in_words_of_responses(behaviour: Behaviour) -> Behaviour:
    says = (FinishReport(c.reason, WORDS[c.raw]) if isinstance(c, FinishReport) else c for c in behaviour.says)
    return Behaviour(says=tuple(says), ends=behaviour.ends, failure=behaviour.failure)


@dataclass(frozen=True)
class Wire:
    """A server and the provider that is its client."""

    endpoint: type[Endpoint]
    client: Callable[[Any], Provider]


WIRES = {
    "chat": Wire(Chat, lambda at: OpenAICompatible("m", at.url, api_key=at.key)),
    "responses": Wire(Responses, lambda at: OpenAIResponses("m", api_base=at.url, api_key=at.key)),
    "anthropic": Wire(Messages, anthropic_to),
    "gemini": Wire(GenerateContent, gemini_to),
}
LITELLM = {
    "chat": Wire(Chat, lambda at: LiteLLM("openai/m", api_base=at.url, api_key=at.key)),
    "anthropic": Wire(Messages, lambda at: LiteLLM("anthropic/claude-m", api_base=at.url[:-3], api_key=at.key)),
}


# ---- the runs


@dataclass(frozen=True)
class Agent:
    """What one run is: a script for each server, the provider over all of them, and how the engine goes on."""

    scripts: tuple[tuple[Behaviour, ...], ...]
    combined: Callable[..., Provider] = lambda provider: provider
    policy: Policy | None = None


def patient(provider: Provider) -> Provider:
    return Retry(provider, times=dict.fromkeys(("rate_limit", "interrupted", "server"), 3))


AGENTS = {
    "story": Agent((STORY,)),
    "talk": Agent((TALK,), policy=Policy(text="nudge")),
    "trouble": Agent((TROUBLE,), patient),
    "fallback": Agent(((BUSY,), STORY), Fallback),
    "race": Agent((STORY, STORY), Race),
    "hedge": Agent(((Behaviour(ends="silent"), *STORY[1:]), STORY), partial(Hedge, after=2.0)),
}


def over_http(wire: Wire, agent: Agent, turns: int = 8) -> Callable[[Path], Any]:
    """Makes runs of an agent, each with servers of its own."""

    @asynccontextmanager
    async def make_run(record: Path) -> AsyncIterator[Run]:
        async with AsyncExitStack() as stack:
            servers = [await stack.enter_async_context(wire.endpoint(script)) for script in agent.scripts]
            provider = agent.combined(*map(wire.client, servers))
            options: dict[str, Any] = {"policy": agent.policy} if agent.policy else {}
            engine = Engine(provider, tools=tools(turns), **options)
            yield await stack.enter_async_context(engine.start("go", record=record))

    return make_run

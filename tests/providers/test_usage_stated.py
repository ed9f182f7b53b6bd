"""What the wire states of a response's usage is kept, also after a cut; what nobody stated is not taken for stated."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from endstop import Engine
from endstop.decision import (
    AnyChunk,
    Event,
    FinishReport,
    Limits,
    Policy,
    TextDelta,
    Usage,
    UsageReport,
    UserMessage,
    WrongUse,
)
from endstop.decision import events as ev
from endstop.providers import LiteLLM, OpenAICompatible, Prices, Provider, Race, Request

from .endpoint import Endpoint, Reply, delta, stream

HELLO = Request(messages=[UserMessage("hello")])
WORDS = "one two three four five six seven eight nine ten "
litellm = pytest.mark.filterwarnings("ignore")
"""litellm and what it imports warn of themselves."""


def direct(server: Endpoint, **given: Any) -> OpenAICompatible:
    return OpenAICompatible("some-model", server.url, api_key="placeholder", **given)


def through_litellm(server: Endpoint, model: str = "openai/some-model", **given: Any) -> LiteLLM:
    place = server.url.removesuffix("/v1") if model.startswith("anthropic/") else server.url
    return LiteLLM(model, api_base=place, api_key="placeholder", **given)


def claude(server: Endpoint) -> LiteLLM:
    return through_litellm(server, "anthropic/claude-sonnet-4-5")


BOTH = [pytest.param(direct, id="direct"), pytest.param(through_litellm, id="litellm", marks=litellm)]


def event(type: str, **fields: Any) -> bytes:
    return f"event: {type}\ndata: {json.dumps({'type': type, **fields})}\n\n".encode()


def begins() -> list[bytes]:
    """How Claude begins: 1,200 tokens of input, of which 300 come from the cache and 200 go into it."""
    usage = {"input_tokens": 700, "cache_read_input_tokens": 300, "cache_creation_input_tokens": 200}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": []}
    return [event("message_start", message={**message, "usage": {**usage, "output_tokens": 1}})]


def block(number: int, kind: str, *pieces: str) -> list[bytes]:
    """A block of text or thinking."""
    field = {"text": "text", "thinking": "thinking"}[kind]
    deltas = [
        event("content_block_delta", index=number, delta={"type": f"{kind}_delta", field: piece}) for piece in pieces
    ]
    start = event("content_block_start", index=number, content_block={"type": kind, field: ""})
    return [start, *deltas, event("content_block_stop", index=number)]


def ends(**usage: Any) -> list[bytes]:
    return [event("message_delta", delta={"stop_reason": "end_turn"}, usage=usage), event("message_stop")]


async def stated(provider: Provider) -> list[Usage]:
    """All that is told of one response's usage."""
    async with asyncio.timeout(60), provider.stream(HELLO) as chunks:
        return [chunk.usage async for chunk in chunks if isinstance(chunk, UsageReport)]


async def events_of(provider: Provider, **given: Any) -> list[Event]:
    session = Engine(provider, prices=Prices(listed=False), **given).session()
    async with asyncio.timeout(60), session.start("hello") as run:
        return [event async for event in run]


async def cut(provider: Provider) -> ev.ResponseFinished:
    """A response that is cut for its length, which is all that its server ever sends."""
    events = await events_of(provider, policy=Policy(response_tokens=30, closing=False))
    response = next(event for event in events if isinstance(event, ev.ResponseFinished))
    assert response.cut_for
    return response


# ---- after a cut


@litellm
async def test_C6_the_input_that_claude_states_at_the_beginning_is_kept_after_a_cut() -> None:
    async with Endpoint(Reply(pieces=[*begins(), *block(0, "text", *[WORDS] * 6), asyncio.Event()])) as server:
        usage = (await cut(claude(server))).usage
    assert (usage.input_tokens, usage.cached_tokens) == (1200, 300)
    assert usage.output_tokens > 30, "the text that came, estimated"
    assert usage.estimated


@litellm
async def test_C6_the_input_that_claude_states_is_kept_where_the_stream_breaks_off() -> None:
    async with Endpoint(Reply(pieces=[*begins(), *block(0, "text", WORDS)], ends="cut")) as server:
        events = await events_of(claude(server))
    (failed,) = [event for event in events if isinstance(event, ev.AttemptFailed)]
    assert failed.usage is not None
    assert (failed.usage.input_tokens, failed.usage.cached_tokens, failed.usage.estimated) == (1200, 300, True)


@litellm
async def test_C6_the_input_that_claude_states_is_told_where_no_content_follows_in_time() -> None:
    for seconds in (1, 5, 30):  # until what the server states has had the time to come
        async with Endpoint(Reply(pieces=[*begins(), asyncio.Event()])) as server:
            base = server.url.removesuffix("/v1")
            provider = LiteLLM("anthropic/claude-sonnet-4-5", api_base=base, api_key="x", first_timeout=seconds)
            events = await events_of(provider)
        (failed,) = [event for event in events if isinstance(event, ev.AttemptFailed)]
        if failed.usage is not None:
            break
    assert failed.kind == "timeout"
    assert failed.usage is not None
    assert (failed.usage.input_tokens, failed.usage.cached_tokens, failed.usage.estimated) == (1200, 300, True)


def early(where: str, tokens: int) -> dict[str, Any]:
    """A chunk of text that says what was used so far: vLLM with `continuous_usage_stats`, or as Groq says it."""
    details = {"cached_tokens": 300}
    usage = {"prompt_tokens": 1200, "completion_tokens": tokens, "prompt_tokens_details": details}
    return {**delta(content=WORDS), **({"x_groq": {"usage": usage}} if where == "x_groq" else {"usage": usage})}


@pytest.mark.parametrize("where", ["usage", "x_groq"])
async def test_C6_early_usage_is_kept_after_a_cut(where: str) -> None:
    chunks = [early(where, 100 * number) for number in range(1, 6)]
    async with Endpoint(Reply(pieces=[*stream(*chunks, done=False).pieces, asyncio.Event()])) as server:
        usage = (await cut(direct(server))).usage
    assert (usage.input_tokens, usage.cached_tokens, usage.output_tokens) == (1200, 300, 100)
    assert usage.estimated


@litellm
async def test_C6_early_usage_is_kept_after_a_cut_through_litellm() -> None:
    chunks = [early("usage", 100 * number) for number in range(1, 6)]
    async with Endpoint(Reply(pieces=[*stream(*chunks, done=False).pieces, asyncio.Event()])) as server:
        usage = (await cut(through_litellm(server))).usage
    assert (usage.input_tokens, usage.cached_tokens) == (1200, 300)
    assert usage.output_tokens >= 100


async def test_C6_a_report_of_nothing_does_not_stand_in_the_place_of_an_estimate() -> None:
    nothing = {**delta(content=WORDS), "usage": {"prompt_tokens": 0, "completion_tokens": 0}}
    async with Endpoint(Reply(pieces=[*stream(*[nothing] * 6, done=False).pieces, asyncio.Event()])) as server:
        usage = (await cut(direct(server))).usage
    assert usage.input_tokens > 0


class Waits:
    """Says something, then that it did, and never ends; or waits for that before it says something whole."""

    def __init__(self, *chunks: AnyChunk, said: asyncio.Event, wins: bool) -> None:
        self.model = "wins" if wins else "loses"
        self._chunks, self._said, self._wins = chunks, said, wins

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[AnyChunk]]:
        yield self._all()

    async def _all(self) -> AsyncIterator[AnyChunk]:
        if self._wins:
            await self._said.wait()
        for chunk in self._chunks:
            yield chunk
        self._said.set()
        if not self._wins:
            await asyncio.Event().wait()


async def test_C6_what_the_loser_of_a_race_stated_is_kept() -> None:
    said = asyncio.Event()
    usage = Usage(input_tokens=1200, cached_tokens=300, output_tokens=1)
    loser = Waits(UsageReport(usage), said=said, wins=False)
    winner = Waits(TextDelta("hello"), FinishReport("stop"), said=said, wins=True)
    (failed,) = [event for event in await events_of(Race(loser, winner)) if isinstance(event, ev.AttemptFailed)]
    assert failed.beside
    assert failed.usage == msgspec.structs.replace(usage, estimated=True)


# ---- what nobody stated


def thinks(**usage: Any) -> Reply:
    return Reply(pieces=[*begins(), *block(0, "thinking", *[WORDS] * 6), *block(1, "text", "Hi."), *ends(**usage)])


@litellm
async def test_C6_reasoning_tokens_that_claude_has_not_stated_are_not_made_up() -> None:
    async with Endpoint(thinks(output_tokens=150)) as server:
        told = await stated(claude(server))
    assert told[-1] == Usage(input_tokens=1200, cached_tokens=300, output_tokens=150)


@litellm
async def test_C6_reasoning_tokens_that_claude_states_are_kept() -> None:
    async with Endpoint(thinks(output_tokens=150, output_tokens_details={"thinking_tokens": 140})) as server:
        told = await stated(claude(server))
    assert told[-1] == Usage(input_tokens=1200, cached_tokens=300, output_tokens=150, reasoning_tokens=140)


@litellm
async def test_C6_reasoning_tokens_that_a_chat_server_has_not_stated_are_not_made_up() -> None:
    usage = {"prompt_tokens": 1200, "completion_tokens": 150, "total_tokens": 1350}
    said = [delta(reasoning_content=WORDS), delta(content="Hi."), {**delta(finish="stop"), "usage": usage}]
    async with Endpoint(stream(*said)) as server:
        told = await stated(through_litellm(server))
    assert told[-1] == Usage(input_tokens=1200, output_tokens=150)


@pytest.mark.parametrize("voice", BOTH)
async def test_C6_reasoning_tokens_that_a_chat_server_states_are_kept(voice: Any) -> None:
    usage = {"prompt_tokens": 1200, "completion_tokens": 150, "total_tokens": 1350}
    usage["completion_tokens_details"] = {"reasoning_tokens": 140}  # type: ignore[assignment]
    said = [delta(reasoning_content=WORDS), delta(content="Hi."), {**delta(finish="stop"), "usage": usage}]
    async with Endpoint(stream(*said)) as server:
        told = await stated(voice(server))
    assert told[-1] == Usage(input_tokens=1200, output_tokens=150, reasoning_tokens=140)


@litellm
async def test_C6_a_usage_that_litellm_makes_up_whole_is_marked() -> None:
    async with Endpoint(stream(delta(reasoning_content=WORDS), delta(content="Hi."), delta(finish="stop"))) as server:
        told = await stated(through_litellm(server))
    assert [usage.estimated for usage in told] == [True]
    assert told[0].cost_usd is None


# ---- what the wire says that it cost


def costs(cost: Any, **fields: Any) -> Reply:
    usage = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25, "cost": cost, **fields}
    whole = {"id": "1", "created": 1, "model": "m"}  # without which litellm takes no chunk of OpenRouter's
    said = (delta(content="Hi."), delta(finish="stop"), {"choices": [], "usage": usage})
    return stream(*({**whole, **chunk} for chunk in said))


OWN_KEY = {"is_byok": True, "cost_details": {"upstream_inference_cost": 0.02}}
NOT_OWN = {"is_byok": False, "cost_details": {"upstream_inference_cost": 0.0125}}
COSTS = [
    pytest.param(0.0125, {}, 0.0125, id="a number"),
    pytest.param(0.0125, NOT_OWN, 0.0125, id="OpenRouter, its cost"),
    pytest.param(0.0125, OWN_KEY, 0.0325, id="OpenRouter, a key of one's own"),
    pytest.param({"input_tokens_cost": 0.01, "total_cost": 0.0125}, {}, 0.0125, id="parts"),
    pytest.param(None, {"cost_in_usd_ticks": 125_000_000}, 0.0125, id="xAI, ticks"),
    *(pytest.param(cost, {}, None, id=f"nothing, {cost!r}") for cost in (None, 0, -1, True, "free", [1], {})),
]


@pytest.mark.parametrize(("cost", "fields", "read"), COSTS)
async def test_C6_a_cost_that_the_wire_states_is_read(cost: Any, fields: dict[str, Any], read: float | None) -> None:
    async with Endpoint(costs(cost, **fields)) as server:
        (usage,) = await stated(direct(server))
    assert usage.cost_usd == (read if read is None else pytest.approx(read))
    assert (usage.input_tokens, usage.output_tokens, usage.estimated) == (20, 5, False)


@litellm
@pytest.mark.parametrize(("fields", "read"), [(NOT_OWN, 0.0125), (OWN_KEY, 0.0325)])
async def test_C6_a_cost_that_openrouter_states_is_read_through_litellm(fields: dict[str, Any], read: float) -> None:
    async with Endpoint(costs(0.0125, **fields)) as server:
        told = await stated(through_litellm(server, "openrouter/some/model"))
        assert server.body()["usage"] == {"include": True}
    assert told[-1].cost_usd == pytest.approx(read)


@litellm
async def test_C6_a_cost_that_litellm_reckons_is_no_cost_that_the_wire_states() -> None:
    async with Endpoint(Reply(pieces=[*begins(), *block(0, "text", "Hi."), *ends(output_tokens=5)])) as server:
        told = await stated(claude(server))
    assert {usage.cost_usd for usage in told} == {None}


@pytest.mark.parametrize("voice", BOTH)
async def test_C6_a_stated_cost_can_be_limited_without_a_known_price(voice: Any) -> None:
    policy = Policy(limits=Limits(cost_usd=0.01), closing=False)
    async with Endpoint(costs(0.0125)) as server, asyncio.timeout(60):
        outcome = await Engine(voice(server, reports_cost=True), policy=policy).run("hello")
        assert outcome.usage.cost_usd == 0.0125
        assert outcome.limits["cost_usd"].used == 0.0125
        with pytest.raises(WrongUse, match="is not known: give its price"):
            await Engine(voice(server), policy=policy).run("hello")


def test_C6_who_reports_costs() -> None:
    assert OpenAICompatible("a/b", "https://openrouter.ai/api/v1").reports_cost
    assert not OpenAICompatible("a/b", "https://openrouter.ai/api/v1", reports_cost=False).reports_cost
    assert not OpenAICompatible("b", "http://127.0.0.1:1/v1").reports_cost
    assert LiteLLM("openrouter/a/b").reports_cost
    assert not LiteLLM("anthropic/claude-sonnet-4-5").reports_cost


def test_C6_only_openrouter_is_asked_for_costs() -> None:
    bodies = [
        json.loads(OpenAICompatible("m", at).encode_request(HELLO))
        for at in ("https://openrouter.ai/api/v1", "https://api.openai.com/v1", "http://127.0.0.1:1/v1")
    ]
    assert [body.get("usage") for body in bodies] == [{"include": True}, None, None]

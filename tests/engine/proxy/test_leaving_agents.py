"""Agents that close their connection, or send their next request, before the provider has ended its stream.

A response is whole once its end has been read, whoever closes then.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from endstop import Limits, Policy, read_record
from endstop.decision import POLICIES
from endstop.decision.events import AttemptFailed, ProviderToolReported, ResponseFinished
from endstop.providers.prices import Prices
from endstop.proxy import Proxy
from endstop.proxy.day_budgets import DayBudgets
from endstop.proxy.proxy_server import RunFollowers
from endstop.proxy.statistics_page import Statistics
from endstop.replay import replay
from endstop.testing import FakeClock

pytest.importorskip("anthropic", reason="Anthropic's client is not installed: `pip install .[test]` brings it")

from .agents import proxy_before
from .raw_http import (
    CHUNKED,
    PATIENCE,
    STREAM,
    connected_to,
    listening_raw,
    read_reply,
    read_request,
    request_for,
)
from .vendors import CHAT, GEMINI, GEMINI_ARRAY, WIRES, GenerateContent, Wire

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
ON_WIRES = pytest.mark.parametrize("wire", WIRES, ids=lambda wire: type(wire).__name__)
USED = (20, 5)
"""Input and output tokens of each response, as the provider reports them."""


def whole_response(wire: Wire, number: int) -> dict[str, Any]:
    """The response that makes the call with this number."""
    return wire.whole(str(number), "", (f"call_{number}", "work", json.dumps({"n": number})))


def events_of(wire: Wire, number: int = 0) -> list[bytes]:
    """The events of the streamed response that makes the call with this number, and what ends the stream."""
    return wire.frames([event for group in wire.events(whole_response(wire, number)) for event in group])


def request_of(wire: Wire, items: list[Any], headers: bytes = b"") -> bytes:
    """A request for a stream."""
    body = {**wire.asked(items, ("work",)), **wire.stream_fields}
    return request_for(f"/v1{wire.where(streams=True)}", json.dumps(body).encode(), headers)


def items_after(wire: Wire, number: int) -> list[Any]:
    """The conversation after this many calls."""
    items: list[Any] = [wire.prompt("go")]
    for one in range(number):
        items += [*wire.items(whole_response(wire, one)), *wire.result([(f"call_{one}", "work")])]
    return items


class Script(NamedTuple):
    """How one response is sent. held: what waits for `go`. ends: whether the stream ends once everything is sent."""

    sent: bytes
    held: bytes = b""
    ends: bool = True


class HoldingProvider:
    """A provider that sends each response up to a point, and the rest when it is told to.

    content_type: that of its streams. go: lets the rest of the latest response come. asked: number of requests.
    """

    def __init__(self, scripts: Iterator[Script], content_type: str) -> None:
        self._scripts = scripts
        self._head = STREAM.replace(b"text/event-stream", content_type.encode()) + b"Connection: close\r\n" + CHUNKED
        self.go = asyncio.Event()
        self.asked = 0

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        self.asked += 1
        script, self.go = next(self._scripts), asyncio.Event()
        go = self.go
        writer.write(self._head + chunk(script.sent))
        await writer.drain()
        left = asyncio.ensure_future(reader.read())
        ready = asyncio.ensure_future(go.wait())
        try:
            await asyncio.wait([left, ready], return_when=asyncio.FIRST_COMPLETED)
            if go.is_set():
                writer.write(chunk(script.held) + (b"0\r\n\r\n" if script.ends else b""))
                await writer.drain()
                if not script.ends:
                    await left
        finally:
            left.cancel()
            ready.cancel()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data) if data else b""


class Behind(NamedTuple):
    """A proxy before a provider."""

    provider: HoldingProvider
    url: str
    proxy: Proxy
    clock: FakeClock
    statistics: Statistics
    folder: Path

    async def idle(self) -> None:
        """Wait until the proxy has ended every request."""
        async with asyncio.timeout(PATIENCE):
            await self.proxy.idle()

    async def pass_moments(self) -> None:
        """Let the time go by that the proxy waits for the rest of a response."""
        async with asyncio.timeout(PATIENCE):
            while self.proxy.running:
                await self.clock.advance(0.5)

    async def ended(self, wire: Wire) -> None:
        """Wait until the proxy has ended every request, of which a moment passes only where nothing else ends it."""
        await (self.idle() if wire.says_end else self.pass_moments())

    @property
    def used(self) -> tuple[int, int, int]:
        """The tokens of the metrics: input, output, and how many of both are estimated."""
        total = self.statistics.total
        return total.usage.input_tokens, total.usage.output_tokens, total.estimated_tokens


@asynccontextmanager
async def behind(
    wire: Wire,
    scripts: Iterator[Script],
    folder: Path,
    policy: Policy = POLICIES["agent"],
    budgets: DayBudgets | None = None,
) -> AsyncIterator[Behind]:
    provider, clock, statistics = HoldingProvider(scripts, wire.content_type), FakeClock(), Statistics()
    followers = RunFollowers(policy=policy, prices=Prices(), folder=folder, on_event=statistics.take)
    async with (
        listening_raw(provider.talk) as upstream,
        proxy_before(upstream, followers, statistics=statistics, budgets=budgets, clock=clock) as (url, proxy),
    ):
        yield Behind(provider, url, proxy, clock, statistics, folder)


async def open_request(url: str, request: bytes) -> Connection:
    reader, writer = await connected_to(url)
    writer.write(request)
    return reader, writer


async def read_from(connection: Connection, wanted: bytes, answer: bytes = b"") -> bytes:
    """Read a response until its body is at least this. answer: what was read before. Returns what was read."""
    async with asyncio.timeout(PATIENCE):
        while len(read_reply(answer).body) < len(wanted):
            block = await connection[0].read(65536)
            assert block, answer
            answer += block
    assert read_reply(answer).body.startswith(wanted)
    return answer


async def leave(connection: Connection) -> None:
    connection[1].close()
    await connection[1].wait_closed()


def outcomes(folder: Path) -> list[tuple[str, int, int, bool]]:
    """Each attempt of the records: how it ended, and its tokens: input, output, and whether they are estimated."""
    found = []
    for record in sorted(folder.rglob("*.jsonl")):
        for run in read_record(record).runs:
            for event in run.events:
                if isinstance(event, ResponseFinished | AttemptFailed):
                    used = event.usage
                    kind = "whole" if isinstance(event, ResponseFinished) else event.message
                    counts = (0, 0, False) if used is None else (used.input_tokens, used.output_tokens, used.estimated)
                    found.append((kind, *counts))
    return found


LEFT = "the agent left in the middle of the response"
WHOLE = ("whole", *USED, False)


def is_end(wire: Wire, event: bytes) -> bool:
    """Whether this event says that the response has ended, and why."""
    return wire.finish in event


EVENTS = [
    pytest.param(wire, number, id=f"{type(wire).__name__}-{number}")
    for wire in WIRES
    for number in range(1, len(events_of(wire)) + 1)
]


@pytest.mark.parametrize("ends", [True, False], ids=["ends", "holds"])
@pytest.mark.parametrize(("wire", "number"), EVENTS)
async def test_an_agent_can_leave_after_each_event(wire: Wire, number: int, ends: bool, tmp_path: Path) -> None:
    events = events_of(wire)
    sent, held = b"".join(events[:number]), b"".join(events[number:])
    has_end = any(is_end(wire, event) for event in events[:number])
    async with behind(wire, iter([Script(sent, held, ends=ends)]), tmp_path) as here:
        agent = await open_request(here.url, request_of(wire, items_after(wire, 0)))
        await read_from(agent, sent)
        await leave(agent)
        if has_end:
            here.provider.go.set()
        await here.ended(wire)
        assert here.used == (*USED, 0) if has_end else here.used[2] > 0
    (found,) = outcomes(tmp_path)
    assert found == WHOLE if has_end else found[0] == LEFT


@ON_WIRES
async def test_an_agent_can_leave_at_each_byte_of_the_end(wire: Wire, tmp_path: Path) -> None:
    """The provider holds the stream open, so the proxy has what the agent has, and waits a moment for the rest.

    Gemini's events are passed on once they are whole.
    """
    events = events_of(wire)
    (at,) = (number for number, event in enumerate(events) if is_end(wire, event))
    begin, length, bytes_of_all = len(b"".join(events[:at])), len(events[at]), b"".join(events)
    places = [*range(begin, begin + length - 8, 23), *range(begin + length - 8, begin + length + 1)]
    whole_events = isinstance(wire, GenerateContent)
    async with behind(wire, (Script(bytes_of_all[:place]) for place in places), tmp_path) as here:
        for place in places:
            agent = await open_request(here.url, request_of(wire, [wire.prompt(f"leave at {place:05}")]))
            passed = begin if whole_events and place < begin + length else place
            await read_from(agent, bytes_of_all[:passed])
            await leave(agent)
            await here.pass_moments()
        assert len(here.proxy.runs) == len(places)
    for record in tmp_path.rglob("*.jsonl"):
        (run,) = read_record(record).runs
        place = int(run.started.prompt.removeprefix("leave at "))
        kinds = [type(event) for event in run.events if isinstance(event, ResponseFinished | AttemptFailed)]
        ended = place >= begin + len(events[at].rstrip())  # the blank line after it may be missing
        assert kinds == [ResponseFinished if ended else AttemptFailed], bytes_of_all[:place][-60:]


STEPS = 6


@pytest.mark.parametrize("closes", ["before", "after", "never"])
@pytest.mark.parametrize("ends", ["with it", "after it", "never"])
@ON_WIRES
async def test_an_agent_that_goes_on_at_the_last_event_is_one_run_with_all_its_tokens(
    wire: Wire, ends: str, closes: str, tmp_path: Path
) -> None:
    """ends: when the provider ends each stream. closes: when the agent closes, measured by its next request."""
    all_events = [b"".join(events_of(wire, number)) for number in range(STEPS)]
    async with behind(wire, (Script(events) for events in all_events), tmp_path) as here:
        agents: list[Connection] = []
        for number in range(STEPS):
            agent = await open_request(here.url, request_of(wire, items_after(wire, number)))
            if closes == "after" and agents:
                await leave(agents.pop())
            await read_from(agent, all_events[number])
            agents.append(agent)
            if ends == "with it":
                here.provider.go.set()
            if closes == "before":
                await leave(agents.pop())
            if ends == "after it":
                here.provider.go.set()
        assert len(here.proxy.runs) == 1
        for agent in agents:
            await leave(agent)
        await here.ended(wire)
        assert here.used == (STEPS * USED[0], STEPS * USED[1], 0)
    assert outcomes(tmp_path) == [WHOLE] * STEPS
    (record,) = tmp_path.rglob("*.jsonl")
    (run,) = read_record(record).runs
    assert run.finished is not None
    assert (run.finished.outcome.steps, run.finished.outcome.usage.input_tokens) == (STEPS, STEPS * USED[0])
    assert (await replay(record)).same


@pytest.mark.parametrize("leaves", [True, False], ids=["leaves", "stays"])
@pytest.mark.parametrize("usage", ["comes", "never comes"])
@pytest.mark.parametrize("wire", [CHAT, GEMINI, GEMINI_ARRAY], ids=lambda wire: type(wire).__name__)
async def test_an_agent_that_goes_on_at_the_finish_reason_gives_the_usage_a_moment(
    wire: Wire, usage: str, leaves: bool, tmp_path: Path
) -> None:
    """Where the usage comes after that, the next request waits for it, at most a moment."""
    split = []
    for number in range(STEPS):
        events, rest = wire.ends_late(whole_response(wire, number))
        frames = wire.frames([*events, *rest])
        split.append((b"".join(frames[: len(events)]), b"".join(frames[len(events) :])))
    scripts = (Script(sent, held if usage == "comes" else b"", ends=False) for sent, held in split)
    async with behind(wire, scripts, tmp_path) as here:
        agents: list[Connection] = []
        for number, (sent, _) in enumerate(split):
            before = here.provider.go
            agent = await open_request(here.url, request_of(wire, items_after(wire, number)))
            before.set()
            async with asyncio.timeout(PATIENCE):
                while here.provider.asked <= number:
                    await here.clock.advance(0.5 if usage == "never comes" else 0)
            await read_from(agent, sent)
            if leaves:
                await leave(agent)
            else:
                agents.append(agent)
        assert len(here.proxy.runs) == 1
        here.provider.go.set()
        for agent in agents:
            await leave(agent)
        await (here.pass_moments() if usage == "never comes" else here.ended(wire))
        if usage == "comes":
            assert here.used == (STEPS * USED[0], STEPS * USED[1], 0)
        else:
            assert here.used[2] == here.used[0] + here.used[1] > 0
    found = outcomes(tmp_path)
    assert [kind for kind, *_ in found] == ["whole"] * STEPS
    assert all(estimated == (usage == "never comes") for *_, estimated in found)
    (record,) = tmp_path.rglob("*.jsonl")
    assert (await replay(record)).same


ON_GEMINI = pytest.mark.parametrize("wire", [GEMINI, GEMINI_ARRAY], ids=lambda wire: type(wire).__name__)


@pytest.mark.parametrize("leaves", [True, False], ids=["leaves", "stays"])
@ON_GEMINI
async def test_what_gemini_sends_after_finish_reason_and_usage_is_recorded(
    wire: Wire, leaves: bool, tmp_path: Path
) -> None:
    events, _ = wire.ends_late(whole_response(wire, 0))
    counts = {"promptTokenCount": 20, "candidatesTokenCount": 4, "totalTokenCount": 24}
    more = {"promptTokenCount": 20, "candidatesTokenCount": 5, "totalTokenCount": 25}
    found = {"candidates": [{"groundingMetadata": {"webSearchQueries": ["port"]}}], "usageMetadata": more}
    frames = wire.frames([*({**event, "usageMetadata": counts} for event in events), found])
    sent, held = b"".join(frames[: len(events)]), b"".join(frames[len(events) :])
    async with behind(wire, iter([Script(sent, held)]), tmp_path) as here:
        agent = await open_request(here.url, request_of(wire, items_after(wire, 0)))
        answer = await read_from(agent, sent)
        if leaves:
            await leave(agent)
        here.provider.go.set()
        if not leaves:
            await read_from(agent, sent + held, answer)
            await leave(agent)
        await here.idle()
        assert here.used == (*USED, 0)
    assert outcomes(tmp_path) == [WHOLE]
    (record,) = tmp_path.rglob("*.jsonl")
    (run,) = read_record(record).runs
    assert [event.name for event in run.events if isinstance(event, ProviderToolReported)] == ["grounding"]


@ON_GEMINI
async def test_a_finish_reason_and_a_usage_in_each_event_end_nothing_for_an_agent_that_reads_on(
    wire: Wire, tmp_path: Path
) -> None:
    """Older models and some gateways send them so."""
    whole = whole_response(wire, 0)
    text = {**whole, "candidates": [{"content": {"role": "model", "parts": [{"text": "I look."}]}}]}
    events = [{**one, "candidates": [{**one["candidates"][0], "finishReason": "STOP"}]} for one in (text, whole)]
    first, *rest = wire.frames(events)
    scripts = [Script(first, b"".join(rest)), Script(b"".join(events_of(wire, 1)))]
    async with behind(wire, iter(scripts), tmp_path) as here:
        agent = await open_request(here.url, request_of(wire, items_after(wire, 0)))
        answer = await read_from(agent, first)
        here.provider.go.set()
        await read_from(agent, first + b"".join(rest), answer)
        await here.idle()
        further = await open_request(here.url, request_of(wire, items_after(wire, 1)))
        await read_from(further, scripts[1].sent)
        here.provider.go.set()
        await here.idle()
        assert here.used == (2 * USED[0], 2 * USED[1], 0)
        for one in (agent, further):
            await leave(one)
    (record,) = tmp_path.rglob("*.jsonl")
    (run,) = read_record(record).runs
    responses = [event.message for event in run.events if isinstance(event, ResponseFinished)]
    assert [(said.text, len(said.calls)) for said in responses] == [("I look.", 1), ("", 1)]


@ON_WIRES
async def test_limits_count_the_tokens_of_an_agent_that_leaves_at_the_end(wire: Wire, tmp_path: Path) -> None:
    policy = Policy(limits=Limits(steps=None, input_tokens=3 * USED[0]), closing=False)
    all_events = [b"".join(events_of(wire, number)) for number in range(STEPS)]
    async with behind(wire, (Script(events) for events in all_events), tmp_path, policy) as here:
        for number in range(3):
            agent = await open_request(here.url, request_of(wire, items_after(wire, number)))
            await read_from(agent, all_events[number])
            await leave(agent)
        agent = await open_request(here.url, request_of(wire, items_after(wire, 3), b"Connection: close\r\n"))
        async with asyncio.timeout(PATIENCE):
            answer = read_reply(await agent[0].read())
        await leave(agent)
        assert b"endstop_token_limit" in answer.body
        assert here.provider.asked == 3


@pytest.mark.parametrize("leaves", [True, False], ids=["leaves", "stays"])
@ON_WIRES
async def test_the_budgets_of_the_day_count_the_tokens_of_an_agent_that_goes_on_at_the_end(
    wire: Wire, leaves: bool, tmp_path: Path
) -> None:
    """The provider ends no stream, so the next request has room only if the one before it is settled at its end."""
    agents: list[Connection] = []
    budgets = DayBudgets({"input_tokens": float(STEPS * USED[0])}, {}, Prices(), lambda: "2026-01-01")
    all_events = [b"".join(events_of(wire, number)) for number in range(STEPS)]
    async with behind(wire, (Script(events) for events in all_events), tmp_path, budgets=budgets) as here:
        for number in range(STEPS):
            agent = await open_request(here.url, request_of(wire, items_after(wire, number)))
            await read_from(agent, all_events[number])
            if leaves:
                await leave(agent)
            else:
                agents.append(agent)
        agents.append(
            await open_request(here.url, request_of(wire, items_after(wire, STEPS), b"Connection: close\r\n"))
        )
        async with asyncio.timeout(PATIENCE):
            answer = read_reply(await agents[-1][0].read())
        assert b"the budget of today is spent: 120 of 120 input tokens" in answer.body
        assert here.provider.asked == STEPS
        for agent in agents:
            await leave(agent)

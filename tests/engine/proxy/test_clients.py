"""Clients through the proxy: OpenAI's on both of its wires, Anthropic's, and one that reads as Google's do."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import openai
import pytest
from aiohttp import web
from endstop import read_record
from endstop.decision.events import AttemptFailed, ResponseFinished

anthropic = pytest.importorskip(
    "anthropic", reason="Anthropic's client is not installed: `pip install .[test]` brings it"
)

from .agents import proxied, serving  # noqa: E402
from .gemini_client import GeminiError  # noqa: E402
from .vendors import AFTER, RESPONSES, TEXT, WIRES, Vendors, Wire, run_agent  # noqa: E402

pytestmark = [
    pytest.mark.parametrize("blocks", [False, True], ids=["async", "sync"]),
    pytest.mark.parametrize("streams", [True, False], ids=["streamed", "whole"]),
    pytest.mark.parametrize("wire", WIRES, ids=lambda wire: type(wire).__name__),
]
REFUSALS = (openai.BadRequestError, anthropic.BadRequestError, GeminiError)


@pytest.mark.parametrize("names", [("work",), ("work", "finish_task")], ids=["", "completes"])
async def test_an_ordinary_run_gets_the_same_objects_as_without_a_proxy(
    wire: Wire, streams: bool, blocks: bool, names: tuple[str, ...], tmp_path: Path
) -> None:
    direct, vendors = Vendors("ordinary"), Vendors("ordinary")
    async with serving(direct.handle) as url:
        wanted = await run_agent(wire, url, streams=streams, blocks=blocks, names=names)
    async with proxied(vendors, tmp_path) as (url, _, _):
        assert await run_agent(wire, url, streams=streams, blocks=blocks, names=names) == wanted
    assert wanted[:2] == (3, TEXT)
    for body, without in zip(vendors.requests, direct.requests, strict=True):
        assert {**body, "stream": None, "stream_options": None} == {**without, "stream": None, "stream_options": None}


async def test_a_run_ends_with_its_completion(wire: Wire, streams: bool, blocks: bool, tmp_path: Path) -> None:
    vendors = Vendors("finisher")
    async with proxied(vendors, tmp_path) as (url, _, proxy):
        run = await run_agent(wire, url, streams=streams, blocks=blocks)
        assert run[:2] == (4, TEXT)
        assert proxy.statistics.total.cuts == {"completion": 1}
        assert proxy.statistics.total.requests == {"followed": 3, "answered": 1}
    assert len(vendors.requests) == 3
    assert vendors.sent_after <= AFTER
    assert "and now I check again" not in str(run.seen)


class HoldsOn(Vendors):
    """A provider that sends each response whole, and does not end its stream."""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        await super().handle(request)
        return await asyncio.Event().wait()  # type: ignore[return-value]


async def test_a_client_that_leaves_each_stream_at_its_last_event_has_a_run_with_all_its_tokens(
    wire: Wire, streams: bool, blocks: bool, tmp_path: Path
) -> None:
    if not streams:
        pytest.skip("a whole response has no last event")
    async with proxied(HoldsOn("ordinary"), tmp_path) as (url, _, proxy):
        run = await run_agent(wire, url, streams=True, blocks=blocks, leaves=True)
        assert run[:2] == (3, TEXT)
        await proxy.idle()
        used = proxy.statistics.total.usage
        assert (used.input_tokens, used.output_tokens, proxy.statistics.total.estimated_tokens) == (60, 15, 0)
    (record,) = tmp_path.rglob("*.jsonl")
    (ended,) = read_record(record).runs
    assert ended.finished is not None
    assert (ended.finished.outcome.steps, ended.finished.outcome.requests) == (3, 3)


class BreaksOff(Vendors):
    """A provider whose second response breaks off: after its first event, or in the middle of the next one."""

    def __init__(self, *, inside: bool) -> None:
        super().__init__("ordinary")
        self._inside = inside

    async def _stream(self, wire: Wire, whole: dict[str, Any], reply: web.StreamResponse) -> None:
        if len(self.requests) != 2:
            return await super()._stream(wire, whole, reply)
        first, second, *_ = wire.frames([event for group in wire.events(whole) for event in group])
        await web.StreamResponse.write(reply, first + second[: self._inside * len(second) // 2])
        self.transport.abort()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        self.transport = request.transport
        return await super().handle(request)


@pytest.mark.parametrize("inside", [False, True], ids=["between events", "in an event"])
async def test_a_stream_that_breaks_off_is_the_same_error_as_without_a_proxy(
    wire: Wire, streams: bool, blocks: bool, inside: bool, tmp_path: Path
) -> None:
    if not streams:
        pytest.skip("a whole response has no events")
    direct, vendors = BreaksOff(inside=inside), BreaksOff(inside=inside)
    seen: tuple[list[Any], list[Any]] = [], []
    async with serving(direct.handle) as url:
        with pytest.raises(Exception, match="peer closed connection") as wanted:
            await run_agent(wire, url, streams=True, blocks=blocks, seen=seen[0])
    async with proxied(vendors, tmp_path) as (url, _, proxy):
        with pytest.raises(Exception, match="peer closed connection") as caught:
            await run_agent(wire, url, streams=True, blocks=blocks, seen=seen[1])
        await proxy.idle()
    assert (type(caught.value), str(caught.value), seen[1]) == (type(wanted.value), str(wanted.value), seen[0])
    assert len(vendors.requests) == len(direct.requests) == 2
    (record,) = tmp_path.rglob("*.jsonl")
    (run,) = read_record(record).runs
    assert [type(event) for event in run.events if isinstance(event, ResponseFinished | AttemptFailed)] == [
        ResponseFinished,
        AttemptFailed,
    ]


async def test_a_circle_ends_with_an_error_that_is_not_retried_and_says_why(
    wire: Wire, streams: bool, blocks: bool, tmp_path: Path
) -> None:
    vendors = Vendors("circle")
    async with proxied(vendors, tmp_path) as (url, _, proxy):
        with pytest.raises(REFUSALS) as caught:
            await run_agent(wire, url, streams=streams, blocks=blocks)
        assert proxy.statistics.total.requests == {"followed": 6, "stopped": 1}
    assert len(vendors.requests) == 6
    assert caught.value.status_code == 400
    assert "endstop stopped this run: the call " in str(caught.value)
    assert "endstop_stuck" in str(caught.value)
    assert caught.value.response.headers["x-endstop"] == "stopped"


async def test_a_circle_can_end_with_a_marked_text(wire: Wire, streams: bool, blocks: bool, tmp_path: Path) -> None:
    vendors = Vendors("circle")
    async with proxied(vendors, tmp_path, on_stop="text") as (url, _, _):
        run = await run_agent(wire, url, streams=streams, blocks=blocks)
    assert run.requests == 7
    assert run.text.startswith("[endstop stopped this run: the call ")
    assert len(vendors.requests) == 6


async def test_an_agent_without_a_completion_tool_is_offered_one_that_it_never_sees(
    wire: Wire, streams: bool, blocks: bool, tmp_path: Path
) -> None:
    vendors = Vendors("finisher")
    async with proxied(vendors, tmp_path, offer_completion=True) as (url, _, _):
        run = await run_agent(wire, url, streams=streams, blocks=blocks, names=("work",))
    assert run[:2] == (3, TEXT)
    assert "finish_task" not in str(run.seen)
    assert all("finish_task" in str(body["tools"]) for body in vendors.requests)


async def test_a_response_that_repeats_itself_is_cut_with_a_reason(
    wire: Wire, streams: bool, blocks: bool, tmp_path: Path
) -> None:
    if not streams:
        pytest.skip("a response without an end never comes whole")
    vendors, seen = Vendors("babbler"), list[Any]()
    async with proxied(vendors, tmp_path) as (url, _, proxy):
        with pytest.raises((openai.APIError, anthropic.APIError, RuntimeError, GeminiError)) as caught:
            await run_agent(wire, url, streams=True, blocks=blocks, seen=seen)
        assert proxy.statistics.total.cuts == {"repetition": 1}
    assert len(vendors.requests) == 1
    if wire is RESPONSES:  # a failed response is an event of its own there, and only then an exception
        assert seen[-1]["type"] == "response.failed"
        assert "endstop cut this response: " in seen[-1]["response"]["error"]["message"]
    else:
        assert "endstop cut this response: " in str(caught.value)

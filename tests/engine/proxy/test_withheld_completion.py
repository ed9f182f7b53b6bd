"""A completion beside other calls, behind `endstop proxy --until`: the agent runs the others, the model is answered."""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from endstop.decision import ToolCall
from endstop.decision import events as ev
from endstop.proxy.proxy import WIRES as OWN
from endstop.proxy.wire import WireRequest
from endstop.proxy.withheld_completion import WithheldCompletion, with_withheld
from endstop.replay import replay
from msgspec.structs import replace

pytest.importorskip("anthropic", reason="Anthropic's client is not installed: `pip install .[test]` brings it")

from .agents import proxied
from .checked_work import GOAL, ON_WIRES, POLICY, STREAMS, recorded, until
from .vendors import CHAT, GEMINI, GEMINI_ARRAY, MESSAGES, TEXT, Vendors, Wire, run_agent, sse

GEMINIS = (GEMINI, GEMINI_ARRAY)
ITEMS = {
    CHAT: ("choices", 0, "message", "tool_calls"),
    MESSAGES: ("content",),
    **dict.fromkeys(GEMINIS, ("candidates", 0, "content", "parts")),
}
"""Where a whole response has its calls; in `output` on the other wire."""


class Both(Vendors):
    """Calls `work` and `finish_task` in each response. order: of the two."""

    def __init__(self, order: Sequence[str]) -> None:
        super().__init__("finisher")
        self.order = order

    def _response(self, wire: Wire, body: dict[str, Any]) -> dict[str, Any]:
        number = len(self.requests)
        arguments = {"work": {"n": number}, "finish_task": {"summary": TEXT}}
        made = [
            wire.whole(str(number), "", (f"call_{number}_{name}", name, json.dumps(arguments[name])))
            for name in self.order
        ]
        whole = made[0]
        for other in made[1:]:
            _calls(wire, whole).extend(_calls(wire, other))
        return whole

    async def _stream(self, wire: Wire, whole: dict[str, Any], reply: Any) -> None:
        for event in _events(wire, whole):
            await reply.write(sse(event))
        if wire is CHAT:
            await reply.write(b"data: [DONE]\n\n")


def _calls(wire: Wire, whole: dict[str, Any]) -> list[Any]:
    found: Any = whole
    for key in ITEMS.get(wire, ("output",)):
        found = found[key]
    return found


def _events(wire: Wire, whole: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of a response with several calls: those of each call as if it were alone, numbered.

    Gemini's are in one event.
    """
    if wire in GEMINIS:
        return [event for group in wire.events(whole) for event in group]
    begin: list[dict[str, Any]] = []
    end: list[dict[str, Any]] = []
    for index, item in enumerate(_calls(wire, whole)):
        alone = deepcopy(whole)
        _calls(wire, alone)[:] = [item]
        events = [event for group in wire.events(alone) for event in group]
        if wire is CHAT:
            for event in events:
                for call in event["choices"] and event["choices"][0]["delta"].get("tool_calls", []):
                    call["index"] = index
            end = events[-2:]
            begin += events[1:-2] if index else events[:-2]
        elif wire is MESSAGES:
            blocks = [event for event in events if event["type"].startswith("content_block")]
            mine = [event for event in blocks if not (event["type"].endswith("start") and event["index"] == 1)]
            begin += [] if index else events[:1]
            begin += [{**event, "index": index} for event in mine if event["index"] == 0]
            end = events[-2:]
        else:
            begin += [{**event, "output_index": index} for event in events[1:-1]] if index else events[:-1]
            end = [{**events[-1], "response": whole}]
    return [*begin, *end]


def is_valid(wire: Wire, body: dict[str, Any]) -> bool:
    """Whether each call in the history of a request has one result, where its wire wants it."""
    items = body[wire.field]
    if wire in GEMINIS:
        named = [
            [part[kind]["name"] for part in item["parts"] if kind in part]
            for item, kind in zip(items[1:], ["functionCall", "functionResponse"] * len(items), strict=False)
        ]
        signed = [next(part for part in item["parts"] if "functionCall" in part) for item in items[1::2]]
        return named[::2] == named[1::2] and all("thoughtSignature" in part for part in signed)
    if wire is CHAT:
        called = [call["id"] for item in items for call in item.get("tool_calls", [])]
        returned = [item["tool_call_id"] for item in items if item["role"] == "tool"]
    elif wire is MESSAGES:
        called = [block["id"] for item in items[1:] for block in item["content"] if block["type"] == "tool_use"]
        returned = [
            block["tool_use_id"] for item in items[1:] for block in item["content"] if block["type"] == "tool_result"
        ]
        for said, answered in zip(items[1::2], items[2::2], strict=True):
            uses = [block for block in said["content"] if block["type"] == "tool_use"]
            assert all(block["type"] == "tool_result" for block in answered["content"][: len(uses)])
    else:
        called = [item["call_id"] for item in items if item.get("type") == "function_call"]
        returned = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
    return sorted(called) == sorted(returned) and len(set(called)) == len(called)


@STREAMS
@ON_WIRES
@pytest.mark.parametrize("order", [("work", "finish_task"), ("finish_task", "work")], ids=["after", "before"])
async def test_a_completion_beside_other_calls_is_answered_with_the_next_request(
    order: tuple[str, str], wire: Wire, streams: bool, work: Path, tmp_path: Path
) -> None:
    vendors, records = Both(order), tmp_path / "records"
    records.mkdir()
    policy = POLICY if order[0] == "work" else replace(POLICY, mixed="all")
    async with proxied(vendors, records, policy=policy, until=until(work), workspace=str(work.parent)) as (url, _, _p):
        run = await run_agent(wire, url, streams=streams, blocks=False)
    assert work.read_text() == "line\n" * GOAL  # one for each response: the others ran, and no completion reached it
    assert "finish_task" not in json.dumps(run.seen)
    assert run.requests == GOAL + 1
    assert len(vendors.requests) == GOAL
    assert [body for body in vendors.requests if not is_valid(wire, body)] == []
    histories = [body[wire.field] for body in vendors.requests]
    assert all(later[: len(earlier)] == earlier for earlier, later in pairwise(histories))
    told = json.dumps(histories[-1])
    assert (told.count("1 passed, 2 failed"), told.count("2 passed, 1 failed")) == (1, 1)
    events, outcome = recorded(records)
    assert (outcome.status, outcome.stop_reason, outcome.work) == ("completed", "until_met", "checked")
    rejected = [event for event in events if isinstance(event, ev.CompletionRejected)]
    assert len(rejected) == GOAL - 1
    (record,) = records.rglob("*.jsonl")
    assert (await replay(record)).same


@ON_WIRES
async def test_a_completion_that_only_the_proxy_offers_is_answered_as_well(
    wire: Wire, work: Path, tmp_path: Path
) -> None:
    vendors, records = Both(("work", "finish_task")), tmp_path / "records"
    records.mkdir()
    async with proxied(
        vendors, records, policy=POLICY, until=until(work), workspace=str(work.parent), offer_completion=True
    ) as (url, _, _p):
        run = await run_agent(wire, url, streams=True, blocks=False, names=("work",))
    assert work.read_text() == "line\n" * GOAL
    assert "finish_task" not in json.dumps(run.seen)
    assert [body for body in vendors.requests if not is_valid(wire, body)] == []
    _, outcome = recorded(records)
    assert outcome.stop_reason == "until_met"


@ON_WIRES
async def test_a_completion_whose_check_cannot_tell_ends_the_agent(wire: Wire, work: Path, tmp_path: Path) -> None:
    vendors, records = Both(("work", "finish_task")), tmp_path / "records"
    records.mkdir()
    check = until(work, "exit 125")
    async with proxied(vendors, records, policy=POLICY, until=check, workspace=str(work.parent)) as (url, _, _p):
        run = await run_agent(wire, url, streams=True, blocks=False)
    assert (run.text, run.requests, len(vendors.requests)) == (TEXT, 2, 1)
    _, outcome = recorded(records)
    assert (outcome.status, outcome.work) == ("completed", "said")


@pytest.mark.parametrize("wire", OWN, ids=lambda wire: wire.name)
def test_a_history_that_the_agent_has_shortened_stays_as_it_is(wire: Any) -> None:
    withheld = [WithheldCompletion((ToolCall("c", "finish_task", "{}"),), 3, "r", "Not accepted")]
    items = [{"role": "user", "content": "go on"}]
    for history in (items, [*items, *items, *items, {"role": "assistant", "content": "a text"}, *items]):
        request = WireRequest(model="m", streams=True, system="", items=history, tools=(), body={})
        assert with_withheld(wire, request, withheld, "r") == history

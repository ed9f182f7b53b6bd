"""Responses that end right behind their completion call are passed on as they came; only what follows it is cut."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

import pytest
from endstop import Policy
from endstop.follow import Follower
from endstop.proxy.agent_runs import AgentRuns
from endstop.proxy.bodies import read_request
from endstop.proxy.exchange import FollowedExchange
from endstop.proxy.proxy import WIRES as PROXY_WIRES

pytest.importorskip("anthropic", reason="Anthropic's client is not installed: `pip install .[test]` brings it")

from .vendors import WIRES, Wire

ON_WIRES = pytest.mark.parametrize("wire", WIRES, ids=lambda wire: type(wire).__name__)
SUMMARY = "The port is set to 8080."


class Seen(NamedTuple):
    """What came of a response: what its agent got, and how it was recorded."""

    passed: bytes
    exchange: FollowedExchange

    @property
    def cut(self) -> bool:
        return self.exchange.cut is not None


def parts_of(wire: Wire) -> tuple[bytes, bytes, bytes]:
    """A streamed response with a completion call: up to the call, more of the model, and the end."""
    whole = wire.whole("1", "", ("call_ab12cd34", "finish_task", json.dumps({"summary": SUMMARY})))
    groups = wire.events(whole)
    before, last = [event for group in groups[:-1] for event in group], groups[-1]
    framed = wire.frames([*before, wire.more(whole), *last])
    if not before:  # the call and the finish reason are one event
        framed = wire.frames([*last, wire.more(whole)])
        return b"", framed[1], framed[0]
    return b"".join(framed[: len(before)]), framed[len(before)], b"".join(framed[len(before) + 1 :])


def follow(wire: Wire, blocks: Sequence[bytes]) -> Seen:
    """Follow a response that arrives in these blocks, until its end or its cut."""
    path = wire.where(streams=True)
    proxy_wire = next(one for one in PROXY_WIRES if one.path.search(path.partition("?")[0]))
    asked = {**wire.asked([wire.prompt("go")], ("work", "finish_task")), **wire.stream_fields}
    request = read_request(proxy_wire, path, json.dumps(asked).encode())
    assert request is not None
    runs = AgentRuns(lambda agent: Follower(Policy(name="agent"), completion=("finish_task",)), lambda: 0.0)
    run, place = runs.find(request, "", "agent")
    exchange = FollowedExchange(proxy_wire, request, run, cuts=True)
    exchange.begin(place)
    passed = b""
    for block in blocks:
        passed += exchange.take_block(block)
        if exchange.cut is not None:
            return Seen(passed, exchange)
    return Seen(passed + exchange.end(), exchange)


def in_two(data: bytes) -> list[list[bytes]]:
    """All ways in which data may arrive in two blocks."""
    return [[data[:place], data[place:]] for place in range(1, len(data))]


@ON_WIRES
def test_a_response_that_ends_there_is_passed_on_byte_by_byte_with_its_tokens(wire: Wire) -> None:
    before, _, end = parts_of(wire)
    for blocks in [[before + end], *in_two(before + end)]:
        seen = follow(wire, blocks)
        assert seen.passed == before + end, blocks
        assert not seen.cut
        response = seen.exchange.response
        assert response is not None
        assert not response.usage.estimated
        assert [call.name for call in response.message.calls] == ["finish_task"]


@ON_WIRES
def test_what_the_model_goes_on_with_is_never_passed_on(wire: Wire) -> None:
    before, more, end = parts_of(wire)
    if not before:
        pytest.skip("the call, the finish reason and the usage are one event")
    for blocks in [[before + more + end], *in_two(before + more + end)]:
        seen = follow(wire, blocks)
        assert seen.cut, blocks
        assert seen.passed.startswith(before)
        assert b"again" not in seen.passed[len(before) :]
        assert seen.exchange.response is not None
        assert seen.exchange.response.usage.estimated


@ON_WIRES
def test_a_provider_that_says_nothing_behind_it_changes_nothing(wire: Wire) -> None:
    before, _, _ = parts_of(wire)
    if not before:
        pytest.skip("the call, the finish reason and the usage are one event")
    seen = follow(wire, [before])
    assert seen.cut
    assert seen.passed.startswith(before)
    assert seen.exchange.response is not None
    assert [call.name for call in seen.exchange.response.message.calls] == ["finish_task"]

"""What an agent gets that asks again after the proxy has ended its run: at most one text, then 400, then 404."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from endstop import Limits, Policy
from endstop.decision import POLICIES
from endstop.providers.prices import Prices
from endstop.proxy.day_budgets import DayBudgets

pytest.importorskip("anthropic", reason="Anthropic's client is not installed: `pip install .[test]` brings it")

from .agents import proxied
from .vendors import WIRES, Vendors, Wire

ON_WIRES = pytest.mark.parametrize("wire", WIRES, ids=lambda wire: type(wire).__name__)
KNOWN = "[ERROR] You did not use a tool."
"""Cline's own words, which are nobody's prompt."""
UNKNOWN = "The file is still missing."
LIMITED = Policy(limits=Limits(steps=3))


class Agent:
    """An agent that never ends by itself. nudge: what it adds in the user's role after a text."""

    def __init__(self, wire: Wire, url: str, client: aiohttp.ClientSession, nudge: str = "") -> None:
        self.wire, self._url, self._client, self._nudge = wire, url, client, nudge
        self.items: list[Any] = [wire.prompt("go")]
        self.bodies: list[dict[str, Any]] = []

    async def ask(self) -> tuple[int, str]:
        """Make one request, and add what it says. Returns its status, and the proxy's mark."""
        where, body = self.wire.where(streams=False), self.wire.asked(self.items, ("work",))
        async with self._client.post(f"{self._url}/v1{where}", json=body) as reply:
            whole = await reply.json()
            if reply.status == 200:
                said = self.wire.items(whole)
                calls = self.wire.calls(whole)
                nudge = [self.wire.prompt(self._nudge)] if self._nudge else []
                self.items = [*self.items, *said, *(self.wire.result(calls) if calls else nudge)]
            self.bodies.append(whole)
            return reply.status, reply.headers.get("x-endstop", "")

    async def ask_until_stopped(self) -> tuple[int, str]:
        for _ in range(20):
            answer = await self.ask()
            if answer[1]:
                return answer
        raise AssertionError("nothing stopped it")


@ON_WIRES
async def test_a_run_that_is_stopped_gets_400_once_and_then_404_in_the_form_of_its_wire(
    wire: Wire, tmp_path: Path
) -> None:
    vendors = Vendors("circle")
    async with proxied(vendors, tmp_path) as (url, client, proxy):
        agent = Agent(wire, url, client)
        answers = [await agent.ask_until_stopped(), *[await agent.ask() for _ in range(3)]]
        assert len(proxy.runs) == 1
    assert answers == [(400, "stopped"), *[(404, "stopped")] * 3]
    first, *later = (body["error"] for body in agent.bodies[-4:])
    kinds = [error[wire.error_kind] for error in (first, *later)]
    assert (kinds[0], {*kinds[1:]}) == (wire.error_kinds[0], {wire.error_kinds[1]})
    assert {error["message"] for error in later} == {first["message"]}
    assert "endstop_stuck" in json.dumps(first)
    assert len(vendors.requests) == 6


@pytest.mark.parametrize("nudge", ["", KNOWN, UNKNOWN], ids=["same request", "known words", "unknown words"])
@ON_WIRES
async def test_after_a_text_an_agent_without_a_new_prompt_gets_the_errors(
    wire: Wire, nudge: str, tmp_path: Path
) -> None:
    """The first time, words in the user's role may be a person's. The same words once more are the agent's own."""
    vendors = Vendors("circle")
    async with proxied(vendors, tmp_path, on_stop="text") as (url, client, _):
        agent = Agent(wire, url, client, nudge)
        assert await agent.ask_until_stopped() == (200, "stopped")
        if nudge == UNKNOWN:
            assert await agent.ask_until_stopped() == (200, "stopped")
        answers = [await agent.ask() for _ in range(3)]
        asked = len(vendors.requests)
        agent.items.append(wire.prompt("Now do something else."))
        assert await agent.ask() == (200, "")
    assert answers == [(400, "stopped"), (404, "stopped"), (404, "stopped")]
    assert asked == (12 if nudge == UNKNOWN else 6)


@ON_WIRES
async def test_closing_words_are_given_once(wire: Wire, tmp_path: Path) -> None:
    vendors = Vendors("worker")
    async with proxied(vendors, tmp_path, policy=LIMITED) as (url, client, _):
        agent = Agent(wire, url, client)
        answers = [await agent.ask_until_stopped(), *[await agent.ask() for _ in range(3)]]
    assert answers == [(200, "closing"), (400, "stopped"), (404, "stopped"), (404, "stopped")]
    assert len(vendors.requests) == 4


@ON_WIRES
async def test_a_prompt_of_a_person_begins_again_with_400(wire: Wire, tmp_path: Path) -> None:
    async with proxied(Vendors("circle"), tmp_path, policy=POLICIES["agent"]) as (url, client, _):
        agent = Agent(wire, url, client)
        for number in range(3):
            assert await agent.ask_until_stopped() == (400, "stopped")
            assert await agent.ask() == (404, "stopped")
            agent.items.append(wire.prompt(f"Try another way: {number}"))


@ON_WIRES
async def test_a_budget_of_the_day_that_is_spent_has_the_same_two_answers(wire: Wire, tmp_path: Path) -> None:
    budgets = DayBudgets({"output_tokens": 1.0}, {}, Prices(), lambda: "2026-01-01")
    async with proxied(Vendors("worker"), tmp_path, budgets=budgets) as (url, client, _):
        agent = Agent(wire, url, client)
        answers = [await agent.ask() for _ in range(4)]
    assert answers == [(200, ""), (400, "stopped"), (404, "stopped"), (404, "stopped")]

"""Budgets of a day over many agents, and for each key."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest
from endstop.cli.main import main
from endstop.decision import POLICIES, Usage
from endstop.providers.prices import Prices
from endstop.proxy.day_budgets import DayBudgets
from endstop.proxy.proxy_server import RunFollowers

from .agents import Provider, proxy_before, serving

FOLLOWERS = RunFollowers(policy=POLICIES["agent"], prices=Prices())
KEYS = [{"authorization": "Bearer sk-one"}, {"authorization": "Bearer sk-two"}]


def today() -> str:
    """A day that does not end while a test runs."""
    return "2026-01-01"


async def ask(client: aiohttp.ClientSession, url: str, key: dict[str, str], prompt: str) -> tuple[int, str | None]:
    """The status of a request, and the code of its error."""
    body = {"model": "m", "messages": [{"role": "user", "content": prompt}]}
    async with client.post(f"{url}/v1/chat/completions", json=body, headers=key) as reply:
        return reply.status, (await reply.json()).get("error", {}).get("code")


@pytest.mark.parametrize(
    ("limits", "second"),
    [(({"output_tokens": 1.0}, {}), (400, "endstop_budget")), (({}, {"output_tokens": 1.0}), (200, None))],
)
async def test_who_has_spent_the_budget_gets_an_error_and_others_by_whose_it_is(
    limits: tuple[dict[str, float], dict[str, float]], second: tuple[int, str | None]
) -> None:
    provider = Provider()
    async with (
        serving(provider.handle) as upstream,
        aiohttp.ClientSession() as client,
        proxy_before(upstream, FOLLOWERS, budgets=DayBudgets(*limits, Prices(), today)) as (url, _),
    ):
        assert await ask(client, url, KEYS[0], "a") == (200, None)
        assert await ask(client, url, KEYS[0], "b") == (400, "endstop_budget")
        assert await ask(client, url, KEYS[1], "c") == second


async def test_a_new_day_begins_unspent() -> None:
    days = ["2026-01-01"]
    budgets = DayBudgets({"input_tokens": 10.0}, {}, Prices(), lambda: days[-1])
    (await budgets.reserve("key", 5, None)).settle(Usage(input_tokens=12))
    refused = await budgets.reserve("key", 5, None)
    assert refused.detail == "the budget of today is spent: 12 of 10 input tokens"
    days.append("2026-01-02")
    assert (await budgets.reserve("key", 5, None)).refused is None
    await budgets.close()


async def test_a_request_waits_for_what_is_in_progress_and_one_that_is_given_up_holds_nothing() -> None:
    budgets = DayBudgets({"input_tokens": 10.0}, {}, Prices(), today)
    first = await budgets.reserve("a", 8, None)
    waiting = asyncio.create_task(budgets.reserve("b", 8, None))
    given_up = asyncio.create_task(budgets.reserve("c", 8, None))
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.wait([given_up])
    assert not waiting.done()
    first.settle(Usage(input_tokens=1))
    assert (await waiting).refused is None
    await budgets.close()


async def test_budgets_that_fail_hold_nothing_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("broken")

    budgets = DayBudgets({"output_tokens": 1.0}, {}, Prices(), today)
    monkeypatch.setattr(budgets, "reserve", fail)
    async with (
        serving(Provider().handle) as upstream,
        aiohttp.ClientSession() as client,
        proxy_before(upstream, FOLLOWERS, budgets=budgets) as (url, _),
    ):
        for prompt in "ab":
            assert await ask(client, url, KEYS[0], prompt) == (200, None)


async def test_agents_that_begin_alike_while_one_waits_for_the_budget_are_runs_of_their_own() -> None:
    provider = Provider()
    budgets = DayBudgets({"input_tokens": 1000.0}, {}, Prices(), today)
    async with (
        serving(provider.handle) as upstream,
        aiohttp.ClientSession() as client,
        proxy_before(upstream, FOLLOWERS, budgets=budgets) as (url, proxy),
    ):
        held = await budgets.reserve("another's request", 1000, None)
        asked = [asyncio.create_task(ask(client, url, KEYS[0], "the same for all")) for _ in range(4)]
        async with asyncio.timeout(30):
            while proxy.running < 4:
                await asyncio.sleep(0)
        assert not provider.requests
        held.settle(Usage(input_tokens=1))
        assert await asyncio.gather(*asked) == [(200, None)] * 4
        assert len(proxy.runs) == 4


@pytest.mark.parametrize("given", ["cost_usd", "cost_usd=much", "cost_usd=-1", "money=3"])
def test_a_budget_that_says_nothing_is_refused(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["proxy", "--upstream", "http://127.0.0.1:9", "--budget", given]) == 2
    assert "write NAME=AMOUNT" in capsys.readouterr().err

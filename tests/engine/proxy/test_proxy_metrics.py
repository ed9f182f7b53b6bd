"""Metrics of the proxy: the provider's replies and latency, what is left of budgets, and runs without a record."""

from __future__ import annotations

from pathlib import Path

import aiohttp
from endstop.decision import POLICIES, Usage
from endstop.http.document_page import report_html
from endstop.process.tokens import Tokens
from endstop.providers.prices import Prices
from endstop.proxy.day_budgets import DayBudgets
from endstop.proxy.proxy_server import RunFollowers
from endstop.proxy.statistics_page import Statistics, metrics, statistics_page

from ...prometheus_format import Exposition, read
from .agents import Provider, proxied, proxy_before, run_agent

FOLLOWERS = RunFollowers(policy=POLICIES["agent"], prices=Prices(), completion=("finish_task",))


async def shown(client: aiohttp.ClientSession, url: str) -> Exposition:
    async with client.get(f"{url}/endstop/metrics") as reply:
        return read(await reply.text())


async def test_each_reply_of_the_provider_is_counted_with_its_beginning_and_its_end(tmp_path: Path) -> None:
    async with proxied(Provider(), tmp_path) as (url, client, _):
        await run_agent(url, client, streams=True)  # its last response is cut
        async with client.get(f"{url}/v1/models") as reply:
            await reply.read()
        seen = await shown(client, url)
    assert seen.by("endstop_proxy_provider_replies_total", "status") == {"200": 4}
    assert seen.value("endstop_proxy_first_byte_seconds_count") == 4
    assert seen.value("endstop_proxy_response_seconds_count") == 4
    first, whole = (seen.value(f"endstop_proxy_{what}_seconds_sum") for what in ("first_byte", "response"))
    assert 0 < first <= whole


async def test_a_provider_that_is_not_there_is_no_reply() -> None:
    async with (
        proxy_before("http://127.0.0.1:9", FOLLOWERS) as (url, _),
        aiohttp.ClientSession() as client,
    ):
        async with client.post(f"{url}/v1/chat/completions", json={"model": "m", "messages": []}) as reply:
            assert reply.status == 502
        seen = await shown(client, url)
    assert seen.by("endstop_proxy_provider_replies_total", "status") == {"none": 1}
    assert seen.value("endstop_proxy_first_byte_seconds_count") == 0


async def test_what_is_left_of_budgets_is_that_of_everybody_and_of_the_key_with_the_least() -> None:
    budgets = DayBudgets({"input_tokens": 100.0, "cost_usd": 2.0}, {"output_tokens": 50.0}, Prices())
    for key, used in (("a", 10), ("b", 30), ("c", 20)):
        held = await budgets.reserve(key, 1, None)
        held.settle(Usage(input_tokens=used, output_tokens=used))
    async with (
        proxy_before("http://127.0.0.1:9", FOLLOWERS, budgets=budgets) as (url, _),
        aiohttp.ClientSession() as client,
    ):
        seen = await shown(client, url)

    def value(name: str, budget: str, limit: str) -> float:
        return seen.value(f"endstop_proxy_budget_{name}", budget=budget, limit=limit)

    assert value("limit", "everybody", "input_tokens") == 100
    assert value("left", "everybody", "input_tokens") == 40
    assert value("left", "everybody", "cost_usd") == 2
    assert value("left", "key", "output_tokens") == 20
    assert "budget" not in read(metrics(Statistics(), 0, 0)).kinds


def test_runs_without_a_record_are_in_the_metrics_and_on_the_page() -> None:
    statistics = Statistics()
    assert "could not be written" not in report_html(statistics_page(statistics, 0, "http://x", dry_run=False)).html
    statistics.count_unrecorded_run()
    assert read(metrics(statistics, 0, 0)).value("endstop_proxy_unrecorded_runs_total") == 1
    shown = statistics_page(statistics, 0, "http://x", dry_run=False)
    assert "runs whose record could not be written" in report_html(shown).html


async def test_metrics_take_a_token_where_the_proxy_has_tokens() -> None:
    async with (
        proxy_before("http://127.0.0.1:9", FOLLOWERS, tokens=Tokens({"me": "own-token"})) as (url, _),
        aiohttp.ClientSession() as client,
        client.get(f"{url}/endstop/metrics") as reply,
    ):
        assert reply.status == 401

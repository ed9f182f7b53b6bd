"""What the proxy says of what it saw and saved: its page and its metrics."""

from __future__ import annotations

from pathlib import Path

import aiohttp
from aiohttp import web
from endstop.decision import POLICIES, Usage
from endstop.http.document_page import report_html
from endstop.process.tokens import Tokens
from endstop.providers.prices import Prices
from endstop.proxy.proxy_server import RunFollowers
from endstop.proxy.statistics_page import Statistics, metrics, statistics_page

from ...captured_logs import capture_logs
from ..cli.pages import held, links, section, words
from .agents import Provider, proxied, proxy_before, run_agent
from .test_unstreamed_agents import ChatProvider


class Broken:
    """A provider that refuses each key."""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        return web.json_response({"error": {"message": "no such key"}}, status=401)


FOLLOWERS = RunFollowers(policy=POLICIES["agent"], prices=Prices(), completion=("finish_task",))


def values_of(text: str) -> dict[str, float]:
    """Prometheus' text format: each sample by its name and labels."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


async def test_metrics_count_what_was_passed_cut_answered_and_stopped(tmp_path: Path) -> None:
    async with proxied(Provider(), tmp_path) as (url, client, _):
        await run_agent(url, client, streams=True)
        async with client.get(f"{url}/v1/models") as reply:
            await reply.read()
        async with client.get(f"{url}/endstop/metrics") as reply:
            assert reply.content_type == "text/plain"
            seen = values_of(await reply.text())
        async with client.get(f"{url}/endstop/") as reply:
            shown = await reply.text()
            policy = reply.headers["content-security-policy"]
            assert policy.startswith("default-src 'none'; script-src 'sha256-")
            assert policy.endswith("frame-ancestors 'none'")
    assert seen['endstop_proxy_requests_total{handling="followed"}'] == 3
    assert seen['endstop_proxy_requests_total{handling="answered"}'] == 1
    assert seen['endstop_proxy_requests_total{handling="passed"}'] == 1
    assert seen['endstop_proxy_cut_responses_total{reason="completion"}'] == 1
    assert seen['endstop_proxy_ended_runs_total{reason="completed"}'] == 1
    assert seen["endstop_proxy_estimated_tokens_total"] > 0
    assert seen["endstop_proxy_saved_input_tokens_estimated_total"] > 0
    assert "answered here after a completion" in shown
    document = held(shown)
    (requests,) = section(document, "requests")
    assert {row[0]: row[2]["text"] for row in requests["rows"]}["followed and passed on"] == "3"
    assert list(links(document)) == ["metrics"]


async def test_each_run_that_ends_is_one_line_of_the_log(tmp_path: Path) -> None:
    with capture_logs() as logs:
        async with proxied(Provider(), tmp_path) as (url, client, proxy):
            await run_agent(url, client, streams=True)
            proxy.runs.close()
    (line,) = [log for log in logs if log["event"] == "run ended"]
    assert (line["log_level"], line["status"], line["reason"], line["steps"]) == ("info", "completed", "completed", 3)
    (record,) = tmp_path.glob("*/*.jsonl")
    assert line["session_id"] == record.stem


async def test_a_run_whose_provider_fails_is_a_warning_with_the_kind(tmp_path: Path) -> None:
    with capture_logs() as logs:
        async with proxied(Broken(), tmp_path) as (url, client, proxy):
            body = {"model": "m", "messages": [{"role": "user", "content": "go"}]}
            async with client.post(f"{url}/v1/chat/completions", json=body) as reply:
                assert reply.status == 401
            proxy.runs.close()
    (line,) = [log for log in logs if log["event"] == "run ended"]
    assert (line["log_level"], line["status"], line["kind"]) == ("warning", "failed", "auth")


async def test_tokens_of_responses_that_came_past_the_proxy_are_not_counted(tmp_path: Path) -> None:
    said = [{"role": "user", "content": "go"}, {"role": "assistant", "content": "word " * 1000}]
    body = {"model": "m", "messages": [*said, {"role": "user", "content": "go on"}]}
    async with proxied(ChatProvider(), tmp_path) as (url, client, proxy):
        async with client.post(f"{url}/v1/chat/completions", json=body) as reply:
            assert reply.status == 200
        assert proxy.statistics.total.usage == Usage(input_tokens=9, output_tokens=5)
        assert proxy.statistics.total.estimated_tokens == 0


async def test_a_dry_run_counts_what_it_would_have_stopped(tmp_path: Path) -> None:
    async with proxied(Provider(same=True), tmp_path, dry_run=True) as (url, client, _):
        await run_agent(url, client, streams=True, most=7)
        async with client.get(f"{url}/endstop/metrics") as reply:
            seen = values_of(await reply.text())
    assert seen['endstop_proxy_dry_run_stops_total{reason="stuck"}'] == 1
    assert seen['endstop_proxy_requests_total{handling="followed"}'] == 7


async def test_the_page_is_for_this_machine_or_who_has_a_token() -> None:
    elsewhere = {"host": "evil.example"}
    async with (
        proxy_before("http://127.0.0.1:9", FOLLOWERS) as (url, _),
        aiohttp.ClientSession() as client,
        client.get(f"{url}/endstop/", headers=elsewhere) as reply,
    ):
        assert reply.status == 421
    tokens = Tokens({"me": "own-token"})
    async with (
        proxy_before("http://127.0.0.1:9", FOLLOWERS, tokens=tokens) as (url, _),
        aiohttp.ClientSession() as client,
    ):
        async with client.get(f"{url}/endstop/", headers=elsewhere) as reply:
            assert reply.status == 401
        async with client.get(f"{url}/endstop/", headers={**elsewhere, "x-endstop-token": "own-token"}) as reply:
            assert reply.status == 200


def test_a_new_day_begins_at_nothing_and_the_metrics_go_on() -> None:
    days = ["2026-01-01"]
    statistics = Statistics(lambda: days[-1])
    statistics.count_request("followed")
    days.append("2026-01-02")
    assert statistics.day.requests["followed"] == 0
    statistics.count_request("followed")
    assert statistics.day.requests["followed"] == 1
    assert values_of(metrics(statistics, 0, 0))['endstop_proxy_requests_total{handling="followed"}'] == 2


def test_names_from_elsewhere_are_text_on_the_page_and_in_the_metrics() -> None:
    statistics = Statistics()
    statistics.count_cut('<b>"a\n')
    shown = report_html(statistics_page(statistics, 0, "http://x", dry_run=False)).html
    assert "<b>" + '"a' not in shown
    assert "<b>" + '"a\n' in words(held(shown))
    assert 'reason="<b>\\"a\\n"' in metrics(statistics, 0, 0)

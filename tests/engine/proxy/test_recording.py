"""Where the proxy records runs, what it says of those that it cannot record, and which records it deletes."""

from __future__ import annotations

import asyncio
import logging
import os
from datetime import timedelta
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from endstop import read_record
from endstop.decision import POLICIES
from endstop.http.document_page import report_html
from endstop.providers.prices import Prices
from endstop.proxy.proxy_server import RunFollowers
from endstop.proxy.recording import BATCH_PAUSE, BATCH_RECORDS, DAY_SECONDS, RecordLosses, delete_daily
from endstop.proxy.statistics_page import Statistics, metrics, statistics_page
from endstop.records.files import find_records
from endstop.records.retention import day_folder
from endstop.testing import FakeClock

from ...console import endstop
from .agents import Provider, proxy_before, run_agent, serving, tool


def followers_in(folder: Path, statistics: Statistics, clock: FakeClock) -> RunFollowers:
    return RunFollowers(
        policy=POLICIES["agent"],
        prices=Prices(),
        completion=("finish_task",),
        folder=folder,
        losses=RecordLosses(statistics.count_unrecorded_run, clock.now),
        clock=clock,
    )


def said(caplog: pytest.LogCaptureFixture, words: str) -> list[str]:
    return [entry.getMessage() for entry in caplog.records if words in entry.getMessage()]


async def test_the_records_of_each_day_are_in_a_folder_and_commands_find_them(tmp_path: Path) -> None:
    clock = FakeClock()
    followers = followers_in(tmp_path, Statistics(), clock)
    first = followers.open("agent")
    await clock.advance(DAY_SECONDS)
    second = followers.open("agent")
    paths = [path for path in (first.record, second.record) if path is not None]
    assert [path.parent.name for path in paths] == ["2026-01-01", "2026-01-02"]
    for follower in (first, second):
        follower.prompt("go")
        follower.close()
    flat = tmp_path / "session_000000000000.jsonl"
    flat.write_bytes(paths[0].read_bytes())  # of an earlier version
    assert find_records([tmp_path]) == [*paths, flat]
    for command in (("report", "--no-index", "--quiet"), ("backtest", "--policy", "agent", "--quiet")):
        assert (await endstop(command[0], tmp_path, *command[1:])).code == 0


async def test_runs_that_cannot_be_recorded_are_counted_and_make_a_line_a_minute(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder, statistics, clock, provider = tmp_path / "records", Statistics(), FakeClock(), Provider()
    folder.write_text("a file where the folder should be")
    followers = followers_in(folder, statistics, clock)
    with caplog.at_level(logging.WARNING):
        async with (
            serving(provider.handle) as upstream,
            aiohttp.ClientSession() as client,
            proxy_before(upstream, followers, statistics=statistics) as (url, proxy),
        ):
            for number in range(5):
                done = await run_agent(url, client, streams=True, prompt=f"task {number}")
                assert done == (4, 200, "port is 8080", "answered"), "it is followed all the same"
            assert statistics.total.unrecorded_runs == 5
            assert statistics.total.unfollowed_runs == 0
            assert "endstop_proxy_unrecorded_runs_total 5\n" in metrics(statistics, 0, len(proxy.runs))
            shown = statistics_page(statistics, 0, upstream, dry_run=False)
            assert "record could not be written" in report_html(shown).html
            assert len(said(caplog, "runs are not recorded")) == 1
            await clock.advance(60)
            await run_agent(url, client, streams=True, prompt="task 6")
            assert "failures=5" in said(caplog, "runs are not recorded")[-1]
            folder.unlink()
            await run_agent(url, client, streams=True, prompt="task 7")
    assert len(said(caplog, "runs are not recorded")) == 2 + 1
    assert said(caplog, "back after 60 s")
    (record,) = find_records([folder])
    assert read_record(record).runs[0].started.prompt == "task 7"


def old_record(folder: Path, clock: FakeClock, days: float, number: int) -> Path:
    then = clock.wall() - timedelta(days=days)
    path = day_folder(folder, then.date()) / f"session_{number:012x}.jsonl"
    path.parent.mkdir(exist_ok=True)
    path.touch()
    os.utime(path, (then.timestamp(),) * 2)
    return path


async def test_old_records_are_deleted_once_a_day_in_batches_with_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock, more = FakeClock(), 7
    for number in range(BATCH_RECORDS + more):
        old_record(tmp_path, clock, 40, number)
    kept = old_record(tmp_path, clock, 29.5, 1)
    with caplog.at_level(logging.INFO, "endstop"):
        deleting = asyncio.create_task(delete_daily(tmp_path, 30, clock))

        async def wait_until_asleep(before: int) -> None:
            async with asyncio.timeout(30):
                while not clock._sleepers or len([*tmp_path.rglob("*.jsonl")]) > before:
                    await asyncio.sleep(0)

        try:
            await wait_until_asleep(more + 1)
            assert len(find_records([tmp_path])) == more + 1
            await clock.advance(BATCH_PAUSE)
            await wait_until_asleep(1)
            await clock.advance(BATCH_PAUSE)
            await wait_until_asleep(1)
            assert find_records([tmp_path]) == [kept]
            assert len(said(caplog, f"old records were deleted folder={tmp_path} deleted={BATCH_RECORDS + more}")) == 1
            await clock.advance(DAY_SECONDS)
            await wait_until_asleep(0)
            assert not kept.exists()
        finally:
            deleting.cancel()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--keep-days", "3"), "--keep-days is about records: give their folder with --record DIR"),
        (("--record", "records", "--keep-days", "0"), "--keep-days is 0: use 1 or more"),
    ],
)
async def test_days_that_cannot_be_meant_are_refused(options: tuple[str, ...], why: str, tmp_path: Path) -> None:
    done = await endstop("proxy", "--upstream", "http://127.0.0.1:9", *options, cwd=tmp_path)
    assert (done.code, done.err) == (2, f"endstop: {why}\n")


async def test_a_provider_that_is_away_makes_a_line_a_minute_and_one_when_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    away, clock = True, FakeClock()

    async def handle(request: web.Request) -> web.StreamResponse:
        return web.Response(status=503) if away else web.Response(status=404)

    followers = RunFollowers(policy=POLICIES["agent"], prices=Prices())
    body = {"model": "m", "messages": [{"role": "user", "content": "go"}], "tools": [tool("work")]}
    with caplog.at_level(logging.WARNING):
        async with (
            serving(handle) as upstream,
            aiohttp.ClientSession() as client,
            proxy_before(upstream, followers, clock=clock) as (url, _),
        ):

            async def ask(times: int) -> None:
                for _ in range(times):
                    async with client.post(f"{url}/v1/chat/completions", json=body) as reply:
                        await reply.read()

            await ask(10)
            assert len(said(caplog, "the provider does not answer")) == 1
            assert "HTTP 503" in said(caplog, "the provider does not answer")[0]
            await clock.advance(61)
            await ask(2)
            lines = said(caplog, "the provider does not answer")
            assert len(lines) == 2
            assert "failures=10 seconds=61" in lines[-1]
            away = False
            await ask(3)
            assert len(said(caplog, "back after 61 s")) == 1


async def test_a_provider_that_cannot_be_reached_is_named_without_its_keys(caplog: pytest.LogCaptureFixture) -> None:
    followers = RunFollowers(policy=POLICIES["agent"], prices=Prices())
    with caplog.at_level(logging.WARNING):
        async with (
            aiohttp.ClientSession() as client,
            proxy_before("http://127.0.0.1:9", followers) as (url, _),
            client.get(f"{url}/v1/models", headers={"authorization": "Bearer sk-0123456789abcdefghij"}) as reply,
        ):
            assert reply.status == 502
    (line,) = said(caplog, "the provider does not answer")
    assert "127.0.0.1:9" in line
    assert "sk-0123456789" not in line

"""The file of the proxy's budgets: shared by processes, kept beyond their end, and open where it fails."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import date
from pathlib import Path

import aiohttp
import pytest
from endstop.cli.main import main
from endstop.decision import Usage
from endstop.decision.events import BudgetRefused
from endstop.providers.prices import Prices
from endstop.proxy import budget_store, day_budgets
from endstop.proxy.budget_store import EVERYBODY, PROCESS_SECONDS, BudgetRequest, BudgetStore
from endstop.proxy.day_budgets import DayBudgets

from ...console import PATIENCE, started
from .agents import proxied, serving
from .test_proxy_command import url_said_by
from .test_statistics import values_of
from .test_unstreamed_agents import ChatProvider

TODAY = "2026-03-01"


def request(
    name: str, tokens: int, *, allowed: float = 10.0, day: str = TODAY, budget: bytes = EVERYBODY
) -> BudgetRequest:
    return BudgetRequest(
        name=name, day=day, budgets={budget: {"input_tokens": allowed}}, expected=Usage(input_tokens=tokens)
    )


@pytest.fixture
def store_at() -> Iterator[Callable[..., BudgetStore]]:
    """Stores with these arguments, which are closed after the test."""
    with ExitStack() as stores:
        yield lambda *arguments: stores.enter_context(closing(BudgetStore(*arguments)))


def end(store: BudgetStore, one: BudgetRequest, tokens: int | None) -> None:
    store.note_end(one, None if tokens is None else Usage(input_tokens=tokens, cost_usd=0.5))
    store.write()


def test_what_one_process_reserves_and_spends_another_sees(
    tmp_path: Path, store_at: Callable[..., BudgetStore]
) -> None:
    path = tmp_path / "budgets"
    one, other = store_at(path), store_at(path)
    first = request("a", 8)
    assert one.reserve(first) is True
    assert other.reserve(request("b", 8)) is False
    end(one, first, 3)
    second = request("c", 7)
    assert other.reserve(second) is True
    end(other, second, 7)
    assert one.reserve(request("d", 1)) == BudgetRefused(step=0, limit="input_tokens", used=10, allowed=10)
    assert one.spent(TODAY, EVERYBODY) == Usage(input_tokens=10, cost_usd=1.0)


def test_a_request_that_fits_in_one_budget_and_not_in_the_other_holds_nothing(
    tmp_path: Path, store_at: Callable[..., BudgetStore]
) -> None:
    store = store_at(tmp_path / "budgets")
    assert store.reserve(request("a", 5, budget=b"key")) is True
    both = BudgetRequest(
        name="b",
        day=TODAY,
        budgets={EVERYBODY: {"input_tokens": 10.0}, b"key": {"input_tokens": 10.0}},
        expected=Usage(input_tokens=8),
    )
    assert store.reserve(both) is False
    assert store.reserve(request("c", 100)) is True  # as the only one for everybody


def test_a_new_process_knows_what_was_spent_and_the_keys_that_are_written_nowhere(tmp_path: Path) -> None:
    path = tmp_path / "budgets"
    with closing(BudgetStore(path)) as store:
        store.open()
        digest = store.digest("Bearer sk-secret")
        one = request("a", 1, budget=digest)
        assert store.reserve(one) is True
        end(store, one, 10)
    assert path.stat().st_mode & 0o777 == 0o600
    with closing(BudgetStore(path)) as store:
        store.open()
        assert store.digest("Bearer sk-secret") == digest
        assert isinstance(store.reserve(request("b", 1, budget=digest)), BudgetRefused)
        assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {0o600}
    assert all(b"sk-secret" not in file.read_bytes() for file in tmp_path.iterdir())
    with closing(BudgetStore(tmp_path / "other")) as other:
        other.open()
        assert other.digest("Bearer sk-secret") != digest


def test_what_a_dead_process_has_reserved_counts_as_spent_after_a_while(
    tmp_path: Path, store_at: Callable[..., BudgetStore]
) -> None:
    now = [1000.0]
    one = store_at(tmp_path / "budgets", lambda: now[0])
    other = store_at(tmp_path / "budgets", lambda: now[0])
    assert one.reserve(request("a", 8)) is True
    now[0] += PROCESS_SECONDS - 1
    assert other.reserve(request("b", 8)) is False
    one.write()  # it lives
    now[0] += PROCESS_SECONDS - 1
    assert other.reserve(request("b", 8)) is False
    assert other.spent(TODAY, EVERYBODY).input_tokens == 0
    now[0] += 2
    assert other.reserve(request("b", 8)) is True
    assert other.spent(TODAY, EVERYBODY).input_tokens == 8
    other.write()
    assert other.spent(TODAY, EVERYBODY).input_tokens == 8  # once


def test_a_process_that_was_asleep_does_not_take_itself_for_dead(
    tmp_path: Path, store_at: Callable[..., BudgetStore]
) -> None:
    now = [1000.0]
    store = store_at(tmp_path / "budgets", lambda: now[0])
    held = request("a", 8)
    assert store.reserve(held) is True
    now[0] += 10 * PROCESS_SECONDS
    end(store, held, 3)
    assert store.spent(TODAY, EVERYBODY).input_tokens == 3


def test_a_request_counts_for_the_day_on_which_it_began_and_old_days_are_deleted(
    tmp_path: Path, store_at: Callable[..., BudgetStore]
) -> None:
    store = store_at(tmp_path / "budgets")
    before = request("a", 1, day="2026-02-28")
    assert store.reserve(before) is True
    assert store.reserve(request("b", 8)) is True
    end(store, before, 10)
    assert store.spent("2026-02-28", EVERYBODY).input_tokens == 10
    assert store.spent(TODAY, EVERYBODY).input_tokens == 0
    assert store.reserve(request("c", 8, day="2026-03-02")) is True
    assert store.spent("2026-02-28", EVERYBODY) == Usage(cost_usd=0.0)


def test_very_many_keys_share_the_last_budget(
    tmp_path: Path, store_at: Callable[..., BudgetStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget_store, "MOST_KEYS", 3)
    store = store_at(tmp_path / "budgets")
    for key in (b"a", b"b", b"c", b"d"):
        one = request(key.decode(), 1, budget=key)
        assert store.reserve(one) is True
        end(store, one, 10)
    assert isinstance(store.reserve(request("e", 1, budget=b"e")), BudgetRefused)  # it shares that of d
    assert store.reserve(request("f", 1)) is True  # everybody's is never among them


def other_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE notes (text)")
    path.chmod(0o600)


def newer(path: Path) -> None:
    with closing(BudgetStore(path)) as store:
        store.open()
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 99")


def readable(path: Path) -> None:
    path.touch()
    path.chmod(0o640)


def garbage(path: Path) -> None:
    path.write_bytes(b"no database" * 1000)
    path.chmod(0o600)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (garbage, "not a database"),
        (other_database, "it is a database, but not a store of the proxy's budgets"),
        (newer, "it has version 99"),
        (readable, "chmod 600"),
        (Path.mkdir, "directory"),
    ],
)
def test_a_file_that_cannot_be_used_is_said_at_the_start_and_left_as_it_is(
    make: Callable[[Path], object], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "budgets"
    make(path)
    before = path.read_bytes() if path.is_file() else b""
    options = ["--upstream", "http://127.0.0.1:9", "--budget", "cost_usd=1", "--budget-store", str(path)]
    assert main(["proxy", *options]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert str(path) in err
    assert not path.is_file() or path.read_bytes() == before


def test_a_store_without_a_budget_or_a_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    upstream = ["proxy", "--upstream", "http://127.0.0.1:9"]
    assert main([*upstream, "--budget-store", str(tmp_path / "budgets")]) == 2
    assert "give --budget or --key-budget" in capsys.readouterr().err
    assert main([*upstream, "--budget", "cost_usd=1", "--budget-store", str(tmp_path / "no" / "budgets")]) == 2
    assert "No such file or directory" in capsys.readouterr().err


def test_a_proxy_that_is_refused_for_another_reason_leaves_the_store_closed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "budgets"
    options = ["--budget", "cost_usd=1", "--budget-store", str(path), "--tokens", str(tmp_path / "no file")]
    assert main(["proxy", "--upstream", "http://127.0.0.1:9", *options]) == 2
    assert "no file" in capsys.readouterr().err
    gc.collect()  # Python 3.13 warns of a connection that is not closed
    assert [*tmp_path.iterdir()] == [path]


# ---- a store that fails while it is used


def lock(path: Path) -> Callable[[], None]:
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("BEGIN EXCLUSIVE")
    return database.close


def damage(path: Path) -> Callable[[], None]:
    for file in path.parent.glob("budgets*"):
        with file.open("r+b") as opened:
            opened.write(b"\x00garbage" * (file.stat().st_size // 8))
    return lambda: [file.unlink() for file in path.parent.glob("budgets*")].clear()


def delete(path: Path) -> Callable[[], None]:
    path.unlink()
    return lambda: None


def forbid(path: Path) -> Callable[[], None]:
    path.chmod(0o644)  # as somebody may do who wants to look into it; tests run as root, whom nothing else stops
    os.replace(path, f"{path}-kept")
    readable(path)
    return lambda: os.replace(f"{path}-kept", path) or path.chmod(0o600)  # type: ignore[func-returns-value]


FAULTS = [lock, damage, delete, forbid]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that failed is tried again at once, and another process's lock is not waited for."""
    monkeypatch.setattr(budget_store, "LOCK_SECONDS", 0.01)
    monkeypatch.setattr(day_budgets, "RETRY_SECONDS", 0.0)


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_store_that_fails_lets_requests_through_and_holds_again_once_it_is_mended(
    fault: Callable[[Path], Callable[[], None]], quick: None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "budgets"
    budgets = DayBudgets({"input_tokens": 10.0}, {}, Prices(), lambda: TODAY, BudgetStore(path))
    held = await budgets.reserve("key", 5, None)
    assert (held.open, budgets.problem) == (False, "")
    mend = fault(path)
    async with asyncio.timeout(PATIENCE):
        opened = await budgets.reserve("key", 500, None)
    assert (opened.open, opened.refused) == (True, None)
    assert budgets.problem
    opened.settle(Usage(input_tokens=6))
    held.settle(Usage(input_tokens=6))
    mend()
    async with asyncio.timeout(PATIENCE):
        while (after := await budgets.reserve("key", 5, None)).open:
            after.settle(None)
    assert budgets.problem == ""
    assert after.detail == "the budget of today is spent: 12 of 10 input tokens"  # what was used meanwhile counts
    await budgets.close()


async def test_a_store_that_has_just_failed_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget_store, "LOCK_SECONDS", 0.01)
    monkeypatch.setattr(day_budgets, "RETRY_SECONDS", 1e9)
    store = BudgetStore(tmp_path / "budgets")
    store.open()
    budgets = DayBudgets({"input_tokens": 10.0}, {}, Prices(), lambda: TODAY, store)
    mend = lock(tmp_path / "budgets")
    assert (await budgets.reserve("key", 5, None)).open
    mend()
    asked = []
    monkeypatch.setattr(store, "reserve", asked.append)
    together = await asyncio.gather(*(budgets.reserve("key", 5, None) for _ in range(100)))
    assert all(one.open for one in together)
    assert asked == []
    await budgets.close()


async def test_a_request_waits_for_one_of_another_process(tmp_path: Path) -> None:
    here, there = (
        DayBudgets({"input_tokens": 10.0}, {}, Prices(), lambda: TODAY, BudgetStore(tmp_path / "budgets"))
        for _ in range(2)
    )
    first = await here.reserve("a", 8, None)
    waiting = asyncio.create_task(there.reserve("b", 8, None))
    given_up = asyncio.create_task(there.reserve("c", 8, None))
    done, _ = await asyncio.wait([waiting], timeout=2 * day_budgets.POLL_SECONDS)
    assert not done
    given_up.cancel()
    await asyncio.wait([given_up])
    first.settle(Usage(input_tokens=1))
    async with asyncio.timeout(PATIENCE):
        assert (await waiting).refused is None
    await here.close()
    await there.close()


async def test_a_store_that_never_answers_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(day_budgets, "STORE_SECONDS", 0.01)
    store = BudgetStore(tmp_path / "budgets")
    store.open()
    database = sqlite3.connect(tmp_path / "budgets", isolation_level=None)
    database.execute("BEGIN EXCLUSIVE")  # the store waits for longer than the request
    budgets = DayBudgets({"input_tokens": 10.0}, {}, Prices(), lambda: TODAY, store)
    assert (await budgets.reserve("key", 5, None)).open
    assert budgets.problem == "it gave no answer within 0.01 s"
    database.close()
    monkeypatch.setattr(day_budgets, "STORE_SECONDS", PATIENCE)
    await budgets.close()
    with closing(BudgetStore(tmp_path / "budgets")) as again:
        assert again.reserve(request("b", 100)) is True  # nothing is reserved any more


@pytest.mark.parametrize("fault", FAULTS)
async def test_responses_metrics_and_page_say_that_the_budgets_are_open(
    fault: Callable[[Path], Callable[[], None]], quick: None, tmp_path: Path
) -> None:
    path = tmp_path / "store" / "budgets"
    path.parent.mkdir()
    budgets = DayBudgets({"output_tokens": 1.0}, {}, Prices(), lambda: TODAY, BudgetStore(path))
    async with proxied(ChatProvider(), tmp_path, budgets=budgets) as (url, client, _):
        assert await ask(client, url) == (200, None)
        assert await ask(client, url) == (400, None)
        mend = fault(path)
        assert await ask(client, url) == (200, "open")
        async with client.get(f"{url}/endstop/metrics") as reply:
            seen = values_of(await reply.text())
        async with client.get(f"{url}/endstop/") as reply:
            shown = await reply.text()
        mend()
    assert seen["endstop_proxy_open_budget_requests_total"] == 1
    assert seen["endstop_proxy_budgets_open"] == 1
    assert "The budgets limit nothing" in shown


async def ask(client: aiohttp.ClientSession, url: str) -> tuple[int, str | None]:
    """The status of a request, and what is said of the budgets."""
    body = {"model": "m", "messages": [{"role": "user", "content": os.urandom(4).hex()}]}
    async with client.post(f"{url}/v1/chat/completions", json=body, headers={"authorization": "Bearer sk-1"}) as reply:
        if reply.status == 400:
            assert (await reply.json())["error"]["code"] == "endstop_budget"
        return reply.status, reply.headers.get("x-endstop-budget")


# ---- processes


async def test_proxies_share_a_limit_and_one_that_is_started_again_knows_it(tmp_path: Path) -> None:
    """Two processes and one limit of 12 tokens, with 5 in each response."""
    path = tmp_path / "budgets"
    provider = ChatProvider()
    async with serving(provider.handle) as upstream, aiohttp.ClientSession() as client:
        limit = ("--budget", "output_tokens=12", "--budget-store", path)
        options = ("--upstream", f"{upstream}/v1", "--port", "0", *limit)
        async with started("proxy", *options) as one:
            url = await url_said_by(one)
            async with started("proxy", *options) as other:
                other_url = await url_said_by(other)
                for place in (url, other_url, url):
                    assert await ask(client, place) == (200, None)
                for place in (other_url, url):
                    assert await ask(client, place) == (400, None)
                other.send_signal(signal.SIGKILL)
                async with asyncio.timeout(PATIENCE):
                    await other.wait()
            async with started("proxy", *options) as again:
                again_url = await url_said_by(again)
                assert await ask(client, again_url) == (400, None)
                assert await ask(client, url) == (400, None)
    assert len(provider.requests) == 3
    with closing(BudgetStore(path)) as store:
        assert store.spent(date.today().isoformat(), EVERYBODY).output_tokens == 15
    assert b"sk-1" not in path.read_bytes()


async def test_a_disk_that_is_full_lets_requests_through_and_is_logged_once(tmp_path: Path) -> None:
    provider = ChatProvider()
    async with serving(provider.handle) as upstream, aiohttp.ClientSession() as client:
        limit = ("--budget", "output_tokens=1000", "--budget-store", tmp_path / "budgets")
        async with started("proxy", "--upstream", f"{upstream}/v1", "--port", "0", *limit) as process:
            url = await url_said_by(process)
            assert await ask(client, url) == (200, None)
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, 0))  # no file can grow
            assert [await ask(client, url) for _ in range(3)] == [(200, "open")] * 3
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(PATIENCE):
                _, err = await process.communicate()
    assert process.returncode == 0
    assert err.decode().count("they limit nothing") == 1

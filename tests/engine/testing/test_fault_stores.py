"""`check_store`: SQLite and PostgreSQL keep the protocol, and each case is shown to fail on a store with a defect."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from endstop import WrongUse
from endstop.store.base import SessionLocked, StoreError
from endstop.store.sql import SqlStore
from endstop.store.url import store_at
from endstop.testing.faults import FaultReport, check_store, store_checks
from msgspec import structs

from ...postgres import Server


def sqlite(folder: Path) -> SqlStore:
    return store_at(folder / "sessions.db")


def broken(report: FaultReport) -> set[str]:
    assert all(violation.invariant == "stored" and violation.seen for violation in report.violations)
    return {violation.fault for violation in report.violations}


def test_a_store_in_SQLite_keeps_the_protocol() -> None:
    report = check_store(sqlite)
    assert report.ok, report
    assert report.tried == report.of == report.ends["passed"] == len(store_checks.CASES)


def test_a_store_in_PostgreSQL_keeps_the_protocol(postgres: Server) -> None:
    for case in store_checks.CASES:
        with postgres.empty_store() as url:
            report = check_store(lambda folder, url=url: store_at(url), only=[case])
            assert report.ok, report


async def _nothing(self: SqlStore, *given: Any, **named: Any) -> Any:
    return None


def instead(change: Callable[[Any], Any]) -> Callable[[SqlStore], Any]:
    """A store whose `commit` gets another batch."""
    commit = SqlStore.commit

    async def changed(self: SqlStore, batch: Any) -> int:
        return await commit(self, change(batch))

    return changed


def swallowing(name: str) -> Any:
    """The method, which says nothing of what it refuses."""
    method = getattr(SqlStore, name)

    async def changed(self: SqlStore, *given: Any, **named: Any) -> Any:
        try:
            return await method(self, *given, **named)
        except StoreError:
            return 0

    return changed


async def _everybody_gets_it(self: SqlStore, session_id: str, run_id: str) -> Any:
    try:
        return await CLAIM(self, session_id, run_id)
    except SessionLocked:
        return await self.session(session_id)


async def _yes(self: SqlStore, *given: Any, **named: Any) -> bool:
    return True


async def _no_pages(self: SqlStore, run_id: str, *, after: int = 0, limit: int = 64) -> Any:
    return [] if after else await PAGES(self, run_id, after=after, limit=1)


CLAIM, PAGES = SqlStore.claim, SqlStore.pages


@pytest.mark.parametrize(
    ("method", "put", "cases"),
    [
        ("commit", instead(lambda one: structs.replace(one, lines=one.lines.replace(b"\\u00e9", b"e"))), {"keeps"}),
        ("pages", _no_pages, {"keeps", "reopens"}),
        ("commit", swallowing("commit"), {"refuses_gaps", "claims_once", "fences", "evicts"}),
        ("commit", instead(lambda one: structs.replace(one, token=None)), {"fences"}),
        ("claim", _everybody_gets_it, {"claims_once"}),
        ("evict", _yes, {"evicts"}),
        ("queue", swallowing("queue"), {"queues_once"}),
        ("commit", instead(lambda one: structs.replace(one, delivered=())), {"delivers"}),
        ("delete", _yes, {"delivers"}),
        ("request_cancel", _yes, {"queues_once"}),
        ("settle_page_format", _yes, {"refuses_older"}),
        ("join", swallowing("join"), {"refuses_older"}),
        ("add_message", _nothing, {"takes_duplicates", "delivers"}),
    ],
)
def test_a_store_with_a_defect_is_found(
    method: str, put: Any, cases: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SqlStore, method, put)
    report = check_store(sqlite, only=sorted(cases))
    assert broken(report) == cases, report


def test_a_store_that_loses_what_a_cancelled_caller_had_begun_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    commit, calls = SqlStore.commit, []

    async def once(self: SqlStore, batch: Any) -> int:
        calls.append(batch)
        if calls.count(batch) > 1:
            raise StoreError("it is being written already")
        return await commit(self, batch)

    monkeypatch.setattr(SqlStore, "commit", once)
    assert broken(check_store(sqlite, only=["survives_cancels"])) == {"survives_cancels"}


def test_a_store_that_hangs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hangs(self: SqlStore, *given: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(store_checks, "CASE_SECONDS", 0.5)
    monkeypatch.setattr(SqlStore, "delete", hangs)
    report = check_store(sqlite, only=["delivers"])
    assert "not done within" in str(report)


@pytest.mark.parametrize(
    ("make", "options", "said"),
    [
        (lambda folder: object(), {}, "not a store: it has no method 'open'"),
        (lambda folder: None, {}, "make_store returned None"),
        (sqlite, {"only": ["nothing"]}, "give a list of some of keeps"),
        (sqlite, {"only": "keeps"}, "give a list of some of keeps"),
        (sqlite, {"seconds": 0}, "above 0"),
    ],
)
def test_what_cannot_work_is_refused(make: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(WrongUse, match=said):
        check_store(make, **options)


async def test_inside_a_running_loop_it_says_what_to_write() -> None:
    with pytest.raises(WrongUse, match=r"asyncio\.to_thread\(check_store"):
        check_store(sqlite)

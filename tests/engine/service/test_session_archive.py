"""Ended sessions are in the archive before they are deleted, and stay where it does not take them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from endstop import Engine
from endstop.cli.fetch import fetch
from endstop.decision import WrongUse
from endstop.objects.folder_objects import FolderObjects
from endstop.objects.object_store import AccessRefused, ObjectStoreError, check_key
from endstop.objects.object_url import object_store_at
from endstop.providers import Scripted, call
from endstop.records.files import find_records
from endstop.records.reader import read_record
from endstop.service.service import Service
from endstop.service.service_metrics import ARCHIVE_FAILURES, ARCHIVED
from endstop.service.session_archive import README, SessionArchive, archive_key
from endstop.service.session_retention import SessionRetention
from endstop.store.base import NewSession, StoredSession
from endstop.tools import finish_task
from endstop.viewer.catalog import _find_subagent
from hypothesis import given, settings
from hypothesis import strategies as st

from ...captured_logs import capture_logs
from ...seaweedfs import Server
from ..temporary_store import TemporaryStore

FINISH = call("finish_task", summary="The port is 8080.")


class Objects(FolderObjects):
    """A folder that fails where a test wants it. on_put: called before each put with its key."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.keys: list[str] = []
        self.on_put: Callable[[str], None] = lambda key: None

    async def put(self, key: str, data: bytes) -> None:
        self.on_put(key)
        await super().put(key, data)
        self.keys.append(key)


@pytest.fixture
def objects(tmp_path: Path) -> Objects:
    return Objects(tmp_path / "archive")


async def sessions_in(store: TemporaryStore, *owners: str, engine: Engine | None = None) -> list[StoredSession]:
    """Sessions of these owners that have ended, oldest first."""
    found = []
    engine = engine or Engine(Scripted(*[FINISH] * len(owners)), presets=[finish_task])
    async with Service(engine, store=store, grace=0) as service:
        for owner in owners:
            session = await service.start("Set the port", owner=owner)
            await service.outcome(session.run_id or "", wait=30)
            async with asyncio.timeout(30):
                while (ended := await service.session(session.id)).status == "running":
                    await store.settle()
            found.append(ended)
    return found


class Kept:
    """The service of a process, with an archive, and a retention that deletes when a test says so."""

    def __init__(self, store: TemporaryStore, objects: Objects, keep: int = 0) -> None:
        self.store = store
        self.service = Service({}, store=store, grace=0)
        archive = SessionArchive(store, objects, self.service.metrics)
        self.retention = SessionRetention(store, keep_days=None, keep_sessions=keep, archive=archive)

    async def __aenter__(self) -> Kept:
        await self.service.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.service.__aexit__(None, None, None)

    async def left(self) -> list[str]:
        return [one.id for one in (await self.store.sessions())[0]]

    @property
    def counts(self) -> tuple[float, float]:
        """How many sessions were archived, and how often one failed."""
        metrics = self.service.metrics
        return metrics.values(ARCHIVED)[()], metrics.values(ARCHIVE_FAILURES)[()]


async def test_a_session_is_a_compressed_record_in_the_archive_before_it_is_deleted(objects: Objects) -> None:
    store = TemporaryStore()
    old, new = await sessions_in(store, "alice", "bob@example.org")
    async with Kept(store, objects, keep=1) as kept:
        record = b"".join([piece async for piece in kept.service.record(old)])
        with capture_logs() as logs:
            assert await kept.retention.delete_old()
        assert (await kept.left(), kept.counts) == ([new.id], (1, 0))
    assert [log.get("sessions") for log in logs if log["event"] == "archived and deleted old sessions"] == [1]
    assert objects.keys == [README, f"alice/{old.created_at[:10].replace('-', '/')}/{old.id}.jsonl.zst"]
    (path,) = find_records([objects.folder])
    read = read_record(path)
    assert (read.header.session_id, read.runs[0].finished is not None) == (old.id, True)
    assert sum(len(run.events) for run in read.runs) > 3
    assert path.stat().st_size < len(record)


async def test_sub_agents_are_beside_their_caller_and_found_there(objects: Objects) -> None:
    store = TemporaryStore()
    clerk = Engine(Scripted("It is gone.")).as_tool("clerk", "Deletes files.")
    engine = Engine(Scripted(call("clerk", id="c", prompt="Delete a."), "Tidy."), tools=[clerk])
    (session,) = await sessions_in(store, "alice", engine=engine)
    async with Kept(store, objects) as kept:
        (child,) = (await kept.service.sessions(parent=session.id))[0]
        assert await kept.retention.delete_old()
    assert objects.keys[-1] == archive_key(session)
    (path,) = find_records([objects.folder])
    below = _find_subagent([path], child.id)
    assert below is not None
    assert read_record(below).runs[0].started.session_id == child.id


async def test_nothing_is_deleted_while_the_archive_is_away_and_one_line_says_so(objects: Objects) -> None:
    store = TemporaryStore()
    sessions = await sessions_in(store, *["alice"] * 10)
    async with Kept(store, objects) as kept:
        objects.on_put = fail
        with capture_logs() as logs:
            for _ in range(3):
                assert not await kept.retention.delete_old()
            assert len(await kept.left()) == 10
            objects.on_put = lambda key: None
            assert await kept.retention.delete_old()
        assert (await kept.left(), kept.counts[0]) == ([], 10)
    warnings = [log for log in logs if log["log_level"] == "warning"]
    assert [log["event"] for log in warnings] == [
        "old sessions could not be deleted, and stay in the store",
        "back after 0 s",
    ]
    assert "the bucket is away" in warnings[0]["error"]
    assert {archive_key(one) for one in sessions} < set(objects.keys)


async def test_sessions_are_deleted_as_far_as_they_were_archived(objects: Objects) -> None:
    store = TemporaryStore()
    sessions = await sessions_in(store, *["alice"] * 12)
    poor = archive_key(sessions[0])

    def fail_one(key: str) -> None:
        if key == poor:
            raise ObjectStoreError("too large")

    objects.on_put = fail_one
    async with Kept(store, objects) as kept:
        assert not await kept.retention.delete_old()
        assert await kept.left() == [sessions[0].id]
        assert kept.counts[0] == 11
        assert kept.counts[1] >= 1


async def test_what_another_process_deletes_while_it_is_read_replaces_no_whole_record(objects: Objects) -> None:
    store = TemporaryStore()
    (session,) = await sessions_in(store, "alice")
    pages = store.pages

    async def pages_of_another(*given: object, **named: object) -> list[object]:
        await store.delete(session.id)
        return await pages(*given, **named)  # type: ignore[arg-type, return-value]

    async with Kept(store, objects) as kept:
        store.pages = pages_of_another  # type: ignore[assignment, method-assign]
        assert await kept.retention.delete_old()
        assert kept.counts == (0, 0)
    assert objects.keys == [README]


async def test_a_session_that_goes_on_meanwhile_stays_and_is_archived_whole_later(objects: Objects) -> None:
    store = TemporaryStore()
    (session,) = await sessions_in(store, "alice")
    engine = Engine(Scripted(FINISH), presets=[finish_task])
    async with Service(engine, store=store, grace=0) as service:
        archive = SessionArchive(store, objects, service.metrics)
        putting = archive.put

        async def put(ids: list[str]) -> dict[str, int]:
            done = await putting(ids)
            more = await service.start_run(session.id, "And the host")
            await service.outcome(more.run_id or "", wait=30)
            return done

        assert await store.forget(keep=0, archive=put) == 0
        async with asyncio.timeout(30):
            while (await service.session(session.id)).status == "running":
                await store.settle()
        assert await store.forget(keep=0, archive=putting) == 1
    (path,) = find_records([objects.folder])
    assert len(read_record(path).runs) == 2


async def test_an_archive_that_refuses_is_refused_at_the_start_and_one_that_is_away_is_not(objects: Objects) -> None:
    async def opened() -> None:
        async with Service({}, store=TemporaryStore(), grace=0, keep_sessions=0, archive=objects):
            pass

    objects.on_put = fail
    with capture_logs() as logs:
        await opened()
    assert "the bucket is away" in logs[0]["error"]

    def refuse(key: str) -> None:
        raise AccessRefused("no rights")

    objects.on_put = refuse
    with pytest.raises(WrongUse, match="the archive cannot be written: no rights"):
        await opened()
    with pytest.raises(WrongUse, match="keep_days or keep_sessions"):
        Service({}, store=TemporaryStore(), archive=objects)


def fail(key: str) -> None:
    raise ObjectStoreError("the bucket is away")


def session_of(owner: str, id: str = "session_1") -> StoredSession:
    new = NewSession(id=id, owner=owner, agent="a", title="", created_at="2026-11-30T23:59:00.000+00:00")
    fields = {name: getattr(new, name) for name in ("id", "owner", "agent", "title", "created_at")}
    return StoredSession(**fields, status="completed", stop_reason=None, updated_at="", run_id=None, runs=1, steps=1)


@settings(max_examples=50)
@given(st.text(max_size=5), st.text(max_size=5))
def test_each_owner_has_a_folder_of_its_own(one: str, other: str) -> None:
    keys = archive_key(session_of(one)), archive_key(session_of(other))
    assert (keys[0] == keys[1]) == (one == other)
    for key in keys:
        assert check_key(key).endswith("/2026/11/30/session_1.jsonl.zst")
        assert key.count("/") == 4


@pytest.mark.parametrize("owner", ["..", ".", "", "a/b", "ä" * 300, "\ud800", "a" * 101, "A~1"])
def test_an_owner_whose_name_is_no_name_of_a_folder_has_one_with_a_hash(owner: str) -> None:
    name = check_key(archive_key(session_of(owner))).partition("/")[0]
    assert "~" in name
    assert name.isascii()


async def test_sessions_go_to_a_bucket_and_come_back_as_a_folder_of_records(
    s3_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3_server.variables.items():
        monkeypatch.setenv(name, value)
    url = s3_server.new_place()
    store = TemporaryStore()
    sessions = await sessions_in(store, *["alice"] * 3, "bob")
    async with Service({}, store=store, grace=0, keep_sessions=0, archive=url) as service, asyncio.timeout(60):
        while (await service.sessions())[0]:
            await store.settle()
    fetched = await fetch(object_store_at(url), FolderObjects(tmp_path / "all"))
    assert (fetched.copied, fetched.kept) == (4, 0)
    records = [read_record(path) for path in find_records([tmp_path / "all"])]
    assert {one.header.session_id for one in records} == {one.id for one in sessions}
    again = await fetch(object_store_at(url), FolderObjects(tmp_path / "all"))
    assert (again.copied, again.kept) == (0, 4)
    part = await fetch(object_store_at(f"{url}/bob"), FolderObjects(tmp_path / "bob"))
    assert (part.copied, part.kept) == (1, 0)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    with pytest.raises(WrongUse, match="the archive cannot be written"):
        async with Service({}, store=TemporaryStore(), grace=0, keep_sessions=0, archive=url):
            pass

"""The numbers of a whole store: what waits and runs, and who shares it."""

from __future__ import annotations

from endstop.store.sql import SqlStore

from .made import beginning, ended, session
from .others import process, waiting


async def test_an_empty_store_has_nothing_that_waits(store: SqlStore) -> None:
    found = await store.overview()
    assert found.sessions == {"queued": 0, "running": 0, "awaiting_input": 0, "interrupted": 0}
    assert (found.oldest_queued_seconds, found.processes) == (None, ())


async def test_sessions_count_by_status_without_those_that_have_ended_and_without_sub_agents(store: SqlStore) -> None:
    await store.join(process("one", kind="worker"))
    for number in range(3):
        await store.queue(waiting(f"run_q{number}", of=f"q{number}", new=session(f"q{number}")))
    for id, parent in (("r", None), ("child", "r"), ("broken", None)):
        await store.add(session(id, parent=parent))
        await store.commit(beginning(run=f"run_{id}", of=id))
    await store.mark_interrupted("broken", "a test")
    await ended(store, "done")
    found = await store.overview()
    assert found.sessions == {"queued": 3, "running": 1, "awaiting_input": 0, "interrupted": 1}
    assert found.oldest_queued_seconds is not None
    assert 0 <= found.oldest_queued_seconds < 60
    assert [(one.id, one.kind, one.alive) for one in found.processes] == [("one", "worker", True)]

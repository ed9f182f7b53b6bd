"""Reading the past of a session from the store: to continue the session, or to find an answer in it."""

from __future__ import annotations

from collections.abc import Sequence

from anyio import to_thread

from ..decision import Event
from ..decision.events import QuestionAnswered, ResponseFinished, RunStarted
from ..records.deduplication import missing_deltas
from ..records.format import DrainedChunk, Header
from ..records.reader import LineReader, RecordedRun
from ..session import Session
from ..store.base import Page, Store, StoreError


class NewerRun(Exception):
    """A stored run begins with an event that this version cannot read.

    In a queue the run waits for another process: its execution here fails, and after a while the queue is asked about
    it (`Queue.lost`).
    """


async def load_runs(session: Session, store: Store) -> Session:
    """Return the session as its stored runs left it, ready for its next run."""
    await to_thread.run_sync(session.load, await stored_runs(store, session.id))
    return session


async def stored_runs(store: Store, session_id: str) -> list[RecordedRun]:
    """Return the runs of a session that have begun."""
    runs = []
    for run in await store.runs(session_id):
        if not run.last_seq:
            continue
        pages = await _all_pages(store, run.id)
        runs.append(await to_thread.run_sync(_read, pages))
    return runs


async def was_answered(store: Store, session_id: str, call_id: str) -> bool:
    """Return whether a run of this session started with an answer to this question.

    An answer that was not understood (`unclear`) does not count.
    """
    for run in await store.runs(session_id):
        if run.prompt is not None:
            continue
        events = _read(await store.pages(run.id, limit=1)).events
        if any(
            isinstance(event, QuestionAnswered) and event.call_id == call_id and event.says != "unclear"
            for event in events
        ):
            return True
    return False


async def _all_pages(store: Store, run_id: str) -> list[Page]:
    pages: list[Page] = []
    while more := await store.pages(run_id, after=pages[-1].last_seq if pages else 0):
        pages += more
    return pages


def _read(pages: Sequence[Page]) -> RecordedRun:
    events: list[Event] = []
    reader = LineReader()
    for page in pages:
        for line in page.lines.splitlines():
            for event in reader.parse(line):
                if isinstance(event, ResponseFinished) and event.deltas is not None:
                    raise StoreError(f"the run {page.run_id} is damaged: {missing_deltas(event)}")
                if not isinstance(event, str | Header | DrainedChunk):
                    events.append(event)
    if pages and not (events and isinstance(events[0], RunStarted)):
        raise NewerRun(
            f"the run {pages[0].run_id} was begun by a newer endstop, with settings that this version may not know: "
            "upgrade this process"
        )
    return RecordedRun(events=events, after_cut=[])

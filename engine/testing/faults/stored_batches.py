"""Sessions, batches of events and processes, for checks of stores."""

from __future__ import annotations

import json
from typing import Any

from ...decision import Outcome, Policy
from ...decision.events import Carried, RunStarted
from ...store.base import PAGE_FORMAT, EventBatch, NewSession, Page, Process, QueuedRun, Store, StoredMessage


def at(second: int) -> str:
    """Return the text of a time."""
    return f"2026-11-21T05:{second // 60:02}:{second % 60:02}.000+00:00"


def session(id: str = "session_1", *, second: int = 0, **changed: Any) -> NewSession:
    """Return a new session."""
    values = {"owner": "ann", "agent": "main", "title": "Fix it", "created_at": at(second), **changed}
    return NewSession(id=id, **values)


def lines(first: int, last: int, *, step: bool = False, filler: str = "x") -> bytes:
    """Return events with these numbers. `step`: the last one ends a step."""
    made = [{"type": "TEXT_MESSAGE_CONTENT", "seq": seq, "delta": filler} for seq in range(first, last + 1)]
    if step:
        made[-1]["type"] = "STEP_FINISHED"
    return b"".join(json.dumps(one, separators=(",", ":")).encode() + b"\n" for one in made)


def batch(
    first: int, last: int, *, run: str = "run_1", of: str = "session_1", second: int = 1, **changed: Any
) -> EventBatch:
    """Return events from the middle of a run."""
    values = {"lines": lines(first, last), "at": at(second), **changed}
    return EventBatch(session_id=of, run_id=run, first_seq=first, last_seq=last, **values)


def beginning(
    last: int = 2,
    *,
    run: str = "run_1",
    of: str = "session_1",
    prompt: str | None = "Fix it.",
    carried: Carried | None = None,
    **changed: Any,
) -> EventBatch:
    """Return a run's first events."""
    started = RunStarted(run_id=run, session_id=of, prompt=prompt, policy=Policy(), started_at=at(1), carried=carried)
    return batch(1, last, run=run, of=of, started=started, **changed)


def ending(
    first: int,
    last: int,
    *,
    run: str = "run_1",
    of: str = "session_1",
    outcome: dict[str, Any] | None = None,
    **changed: Any,
) -> EventBatch:
    """Return a run's last events."""
    values = {"status": "completed", "stop_reason": "completed", "steps": 3, **(outcome or {})}
    finished = Outcome(run_id=run, session_id=of, **values)
    return batch(first, last, run=run, of=of, finished=finished, **changed)


def message(
    id: str = "message_1", text: str = "Mind the tests.", *, of: str = "session_1", second: int = 2
) -> StoredMessage:
    """Return a message of the user during a run."""
    return StoredMessage(id=id, session_id=of, text=text, created_at=at(second))


def process(id: str = "one", *, lease: float = 60.0, **changed: Any) -> Process:
    """Return a process on a machine that does not exist."""
    values = {"kind": "worker", "host": "nowhere", "pid": 1, "started_at": at(0), "version": "1"}
    about = {"pages": str(PAGE_FORMAT)}
    return Process(id=id, lease_seconds=lease, **{**values, "about": about, **changed})


def waiting(run: str = "run_1", *, of: str = "session_1", **changed: Any) -> QueuedRun:
    """Return a run that is to wait."""
    return QueuedRun(session_id=of, run_id=run, **{"prompt": "Fix it.", "at": at(5), **changed})


async def all_pages(store: Store, run: str = "run_1", *, after: int = 0, limit: int = 64) -> list[Page]:
    """Return all pages of a run, as a reader gets them."""
    found: list[Page] = []
    while page := await store.pages(run, after=after, limit=limit):
        found += page
        after = page[-1].last_seq
    return found


def seqs(pages: list[Page]) -> list[int]:
    """Return the numbers of the events in these pages."""
    return [json.loads(line)["seq"] for page in pages for line in page.lines.splitlines()]

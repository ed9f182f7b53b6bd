"""Server-sent events: what the service's readers get, as bytes for the wire. No JSON is made here but for a marker.

The format is that of the HTML standard (section "Server-sent events"): fields, one in a line, and a blank line.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import NamedTuple

import msgspec

from ..service.event_buffer import Frame
from ..service.follow import Frames, Gap
from ..store.base import StoredRun
from .errors import HttpError

MEDIA_TYPE = "text/event-stream"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""So that no proxy keeps events back."""
RETRY = b"retry: 1000\n\n"
"""A browser whose connection broke comes back after so many milliseconds."""
HEARTBEAT = b": heartbeat\n\n"
MAX_CHUNK = 64 * 1024
"""Bytes that are handed on at once, or one event if that is larger."""
_NUMBER = re.compile(r"([0-9]{1,15})(?:\.([0-9]{1,6}))?")


class EventId(NamedTuple):
    """The event that a reader saw last: its number, and how often its run had been resumed before it."""

    number: int
    resumed: int


async def encode_sse(batches: AsyncGenerator[Frames, None], *, with_run: bool) -> AsyncGenerator[bytes, None]:
    """Bytes for the wire. `with_run`: an event's id names its run, too."""
    async with aclosing(batches):
        yield RETRY
        async for frames in batches:
            if not frames:
                yield HEARTBEAT
            for chunk in _chunks(frames, with_run):
                yield chunk


def event_id(frame: Frame, with_run: bool) -> str:
    """An event's id: its number; after a point how often its run was resumed before it, if it was."""
    number = f"{frame.seq}.{frame.resumed}" if frame.resumed else f"{frame.seq}"
    return f"{frame.run_id}:{number}" if with_run else number


def _chunks(frames: Frames, with_run: bool) -> Iterator[bytes]:
    parts: list[bytes] = []
    size = 0
    for frame in frames:
        part = _event(frame, with_run) if isinstance(frame, Frame) else _gap(frame)
        parts.append(part)
        size += len(part)
        if size >= MAX_CHUNK:
            yield b"".join(parts)
            parts, size = [], 0
    if parts:
        yield b"".join(parts)


def _event(frame: Frame, with_run: bool) -> bytes:
    return b"id: %b\ndata: %b\n\n" % (event_id(frame, with_run).encode(), frame.line)


def _gap(missed: Gap) -> bytes:
    """It has no id: a reader that comes back is told again, unless it has read on."""
    return b"event: lagged\ndata: %b\n\n" % msgspec.json.encode(missed)


def parse_run_event_id(last_event_id: str, run_id: str) -> EventId:
    """The event after which a run's stream resumes. Raises Refused: 400."""
    before, seen = _parse(last_event_id)
    if before not in ("", run_id) or seen is None:
        raise _bad_event_id("it is the number of an event of this run")
    return seen


def parse_session_event_id(last_event_id: str) -> tuple[str, EventId]:
    """The run and the event after which a session's stream resumes. Raises Refused: 400."""
    run_id, seen = _parse(last_event_id)
    if not run_id or seen is None:
        raise _bad_event_id("it is RUN_ID:NUMBER of an event of this session")
    return run_id, seen


def _parse(last_event_id: str) -> tuple[str, EventId | None]:
    """What stands before the last colon, and the event behind it if it is one."""
    run_id, _, written = last_event_id.rpartition(":")
    number = _NUMBER.fullmatch(written)
    return run_id, None if number is None else EventId(int(number[1]), int(number[2] or 0))


def resume_seq(seen: EventId, run: StoredRun) -> int:
    """The number after which a run is read on. Raises Refused: 400 for an event that never was.

    A reader may have seen events that the store never had, because the process died. Their numbers are used again once
    the run has been resumed: then it is read on from there, and so nothing of the run as it is kept is missed.
    """
    if seen.resumed > len(run.resumed_at):
        raise _bad_event_id(f"the run has been resumed {len(run.resumed_at)} times, and not {seen.resumed}")
    if seen.resumed < len(run.resumed_at):
        return min(seen.number, run.resumed_at[seen.resumed] - 1)
    if run.status == "interrupted":
        return min(seen.number, run.last_seq)
    if seen.number > run.last_seq:
        raise _bad_event_id(f"the run has no event {seen.number} (yet): its latest one is {run.last_seq}")
    return seen.number


def unknown_run() -> HttpError:
    """The session has no such run."""
    return _bad_event_id("the session has no such run")


def _bad_event_id(why: str) -> HttpError:
    return HttpError(400, "last_event_id", f"Last-Event-ID leads nowhere: {why}")

"""Server-sent events: encoding for readers of the service, and parsing of `Last-Event-ID`.

The format is that of the HTML standard, section "Server-sent events". Events are not encoded again here: a frame holds
its line of JSON already.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import NamedTuple

import msgspec
from msgspec import to_builtins

from ..decision.call_judgement import CallJudgement
from ..records.frames import Frame, Frames, Gap
from ..store.base import StoredRun
from .problems import HttpError

MEDIA_TYPE = "text/event-stream"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""Headers of a stream: clients must not cache it, and proxies such as nginx must not hold events back."""
RETRY = b"retry: 1000\n\n"
"""Milliseconds after which a browser reconnects."""
HEARTBEAT = b": heartbeat\n\n"
MAX_CHUNK = 64 * 1024
"""A chunk ends after the event with which it reaches this many bytes."""
_NUMBER = re.compile(r"([0-9]{1,15})(?:\.([0-9]{1,6}))?")


class EventId(NamedTuple):
    """The last event that a reader has seen.

    number: its number in the run.
    resumed: how often the run had been resumed before it. Numbers are used again after a resumption.
    """

    number: int
    resumed: int


async def encode_sse(batches: AsyncGenerator[Frames, None], *, with_run: bool) -> AsyncGenerator[bytes, None]:
    """Encode batches of events as server-sent events, and an empty batch as a heartbeat.

    with_run: ids of events are `RUN_ID:NUMBER` instead of `NUMBER`.
    """
    async with aclosing(batches):
        yield RETRY
        async for frames in batches:
            if not frames:
                yield HEARTBEAT
            for chunk in _chunks(frames, with_run):
                yield chunk


def event_id(frame: Frame, with_run: bool) -> str:
    """Return the id of an event: its number, as in `18`; after one resumption of the run `18.1`."""
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
    event = b"id: %b\ndata: %b\n\n" % (event_id(frame, with_run).encode(), frame.line)
    return event if frame.judged is None else _judgement(frame, frame.judged) + event


def _judgement(frame: Frame, judged: CallJudgement) -> bytes:
    """Encode what is known about a call, sent before the event of its result.

    It has no id: a reader always gets both.
    """
    told = {"type": "CALL_JUDGED", "run_id": frame.run_id, "seq": frame.seq, **to_builtins(judged)}
    return b"event: judged\ndata: %b\n\n" % msgspec.json.encode(told)


def _gap(gap: Gap) -> bytes:
    """Encode the event for a gap. It has no id, so a reader that reconnects right after it gets it again."""
    return b"event: lagged\ndata: %b\n\n" % msgspec.json.encode(gap)


def parse_run_event_id(last_event_id: str, run_id: str) -> EventId:
    """Parse the id of the event after which the stream of a run resumes. Raises HttpError (400)."""
    before, seen = _parse(last_event_id)
    if before not in ("", run_id) or seen is None:
        raise _bad_event_id("write the number of an event of this run")
    return seen


def parse_session_event_id(last_event_id: str) -> tuple[str, EventId]:
    """Parse the run and the event after which the stream of a session resumes. Raises HttpError (400)."""
    run_id, seen = _parse(last_event_id)
    if not run_id or seen is None:
        raise _bad_event_id("write RUN_ID:NUMBER of an event of this session")
    return run_id, seen


def _parse(last_event_id: str) -> tuple[str, EventId | None]:
    """Split an id at the last colon into the text before it and the event after it; None if that is not an event id."""
    run_id, _, written = last_event_id.rpartition(":")
    number = _NUMBER.fullmatch(written)
    return run_id, None if number is None else EventId(int(number[1]), int(number[2] or 0))


def resume_seq(seen: EventId, run: StoredRun) -> int:
    """Return the number of the event after which to continue reading.

    Raises HttpError (400) if the run has no such event.

    When a process dies, readers may have seen events that were never stored. The resumed run uses their numbers again,
    so such a reader continues at the first event after the resumption and misses nothing that is stored.
    """
    if seen.resumed > len(run.resumed_at):
        raise _bad_event_id(f"the run has been resumed {len(run.resumed_at)} times, not {seen.resumed}")
    if seen.resumed < len(run.resumed_at):
        return min(seen.number, run.resumed_at[seen.resumed] - 1)
    if run.status == "interrupted":
        return min(seen.number, run.last_seq)
    if seen.number > run.last_seq:
        raise _bad_event_id(f"the run has no event {seen.number} yet, its last one is {run.last_seq}")
    return seen.number


def unknown_run() -> HttpError:
    """Return the error for a `Last-Event-ID` whose run does not belong to this session."""
    return _bad_event_id("the session has no such run")


def _bad_event_id(why: str) -> HttpError:
    return HttpError(400, "last_event_id", f"Last-Event-ID is not valid: {why}")

"""Server-sent events: what the service's readers get, as bytes for the wire. No JSON is made here but for a marker.

The format is that of the HTML standard (section "Server-sent events"): fields, one in a line, and a blank line.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing

import msgspec

from ...service.reading import Missed, Portion
from ...service.tape import Frame
from ...store.store import StoredRun
from .problems import Refused

MEDIA_TYPE = "text/event-stream"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""So that no proxy keeps events back."""
RETRY = b"retry: 1000\n\n"
"""A browser whose connection broke comes back after so many milliseconds."""
HEARTBEAT = b": heartbeat\n\n"
MOST = 64 * 1024
"""Bytes that are handed on at once, or one event if that is larger."""


async def framed(portions: AsyncGenerator[Portion, None], *, with_run: bool) -> AsyncGenerator[bytes, None]:
    """Bytes for the wire. `with_run`: an event's id names its run, too."""
    async with aclosing(portions):
        yield RETRY
        async for portion in portions:
            if not portion:
                yield HEARTBEAT
            for chunk in _chunks(portion, with_run):
                yield chunk


def _chunks(portion: Portion, with_run: bool) -> Iterator[bytes]:
    parts: list[bytes] = []
    size = 0
    for frame in portion:
        part = _event(frame, with_run) if isinstance(frame, Frame) else _marker(frame)
        parts.append(part)
        size += len(part)
        if size >= MOST:
            yield b"".join(parts)
            parts, size = [], 0
    if parts:
        yield b"".join(parts)


def _event(frame: Frame, with_run: bool) -> bytes:
    if with_run:
        return b"id: %b:%d\ndata: %b\n\n" % (frame.run_id.encode(), frame.seq, frame.line)
    return b"id: %d\ndata: %b\n\n" % (frame.seq, frame.line)


def _marker(missed: Missed) -> bytes:
    """It has no id: a reader that comes back is told again, unless it has read on."""
    return b"event: lagged\ndata: %b\n\n" % msgspec.json.encode(missed)


_NUMBER = re.compile(r"[0-9]{1,15}")


def number_in(last_event_id: str, run_id: str) -> int:
    """The number of the event after which a run's stream resumes. Raises Refused: 400."""
    before, _, number = last_event_id.rpartition(":")
    if before not in ("", run_id) or not _NUMBER.fullmatch(number):
        raise _unknown("it is the number of an event of this run")
    return int(number)


def place_in(last_event_id: str) -> tuple[str, int]:
    """The run and the number of the event after which a session's stream resumes. Raises Refused: 400."""
    run_id, _, number = last_event_id.rpartition(":")
    if not run_id or not _NUMBER.fullmatch(number):
        raise _unknown("it is RUN_ID:NUMBER of an event of this session")
    return run_id, int(number)


def check_known(number: int, run: StoredRun) -> None:
    """Refuse to resume after an event that never was. Raises Refused: 400."""
    if number > run.last_seq and run.status == "interrupted":
        raise _unknown(
            f"the run's process died before event {number} was stored; the latest one that is kept is {run.last_seq}: "
            "read it again from its beginning"
        )
    if number > run.last_seq:
        raise _unknown(f"the run has no event {number} (yet): its latest one is {run.last_seq}")


def unknown_run() -> Refused:
    """The session has no such run."""
    return _unknown("the session has no such run")


def _unknown(why: str) -> Refused:
    return Refused(400, "last_event_id", f"Last-Event-ID leads nowhere: {why}")

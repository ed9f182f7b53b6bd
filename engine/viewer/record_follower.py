"""Follower of the events of a record file: the existing ones, then those that are added, without blocking the loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from ..http.problems import HttpError
from ..http.sse import EventId
from ..records.frame_judge import FrameJudge
from ..records.frames import Frame, Frames, RecordFrames

POLL_SECONDS = 0.5
"""Seconds between checks of a file that has been read to its end."""
HEARTBEAT_SECONDS = 15.0
"""Seconds without an event after which a reader gets an empty sequence."""
T = TypeVar("T")


class FollowedRecord:
    """A record that threads read, one at a time. An async context manager.

    A thread cannot be interrupted: if its reader leaves meanwhile, the file is closed when the thread is done.
    """

    def __init__(self, frames: RecordFrames) -> None:
        self._frames = frames
        self._judge = FrameJudge()
        self._reading: asyncio.Future[Any] | None = None
        self.begun: Frames = ()
        """Frames that were already read and are to be sent first."""

    async def __aenter__(self) -> FollowedRecord:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._reading is None or self._reading.done():
            self._frames.close()
        else:
            self._reading.add_done_callback(self._close)

    def _close(self, reading: asyncio.Future[Any]) -> None:
        if not reading.cancelled():
            reading.exception()  # nobody waits for it
        self._frames.close()

    async def read(self) -> Frames:
        """Return the next frames; empty at the end of the file. Raises WrongUse."""
        return await self._in_thread(lambda: self._judge.judged(self._frames.read()))

    async def is_replaced(self) -> bool:
        """Return whether the file was replaced, so that its earlier content no longer holds."""
        return await self._in_thread(lambda: self._frames.replaced)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        reading = asyncio.ensure_future(asyncio.to_thread(work))
        self._reading = reading
        return await asyncio.shield(reading)


async def skip_to(path: Path, after: tuple[str, EventId] | None) -> FollowedRecord:
    """Open a record, and read up to this event (run id, number); from the beginning if None.

    Raises WrongUse if it cannot be read, and HttpError (400) if it has no such event.
    """
    opening = asyncio.ensure_future(asyncio.to_thread(RecordFrames, path))
    try:
        record = FollowedRecord(await asyncio.shield(opening))
    except asyncio.CancelledError:
        opening.add_done_callback(_close_opened)
        raise
    if after is None:
        return record
    run_id, seen = after
    try:
        while frames := await record.read():
            for place, frame in enumerate(frames):
                if isinstance(frame, Frame) and frame.run_id == run_id and frame.seq == seen.number:
                    record.begun = frames[place + 1 :]
                    return record
    except BaseException:
        await record.__aexit__(None, None, None)
        raise
    await record.__aexit__(None, None, None)
    raise HttpError(400, "last_event_id", "Last-Event-ID is not valid: the record has no such event")


def _close_opened(opening: asyncio.Future[RecordFrames]) -> None:
    """Close a record that was opened for a reader who has left meanwhile."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


async def follow_record(record: FollowedRecord, stopping: asyncio.Event) -> AsyncGenerator[Frames, None]:
    """Yield the events of a record, and those that are added to it, until the file is replaced or `stopping` is set."""
    if record.begun:
        yield record.begun
    idle = 0.0
    while not stopping.is_set():
        if frames := await record.read():
            idle = 0.0
            yield frames
        elif await record.is_replaced():
            return
        else:
            idle += POLL_SECONDS
            if idle >= HEARTBEAT_SECONDS:
                idle = 0.0
                yield ()
            try:
                await asyncio.wait_for(stopping.wait(), POLL_SECONDS)
            except TimeoutError:
                continue

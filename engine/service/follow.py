"""Following the events of a run or a session: each exactly once and in order.

Events come from the event buffer of the run, older ones from the store; events that neither has become a `Gap`. A
reader gets many events at a time if they are available, so a slow reader catches up.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import AsyncGenerator

from ..decision.events import ResponseFinished
from ..records.deduplication import MessageRestorer, is_part, lacks_message
from ..records.format import decode_line, encode_line
from ..records.frame_judge import FrameJudge
from ..records.frames import Frame, Frames, Gap
from ..store.base import GOING, Store, StoredRun
from .active import ActiveSessions

HEARTBEAT_SECONDS = 15.0
"""Seconds without an event after which a reader gets an empty sequence."""
_TERMINAL = b'{"type":"RUN_FINISHED"'


class EventReader:
    """Source of events for any number of concurrent readers. `heartbeat`: see `HEARTBEAT_SECONDS`."""

    def __init__(self, store: Store, active_sessions: ActiveSessions, heartbeat: float = HEARTBEAT_SECONDS) -> None:
        self._store = store
        self._active_sessions = active_sessions
        self._heartbeat = heartbeat

    async def run(self, run_id: str, session_id: str, after: int = 0) -> AsyncGenerator[Frames, None]:
        """Yield the events of a run after number `after`, up to its last.

        An interrupted run may be resumed, so this waits for it until the service stops.
        """
        seq = after
        judge = await self._judge_before(run_id, after)
        while True:
            buffer = self._active_sessions.buffer_of(run_id)
            notifier = self._active_sessions.notifier_of(session_id) if buffer is None else buffer.notifier
            seen = notifier.count
            if frames := judge.judged(await self._after(run_id, seq)):
                yield frames
                latest = frames[-1]
                if isinstance(latest, Frame) and latest.last:
                    return
                seq = latest.seq if isinstance(latest, Frame) else latest.next_seq - 1
            elif buffer is None and (self._active_sessions.stopping or await self._is_over(run_id, seq)):
                return
            elif not await notifier.wait(self._heartbeat, seen):
                yield ()

    async def session(self, session_id: str, after: tuple[str, int] | None = None) -> AsyncGenerator[Frames, None]:
        """Yield the events of all runs of a session after event `after` (run id, number), until the service stops."""
        run_id, seq = after or ("", 0)
        number = 0
        while True:
            notifier = self._active_sessions.notifier_of(session_id)
            seen = notifier.count
            runs = await self._store.runs(session_id)
            number = next((run.number - 1 for run in runs if run.id == run_id), number)
            run = next((run for run in runs if run.number > number), None)
            if run is not None:
                async for frames in self.run(run.id, session_id, seq if run.id == run_id else 0):
                    yield frames
                run_id, number, seq = "", run.number, 0
            elif (not runs or self._active_sessions.stopping) and self._active_sessions.by_session(session_id) is None:
                return
            elif not await notifier.wait(self._heartbeat, seen):
                yield ()

    async def _judge_before(self, run_id: str, after: int) -> FrameJudge:
        """Return a judge that knows the events of a run up to number `after`."""
        judge, seq = FrameJudge(), 0
        while seq < after and (frames := await self._after(run_id, seq)):
            judge.judged(frame for frame in frames if isinstance(frame, Frame) and frame.seq <= after)
            seq = frames[-1].seq if isinstance(frames[-1], Frame) else frames[-1].next_seq - 1
        return judge

    async def _after(self, run_id: str, seq: int) -> Frames:
        """Return the next events of a run after number `seq`, from its buffer or from the store."""
        buffer = self._active_sessions.buffer_of(run_id)
        return buffer.after(seq) if buffer is not None and seq + 1 >= buffer.first else await self._stored(run_id, seq)

    async def _stored(self, run_id: str, seq: int) -> Frames:
        """Return the stored events after number `seq`.

        If there are none, return a `Gap` up to the oldest event in the buffer.
        """
        frames: list[Frame | Gap] = []
        pages = await self._store.pages(run_id, after=seq)
        run = await self._store.run(run_id) if pages else None
        resumed_at = () if run is None else run.resumed_at
        messages = MessageRestorer()
        for page in pages:
            if page.first_seq > seq + 1:
                frames.append(Gap(run_id, page.first_seq - seq - 1, page.first_seq))
                seq = page.first_seq - 1
            for number, line in enumerate(page.lines.splitlines(), page.first_seq):
                if is_part(line):
                    messages.hold_line(line)
                elif number > seq and lacks_message(line):
                    line = await self._whole(run_id, line, messages)
                if number > seq:
                    last, resumed = line.startswith(_TERMINAL), bisect_right(resumed_at, number)
                    frames.append(Frame(run_id, number, line, last, resumed))
            seq = page.last_seq
        buffer = self._active_sessions.buffer_of(run_id)
        if not frames and buffer is not None and seq + 1 < buffer.first:
            frames.append(Gap(run_id, buffer.first - 1 - seq, buffer.first))
        return frames

    async def _whole(self, run_id: str, line: bytes, messages: MessageRestorer) -> bytes:
        """Return a response with its message.

        messages: has the parts on the pages at hand; others are read from the store.
        """
        response = decode_line(line)
        assert isinstance(response, ResponseFinished)
        assert response.deltas is not None
        whole = messages.restore(response)
        if whole.deltas is not None:
            earlier = MessageRestorer()
            seq = response.deltas.first - 1
            while seq < response.seq and (pages := await self._store.pages(run_id, after=seq)):
                for page in pages:
                    for part in page.lines.splitlines()[: max(0, response.seq - page.first_seq)]:
                        if is_part(part):
                            earlier.hold_line(part)
                seq = pages[-1].last_seq
            whole = earlier.restore(response)
        return encode_line(whole)

    async def _is_over(self, run_id: str, seq: int) -> bool:
        """Return whether no event can follow number `seq`."""
        run: StoredRun | None = await self._store.run(run_id)
        if run is None:
            return True
        if run.status not in (*GOING, "interrupted"):
            return run.last_seq <= seq
        session = await self._store.session(run.session_id)
        return session is None or session.run_id != run_id  # it was interrupted, and another run has started

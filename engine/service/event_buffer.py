"""Event buffer of a run: each event is encoded once, for the store and for every reader.

The run writes its events to the buffer as to a record file. For each reader, only the number of its latest event is
kept. Events that are no longer in the buffer are read from the store, so a slow reader takes no memory and misses
nothing that was stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from ..decision import Event
from ..decision.events import MessageAdded, RunFinished, RunResumed, RunStarted
from ..durability import RunLost
from ..observers.agent_metrics import RunCounter
from ..providers._outage import Outages
from ..records.deduplication import Deduplicator
from ..records.event_redaction import StreamRedactor
from ..records.format import DrainedChunk, Redact, encode_line
from ..records.frames import Frame
from ..store.base import EventBatch, LeaseLost, SequenceConflict, SessionDeleted, SessionLocked, Store, StoreError
from .ownership import RunOwnership

RETRY_SECONDS = 0.5
"""Seconds between attempts of `flush` to store events while the store fails."""
MIN_FRAMES = 1024
"""How many of the latest events always stay in the buffer."""
COMMIT_EVENTS = 256
"""Number of unstored events at which a commit begins, even without a flush."""
WAITS = "a run waits for the store"
"""The warning of a run whose events cannot be stored."""
READ_FRAMES = 256
"""The most frames that a reader gets at once. Those of a stuck reader stay in memory until it is dropped."""
_INDEXED = (RunStarted, RunResumed, RunFinished, MessageAdded)
"""Events from which follow changes of the session or run in the store, such as its status; see `_batch`."""


class EventBuffer:
    """The events of one run.

    message_ids: ids of stored messages that are part of the prompt; the first commit marks them as delivered.
    resumed: how often the run has been resumed, this time included.
    ownership: the claim of this process to the run. It is checked before each side effect (`flush`), and refusals of
        the store are reported to it. None: one of a process that shares the store with nobody.
    flush_interval: seconds until an event is stored even without a flush. None: only a flush and `COMMIT_EVENTS` store
        events.
    caller_waits: whether somebody waits for the first events to be stored, and gets the error if that fails.
    compress: let the store compress the events; see `EventBatch.compress`.
    outages: log that the run waits for the store; shared by the runs of a process.
    counter: counts what happens. None: nothing does.
    """

    path: str | None = None

    def __init__(
        self,
        store: Store,
        session_id: str,
        run_id: str,
        *,
        now: Callable[[], str],
        redact: Redact | None = None,
        message_ids: Sequence[str] = (),
        resumed: int = 0,
        ownership: RunOwnership | None = None,
        flush_interval: float | None = None,
        caller_waits: bool = False,
        deduplicate: bool = True,
        compress: bool = False,
        outages: Outages | None = None,
        counter: RunCounter | None = None,
    ) -> None:
        self.run_id = run_id
        self.first = 1
        """Number of the oldest event in the buffer."""
        self.last = 0
        """Number of the latest event; 0 before the first."""
        self.closed = False
        """True once the last event of the run has been written."""
        self._store = store
        self._session_id = session_id
        self._now = now
        self._redactor = None if redact is None else StreamRedactor(redact)
        self._message_ids = tuple(message_ids)
        self._resumed = resumed
        self._ownership = RunOwnership() if ownership is None else ownership
        self._flush_interval = flush_interval
        self._flush_timer: asyncio.TimerHandle | None = None
        self._frames: list[Frame] = []
        self.notifier = Notifier()
        """Notified of each event."""
        self._counter = counter
        self._compress = compress
        self._deduplicator = Deduplicator(in_file=False) if deduplicate else None
        self._pending: list[bytes] = []
        """Lines that are not stored yet, from number `_stored + 1` on."""
        self._stored = 0
        self._indexed: list[Event] = []
        self._commit_task: asyncio.Task[None] | None = None
        self._caller_waits = caller_waits
        """Whether nothing of the run is stored yet, and somebody waits for it."""
        self._failed = False
        """Whether `flush` has raised StoreError: the run ends with it, and its end need not be stored."""
        self._outage = (Outages() if outages is None else outages)[WAITS]

    # ---- writing

    def write(self, event: Event | DrainedChunk) -> None:
        """Add an event.

        Returns immediately, however slow readers and store are. Raises RunLost once the run is lost.
        """
        self._ownership.raise_if_lost()
        if isinstance(event, DrainedChunk):
            return  # what a model still sent after a cut is not part of a stored run
        if self._counter is not None:
            self._counter.take(event)
        if not self.last:  # a resumed run does not start with event 1
            self.first, self.last, self._stored = event.seq, event.seq - 1, event.seq - 1
        line = encode_line(event)
        self.last += 1
        self.closed = type(event) is RunFinished
        self._frames.append(Frame(self.run_id, self.last, line, self.closed, self._resumed))
        if self._redactor is None:
            self._append(event, line)
        else:
            for written in self._redactor.feed(event):
                assert not isinstance(written, DrainedChunk)
                self._append(written)
        if len(self._pending) >= COMMIT_EVENTS and self._commit_task is None:
            self._start_commit()
        elif self._flush_interval is not None and self._flush_timer is None:
            self._flush_timer = asyncio.get_running_loop().call_later(self._flush_interval, self._flush_pending)
        self.notifier.notify()

    async def stop(self) -> None:
        """Wait until the current commit is written or refused: whatever continues the run loads what it has written."""
        if self._commit_task is not None:
            await asyncio.wait((self._commit_task,))

    def _flush_pending(self) -> None:
        self._flush_timer = None
        if self._pending and self._commit_task is None and not self._ownership.lost:
            self._start_commit()

    def _append(self, event: Event, line: bytes | None = None) -> None:
        """Have an event stored. line: the event, encoded, if it is already."""
        kept = event if self._deduplicator is None else self._deduplicator.feed(event)
        self._pending.append(line if line is not None and kept is event else encode_line(kept))
        if isinstance(event, _INDEXED):
            self._indexed.append(event)

    def _drop_stored(self) -> None:
        """Drop the oldest frames, but none that is not stored: a reader would miss it."""
        number = min(len(self._frames) - MIN_FRAMES, self._stored + 1 - self.first)
        if len(self._frames) >= 2 * MIN_FRAMES and number > 0:
            del self._frames[:number]
            self.first += number

    async def flush(self) -> None:
        """Wait until all events so far are stored, however long the store fails.

        With `caller_waits`, raises StoreError if the first events cannot be stored, but only once: the run ends with
        that error. Raises RunLost if this process no longer owns the run.
        """
        target = self._stored + len(self._pending)
        while self._stored < target:
            try:
                await asyncio.shield(self._commit_task or self._start_commit())
            except RunLost:
                raise
            except OSError as error:
                if not self._caller_waits:
                    self._outage.failed(run_id=self.run_id, error=str(error))
                    await asyncio.sleep(RETRY_SECONDS)
                    continue
                if self._failed:
                    return
                self._failed = True
                raise
        await self._ownership.check()

    async def drain(self) -> None:
        """Store the end of the run. Unlike `flush` it raises StoreError each time, so that the caller can try again."""
        await self.store()
        self._ownership.release()

    async def store(self) -> None:
        """Store all events so far. Raises StoreError each time that it fails."""
        while self._pending:
            await asyncio.shield(self._commit_task or self._start_commit())

    def close(self) -> None:
        """End the run's events: add those that the redaction was still holding back."""
        if self._redactor is not None:
            for written in self._redactor.flush():
                assert not isinstance(written, DrainedChunk)
                self._append(written)

    def _start_commit(self) -> asyncio.Task[None]:
        """Start to store what is pending, in a separate task, so that a cancelled waiter does not cancel it."""
        self._commit_task = task = asyncio.create_task(self._commit(), name="endstop commit")
        task.add_done_callback(_mark_retrieved)
        return task

    async def _commit(self) -> None:
        try:
            self._ownership.raise_if_lost()
            batch = self._batch()
            self._ownership.token = await self._store.commit(batch)
        except LeaseLost as error:
            self._ownership.lose(str(error))
            raise
        except (SequenceConflict, SessionLocked, SessionDeleted) as error:
            if self._caller_waits:
                raise
            raise self._ownership.lose(str(error)) from None
        except StoreError:
            if self._counter is not None:
                self._counter.count_failed_write()
            raise
        finally:
            self._commit_task = None
        self._caller_waits = False
        self._outage.over()
        del self._pending[: batch.last_seq - self._stored]
        self._stored = batch.last_seq
        self._indexed = [event for event in self._indexed if event.seq > batch.last_seq]
        self._message_ids = ()
        self._drop_stored()

    def _batch(self) -> EventBatch:
        last = self._stored + len(self._pending)
        finished = next((e.outcome for e in self._indexed if isinstance(e, RunFinished)), None)
        delivered = [e.message_id for e in self._indexed if isinstance(e, MessageAdded) and e.message_id]
        return EventBatch(
            session_id=self._session_id,
            run_id=self.run_id,
            first_seq=self._stored + 1,
            last_seq=last,
            lines=b"\n".join(self._pending) + b"\n",
            compress=self._compress,
            at=self._now(),
            started=next((e for e in self._indexed if isinstance(e, RunStarted)), None),
            resumed=any(isinstance(e, RunResumed) for e in self._indexed),
            finished=finished,
            questions=finished.questions if finished is not None else (),
            delivered=(*self._message_ids, *delivered),
            token=self._ownership.token,
        )

    # ---- reading

    def after(self, seq: int) -> list[Frame]:
        """Return at most `READ_FRAMES` frames after number `seq`. `seq + 1` must not be before `first`."""
        start = seq + 1 - self.first
        return self._frames[start : start + READ_FRAMES]


def _mark_retrieved(task: asyncio.Task[None]) -> None:
    """Retrieve the exception of a failed commit, so that asyncio does not warn of it: the next flush tries again."""
    if not task.cancelled():
        task.exception()


class Notifier:
    """Wakes all waiters each time that something happens.

    To miss nothing, read `count` first, then look at what may have changed, and then `wait` since that count.
    """

    def __init__(self) -> None:
        self.count = 0
        """How often `notify` was called."""
        self._waiting: set[asyncio.Future[bool | None]] = set()

    def notify(self) -> None:
        """Wake everybody who waits. Never blocks."""
        self.count += 1
        if self._waiting:
            waiting, self._waiting = self._waiting, set()
            for future in waiting:
                if not future.done():
                    future.set_result(None)

    async def wait(self, seconds: float, since: int) -> bool:
        """Wait, at most `seconds`, until `count` is no longer `since`; False after a timeout."""
        if self.count != since:
            return True
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bool | None] = loop.create_future()
        self._waiting.add(future)
        timer = loop.call_later(seconds, _time_out, future)
        try:
            return await future is None
        finally:
            timer.cancel()
            self._waiting.discard(future)


def _time_out(future: asyncio.Future[bool | None]) -> None:
    if not future.done():
        future.set_result(False)

"""The tape of a run: each of its events, encoded once, for the store and for every reader.

It is the journal of the run. Readers hold no more than a number; what has fallen off the tape's beginning they read
from the store, so a reader that is slow costs nothing and misses nothing that was stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from .._logging import log_warning
from ..decision import Event
from ..decision.events import MessageAdded, RunFinished, RunResumed, RunStarted
from ..durability import RunLost
from ..records.event_redaction import Redact, StreamRedactor
from ..records.format import DrainedChunk, encode_line
from ..store.base import Batch, Diverged, Held, Store

RETRY_SECONDS = 0.5
"""Seconds between two tries to store what a run waits for."""
MIN_FRAMES = 1024
"""At least so many of the latest events stay on the tape."""
COMMIT_EVENTS = 256
"""So many events are handed to the store, all at once, also where no flush asks for it."""
READ_FRAMES = 256
"""So many frames a reader gets at once: those of one that is stuck are held until it is dropped."""
_INDEXED = (RunStarted, RunResumed, RunFinished, MessageAdded)


class Frame(Struct, frozen=True):
    """One event for a reader. `line` is the event's line of a record, without its newline."""

    run_id: str
    seq: int
    line: bytes
    last: bool = False
    """Whether it is the terminal event of its run."""
    resumed: int = 0
    """How often its run was resumed before it."""


class EventBuffer:
    """One run's events.

    heard: ids of messages that the run's prompt is made of.
    resumed: how often the run has been resumed, this time included.
    sure: waits until this process certainly has the run; raises RunLost if it has it no more.
    spread: seconds after which an event is handed to the store also where no flush asks for it. With it a flush waits
        for a store that is away, as long as it takes, instead of ending the run.
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
        heard: Sequence[str] = (),
        resumed: int = 0,
        check_ownership: Callable[[], Awaitable[None]] | None = None,
        flush_interval: float | None = None,
    ) -> None:
        self.run_id = run_id
        self.first = 1
        """The number of the oldest event that is on the tape."""
        self.last = 0
        """The number of the latest event."""
        self.closed = False
        """True once the terminal event is on it."""
        self._store = store
        self._session_id = session_id
        self._now = now
        self._redactor = None if redact is None else StreamRedactor(redact)
        self._heard = tuple(heard)
        self._resumed = resumed
        self._check_ownership = check_ownership
        self._flush_interval = flush_interval
        self._flush_timer: asyncio.TimerHandle | None = None
        self._lost_reason: str | None = None
        self._frames: list[Frame] = []
        self.notifier = Notifier()
        """For readers: told of each event."""
        self._pending: list[bytes] = []
        """Lines that the store does not have, from number `_stored + 1` on."""
        self._stored = 0
        self._indexed: list[Event] = []
        self._commit_task: asyncio.Task[None] | None = None
        self._failed = False

    # ---- writing

    def write(self, event: Event | DrainedChunk) -> None:
        """Take an event. Returns at once, whoever reads. Raises RunLost if the run was given up."""
        if self._lost_reason is not None:
            raise RunLost(self._lost_reason)
        if isinstance(event, DrainedChunk):
            return  # nobody reads on after a cut here
        if not self.last:  # a run that goes on does not begin with 1
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
                self._append(written, encode_line(written))
        if len(self._pending) >= COMMIT_EVENTS and self._commit_task is None:
            self._start_commit()
        elif self._flush_interval is not None and self._flush_timer is None:
            self._flush_timer = asyncio.get_running_loop().call_later(self._flush_interval, self._flush_pending)
        self.notifier.notify()

    def give_up(self, why: str) -> None:
        """Give the run up: nothing more is taken, nor handed to the store."""
        self._lost_reason = why

    async def stop(self, why: str) -> None:
        """The same, and wait until what was handed to the store is written or refused.

        Before that nobody in this process may go on with the run: the store would take it for this one.
        """
        self.give_up(why)
        if self._commit_task is not None:
            await asyncio.wait((self._commit_task,))

    def _flush_pending(self) -> None:
        self._flush_timer = None
        if self._pending and self._commit_task is None and self._lost_reason is None:
            self._start_commit()

    def _append(self, event: Event, line: bytes) -> None:
        self._pending.append(line)
        if isinstance(event, _INDEXED):
            self._indexed.append(event)

    def _drop_stored(self) -> None:
        """Of the oldest frames, as far as the store has them: without it a reader would miss them."""
        number = min(len(self._frames) - MIN_FRAMES, self._stored + 1 - self.first)
        if len(self._frames) >= 2 * MIN_FRAMES and number > 0:
            del self._frames[:number]
            self.first += number

    async def flush(self) -> None:
        """Wait until the store has all that was written. Raises StoreError once, and then never again; and RunLost."""
        target = self._stored + len(self._pending)
        while self._stored < target:
            try:
                await asyncio.shield(self._commit_task or self._start_commit())
            except RunLost:
                raise
            except OSError as error:
                if self._flush_interval is not None:
                    log_warning("a run waits for the store", run_id=self.run_id, error=str(error))
                    await asyncio.sleep(RETRY_SECONDS)
                    continue
                if self._failed:
                    return
                self._failed = True
                raise
        if self._check_ownership is not None:
            await self._check_ownership()
        if self._lost_reason is not None:
            raise RunLost(self._lost_reason)

    async def drain(self) -> None:
        """The same, and raises StoreError each time: for who tries again until it works."""
        while self._pending:
            await asyncio.shield(self._commit_task or self._start_commit())

    def close(self) -> None:
        """The run is over; what a redaction still holds back is let go."""
        if self._redactor is not None:
            for written in self._redactor.flush():
                assert not isinstance(written, DrainedChunk)
                self._append(written, encode_line(written))

    def _start_commit(self) -> asyncio.Task[None]:
        """Begin to store what is there. A task of its own: who waits for it may be cancelled, and it may not."""
        self._commit_task = task = asyncio.create_task(self._commit())
        task.add_done_callback(_mark_retrieved)
        return task

    async def _commit(self) -> None:
        if self._lost_reason is not None:
            self._commit_task = None
            raise RunLost(self._lost_reason)
        batch = self._batch()
        try:
            await self._store.commit(batch)
        except (Diverged, Held) as error:
            if not (batch.started or batch.resumed) or self._flush_interval is not None:
                self.give_up(str(error))
                raise RunLost(str(error)) from None
            raise  # it has not begun, and whoever asked for it is told
        finally:
            self._commit_task = None
        del self._pending[: batch.last_seq - self._stored]
        self._stored = batch.last_seq
        self._indexed = [event for event in self._indexed if event.seq > batch.last_seq]
        self._heard = ()
        self._drop_stored()

    def _batch(self) -> Batch:
        last = self._stored + len(self._pending)
        finished = next((e.outcome for e in self._indexed if isinstance(e, RunFinished)), None)
        said = [e.message_id for e in self._indexed if isinstance(e, MessageAdded) and e.message_id]
        return Batch(
            session_id=self._session_id,
            run_id=self.run_id,
            first_seq=self._stored + 1,
            last_seq=last,
            lines=b"\n".join(self._pending) + b"\n",
            at=self._now(),
            started=next((e for e in self._indexed if isinstance(e, RunStarted)), None),
            resumed=any(isinstance(e, RunResumed) for e in self._indexed),
            finished=finished,
            questions=finished.questions if finished is not None else (),
            heard=(*self._heard, *said),
        )

    # ---- reading

    def after(self, seq: int) -> list[Frame]:
        """The next frames after number `seq`, which is not before the tape's beginning; no more than `PORTION`."""
        place = seq + 1 - self.first
        return self._frames[place : place + READ_FRAMES]


def _mark_retrieved(task: asyncio.Task[None]) -> None:
    """A failure that nobody waits for is no news: the next flush meets it again."""
    if not task.cancelled():
        task.exception()


# Something that others wait for to happen again and again.


class Notifier:
    """Who waits is woken at the next `tell`. Telling never waits.

    Read `count` before you look at what the news is about, and wait with it: then nothing told meanwhile is lost.
    """

    def __init__(self) -> None:
        self.count = 0
        """How often it was told."""
        self._waiting: set[asyncio.Future[bool | None]] = set()

    def notify(self) -> None:
        """Let everybody look who waits."""
        self.count += 1
        if self._waiting:
            waiting, self._waiting = self._waiting, set()
            for future in waiting:
                if not future.done():
                    future.set_result(None)

    async def wait(self, seconds: float, since: int) -> bool:
        """Wait until there is news after number `since`, or so many seconds; whether there is."""
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

"""Reading: the events of a run or a session, from wherever they are, each exactly once and in order.

What is on a tape comes from there, what was before it from the store, and only what is in neither becomes a `Missed`.
Who reads gets everything that is there at once, so a reader that is slow reads in larger portions.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import AsyncGenerator, Sequence

from msgspec import Struct

from ..store.base import GOING, Store, StoredRun
from .active import Lives
from .event_buffer import Frame

BEAT = 15.0
"""After so many seconds without an event, a reader gets an empty portion."""
_TERMINAL = b'{"type":"RUN_FINISHED"'


class Missed(Struct, frozen=True):
    """Stands where events are missing: neither tape nor store has them."""

    run_id: str
    missed: int
    """How many there were."""
    next_seq: int
    """The number of the event that follows."""


Portion = Sequence[Frame | Missed]


class Reader:
    """Reads for any number of readers at once. `beat`: see `BEAT`."""

    def __init__(self, store: Store, lives: Lives, beat: float = BEAT) -> None:
        self._store = store
        self._lives = lives
        self._beat = beat

    async def run(self, run_id: str, session_id: str, after: int = 0) -> AsyncGenerator[Portion, None]:
        """A run's events after number `after`, up to its terminal event.

        A run that was interrupted is waited for, because it may go on, until the service stops.
        """
        seq = after
        while True:
            tape = self._lives.tape_of(run_id)
            news = self._lives.news_of(session_id) if tape is None else tape.news
            seen = news.count
            on_tape = tape is not None and seq + 1 >= tape.first
            portion = tape.after(seq) if tape is not None and on_tape else await self._stored(run_id, seq)
            if portion:
                yield portion
                latest = portion[-1]
                if isinstance(latest, Frame) and latest.last:
                    return
                seq = latest.seq if isinstance(latest, Frame) else latest.next_seq - 1
            elif tape is None and (self._lives.stopping or await self._over(run_id, seq)):
                return
            elif not await news.wait(self._beat, seen):
                yield ()

    async def session(self, session_id: str, after: tuple[str, int] | None = None) -> AsyncGenerator[Portion, None]:
        """The events of all runs of a session after event `run_id:seq`; stays until the service stops."""
        run_id, seq = after or ("", 0)
        number = 0
        while True:
            news = self._lives.news_of(session_id)
            seen = news.count
            runs = await self._store.runs(session_id)
            number = next((run.number - 1 for run in runs if run.id == run_id), number)
            run = next((run for run in runs if run.number > number), None)
            if run is not None:
                async for portion in self.run(run.id, session_id, seq if run.id == run_id else 0):
                    yield portion
                run_id, number, seq = "", run.number, 0
            elif (not runs or self._lives.stopping) and self._lives.of_session(session_id) is None:
                return
            elif not await news.wait(self._beat, seen):
                yield ()

    async def _stored(self, run_id: str, seq: int) -> Portion:
        """What comes next, from the store; if that has nothing, the gap before the tape."""
        frames: list[Frame | Missed] = []
        pages = await self._store.pages(run_id, after=seq)
        run = await self._store.run(run_id) if pages else None
        resumed_at = () if run is None else run.resumed_at
        for page in pages:
            if page.first_seq > seq + 1:
                frames.append(Missed(run_id, page.first_seq - seq - 1, page.first_seq))
                seq = page.first_seq - 1
            for number, line in enumerate(page.lines.splitlines(), page.first_seq):
                if number > seq:
                    last, resumed = line.startswith(_TERMINAL), bisect_right(resumed_at, number)
                    frames.append(Frame(run_id, number, line, last, resumed))
            seq = page.last_seq
        tape = self._lives.tape_of(run_id)
        if not frames and tape is not None and seq + 1 < tape.first:
            frames.append(Missed(run_id, tape.first - 1 - seq, tape.first))
        return frames

    async def _over(self, run_id: str, seq: int) -> bool:
        """Whether nothing can come after this event."""
        run: StoredRun | None = await self._store.run(run_id)
        if run is None:
            return True
        if run.status not in (*GOING, "interrupted"):
            return run.last_seq <= seq
        session = await self._store.session(run.session_id)
        return session is None or session.run_id != run_id  # it has no end, and nobody goes on with it any more

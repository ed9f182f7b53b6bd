"""A store that keeps everything in memory, and forgets it with the process. For tests and for trying things."""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec.structs import replace

from ..decision import WrongUse
from .base import Batch, Held, Message, NewSession, Page, StoredRun, StoredSession, Wanted
from .memory_holding import MemoryHolding, fresh

_ENDED = frozenset({"completed", "exhausted", "failed", "cancelled"})


class MemoryStore(MemoryHolding):
    """Keeps sessions in this process. It can be opened again after it was closed, and still has them.

    Of several processes it keeps the books, too: it writes as the one that enrolled last.
    clock: gives seconds, for leases.
    """

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__(clock)
        self._pages: dict[str, list[Page]] = {}
        self._messages: dict[str, Message] = {}

    async def open(self) -> None:
        """Nothing to connect to."""

    async def close(self) -> None:
        """Nothing to let go of."""
        self._own = None

    async def add(self, session: NewSession) -> None:
        """Keep a new session, with status `running`."""
        self._fence()
        self._sessions[session.id] = fresh(session, self._own)

    async def commit(self, batch: Batch) -> None:
        """Take a batch."""
        self._fence()
        session = self._sessions[batch.session_id]
        steps = 0
        if batch.started is not None or batch.resumed:
            session = self._begun(session, batch.run_id)
        elif self._own is not None and session.holder != self._own:
            raise Held(f"the session {session.id} is not held by this process (any more)")
        if batch.started is not None:
            number = session.runs + (batch.run_id not in self._waiting)
            session = replace(session, runs=number, questions=())
            self._runs[batch.run_id] = StoredRun(
                id=batch.run_id,
                session_id=batch.session_id,
                number=number,
                status="running",
                stop_reason=None,
                prompt=batch.started.prompt,
                started_at=batch.started.started_at,
                finished_at=None,
                last_seq=0,
                outcome=None,
                cancel=self._runs[batch.run_id].cancel if batch.run_id in self._waiting else None,
            )
        self._waiting.pop(batch.run_id, None)
        run = replace(self._runs[batch.run_id], last_seq=batch.last_seq)
        if batch.resumed:
            run = replace(run, status="running", resumed_at=(*run.resumed_at, batch.first_seq), job=None)
        if batch.finished is not None:
            end, steps = batch.finished, batch.finished.steps
            run = replace(run, status=end.status, stop_reason=end.stop_reason, finished_at=batch.at, outcome=end)
            session = replace(session, status=end.status, stop_reason=end.stop_reason, questions=batch.questions)
            session = replace(session, holder=None)
        self._runs[batch.run_id] = run
        self._sessions[session.id] = replace(session, updated_at=batch.at, steps=session.steps + steps)
        page = Page(batch.run_id, batch.first_seq, batch.last_seq, batch.lines)
        self._pages.setdefault(batch.run_id, []).append(page)
        for id in batch.heard:
            self._messages.pop(id, None)

    async def session(self, id: str) -> StoredSession | None:
        """The session of this id."""
        return self._sessions.get(id)

    async def sessions(self, wanted: Wanted = Wanted()) -> tuple[list[StoredSession], str | None]:  # noqa: B008  frozen
        """Sessions, newest first."""
        found = [
            session
            for session in reversed(self._sessions.values())
            if all(getattr(wanted, name) in (None, getattr(session, name)) for name in ("owner", "status", "agent"))
        ]
        if wanted.before is not None:
            places = [place for place, session in enumerate(found) if session.id == wanted.before]
            if not places:
                raise WrongUse(f"{wanted.before[:100]!r} is no place in the list: use `next` of the page before")
            found = found[places[0] + 1 :]
        return found[: wanted.limit], found[wanted.limit - 1].id if len(found) > wanted.limit else None

    async def run(self, id: str) -> StoredRun | None:
        """The run of this id."""
        return self._runs.get(id)

    async def runs(self, session_id: str) -> list[StoredRun]:
        """All runs of a session, in order."""
        return [run for run in self._runs.values() if run.session_id == session_id]

    async def pages(self, run_id: str, *, after: int = 0, limit: int = 64) -> list[Page]:
        """Pages of a run that hold events after number `after`."""
        return [page for page in self._pages.get(run_id, ()) if page.last_seq > after][:limit]

    async def say(self, message: Message) -> None:
        """Keep what a user said."""
        self._fence()
        self._messages[message.id] = message

    async def unheard(self, session_id: str) -> list[Message]:
        """What no run has heard yet, in order."""
        return [message for message in self._messages.values() if message.session_id == session_id]

    async def drop_messages(self, session_id: str) -> None:
        """Forget what no run has heard."""
        self._fence()
        for message in await self.unheard(session_id):
            del self._messages[message.id]

    async def delete(self, session_id: str) -> bool:
        """Forget a session with all that belongs to it."""
        self._fence()
        await self.drop_messages(session_id)
        for run in await self.runs(session_id):
            del self._runs[run.id]
            self._waiting.pop(run.id, None)
            self._pages.pop(run.id, None)
        return self._sessions.pop(session_id, None) is not None

    async def forget(self, *, before: str | None = None, keep: int | None = None) -> int:
        """Forget ended sessions: those last updated before a time, and all but the `keep` latest."""
        self._fence()
        ended = [session for session in self._sessions.values() if session.status in _ENDED]
        ended.sort(key=lambda session: session.updated_at)
        surplus = ended[: max(0, len(ended) - keep)] if keep is not None else []
        old = [session for session in ended if before is not None and session.updated_at < before]
        for id in {session.id for session in [*old, *surplus]}:
            await self.delete(id)
        return len({session.id for session in [*old, *surplus]})

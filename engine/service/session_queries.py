"""Queries: reading sessions, runs, outcomes, events and records, whether a session is running or not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from msgspec.structs import replace

from ..base.version import __version__
from ..decision import Outcome, WrongUse
from ..records.format import Header, encode_line
from ..records.frames import Frames
from ..store.base import GOING, SessionFilter, SessionStatus, Store, StoredRun, StoredSession
from .active import ActiveSession, ActiveSessions
from .errors import Unknown
from .follow import EventReader


async def session_and_active(
    queries: SessionQueries, active_sessions: ActiveSessions, session_id: str, owner: str | None
) -> tuple[StoredSession, ActiveSession | None]:
    """Return a session as the store has it, and its run in this process; None if no run is active here.

    A run that ended while the store was read is returned, too: what was read may be older than its end. Raises Unknown
    like `SessionQueries.session`.
    """
    before = active_sessions.by_session(session_id)
    stored = await queries.session(session_id, owner=owner)
    return stored, active_sessions.by_session(session_id) or before


class SessionQueries:
    """The reading half of the service. `owner` in its methods: whose session it must be; None: anybody's."""

    def __init__(self, store: Store, active_sessions: ActiveSessions, heartbeat: float) -> None:
        self.store = store
        self._active_sessions = active_sessions
        self._reader = EventReader(store, active_sessions, heartbeat)

    async def session(self, session_id: str, *, owner: str | None = None) -> StoredSession:
        """Return a session. Raises Unknown if it does not exist or belongs to somebody else."""
        stored = await self.store.session(session_id)
        if stored is None or owner not in (None, stored.owner):
            hint = ": that is a run's id, give the session's" if session_id.startswith("run_") else ""
            raise Unknown("session", f"there is no session {session_id[:100]!r}{hint}")
        return stored

    async def sessions(
        self,
        *,
        owner: str | None = None,
        status: SessionStatus | None = None,
        agent: str | None = None,
        limit: int = 50,
        before: str | None = None,
        parent: str | None = None,
    ) -> tuple[list[StoredSession], str | None]:
        """Return a page of sessions, newest first, and the `before` of the next page; None if there is none.

        parent: list the sub-agents of this session; None: list sessions that are not sub-agents.
        """
        wanted = SessionFilter(owner=owner, status=status, agent=agent, limit=limit, before=before, parent=parent)
        return await self.store.sessions(wanted)

    async def run(self, run_id: str, *, owner: str | None = None) -> StoredRun:
        """Return a run. Raises Unknown if it does not exist or belongs to somebody else."""
        stored = await self.store.run(run_id)
        session = None if stored is None else await self.store.session(stored.session_id)
        if stored is None or session is None or owner not in (None, session.owner):
            hint = ": that is a session's id, give its run_id" if run_id.startswith("session_") else ""
            raise Unknown("run", f"there is no run {run_id[:100]!r}{hint}")
        return self._now(stored)

    async def runs(self, session_id: str, *, owner: str | None = None) -> list[StoredRun]:
        """Return the runs of a session, in order."""
        await self.session(session_id, owner=owner)
        return [self._now(run) for run in await self.store.runs(session_id)]

    async def outcome(self, run_id: str, *, wait: float = 0, owner: str | None = None) -> Outcome | None:
        """Return the outcome of a run; None if it has none after `wait` seconds."""
        stored = await self.run(run_id, owner=owner)
        active = self._active_sessions.by_run(run_id)
        if active is None:
            return await self._stored_outcome(stored, wait)
        if wait > 0:
            try:
                await asyncio.wait_for(active.ended.wait(), wait)
            except TimeoutError:
                return None
        return active.run.outcome if active.run is not None and active.run.finished else None

    async def _stored_outcome(self, run: StoredRun, wait: float) -> Outcome | None:
        """Return the outcome of a run; None if it has none within `wait`.

        For a run that has ended or that another process executes.
        """
        deadline = asyncio.get_running_loop().time() + wait
        notifier = self._active_sessions.notifier_of(run.session_id)
        while True:
            seen = notifier.count
            run = await self.run(run.id)
            left = deadline - asyncio.get_running_loop().time()
            if run.outcome is not None or run.status not in GOING or left <= 0:
                return run.outcome
            await notifier.wait(left, seen)

    def _now(self, run: StoredRun) -> StoredRun:
        """Return the run, with the number of its latest event: readers may see an event before it is stored."""
        buffer = self._active_sessions.buffer_of(run.id)
        return run if buffer is None else replace(run, last_seq=max(run.last_seq, buffer.last))

    def follow_run(self, run: StoredRun, after: int = 0) -> AsyncGenerator[Frames, None]:
        """Yield the events of a run after number `after` as they come; an empty sequence while nothing happens.

        run: as `run(run_id)` returns it. Raises WrongUse for an id.
        """
        if not isinstance(run, StoredRun):
            raise WrongUse(f"follow_run: {run!r} is not a run: give `await service.run(run_id)`")
        return self._reader.run(run.id, run.session_id, after)

    def follow_session(self, session_id: str, after: tuple[str, int] | None = None) -> AsyncGenerator[Frames, None]:
        """Yield the events of all runs of a session, including future ones, after event `after` (run id, number)."""
        return self._reader.session(session_id, after)

    async def record(self, session: StoredSession) -> AsyncGenerator[bytes, None]:
        """Yield the session as a record file, in pieces."""
        async with aclosing(session_record(self.store, session)) as pieces:
            async for piece in pieces:
                yield piece


async def session_record(store: Store, session: StoredSession) -> AsyncGenerator[bytes, None]:
    """Yield a stored session as a record file, in pieces."""
    header = Header(session_id=session.id, created_at=session.created_at, engine=__version__)
    yield encode_line(header) + b"\n"
    for run in await store.runs(session.id):
        seq = 0
        while pages := await store.pages(run.id, after=seq):
            for page in pages:
                yield page.lines
            seq = pages[-1].last_seq

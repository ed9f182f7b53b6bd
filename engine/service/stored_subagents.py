"""Sub-agents of a session that runs in this process: sessions in the store, too, which readers can follow.

They belong to the run of their caller: they continue where it continues, and a process that loses it loses them. So
nothing else starts their runs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Protocol

from ..config import RunConfig
from ..durability import ProviderAway, RunLost
from ..records.format import Redact
from ..records.reader import RecordedRun
from ..run import Run
from ..session import Session
from ..store.base import NewSession, Store, StoreError
from .active import ActiveSession, ActiveSessions
from .admission import redacted, title_of
from .event_buffer import EventBuffer
from .history import stored_runs
from .ownership import RunOwnership


class MakeBuffer(Protocol):
    """Makes the event buffer of a run."""

    def __call__(
        self,
        session_id: str,
        run_id: str,
        now: Callable[[], str],
        redact: Redact | None,
        ownership: RunOwnership,
        resumed: int,
        *,
        subagent: bool,
    ) -> EventBuffer:
        """Make it. resumed: how often the run was resumed. subagent: whether it is the run of a sub-agent."""
        ...


class StoredSubagents:
    """`SubagentRecords` in the store.

    root: the session whose run they belong to, directly or through other sub-agents. drained: stores the end of a run,
    and logs it.
    """

    def __init__(
        self,
        store: Store,
        active_sessions: ActiveSessions,
        root: ActiveSession,
        make_buffer: MakeBuffer,
        drained: Callable[[ActiveSession, Run, EventBuffer], Awaitable[None]],
    ) -> None:
        self._store = store
        self._active_sessions = active_sessions
        self._root = root
        self._make_buffer = make_buffer
        self._drained = drained

    def target(self, name: str, session_id: str) -> None:
        """Return None: each run has its own buffer."""

    def path(self, name: str, session_id: str) -> str:
        """Return an empty text: the store has it under its id."""
        return ""

    async def runs(self, name: str, session_id: str) -> Sequence[RecordedRun]:
        """Implement `SubagentRecords.runs`."""
        return await stored_runs(self._store, session_id)

    @asynccontextmanager
    async def kept(
        self, session: Session, run: Run, config: RunConfig, title: str
    ) -> AsyncIterator[Callable[[], None]]:
        """Implement `SubagentRecords.kept`."""
        root, redact = self._root, config.record_options.redact
        active = ActiveSession(session.id, root.owner, root.agent)
        active.ownership = RunOwnership(root.ownership.lease, within=root.ownership)

        def now() -> str:
            return config.runtime.clock.wall().isoformat(timespec="milliseconds")

        is_new = await self._store.session(session.id) is None
        if is_new:
            await self._store.add(self._new(session, title_of(redacted(title, redact)), now()))
        before = await self._store.run(run.id) if session.interrupted else None
        resumed = 0 if before is None else len(before.resumed_at) + 1
        buffer = self._make_buffer(session.id, run.id, now, redact, active.ownership, resumed, subagent=True)
        session.record = buffer
        active.attach_run(session, None, run, buffer)
        self._active_sessions.add_subagent(active)
        away = ""
        try:
            yield lambda: self._active_sessions.run_started(active, run)
        except ProviderAway as error:
            away = str(error)
            raise
        finally:
            try:
                await self._end(active, run, buffer, is_new and not run.begun)
                if away:
                    with suppress(StoreError):  # it goes on with its caller, whatever its status says
                        await self._store.mark_interrupted(session.id, away, token=active.ownership.token)
            finally:
                self._active_sessions.remove(active)

    async def _end(self, active: ActiveSession, run: Run, buffer: EventBuffer, unused: bool) -> None:
        """Store the end of a run, or forget a session whose run has not begun."""
        try:
            if unused:
                with suppress(StoreError):
                    await self._store.delete(active.session_id)
            else:
                await self._drained(active, run, buffer)
        except RunLost as lost:
            active.ownership.lose(str(lost))
            await buffer.stop()

    def _new(self, session: Session, title: str, at: str) -> NewSession:
        return NewSession(
            id=session.id,
            owner=self._root.owner,
            agent=self._root.agent,
            title=title,
            created_at=at,
            metadata=dict(session.metadata),
            parent=None if session.parent is None else session.parent.session_id,
        )

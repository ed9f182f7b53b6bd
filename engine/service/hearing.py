"""Messages that came too late for the run that they were said to: the session's next run begins by itself for them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

from .._logging import complain
from ..store.base import Message, Store, StoredSession, StoreError
from .active import Live, Lives

HEARD_BY_ITSELF = frozenset({"completed", "exhausted"})
"""After a run with such a status, the next one begins by itself if there are messages that it did not hear."""
Begin = Callable[[Live, list[Message]], Awaitable[None]]
"""Begins a run with messages that the session's run before did not hear."""


class Hearing:
    """Finds such messages, and has a run begin for them. elsewhere: runs are also made by other processes."""

    def __init__(self, store: Store, lives: Lives, begin: Begin, *, elsewhere: bool) -> None:
        self._store = store
        self._lives = lives
        self.begin = begin
        self._elsewhere = elsewhere

    async def left(self, live: Live) -> list[Message]:
        """Messages that a run of its own is to hear."""
        run = live.run
        if self._lives.stopping or run is None or not run.finished or run.outcome.status not in HEARD_BY_ITSELF:
            return []
        try:
            messages = await self._store.unheard(live.session_id)
        except StoreError:
            return []
        return [] if self._lives.stopping else messages

    async def hear(self, before: Live, messages: list[Message]) -> None:
        """Have a run begin for these."""
        try:
            await self.begin(before, messages)
        except Exception as error:
            complain("messages are left for the session's next run", session_id=before.session_id, error=str(error))

    async def look_after(self, live: Live) -> None:
        """A message came as this run was ending."""
        await live.ended.wait()
        messages = await self.left(live)
        if messages and self._lives.of_session(live.session_id) is None:
            await self.hear(live, messages)

    async def look_after_elsewhere(self, said_to: StoredSession, message: Message, text: str) -> None:
        """A message was said to a run of another process, which may have looked for messages before it was stored."""
        if not self._elsewhere:
            return
        with suppress(StoreError):  # then the session's next run hears it
            session = await self._store.session(said_to.id)
            if session is None or session.run_id != said_to.run_id or session.status not in HEARD_BY_ITSELF:
                return
            messages = await self._store.unheard(session.id)
            if messages and not self._lives.stopping:
                await self.hear(Live(session.id, session.owner, session.agent, said={message.id: text}), messages)

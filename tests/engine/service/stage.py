"""A store that is held, or fails, where a test wants it."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from endstop.store.base import NewSession, StoreError

from ..temporary_store import TemporaryStore


class Stage(TemporaryStore):
    """A store whose methods can be held, or made to fail, at their n-th call."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()
        self.held: dict[tuple[str, int], tuple[asyncio.Event, asyncio.Event]] = {}
        self.failing: dict[tuple[str, int], Exception] = {}

    def hold(self, method: str, number: int = 1) -> tuple[asyncio.Event, asyncio.Event]:
        """Hold a call from now on; gives what tells that it came, and what lets it go."""
        key = (method, self.calls[method] + number)
        self.held[key] = asyncio.Event(), asyncio.Event()
        return self.held[key]

    def fail(self, method: str, *numbers: int, error: Exception | None = None) -> None:
        """Let these calls, counted from now on, fail."""
        raised = error or StoreError("no space left")
        self.failing |= {(method, self.calls[method] + number): raised for number in numbers}

    async def _enter(self, method: str) -> None:
        self.calls[method] += 1
        key = (method, self.calls[method])
        if key in self.held:
            came, go = self.held[key]
            came.set()
            await go.wait()
        if key in self.failing:
            raise self.failing[key]

    async def add(self, session: NewSession) -> None:
        """As one writer does it: who leaves meanwhile leaves it to be written."""
        await super().add(session)
        await self._enter("add")

    async def commit(self, batch: Any) -> int:
        await self._enter("commit")
        token = await super().commit(batch)
        await self._enter("committed")
        return token

    async def session(self, id: str) -> Any:
        await self._enter("session")
        found = await super().session(id)
        await self._enter("session_read")
        return found

    async def undelivered_messages(self, session_id: str) -> Any:
        found = await super().undelivered_messages(session_id)
        await self._enter("undelivered_messages")
        return found

    async def add_message(self, message: Any) -> None:
        await super().add_message(message)
        await self._enter("add_message")

    async def delete(self, session_id: str) -> bool:
        await self._enter("delete")
        return await super().delete(session_id)

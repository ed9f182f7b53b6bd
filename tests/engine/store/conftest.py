"""A store of either kind."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio
from endstop.engine.store.place import store_at
from endstop.engine.store.sql import SqlStore


@pytest_asyncio.fixture
async def store(place: str) -> AsyncIterator[SqlStore]:
    """An open, empty store."""
    opened = store_at(place)
    await opened.open()
    yield opened
    await opened.close()

"""A store of either kind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from endstop.store.base import Store
from endstop.store.sql import SqlStore
from endstop.store.url import store_at

from ...postgres import Server, server


@pytest_asyncio.fixture
async def store(place: str) -> AsyncIterator[SqlStore]:
    """An open, empty store."""
    opened = store_at(place)
    await opened.open()
    yield opened
    await opened.close()


@pytest_asyncio.fixture(params=["sqlite", "postgresql"])
async def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """An open, empty store. As `join` says, it writes as the process that enrolled last."""
    if request.param == "sqlite":
        opened = store_at(tmp_path / "store.sqlite")
    else:
        postgres: Server = request.getfixturevalue("postgres")
        opened = store_at(postgres.url(postgres.new_database()))
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
def mortal() -> Iterator[Server]:
    """A server that a test may kill."""
    with server() as started:
        yield started

"""Every test of a store runs against both databases."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from endstop.engine.store.place import store_at
from endstop.engine.store.sql import SqlStore

from ...postgres import Server, server


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A server of the tests' own."""
    with server() as started:
        yield started


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a new store may be made."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.sqlite'}"
    postgres: Server = request.getfixturevalue("postgres")
    return postgres.url(postgres.new_database())


@pytest_asyncio.fixture
async def store(place: str) -> AsyncIterator[SqlStore]:
    """An open, empty store."""
    opened = store_at(place)
    await opened.open()
    yield opened
    await opened.close()

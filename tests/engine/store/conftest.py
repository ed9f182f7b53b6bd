"""A store of either kind."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from endstop.store import leases
from endstop.store.base import Store
from endstop.store.sql import SqlStore
from endstop.store.url import store_at

from ...postgres import Server
from ..temporary_store import empty_file


@pytest.fixture(scope="module", autouse=True)
def _time_for_leases() -> Iterator[None]:
    """Nobody is given up because a busy machine has no turn for a thread. The tests of these limits set them."""
    with pytest.MonkeyPatch.context() as changed:
        for limit in ("ANSWER_SECONDS", "FROZEN_SECONDS"):
            changed.setattr(leases, limit, 60.0)
        yield


@pytest.fixture
def url(postgres: Server) -> Iterator[str]:
    """Where a store in PostgreSQL is that has its tables, and nothing in them."""
    with postgres.empty_store() as made:
        yield made


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The same in either database."""
    if request.param == "postgresql":
        return str(request.getfixturevalue("url"))
    shutil.copyfile(empty_file(), tmp_path / "store.sqlite")
    return f"sqlite:///{tmp_path / 'store.sqlite'}"


@pytest_asyncio.fixture
async def store(empty_place: str) -> AsyncIterator[SqlStore]:
    """An open, empty store."""
    opened = store_at(empty_place)
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
def any_store(store: SqlStore) -> Store:
    """An open, empty store. As `join` says, it writes as the process that enrolled last."""
    return store

"""A model that outlives all processes of these tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from ..postgres import Server
from .fleet import Fleet, Model, fleet


@pytest_asyncio.fixture
async def model(tmp_path: Path) -> AsyncIterator[Model]:
    """The model, with a side log of its own."""
    async with Model(tmp_path) as started:
        yield started


@pytest_asyncio.fixture
async def ships(tmp_path: Path, postgres: Server, model: Model) -> AsyncIterator[Fleet]:
    """A fleet with nobody in it, on an empty database."""
    with postgres.empty_store() as url:
        async with fleet(tmp_path / "fleet", url, model) as made:
            yield made

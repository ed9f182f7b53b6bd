"""Object stores of either kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from endstop.objects.object_store import ObjectStore
from endstop.objects.object_url import object_store_at

from ...seaweedfs import Server


@pytest.fixture
def bucket(s3_server: Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of an empty place in a bucket, whose keys are in the environment."""
    for name, value in s3_server.variables.items():
        monkeypatch.setenv(name, value)
    return s3_server.new_place()


@pytest.fixture(params=["folder", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where an empty object store is."""
    return str(request.getfixturevalue("bucket") if request.param == "s3" else tmp_path / "archive")


@pytest.fixture
def make(place: str) -> Callable[[], ObjectStore]:
    """Makes objects for that place."""
    return lambda: object_store_at(place)

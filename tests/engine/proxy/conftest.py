"""Fixtures of the tests of `until` behind the proxy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file to which the tool of the vendors' agents adds a line with each call."""
    from .vendors import WIRES

    folder = tmp_path / "work"
    folder.mkdir()
    file = folder / "work.txt"
    file.write_text("")
    for wire in WIRES:
        if "result" not in vars(type(wire)):
            continue
        monkeypatch.setattr(type(wire), "result", _working(type(wire).result, file))
    return file


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """An empty folder for the proxy's records."""
    folder = tmp_path / "records"
    folder.mkdir()
    return folder


def _working(result: Any, file: Path) -> Any:
    def works(self: Any, calls: Any) -> Any:
        with file.open("a") as opened:
            opened.write("line\n" * len(calls))
        return result(self, calls)

    return works

"""A record is closed whoever leaves, and whenever."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from endstop.records.frames import RecordFrames
from endstop.viewer import record_follower
from endstop.viewer.record_follower import skip_to


async def test_a_record_that_is_opened_for_a_reader_who_has_left_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "record.jsonl"
    path.write_bytes(b"")
    opening, may_open, closed = threading.Event(), threading.Event(), threading.Event()

    class Slow(RecordFrames):
        def __init__(self, path: Path) -> None:
            opening.set()
            assert may_open.wait(60)
            super().__init__(path)

        def close(self) -> None:
            super().close()
            closed.set()

    monkeypatch.setattr(record_follower, "RecordFrames", Slow)
    reader = asyncio.ensure_future(skip_to(path, None))
    assert await asyncio.to_thread(opening.wait, 60)
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    may_open.set()
    assert await asyncio.to_thread(closed.wait, 60)

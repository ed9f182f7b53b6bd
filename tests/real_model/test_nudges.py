"""The kept continuations of nudges.py replay the same, and end as docs/explanation/real_model.md says."""

from __future__ import annotations

from pathlib import Path

import pytest
from endstop import read_record
from endstop.decision.events import MessageAdded
from endstop.replay import replay

RECORDS = Path(__file__).parent / "records"
ENDS = {"circle": "text_final", "announcement": "text_final", "announcement_call": "completed"}


def test_each_record_has_its_end() -> None:
    assert sorted(path.stem for path in RECORDS.glob("*.jsonl")) == sorted(ENDS)


@pytest.mark.parametrize("name", ENDS)
async def test_a_continuation_after_a_nudge_replays_the_same(name: str) -> None:
    path = RECORDS / f"{name}.jsonl"
    run = read_record(path).runs[-1]
    assert run.started.origin is not None
    nudges = [event for event in run.events if isinstance(event, MessageAdded) and event.seq >= run.started.origin.at]
    assert [event.origin for event in nudges] == ["nudge"]
    report = await replay(str(path))
    assert report.same, [str(run.divergence) for run in report.runs]
    assert report.runs[-1].outcome.stop_reason == ENDS[name]

"""The records of the "before" loop replay the same, with its rule handed to the replay."""

from __future__ import annotations

from pathlib import Path

import pytest
from endstop.replay import replay

from .ask_again import ASK_AGAIN

RECORDS = sorted((Path(__file__).parent.parent / "records" / "before").glob("*.jsonl"))


def test_there_are_records() -> None:
    assert [path.stem for path in RECORDS] == ["A1", "B6"]


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
async def test_a_run_that_only_the_limit_ends_replays_the_same(path: Path) -> None:
    report = await replay(str(path), rules=[ASK_AGAIN])
    assert report.same, [str(run.divergence) for run in report.runs]
    assert {run.outcome.stop_reason for run in report.runs} == {"step_limit"}

"""Golden records: what a real model did is replayed, and decided the same. Made by tests/real_model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from endstop import read_record
from endstop.decision import events as ev
from endstop.replay import replay
from endstop.tools import workspace_tools

from ..real_model.tasks import TASKS, files_in, put

RECORDS = Path(__file__).parent.parent / "records"
NAMES = sorted(path.stem for path in RECORDS.glob("*.jsonl"))
KEPT: dict[str, Any] = json.loads((RECORDS / "tasks.json").read_text(encoding="utf-8"))
"""By name: the task, the files before and after, how the run ended, and whether the work was right."""


def test_what_is_kept_has_a_record_and_holds_no_path_of_a_machine() -> None:
    assert set(KEPT) <= set(NAMES)
    for name in NAMES:
        text = (RECORDS / f"{name}.jsonl").read_text(encoding="utf-8")
        assert len(text) < 300_000, name
        assert [place for place in ("/home/", "/root/", "/work/", "/Users/") if place in text] == [], name


@pytest.mark.parametrize("tools", ["recorded", "live"])
@pytest.mark.parametrize("name", NAMES)
async def test_a_golden_record_replays_the_same(name: str, tools: str, tmp_path: Path) -> None:
    path = str(RECORDS / f"{name}.jsonl")
    kept = KEPT.get(name)
    if tools == "recorded":
        report = await replay(path)
    elif kept is None:
        pytest.skip("nothing is known of the folder it worked in")
    else:
        folder = put(kept["before"], tmp_path / "folder")
        report = await replay(path, tools=workspace_tools(folder), live_tools=True)
        assert files_in(folder) == kept["after"]
        assert TASKS[kept["task"]].right(folder, report.runs[-1].outcome.answer or "") is kept["right"]
    assert report.same, [str(run.divergence) for run in report.runs]
    if kept is not None:
        outcome = report.runs[-1].outcome
        assert (outcome.status, outcome.stop_reason) == (kept["status"], kept["stop_reason"])


def ended(name: str) -> Any:
    finished = read_record(RECORDS / f"{name}.jsonl").runs[-1].finished
    assert finished is not None
    return finished.outcome


def test_the_endless_loop_is_exhausted_and_never_completed() -> None:
    assert (ended("loop").status, ended("loop").answer) == ("exhausted", "")


def test_the_premature_finish_is_completed_and_only_a_check_knows_better() -> None:
    assert ended("premature").status == "completed"
    assert KEPT["premature"]["right"] is False


def test_the_port_is_set_and_the_run_stopped_at_the_completion_call() -> None:
    assert KEPT["port"]["right"] is True
    run = read_record(RECORDS / "port.jsonl").runs[-1]
    assert ended("port").stop_reason == "completed"
    assert run.after_cut


def test_of_three_calls_one_ran_with_the_users_arguments_one_was_denied_and_one_was_answered_too_late() -> None:
    runs = read_record(RECORDS / "approval.jsonl").runs
    answers = {e.call_id: e for run in runs for e in run.events if isinstance(e, ev.QuestionAnswered)}
    edited, denied, late = (answers[id] for id in ("c2", "c4", "c5"))
    assert (edited.says, edited.arguments) == ("yes", {"invoice": "a", "amount": 50})
    assert (denied.says, denied.text, denied.expired) == ("no", "they are needed", False)
    assert (late.says, late.expired) == ("no", True)
    results = {e.call_id: e for run in runs for e in run.events if isinstance(e, ev.ToolCallResult)}
    assert [results[id].status for id in ("c2", "c3", "c4", "c5")] == ["ok", "ok", "denied", "denied"]
    assert results["c2"].content.endswith("a: 50 paid")
    assert ended("approval").status == "completed"

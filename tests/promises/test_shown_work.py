"""Row A3: what people are shown of a run's work says no more than is known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from endstop import Engine, Tool
from endstop.cli.views.text import EndingText, ending_of
from endstop.decision import Outcome
from endstop.providers import Scripted, call
from endstop.tools import finish_task

from ..console import endstop
from ..engine.cli.pages import held, section

RECORDS = Path(__file__).parents[1] / "records"
TASKS = json.loads((RECORDS / "tasks.json").read_text())
NOT_RIGHT = [name for name, task in TASKS.items() if task["right"] is False]
DONE = ("the work was done", "Task complete", "task complete", "checked, and passed", "checked, and good")
"""Words that say more than that the agent said so."""


# ---- of the records, none that is not right is shown as done


def test_the_records_hold_some_that_say_they_are_done_and_are_not() -> None:
    assert sum(TASKS[name]["status"] == "completed" for name in NOT_RIGHT) >= 7


@pytest.mark.parametrize("name", NOT_RIGHT)
async def test_A3_no_record_that_is_not_right_is_shown_as_done_by_audit_and_replay(name: str) -> None:
    audited = await endstop("audit", RECORDS / f"{name}.jsonl")
    replayed = await endstop("replay", RECORDS / f"{name}.jsonl")
    for told in (audited.out, replayed.out + replayed.err):
        assert [word for word in DONE if word in told] == []
        if TASKS[name]["status"] == "completed":
            assert "reported by the agent, not checked" in told


async def test_A3_no_record_that_is_not_right_is_shown_as_done_by_the_report(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    done = await endstop("report", *(RECORDS / f"{name}.jsonl" for name in NOT_RIGHT), "--html", page)
    for told in (done.out, page.read_text()):
        assert [word for word in DONE if word in told] == []
        assert "reported as done, not checked" in told


async def test_A3_what_was_rated_as_wrong_is_red_in_the_report_and_what_was_not_looked_at_is_no_more_than_said(
    tmp_path: Path,
) -> None:
    session = json.loads((RECORDS / "add.jsonl").read_text().splitlines()[0])["session_id"]
    (tmp_path / "ratings.csv").write_text(f"session_id,rating\n{session},0\n")
    page = tmp_path / "report.html"
    records = (RECORDS / "add.jsonl", RECORDS / "author.jsonl")
    done = await endstop("report", *records, "--ratings", tmp_path / "ratings.csv", "--html", page, "--json")
    known = done.json["overall"]["known"]
    assert {word: share["runs"] for word, share in known.items() if share["runs"]} == {"said": 1, "wrong": 1}
    (shown,) = (part for part in section(held(page.read_text()), "sessions") if part["part"] == "sessions")
    assert {one["known"]: one["tone"] for one in shown["sessions"]} == {
        "checked and wrong by rating": "bad",
        "reported as done, not checked": "main",
    }


# ---- the words and the colours


def ending(**fields: Any) -> EndingText:
    given = {"run_id": "r", "session_id": "s", "status": "completed", "stop_reason": "completed", **fields}
    return ending_of(Outcome(**given))


@pytest.mark.parametrize(
    ("outcome", "tone", "title", "words"),
    [
        ({}, "success", "Reported as done", "reported by the agent, not checked"),
        ({"stop_reason": "text_final"}, "success", "Answered", "reported by the agent, not checked"),
        ({"stop_reason": "handled"}, "success", "Answered", "answered by a handler, not checked"),
        (
            {"stop_reason": "judged", "accepted_by": ("m:strict_judge",)},
            "success",
            "Reported as done",
            "judged complete by strict_judge, not checked",
        ),
        (
            {"accepted_by": ("m:tests_pass", "user")},
            "success",
            "Reported as done",
            "reported by the agent, accepted by tests_pass and the user, not checked",
        ),
        (
            {"failed_calls": ("edit_file",)},
            "doubt",
            "Reported as done",
            "reported by the agent, not checked; edit_file failed earlier, and no later call made up for it",
        ),
        (
            {"evaluation": {"name": "m:check", "error": "it hung"}},
            "success",
            "Reported as done",
            "reported by the agent, not checked; the evaluation gave no verdict",
        ),
        (
            {"verdict": "passed", "evaluation": {"name": "m:check"}},
            "success",
            "Task complete",
            "checked by check: passed",
        ),
        (
            {"verdict": "failed", "evaluation": {"name": "m:CommandEvaluator('./check.sh')"}},
            "failure",
            "Reported as done, but wrong",
            "wrong: checked by `./check.sh`, failed",
        ),
        (
            {"status": "exhausted", "stop_reason": "step_limit", "verdict": "passed", "evaluation": {}},
            "success",
            "Stopped: limit of steps, work checked",
            "checked by an evaluation: passed",
        ),
        (
            {"status": "exhausted", "stop_reason": "step_limit", "verdict": "failed", "evaluation": {}},
            "failure",
            "Stopped: limit of steps, work wrong",
            "wrong: checked by an evaluation, failed",
        ),
        ({"status": "exhausted", "stop_reason": "step_limit"}, "limit", "Stopped: limit of steps", ""),
        ({"status": "cancelled", "stop_reason": "cancelled"}, "cancelled", "Cancelled", ""),
    ],
)
def test_A3_the_end_says_what_is_known_of_the_work(outcome: dict[str, Any], tone: str, title: str, words: str) -> None:
    told = ending(**outcome)
    assert (told.tone, told.title, told.work) == (tone, title, words)


async def test_A3_a_completion_after_a_failed_edit_says_so_in_replay_and_audit(tmp_path: Path) -> None:
    async def edit_file(path: str) -> str:
        raise FileNotFoundError(f"there is no {path}")

    record = tmp_path / "r.jsonl"
    script = Scripted([call("edit_file", path="config.ini")], [call("finish_task", summary="The port is 8080 now.")])
    tools = [Tool(edit_file, description="Edit.")]
    await Engine(script, tools=tools, presets=(finish_task,)).run("go", record=record)
    # as an older version wrote it
    *lines, last = record.read_text().splitlines()
    finished = json.loads(last)
    for name in ("work", "failed_calls", "accepted_by"):
        finished["outcome"].pop(name, None)
    record.write_text("\n".join([*lines, json.dumps(finished)]) + "\n")
    replayed = await endstop("replay", record)
    audited = await endstop("audit", record)
    for told in (replayed.err, audited.out):
        assert "edit_file failed earlier, and no later call made up for it" in " ".join(told.split())

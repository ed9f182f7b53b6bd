"""Criteria judged by a model: each needs evidence that exists, and what is judged is never called checked."""

import json
from pathlib import Path
from typing import Any

import pytest
from endstop import Engine, NotMet, Until, WrongUse, tool
from endstop.check_answers import Judged
from endstop.criteria import CriteriaCheck
from endstop.decision import AssistantMessage, Facts, ToolCall, ToolResult, UserMessage
from endstop.decision import events as ev
from endstop.providers import Scripted, call
from endstop.replay import replay
from endstop.tools.run_context import Progress

GOAL = """# Goal
- The port is 8080.
- [ ] The tests pass.
"""
MESSAGES = (
    UserMessage("Set the port."),
    AssistantMessage("", (ToolCall("call_1", "edit", "{}"),)),
    ToolResult("call_1", "edit", "port = 8080"),
)


def verdicts(*said: tuple[str, str]) -> str:
    return "So:\n" + json.dumps(
        [{"criterion": n, "verdict": verdict, "evidence": evidence} for n, (verdict, evidence) in enumerate(said, 1)]
    )


async def judged(answer: str, folder: Path | None = None) -> Any:
    check = CriteriaCheck(Scripted(answer), GOAL, None if folder is None else str(folder))
    return await check(Progress(facts=Facts(), messages=MESSAGES))


async def test_criteria_are_met_if_each_has_evidence_that_exists(tmp_path: Path) -> None:
    (tmp_path / "app.ini").write_text("a\nport = 8080\n")
    said = await judged(verdicts(("met", "call_1"), ("met", "app.ini:2")), tmp_path)
    assert said.answer is not None
    assert not isinstance(said.answer, NotMet)
    assert said.by == "scripted"


@pytest.mark.parametrize(
    "evidence",
    ["", "call_9", "app.ini:3", "app.ini:0", "missing.ini:1", "../secret:1", "the agent says so", "/etc/passwd:1"],
)
async def test_evidence_that_does_not_exist_makes_a_criterion_unknown(evidence: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x\n")
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "app.ini").write_text("a\nport = 8080\n")
    said = await judged(verdicts(("met", "call_1"), ("met", evidence)), folder)
    assert said.answer.score == 1
    assert said.answer.of == 2
    assert "unknown" in said.answer.reason
    assert "The tests pass." in said.answer.reason


async def test_what_is_not_met_or_not_named_is_handed_back() -> None:
    said = await judged(verdicts(("not met", "call_1")))
    assert said.answer.reason.splitlines() == [
        "1. The port is 8080.: not met.",
        "2. The tests pass.: unknown, nothing was said about it",
    ]


@pytest.mark.parametrize("answer", ["I think it is fine.", "[{", '[{"criterion": "one"}]', "[x]"])
async def test_an_answer_that_cannot_be_read_says_nothing(answer: str) -> None:
    assert (await judged(answer)).answer is None


@pytest.mark.parametrize("criteria", ["", "# Only a heading", []])
def test_criteria_that_are_missing_are_refused(criteria: Any) -> None:
    with pytest.raises(WrongUse, match="no criterion"):
        CriteriaCheck(Scripted(), criteria)


def test_a_text_without_a_list_has_a_criterion_in_each_paragraph() -> None:
    assert CriteriaCheck(Scripted(), "# Goal\n\nThe port\nis 8080.\n\nTests pass.").criteria == (
        "The port is 8080.",
        "Tests pass.",
    )


async def test_a_run_ends_as_judged_by_the_model_and_its_usage_counts(tmp_path: Path) -> None:
    @tool
    async def edit(port: int) -> str:
        """Set the port."""
        return f"port = {port}"

    judge = Scripted(
        verdicts(("met", "c1"), ("not met", "")), verdicts(("met", "c1"), ("met", "c2")), model="the-judge"
    )
    provider = Scripted(
        call("edit", id="c1", port=8080),
        call("finish_task", summary="done"),
        call("edit", id="c2", port=8080),
        call("finish_task", summary="done"),
    )
    engine = Engine(provider, tools=[edit], until=Until(CriteriaCheck(judge, GOAL)))
    record = tmp_path / "run.jsonl"
    async with engine.start("go", record=record) as run:
        outcome = await run.wait()
        events = [event async for event in run]
    assert (outcome.status, outcome.stop_reason, outcome.work) == ("completed", "until_met", "said")
    assert (outcome.judged_by, outcome.checked_by) == ("the-judge", "")
    assert "the-judge" in outcome.detail
    ended = [event for event in events if isinstance(event, ev.CheckEnded)]
    assert [event.place for event in ended] == ["claim", "claim"]
    assert outcome.usage.input_tokens > sum(e.usage.input_tokens for e in events if isinstance(e, ev.ResponseFinished))
    assert (await replay(record)).same


def test_a_judge_without_a_stream_is_refused() -> None:
    with pytest.raises(WrongUse, match="no method `stream`"):
        CriteriaCheck("gpt", GOAL)  # type: ignore[arg-type]


def test_judged_is_an_answer_without_usage_too() -> None:
    assert Judged(None, "m").usage is None

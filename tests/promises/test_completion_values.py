"""Row F3: what a completion's function returns is read as what it says."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from endstop import Completion, Engine, tool
from endstop.decision import ToolResult
from endstop.decision.events import CompletionAccepted, CompletionRejected, PhaseReported
from endstop.providers import Scripted, call
from endstop.replay import replay
from endstop.testing import MemorySteps, check_transcript
from endstop.tools import task_done
from pydantic import BaseModel

from ..engine.formats.heard import answer, hear, says, user
from ..engine.formats.heard import call as foreign_call


@dataclass
class Response:
    """As a tool's response is written in Python."""

    success: bool
    content: str
    error: str | None = None


class Reply(BaseModel):
    """The same with pydantic."""

    task_completed: bool
    message: str = ""


def completing(*values: Any) -> tuple[Scripted, Engine]:
    """An engine whose completion returns these, one a call; it is called with one summary after another."""
    left = list(values)

    @tool(kind="completion", name="finish")
    async def finish(summary: str, note: str = "") -> Any:
        """Finish."""
        return left.pop(0)

    provider = Scripted(*[[call("finish", summary=f"summary {n}")] for n in range(1, len(values) + 1)])
    return provider, Engine(provider, tools=[finish])


NOT_DONE: list[tuple[Any, str]] = [
    ({"success": False, "error": "two tests fail"}, "two tests fail"),
    ({"success": False, "content": "", "error": "两个测试失败"}, "两个测试失败"),
    ({"success": False, "error": {"code": 7, "message": "disk full"}}, "disk full"),
    ({"success": False, "error": ValueError("disk full")}, "disk full"),
    ({"success": False}, '{"success":false}'),
    ({"success": "false", "reason": "no tests ran"}, "no tests ran"),
    ({"error": "no such file"}, "no such file"),
    ({"task_completed": False}, '{"task_completed":false}'),
    ({"task_completed": False, "message": "任务未完成，请继续"}, "任务未完成，请继续"),
    ({"taskCompleted": False, "summary": "half of it"}, "half of it"),
    ({"completed": False, "missing": ["tests"]}, '{"completed":false,"missing":["tests"]}'),
    ({"is_complete": False}, '{"is_complete":false}'),
    ({"done": False}, '{"done":false}'),
    ({"finished": False}, '{"finished":false}'),
    ({"should_stop": False}, '{"should_stop":false}'),
    ({"shouldContinue": True}, '{"shouldContinue":true}'),
    ({"shouldContinue": True, "reason": "still step 3"}, "still step 3"),
    ({"should_continue": True, "message": "go on with the tests"}, "go on with the tests"),
    ({"continue": True}, '{"continue":true}'),
    ({"success": True, "shouldContinue": True, "message": "more to do"}, "more to do"),
    ({"success": True, "task_completed": False, "message": "more to do"}, "more to do"),
    ({"status": "incomplete", "reason": "no docs"}, "no docs"),
    ({"status": "in_progress"}, '{"status":"in_progress"}'),
    ({"action": "continue"}, '{"action":"continue"}'),
    ('{"success": false, "error": "two tests fail"}', "two tests fail"),
    (' {"shouldContinue": true, "message": "两个测试失败"}\n', "两个测试失败"),
    (Response(success=False, content="", error="two tests fail"), "two tests fail"),
    (Reply(task_completed=False, message="two tests fail"), "two tests fail"),
    (False, "not complete"),
    ("continue", "not complete"),
]

DONE: list[tuple[Any, str]] = [
    ({"success": True, "summary": "The port is 8080."}, "The port is 8080."),
    ({"success": True, "message": "端口已改为 8080。"}, "端口已改为 8080。"),
    ({"success": True, "result": "42", "error": None}, "42"),
    ({"success": True, "content": "task completed: 42", "result": "42", "error": ""}, "42"),
    ({"task_completed": True, "summary": "The port is 8080."}, "The port is 8080."),
    ({"taskCompleted": True, "message": "moved"}, "moved"),
    ({"shouldContinue": False, "message": "moved"}, "moved"),
    ({"should_continue": False, "result": "moved"}, "moved"),
    ({"completed": True, "result": {"message": "moved"}}, "moved"),
    ({"status": "completed", "message": "moved"}, "moved"),
    ({"summary": "moved"}, "moved"),
    ({"message": "moved"}, "moved"),
    ('{"success": true, "message": "端口已改为 8080。"}', "端口已改为 8080。"),
    (Response(success=True, content="moved"), "moved"),
    (Reply(task_completed=True, message="moved"), "moved"),
    ({"success": True}, "summary 1"),
    ({"shouldContinue": False}, "summary 1"),
    ({"success": True, "message": " "}, "summary 1"),
    ({"success": True, "rows": 5}, "summary 1"),
    (True, "summary 1"),
    (None, "summary 1"),
    ("The port is 8080.", "The port is 8080."),
]

DATA: list[Any] = [
    {"rows": [1, 2], "result": "two rows"},
    {"passed": 5, "failed": 1},
    {"completed": "12 of 12", "port": 8080},
    [{"success": False}],
    "{not json}",
    8080,
]
"""Data of the task, which are the answer as they are."""


@pytest.mark.parametrize(("value", "reason"), NOT_DONE, ids=str)
async def test_F3_a_completion_that_says_that_the_work_is_not_done_is_handed_back(value: Any, reason: str) -> None:
    provider, engine = completing(value, Completion(answer="now"))
    session = engine.session()
    async with session.start("go") as run:
        events = [event async for event in run]
    assert (run.outcome.stop_reason, run.outcome.answer, run.outcome.steps) == ("completed", "now", 2)
    (rejected,) = [event for event in events if isinstance(event, CompletionRejected)]
    assert rejected.by == "tool"
    assert reason in rejected.reason
    (result,) = [m for m in provider.requests[1].messages if isinstance(m, ToolResult)]
    assert (result.status, reason in result.content) == ("rejected", True)
    check_transcript(session.transcript.messages)


@pytest.mark.parametrize(("value", "answer"), DONE, ids=str)
async def test_F3_what_stands_as_summary_message_or_result_is_the_answer(value: Any, answer: str) -> None:
    _, engine = completing(value)
    outcome = await engine.run("go")
    assert (outcome.stop_reason, outcome.answer, outcome.steps) == ("completed", answer, 1)


@pytest.mark.parametrize("value", DATA, ids=str)
async def test_F3_data_that_say_nothing_of_the_work_are_the_answer_as_they_are(value: Any) -> None:
    _, engine = completing(value)
    outcome = await engine.run("go")
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    assert (outcome.stop_reason, outcome.answer) == ("completed", text)


async def test_F3_the_models_own_text_is_never_taken_for_a_verdict() -> None:
    @tool(kind="completion")
    async def submit(report: str) -> str:
        """Hand in a report."""
        return report

    report = '{"success": false, "tests": 3}'
    outcome = await Engine(Scripted([call("submit", report=report)]), tools=[submit]).run("go")
    assert (outcome.stop_reason, outcome.answer) == ("completed", report)


async def test_F3_a_part_of_the_work_is_a_phase_and_what_is_pending_is_kept() -> None:
    _, engine = completing(
        {"completion_percentage": 60, "next_phase": "tests", "summary": "moved"},
        {"success": True, "summary": "moved and tested", "pending_issues": ["docs"]},
    )
    async with engine.start("go") as run:
        events = [event async for event in run]
    assert [(e.percentage, e.next_phase) for e in events if isinstance(e, PhaseReported)] == [(60, "tests")]
    assert (run.outcome.answer, run.outcome.pending_issues) == ("moved and tested", ("docs",))


async def test_F3_a_mapping_that_wants_the_users_yes_gets_it_first() -> None:
    _, engine = completing({"success": True, "summary": "moved", "requires_user_confirmation": True})
    session = engine.session()
    outcome = await session.run("go")
    assert outcome.status == "awaiting_input"
    (question,) = outcome.questions
    assert (await session.answer(question.call_id, "yes")).answer == "moved"


@pytest.mark.parametrize("value", [{"success": False, "error": "two tests fail"}, False, {"shouldContinue": True}])
async def test_F3_it_replays_the_same_and_means_the_same_under_a_durable_engine(value: Any, tmp_path: Path) -> None:
    outcomes = []
    for name, steps in (("plain", None), ("durable", MemorySteps())):
        _, engine = completing(value, None)
        session = engine.session(record=tmp_path / f"{name}.jsonl")
        session.steps = steps
        outcome = await session.run("go")
        outcomes.append((outcome.stop_reason, outcome.answer, outcome.steps))
        report = await replay(str(tmp_path / f"{name}.jsonl"))
        assert report.same, [run.divergence for run in report.runs]
    assert outcomes == [("completed", "summary 2", 2)] * 2


async def test_F3_a_part_of_the_work_cannot_be_confirmed_and_says_why() -> None:
    provider = Scripted(
        [call("task_done", summary="half", completion_percentage=50, requires_user_confirmation=True)],
        [call("task_done", summary="all")],
    )
    async with Engine(provider, presets=[task_done]).start("go") as run:
        events = [event async for event in run]
    assert run.outcome.answer == "all"
    assert not [event for event in events if isinstance(event, PhaseReported) and event.percentage == 50]
    assert [type(e) for e in events if isinstance(e, CompletionRejected | CompletionAccepted)] == [
        CompletionRejected,
        CompletionAccepted,
    ]
    (result,) = [m for m in provider.requests[1].messages if isinstance(m, ToolResult)]
    assert "completion_percentage is below 100" in result.content


def test_F3_an_imported_completion_whose_result_says_that_it_failed_was_handed_back() -> None:
    heard = hear(
        "openai",
        [
            user("Set the port"),
            says(None, foreign_call("c1", "attempt_completion", '{"result": "The port is set."}')),
            answer("c1", '{"success": false, "error": "two tests fail"}'),
            says(None, foreign_call("c2", "attempt_completion", '{"result": "The port is 8080."}')),
            answer("c2", '{"success": true, "content": "task completed: The port is 8080."}'),
        ],
    )
    assert heard.stops == ["completed"]
    assert heard.outcomes[0].answer == "The port is 8080."
    (rejected,) = [event for event in heard.events if isinstance(event, CompletionRejected)]
    assert rejected.reason == "two tests fail"

"""Row F4: the user's reply to a confirmation ends the run, hands the completion back, or is asked for again."""

from pathlib import Path
from typing import Any

import pytest
from endstop import Engine, Session
from endstop.decision import ToolResult
from endstop.decision.events import CompletionRejected, QuestionAnswered
from endstop.providers import Scripted, call
from endstop.replay import replay
from endstop.testing import check_transcript
from endstop.tools import task_done


def paused(record: Path | None = None) -> tuple[Scripted, Session]:
    provider = Scripted(
        [
            call(
                "task_done",
                id="d1",
                summary="端口已改为 8080",
                requires_user_confirmation=True,
                pending_issues=["docs"],
            )
        ],
        [call("task_done", id="d2", summary="moved and tested")],
    )
    return provider, Engine(provider, presets=[task_done]).session(record=record)


@pytest.mark.parametrize(
    "text", ["好的", "确认", "是的", "可以", "同意", "sure", "go ahead", "yes please", "yes, I confirm"]
)
async def test_F4_a_yes_in_other_words_ends_the_run_as_completed(text: str) -> None:
    provider, session = paused()
    await session.run("go")
    outcome = await session.answer("d1", text)
    assert (outcome.status, outcome.answer, outcome.pending_issues) == ("completed", "端口已改为 8080", ("docs",))
    assert len(provider.requests) == 1


@pytest.mark.parametrize("text", ["不可以", "yes, but change the port first", "好的，但是先改一下端口"])
async def test_F4_a_yes_with_a_condition_hands_it_back_with_what_the_user_said(text: str) -> None:
    provider, session = paused()
    await session.run("go")
    outcome = await session.answer("d1", text)
    assert outcome.answer == "moved and tested"
    (result,) = [m for m in provider.requests[1].messages if isinstance(m, ToolResult)]
    assert text in result.content


async def test_F4_what_is_neither_yes_nor_no_is_asked_again_and_decides_nothing(tmp_path: Path) -> None:
    record = tmp_path / "r.jsonl"
    provider, session = paused(record)
    await session.run("go")
    for _ in range(2):
        outcome = await session.answer("d1", "What did you change?")
        assert (outcome.status, len(provider.requests)) == ("awaiting_input", 1)
        (question,) = outcome.questions
        assert (question.call_id, question.confirms, question.pending_issues) == ("d1", "端口已改为 8080", ("docs",))
        assert question.text.count("neither a yes nor a no") == 1
        assert question.text.endswith("Do you confirm that the task is done?")
    outcome = await session.answer("d1", "可以")
    assert (outcome.status, outcome.answer) == ("completed", "端口已改为 8080")
    check_transcript(session.transcript.messages)
    report = await replay(str(record))
    assert report.same, [run.divergence for run in report.runs]
    assert [run.outcome.status for run in report.runs] == ["awaiting_input"] * 3 + ["completed"]


async def test_F4_the_third_unclear_reply_hands_it_back_with_what_the_user_said() -> None:
    _, session = paused()
    await session.run("go")
    for _ in range(2):
        await session.answer("d1", "hmm")
    async with session.start_answer("d1", "I have no idea") as run:
        events: list[Any] = [event async for event in run]
    assert [event.says for event in events if isinstance(event, QuestionAnswered)] == ["no"]
    assert [event.by for event in events if isinstance(event, CompletionRejected)] == ["user"]
    assert run.outcome.answer == "moved and tested"


async def test_F4_a_record_from_before_replays_to_what_was_made_of_the_reply_then(tmp_path: Path) -> None:
    """ "sure" was no yes once: the completion was handed back, and the record does not say what the reply meant."""
    record = tmp_path / "old.jsonl"
    _, session = paused(record)
    await session.run("go")
    await session.answer("d1", "no")
    lines = record.read_text(encoding="utf-8")
    old = lines.replace('"text":"no","says":"no"', '"text":"sure"').replace("and says: no", "and says: sure")
    assert old.count('"sure"') == 1
    record.write_text(old, encoding="utf-8")
    report = await replay(str(record))
    assert report.same, [run.divergence for run in report.runs]
    assert report.runs[1].outcome.answer == "moved and tested"

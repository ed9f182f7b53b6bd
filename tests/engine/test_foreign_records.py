"""Records from elsewhere: a replay says where this engine would have stopped, and neither crashes nor hangs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from endstop.decision import Stop
from endstop.decision.events import ResponseFinished
from endstop.replay import ReplayedRun, replay
from endstop.replay.diff import Divergence

from ..handmade import FINISH, READ, TOOLS, finished, started, step, steps, stopped, write


async def played(path: Path, *events: Any) -> ReplayedRun:
    with anyio.fail_after(60):
        report = await replay(write(path / "r.jsonl", *events))
    return report.runs[-1]


def of(run: ReplayedRun) -> Divergence:
    assert run.divergence is not None
    return run.divergence


async def test_a_record_that_went_on_after_its_completion_says_where_the_engine_stops(tmp_path: Path) -> None:
    run = await played(
        tmp_path, started(), step(1, READ), step(2, FINISH), steps(3, 9), finished("custom:max_turns", "exhausted", 9)
    )
    divergence = of(run)
    assert divergence.what == "the engine stops at step 2 by control_flow; the record went on to step 9"
    assert (divergence.step, divergence.recorded, str(divergence.replayed)) == (2, None, "stop(completed)")
    assert divergence.replayed is not None
    assert [one.said for one in divergence.replayed.trace] == ["", "stop(completed)"]
    assert (run.outcome.status, run.outcome.steps, run.outcome.answer) == ("completed", 2, "result of c2.0")


async def test_calls_beside_the_completion_do_not_hide_it(tmp_path: Path) -> None:
    run = await played(
        tmp_path, started(), step(1, READ, FINISH, READ), steps(2, 4), finished("custom:max_turns", "exhausted", 4)
    )
    divergence = of(run)
    assert divergence.what == "the engine stops at step 1 by control_flow; the record went on to step 4"
    assert divergence.before is not None
    assert isinstance(divergence.before.recorded, ResponseFinished)
    assert divergence.before.fields == ("message",)
    assert isinstance(divergence.before.replayed, ResponseFinished)
    assert [len(e.message.calls) for e in (divergence.before.recorded, divergence.before.replayed)] == [3, 2]


async def test_text_that_ends_a_run_here_and_did_not_there(tmp_path: Path) -> None:
    run = await played(
        tmp_path, started(), step(1, text="I will look."), steps(2, 5), finished("custom:max_turns", "exhausted", 5)
    )
    assert of(run).what == "the engine stops at step 1 by finish_reason; the record went on to step 5"
    assert run.outcome.answer == "I will look."


async def test_a_question_that_pauses_here_and_did_not_there(tmp_path: Path) -> None:
    ask = ("ask_user", {"question": "Which?"})
    run = await played(tmp_path, started(), step(1, ask), steps(2, 3), finished("custom:max_turns", "exhausted", 3))
    assert of(run).what == "the engine pauses at step 1 by control_flow; the record went on to step 3"


@pytest.mark.parametrize("decided", [True, False])
async def test_a_custom_stop_at_the_same_step_is_told_with_both_reasons(tmp_path: Path, decided: bool) -> None:
    decision = [stopped("custom:tests_pass", status="completed")] if decided else []
    run = await played(
        tmp_path, started(), step(1, FINISH), decision, finished("custom:tests_pass", "completed", 1, answer="x")
    )
    told = {
        True: "round 1: the record says stop(custom:tests_pass), the replay stop(completed)",
        False: "step 1: the record ends as custom:tests_pass, the replay says stop(completed), by control_flow",
    }
    assert of(run).what == told[decided]


@pytest.mark.parametrize("last", [3, 10, 25])
async def test_a_record_that_ends_where_the_engine_goes_on_says_so_with_the_engines_trace(
    tmp_path: Path, last: int
) -> None:
    run = await played(tmp_path, started(), steps(1, last), finished("custom:user_left", "cancelled", last))
    divergence = of(run)
    said = f"step {last}: the record ends as custom:user_left, the replay says go on"
    assert divergence.what.startswith(said), "also inside a round, where the engine would not have decided aloud"
    assert divergence.replayed is not None
    assert divergence.replayed.trace
    assert (run.outcome.status, run.outcome.steps) == ("cancelled", last + 1)
    assert "the record ends here" in run.outcome.detail


async def test_the_rounds_of_a_record_that_has_none_are_not_held_against_it(tmp_path: Path) -> None:
    run = await played(
        tmp_path,
        started(),
        steps(1, 24),
        step(25, FINISH),
        finished("completed", "completed", 25, answer="result of c25.0"),
    )
    assert run.divergence is None, of(run).what
    assert run.outcome.rounds == 3


async def test_what_the_engine_would_have_said_to_the_model_is_a_divergence(tmp_path: Path) -> None:
    same = [line for number in range(1, 5) for line in step(number, READ, status="error")]
    for line in same:
        if line["type"] == "TOOL_CALL_RESULT":
            line["content"] = "no such file"
    run = await played(tmp_path, started(), same, step(5, FINISH), finished("completed", "completed", 5))
    divergence = of(run)
    assert divergence.step == 3
    assert divergence.what.startswith("step 3: the record went on, and the engine first tells the model: You have made")
    assert run.outcome.status == "completed"


async def test_an_earlier_divergence_still_tells_where_the_engine_stopped_in_the_end(tmp_path: Path) -> None:
    same = [line for number in range(1, 12) for line in step(number, READ)]
    for line in same:
        if line["type"] == "TOOL_CALL_RESULT":
            line["content"] = "the same"
    run = await played(tmp_path, started(), same, finished("custom:max_turns", "exhausted", 11))
    assert of(run).what.startswith("step 3: the record went on, and the engine first tells the model: You have made")
    assert of(run).what.endswith("; the engine stops at step 6 by stuck; the record went on to step 11")


async def test_at_a_limit_the_next_recorded_response_is_not_taken_for_the_closing_one(tmp_path: Path) -> None:
    policy = {"name": "agent", "limits": {"steps": 3}, "closing": True}
    run = await played(tmp_path, started(policy=policy), steps(1, 8), finished("custom:max_turns", "exhausted", 8))
    assert "the engine stops at step 3 by step_limit; the record went on to step 8" in of(run).what
    assert (run.outcome.status, run.outcome.stop_reason, run.outcome.answer) == ("exhausted", "step_limit", "")


async def test_a_tool_that_the_record_does_not_list_is_answered_from_it(tmp_path: Path) -> None:
    run = await played(
        tmp_path,
        started(tools=[]),
        step(1, READ),
        step(2, text="Done."),
        finished("text_final", "completed", 2, answer="Done."),
    )
    assert run.divergence is None, of(run).what
    assert run.difference is None


async def test_a_call_without_a_result_is_answered_with_an_error_and_nobody_waits(tmp_path: Path) -> None:
    begun = [{"type": "TOOL_EXECUTION_STARTED", "call_id": "c1.0", "name": "read_file"}]
    run = await played(
        tmp_path,
        started(),
        step(1, READ, results=False)[:-1],
        begun,
        step(2, text="Done."),
        finished("text_final", "completed", 2),
    )
    assert run.outcome.stop_reason == "text_final"


async def test_a_completion_in_an_attempt_that_failed_is_cut_here_and_nobody_waits_for_its_result(
    tmp_path: Path,
) -> None:
    broken = [
        {"type": "STEP_STARTED", "step": 1, "round": 1},
        {"type": "ATTEMPT_STARTED", "attempt": "1.1"},
        {"type": "TOOL_CALL_START", "attempt": "1.1", "call_id": "c", "name": "finish_task"},
        {"type": "TOOL_CALL_ARGS", "attempt": "1.1", "call_id": "c", "delta": '{"summary": "x"}'},
        {"type": "ATTEMPT_FAILED", "attempt": "1.1", "kind": "server", "message": "overloaded"},
        {"type": "STEP_FINISHED", "step": 1},
    ]
    run = await played(tmp_path, started(), broken, finished("provider_error", "failed", 1))
    assert "the replay says go on" in of(run).what


async def test_a_response_without_an_end_is_a_providers_error_and_nobody_waits(tmp_path: Path) -> None:
    torn = [line for line in step(1, READ) if line["type"] in ("STEP_STARTED", "ATTEMPT_STARTED")]
    run = await played(tmp_path, started(), torn, step(2, text="Done."), finished("text_final", "completed", 2))
    assert (run.outcome.stop_reason, of(run).step) == ("provider_error", 1)
    assert "the record holds no end of this response" in run.outcome.detail


async def test_a_run_whose_end_is_missing_is_the_same_unless_the_engine_stops_before(tmp_path: Path) -> None:
    assert (await played(tmp_path, started(), steps(1, 4))).divergence is None
    assert (await played(tmp_path, started(), steps(1, 3), step(4, FINISH))).divergence is None
    run = await played(tmp_path, started(), step(1, FINISH), steps(2, 3))
    assert of(run).what == "the engine stops at step 1 by control_flow; the record went on to step 3"


async def test_the_loops_own_words_in_results_are_no_difference(tmp_path: Path) -> None:
    think = ("think", {"thought": "Hm"})
    tools = [*TOOLS, {"name": "think", "description": "Think.", "parameters": {}, "kind": "think"}]
    thought = {"type": "THOUGHT_RECORDED", "call_id": "c1.0", "text": "Hm"}
    accepted = {"type": "COMPLETION_ACCEPTED", "call_id": "c3.0", "name": "finish_task", "answer": "Done."}
    lost = [line | {"status": "unknown"} if "content" in line else line for line in step(2, READ)]
    end = finished("completed", "completed", 3, answer="Done.")
    run = await played(tmp_path, started(tools=tools), step(1, think), thought, lost, step(3, FINISH), accepted, end)
    assert run.divergence is None, of(run).what
    assert run.difference is None, "though the engine says Noted, and other words where a result is unknown"


async def test_a_run_that_was_ended_before_its_first_step_would_have_made_one(tmp_path: Path) -> None:
    run = await played(tmp_path, started()[:1], stopped("step_limit"), finished("step_limit", "exhausted", 0))
    divergence = of(run)
    assert divergence.what == "step 0: the record ends as step_limit, but the engine makes another step"
    assert str(divergence.recorded) == "stop(step_limit)"


async def test_a_run_without_any_step_is_played_too(tmp_path: Path) -> None:
    run = await played(tmp_path, started(), finished("custom:empty", "failed", 0))
    assert run.outcome.status == "cancelled"
    assert of(run).what == "step 0: the record ends as custom:empty, but the engine makes another step"


async def test_later_runs_go_on_from_the_recorded_ones_whatever_the_engine_made_of_those(tmp_path: Path) -> None:
    with anyio.fail_after(60):
        report = await replay(
            write(
                tmp_path / "r.jsonl",
                started(),
                step(1, FINISH),
                steps(2, 4),
                finished("custom:max_turns", "exhausted", 4),
                started("run_b", prompt="And now?"),
                step(1, text="Done."),
                finished("text_final", "completed", 1, "run_b", answer="Done.", rounds=1),
            )
        )
    assert [run.divergence is None for run in report.runs] == [False, True]
    assert [run.run_id for run in report.runs] == ["run_a", "run_b"]
    assert isinstance(of(report.runs[0]).replayed, Stop)

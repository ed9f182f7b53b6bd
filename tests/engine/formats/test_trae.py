"""Trajectories of Trae Agent, made by hand in the form that its recorder writes."""

from __future__ import annotations

from typing import Any

import pytest
from endstop.decision import Usage
from endstop.decision import events as ev
from endstop.formats import FORMATS, Unreadable, detect_format

from .heard import called, hear

T = "2026-01-01T10:00:00.250000"
USAGE = {
    "input_tokens": 100,
    "output_tokens": 7,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 60,
    "reasoning_tokens": 3,
}


def call(id: str, name: str = "bash", **arguments: Any) -> dict[str, Any]:
    return {"call_id": id, "name": name, "arguments": arguments, "id": None}


def result(id: str, text: str, *, success: bool = True) -> dict[str, Any]:
    output = {"result": text, "error": None} if success else {"result": None, "error": text}
    return {"call_id": id, "success": success, **output, "id": None}


def asked(*messages: dict[str, Any], content: str = "", calls: list[Any] | None = None, **more: Any) -> dict[str, Any]:
    """A request with its response."""
    finish = "tool_calls" if calls else "stop"
    response = {"content": content, "model": "m-1", "finish_reason": finish, "usage": USAGE, "tool_calls": calls}
    return {"timestamp": T, "provider": "openai", "model": "m", "input_messages": list(messages)} | {
        "response": response | more, "tools_available": ["bash", "task_done"],
    }  # fmt: skip


def step(
    number: int, interaction: dict[str, Any] | None, results: list[Any] | None = None, error: str | None = None
) -> dict[str, Any]:
    told = None if interaction is None else interaction["response"]
    return {"step_number": number, "timestamp": T, "state": "completed", "llm_messages": None, "reflection": None} | {
        "llm_response": told, "tool_calls": told and told["tool_calls"], "tool_results": results, "error": error,
    }  # fmt: skip


SYSTEM, PROMPT = {"role": "system", "content": "You are Trae."}, {"role": "user", "content": "[Task]: Mend it."}
LOOK = asked(SYSTEM, PROMPT, content="I look.", calls=[call("a", command="ls"), call("b", command="cat x")])
AGAIN = [{"role": "user", "content": None, "tool_result": result(id, "")} for id in ("a", "b")]
DONE = asked(*AGAIN, calls=[call("c", "task_done")])
LOOKED = [result("a", "x"), result("b", "no such file", success=False)]


def trajectory(interactions: list[Any], steps: list[Any], **more: Any) -> dict[str, Any]:
    return {"task": "Mend it.", "start_time": T, "end_time": T, "provider": "openai", "model": "m", "max_steps": 9} | {
        "llm_interactions": interactions, "agent_steps": steps, "success": False, "final_result": None,
        "execution_time": 2.5, **more,
    }  # fmt: skip


WHOLE = trajectory([LOOK, DONE], [step(1, LOOK, LOOKED), step(2, DONE)], success=True, final_result="")


def test_a_trajectory_is_a_session_with_each_call_and_its_result_once() -> None:
    assert detect_format(WHOLE) == "trae"
    heard = hear("trae", WHOLE)
    assert heard.session.system == "You are Trae."
    assert [one.prompt for one in heard.of(ev.RunStarted)] == ["[Task]: Mend it."]
    first, last = heard.of(ev.ResponseFinished)
    assert first.message.calls == (called("a", "bash", '{"command":"ls"}'), called("b", "bash", '{"command":"cat x"}'))
    assert first.usage == Usage(input_tokens=100, output_tokens=7, cached_tokens=60, reasoning_tokens=3)
    assert [(one.content, one.status) for one in heard.results] == [("x", "ok"), ("no such file", "error"), ("", "ok")]
    assert last.message.calls[0].name == "task_done"
    assert heard.stops == ["completed"]
    assert heard.session.losses == {}


@pytest.mark.parametrize(
    ("changed", "status", "reason"),
    [
        ({"end_time": ""}, "cancelled", "custom:unfinished"),
        ({"final_result": "Task execution exceeded maximum steps without completion."}, "exhausted", "step_limit"),
        ({"final_result": "Agent execution failed: no room"}, "failed", "custom:error"),
        ({}, "failed", "custom:error"),
        ({"success": True, "final_result": "It is done."}, "completed", "custom:success"),
    ],
)
def test_it_ends_as_its_file_says(changed: dict[str, Any], status: str, reason: str) -> None:
    heard = hear("trae", trajectory([LOOK], [step(1, LOOK, LOOKED)], **changed))
    assert [(one.status, one.stop_reason) for one in heard.outcomes] == [(status, reason)]
    assert heard.outcomes[0].verdict == "not_run"  # its own word is no verdict of others


def test_a_request_that_failed_ends_it_without_a_status_that_nobody_sent() -> None:
    heard = hear("trae", trajectory([LOOK], [step(1, LOOK, LOOKED), step(2, None, error="Connection error.")]))
    (failed,) = heard.of(ev.AttemptFailed)
    assert (failed.message, failed.status) == ("Connection error.", None)
    assert heard.stops == ["provider_error"]


def test_a_completion_after_which_it_went_on_was_refused() -> None:
    early = asked(SYSTEM, PROMPT, calls=[call("c", "task_done")])
    more = asked({"role": "user", "content": "The patch is empty."}, calls=[call("d", "task_done")])
    heard = hear("trae", trajectory([early, more], [step(1, early), step(2, more)], success=True))
    (rejected,) = heard.of(ev.CompletionRejected)
    assert rejected.reason == "The patch is empty."
    assert (heard.stops, len(heard.of(ev.CompletionAccepted))) == (["completed"], 1)


def test_words_after_a_text_are_the_loops_own() -> None:
    text = asked(SYSTEM, PROMPT, content="I will look.")
    more = asked({"role": "user", "content": "It seems that you have not completed the task."}, calls=[call("a")])
    heard = hear("trae", trajectory([text, more], [step(1, text), step(2, more, [result("a", "x")])], end_time=""))
    assert [one.origin for one in heard.of(ev.MessageAdded)] == ["nudge"]
    assert heard.stops == ["custom:unfinished"]


def test_a_request_whose_step_was_not_written_any_more_is_kept() -> None:
    heard = hear("trae", trajectory([LOOK, DONE], [step(1, LOOK, LOOKED)], end_time=""))
    assert len(heard.of(ev.ResponseFinished)) == 2


def test_usage_that_is_not_known_stays_unknown_and_anthropics_cache_is_counted_in_addition() -> None:
    unknown = asked(SYSTEM, PROMPT, content="Hm.", usage={"input_tokens": 0, "output_tokens": 0})
    (finished,) = hear("trae", trajectory([unknown], [step(1, unknown)])).of(ev.ResponseFinished)
    assert finished.usage.estimated
    known = asked(SYSTEM, PROMPT, content="Hm.") | {"provider": "anthropic"}
    (finished,) = hear("trae", trajectory([known], [step(1, known)])).of(ev.ResponseFinished)
    assert (finished.usage.input_tokens, finished.usage.cached_tokens) == (160, 60)


def test_a_trajectory_without_a_request_is_no_session() -> None:
    with pytest.raises(Unreadable, match="contains no request"):
        list(FORMATS["trae"].sessions(trajectory([], [])))


def test_what_is_not_read_is_counted() -> None:
    data = WHOLE | {"note": "x"}
    data["llm_interactions"] = [LOOK | {"cost": 1}, DONE]
    assert set(hear("trae", data).session.losses) == {"field: note", "field: llm_interactions.cost"}

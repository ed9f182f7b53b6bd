"""Sessions of OpenHands, made by hand: the events before its SDK, rows of evaluations, and the events of the SDK."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from endstop import Image
from endstop.decision import Reasoning, Usage, UserMessage
from endstop.decision import events as ev
from endstop.formats import FoundSession, SkippedSession, detect_format, find_sessions

from .heard import Heard, called, hear, says

T = "2026-01-01T10:00:00"


def event(id: int, source: str, **more: Any) -> dict[str, Any]:
    return {"id": id, "timestamp": T, "source": source, "message": "shown", **more}


def asks(id: int, text: str) -> dict[str, Any]:
    return event(id, "user", action="message", args={"content": text, "image_urls": None})


def response(id: str, *ids: str) -> dict[str, Any]:
    calls = [{"id": one, "type": "function", "function": {"name": "bash", "arguments": "{}"}} for one in ids]
    choices = [{"finish_reason": "tool_calls", "message": says("Look.", *calls, reasoning_content="Hm.")}]
    return {"id": id, "model": "m", "choices": choices, "usage": {"prompt_tokens": 10, "completion_tokens": 4}}


def acts(id: int, call: str, of: dict[str, Any]) -> dict[str, Any]:
    metadata = {"function_name": "bash", "tool_call_id": call, "model_response": of}
    return event(id, "agent", action="run", args={"command": "ls", "thought": "Look."}, tool_call_metadata=metadata)


def observes(id: int, cause: int, content: str, kind: str = "run", **more: Any) -> dict[str, Any]:
    return event(id, "agent", observation=kind, cause=cause, content=content, extras={}, **more)


def prompts(heard: Heard) -> list[str | None]:
    return [one.prompt for one in heard.of(ev.RunStarted)]


def test_the_actions_of_one_response_are_one_step_and_its_observations_are_their_results() -> None:
    both = response("r1", "c1", "c2")
    failed = {"extras": {"metadata": {"exit_code": 1}}}
    data = [
        event(0, "agent", action="system", args={"content": "Be brief.", "tools": [{"function": {"name": "bash"}}]}),
        asks(1, "Go"),
        event(2, "user", action="recall", args={"query": "Go"}),
        acts(3, "c1", both),
        acts(4, "c2", both),
        observes(5, 3, "A"),
        observes(6, 4, "B") | failed,
        event(7, "agent", action="message", args={"content": "Done.", "wait_for_response": True}),
    ]
    assert detect_format(data) == "openhands"
    heard = hear("openhands", data)
    assert (heard.session.system, [one.name for one in heard.session.tools]) == ("Be brief.", ["bash"])
    first, last = heard.of(ev.ResponseFinished)
    assert (first.message.text, first.message.reasoning) == ("Look.", (Reasoning("Hm."),))
    assert first.message.calls == (called("c1", "bash"), called("c2", "bash"))
    assert first.usage == Usage(input_tokens=10, output_tokens=4)
    assert [(one.content, one.status) for one in heard.results] == [("A", "ok"), ("B", "error")]
    assert (last.message.text, prompts(heard), heard.stops) == ("Done.", ["Go"], ["text_final"])
    assert heard.session.losses["line: recall"] == 1


def test_actions_without_a_response_are_calls_by_their_names_and_count_what_was_spent() -> None:
    spent = {"accumulated_cost": 0.0, "accumulated_token_usage": {"prompt_tokens": 10, "completion_tokens": 4}}
    more = {"accumulated_token_usage": {"prompt_tokens": 25, "completion_tokens": 5}}
    data = [
        asks(1, "Go"),
        event(2, "agent", action="run", args={"command": "ls", "thought": "Hm.", "hidden": False}, llm_metrics=spent),
        observes(3, 2, "no", success=False),
        observes(4, 0, "Say it otherwise.", kind="error"),
        event(5, "agent", action="finish", args={"final_thought": "All done."}, llm_metrics=more),
    ]
    heard = hear("openhands", data)
    first, last = heard.of(ev.ResponseFinished)
    assert first.message.calls == (called("2", "run", '{"command":"ls"}'),)
    assert (first.usage.input_tokens, last.usage.input_tokens, last.usage.output_tokens) == (10, 15, 1)
    assert [one.status for one in heard.results][:1] == ["error"]
    assert [one.origin for one in heard.session.messages if isinstance(one.message, UserMessage)] == ["user", "nudge"]
    assert heard.stops == ["completed"]


def test_a_row_of_an_evaluation_names_its_session_and_how_it_ended() -> None:
    history = [asks(1, "Go"), acts(2, "c1", response("r", "c1")), observes(3, 2, "A")]
    row = {"instance_id": "i-1", "history": history, "error": "RuntimeError: Agent reached maximum iteration."}
    more = {"metadata": {"llm_config": {"model": "vendor/m"}, "dataset": "d"}, "report": {"resolved": False}}
    assert detect_format(row) == "openhands"
    heard = hear("openhands", row | more)
    assert (heard.session.id, heard.session.model, heard.stops) == ("i-1", "vendor/m", ["step_limit"])
    assert heard.outcomes[0].verdict == "failed"
    assert heard.session.losses["field: metadata.dataset"] == 1
    pairs = [[asks(1, "Go"), {}], [acts(2, "c1", response("r", "c1")), observes(3, 2, "A")]]
    assert len(hear("openhands", {"history": pairs, "error": "it broke"}).results) == 1


@pytest.mark.parametrize(
    ("reason", "stop"), [("AgentStuckInLoopError", "stuck"), ("maximum budget", "cost_limit"), ("no", "custom:error")]
)
def test_a_state_of_error_is_the_end_unless_it_goes_on(reason: str, stop: str) -> None:
    broke = event(4, "environment", observation="agent_state_changed", content="", extras={"agent_state": "error"})
    broke["extras"]["reason"] = reason
    data = [asks(1, "Go"), event(2, "agent", action="message", args={"content": "Hm."}), broke]
    assert hear("openhands", data).stops == [stop]
    goes_on = {**broke, "extras": {"agent_state": "running"}}
    assert hear("openhands", [*data, goes_on]).stops == ["text_final"]


def test_delegates_and_pictures_are_counted() -> None:
    picture = {"image_urls": ["data:image/png;base64,QUJD"]}
    data = [
        event(1, "user", action="message", args={"content": "See", **picture}),
        event(2, "agent", action="delegate", args={"agent": "Browser"}),
        event(3, "agent", action="message", args={"content": "inner"}),
        observes(4, 2, "delegated", kind="delegate"),
        event(5, "agent", action="message", args={"content": "Done."}),
    ]
    heard = hear("openhands", data)
    assert heard.of(ev.RunStarted)[0].images == (Image(data=b"ABC", media_type="image/png"),)
    assert len(heard.of(ev.ResponseFinished)) == 2
    assert heard.session.losses["side chain"] == 1
    assert heard.session.losses["characters"] == len("inner")


# ---- the SDK


def sdk(kind: str, source: str = "environment", **more: Any) -> dict[str, Any]:
    return {"id": f"{kind}-1", "timestamp": T, "source": source, "kind": kind, **more}


def text(*parts: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": part, "cache_prompt": False} for part in parts]


def action(id: str, of: str, thought: str = "") -> dict[str, Any]:
    call = {"id": id, "name": "terminal", "arguments": '{"command": "ls"}', "origin": "completion"}
    return sdk(
        "ActionEvent", "agent", thought=text(thought), reasoning_content="Hm.", action={"kind": "TerminalAction"},
        tool_name="terminal", tool_call_id=id, tool_call=call, llm_response_id=of,
    )  # fmt: skip


def result(id: str, content: str, **more: Any) -> dict[str, Any]:
    observation = {"content": text(content), "kind": "TerminalObservation", **more}
    return sdk("ObservationEvent", tool_name="terminal", tool_call_id=id, observation=observation, action_id="a")


def counted(input: int, output: int, name: str = "default") -> dict[str, Any]:
    total = {"prompt_tokens": input, "completion_tokens": output, "cache_read_tokens": 1}
    metrics = {name: {"model_name": "m", "accumulated_cost": input / 100, "accumulated_token_usage": total}}
    return sdk("ConversationStateUpdateEvent", key="stats", value={"usage_to_metrics": metrics})


def message(source: str, role: str, *parts: str) -> dict[str, Any]:
    return sdk("MessageEvent", source, llm_message={"role": role, "content": text(*parts)})


CONVERSATION = [
    sdk("SystemPromptEvent", "agent", system_prompt=text("Be brief.")[0], tools=[{"title": "terminal"}]),
    message("user", "user", "Go"),
    counted(10, 4),
    counted(7, 7, "condenser"),
    action("c1", "r1", "Look."),
    result("c1", "A"),
    action("c2", "r1"),
    sdk("AgentErrorEvent", "agent", tool_name="terminal", tool_call_id="c2", error="no such tool"),
    counted(25, 9),
    action("c3", "r2"),
    sdk("UserRejectObservation", tool_name="terminal", tool_call_id="c3", rejection_reason="Do not."),
    sdk("CondensationSummaryEvent", summary="So far."),
    counted(30, 12),
    message("agent", "assistant", "Done."),
]  # fmt: skip


def test_the_events_of_the_sdk_are_steps_by_their_response() -> None:
    assert detect_format(CONVERSATION) == "openhands-sdk"
    heard = hear("openhands-sdk", CONVERSATION)
    assert (heard.session.system, heard.session.model, prompts(heard)) == ("Be brief.", "m", ["Go"])
    steps = heard.of(ev.ResponseFinished)
    assert [len(step.message.calls) for step in steps] == [2, 1, 0]
    assert steps[0].message.calls[0] == called("c1", "terminal", '{"command": "ls"}')
    assert [(step.usage.input_tokens, step.usage.output_tokens) for step in steps] == [(10, 4), (15, 5), (5, 3)]
    assert [one.status for one in heard.results] == ["ok", "error", "denied"]
    assert heard.stops == ["text_final"]
    assert heard.session.losses["line: CondensationSummaryEvent"] == 1
    assert heard.session.losses["usage without a response"] == 1


def test_errors_of_the_sdk_end_the_session_and_interrupts_cancel() -> None:
    broke = sdk("ConversationErrorEvent", code="MaxIterationsReached", detail="500")
    assert hear("openhands-sdk", [*CONVERSATION, broke]).stops == ["step_limit"]
    stuck = sdk("ConversationStateUpdateEvent", key="execution_status", value="stuck")
    assert hear("openhands-sdk", [*CONVERSATION, stuck]).stops == ["stuck"]
    assert hear("openhands-sdk", [*CONVERSATION[:6], sdk("PauseEvent", "user")]).stops == ["cancelled"]


def test_results_with_pictures_and_exit_codes() -> None:
    shown = result("c1", "A", exit_code=2, odd=1)
    shown["observation"]["content"].append({"type": "image", "image_urls": ["https://x.example/a.png"]})
    heard = hear("openhands-sdk", [message("user", "user", "Go"), action("c1", "r1"), shown])
    assert (heard.results[0].status, len(heard.results[0].images)) == ("error", 1)
    assert heard.session.losses["line field: observation.odd"] == 1


@pytest.mark.parametrize(
    ("events", "names"),
    [
        (CONVERSATION, [f"event-{number:05}-ab12.json" for number in range(len(CONVERSATION))]),
        ([asks(0, "Go"), event(1, "agent", action="message", args={"content": "Done."})] * 6,
         [f"{number}.json" for number in range(12)]),
    ],
)  # fmt: skip
def test_a_folder_with_a_file_for_each_event_is_one_session(
    tmp_path: Path, events: list[Any], names: list[str]
) -> None:
    folder = tmp_path / "conversations" / "abc"
    (folder / "events").mkdir(parents=True)
    for name, one in zip(names, events, strict=True):
        (folder / "events" / name).write_bytes(msgspec.json.encode(one))
    (found,) = find_sessions(tmp_path)
    assert isinstance(found, FoundSession)
    assert found.format == ("openhands-sdk" if events is CONVERSATION else "openhands")
    assert len(found.session.messages) == (7 if events is CONVERSATION else 12)


def test_a_broken_file_of_a_folder_costs_itself(tmp_path: Path) -> None:
    folder = tmp_path / "abc" / "events"
    folder.mkdir(parents=True)
    (folder / "0.json").write_text("{broken")
    (folder / "1.json").write_bytes(msgspec.json.encode(asks(1, "Go")))
    (folder / "2.json").write_bytes(msgspec.json.encode(event(2, "agent", action="message", args={"content": "Done."})))
    broken, found = find_sessions(tmp_path)
    assert isinstance(broken, SkippedSession)
    assert broken.place == "events/0.json"
    assert isinstance(found, FoundSession)
    assert len(found.session.messages) == 2
    other = tmp_path / "other" / "events"
    other.mkdir(parents=True)
    (other / "0.json").write_text("{broken")
    assert len(list(find_sessions(tmp_path))) == 3


def test_lines_of_events_are_one_session(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    file.write_bytes(b"\n".join(map(msgspec.json.encode, CONVERSATION)))
    (found,) = find_sessions(file)
    assert isinstance(found, FoundSession)
    assert found.format == "openhands-sdk"

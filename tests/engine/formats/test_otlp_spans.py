"""Spans of requests to models in OTLP/JSON, made by hand: the same conversation in each of the four forms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from endstop.analysis.policy_simulation import backtest
from endstop.decision import Limits, Policy, Reasoning, Repetition, Usage
from endstop.decision import events as ev
from endstop.formats import FORMATS, FoundSession, Unreadable, detect_format, find_sessions
from msgspec.structs import replace

from .heard import Heard, called, hear

ARGUMENTS = '{"at":1}'


def any_value(value: Any) -> dict[str, Any]:
    """A value as OTLP/JSON writes it: whole numbers as text."""
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case list():
            return {"arrayValue": {"values": [any_value(one) for one in value]}}
        case dict():
            return {"kvlistValue": {"values": pairs(value)}}
        case _:
            return {"stringValue": value}


def pairs(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": name, "value": any_value(value)} for name, value in attributes.items()]


def span(start: int, attributes: dict[str, Any], events: Any = (), **more: Any) -> dict[str, Any]:
    told = [{"name": name, "attributes": pairs(body)} for name, body in events]
    return {
        "traceId": "t1",
        "startTimeUnixNano": str(start * 10**9),
        "attributes": pairs(attributes),
        "events": told,
    } | more


def file(*spans: dict[str, Any]) -> dict[str, Any]:
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": list(spans)}]}]}


def today(count: int) -> dict[str, Any]:
    """The request after `count` messages, in today's conventions, as JSON in text or as values."""
    call = {"type": "tool_call", "id": "c1", "name": "look", "arguments": {"at": 1}}
    thought = {"type": "reasoning", "content": "Hm."}
    messages = [
        {"role": "user", "parts": [{"type": "text", "content": "Sky?"}]},
        {"role": "assistant", "parts": [thought, call], "finish_reason": "tool_calls"},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "blue"}]},
        {"role": "assistant", "parts": [{"type": "text", "content": "Blue."}], "finish_reason": "stop"},
    ]
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.system_instructions": [{"type": "text", "content": "Be brief."}],
        "gen_ai.input.messages": json.dumps(messages[:count]) if count == 1 else messages[:count],
        "gen_ai.output.messages": messages[count : count + 1],
        "gen_ai.response.model": "m",
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 4,
    }


def openllmetry(count: int) -> dict[str, Any]:
    call = {"tool_calls.0.id": "c1", "tool_calls.0.name": "look", "tool_calls.0.arguments": ARGUMENTS}
    groups: list[dict[str, Any]] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": '[{"type": "text", "text": "Sky?"}]'},
        {"role": "assistant", "content": "", "reasoning": "", "finish_reason": "tool_calls", **call},
        {"role": "tool", "content": "blue", "tool_call_id": "c1"},
        {"role": "assistant", "content": "Blue.", "finish_reason": "stop"},
    ]
    said = {f"gen_ai.prompt.{n}.{name}": v for n, group in enumerate(groups[: count + 1]) for name, v in group.items()}
    back = {f"gen_ai.completion.0.{name}": value for name, value in groups[count + 1].items()}
    tokens = {"gen_ai.usage.prompt_tokens": 10, "gen_ai.usage.completion_tokens": 4, "gen_ai.response.model": "m"}
    return {"llm.request.type": "chat", **said, **back, **tokens, "llm.request.functions.0.name": "look"}


def openinference(count: int) -> dict[str, Any]:
    call = {"id": "c1", "function.name": "look", "function.arguments": ARGUMENTS}
    groups: list[dict[str, Any]] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "contents.0.message_content.text": "Sky?"},
        {"role": "assistant", **{f"tool_calls.0.tool_call.{name}": value for name, value in call.items()}},
        {"role": "tool", "content": "blue", "tool_call_id": "c1"},
        {"role": "assistant", "content": "Blue."},
    ]

    def flat(prefix: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
        return {f"{prefix}.{n}.message.{name}": v for n, one in enumerate(messages) for name, v in one.items()}

    finish = "tool_calls" if count == 1 else "stop"
    tokens = {"llm.token_count.prompt": 10, "llm.token_count.completion": 4, "llm.finish_reason": finish}
    said = flat("llm.input_messages", groups[: count + 1]) | flat("llm.output_messages", [groups[count + 1]])
    return {"openinference.span.kind": "LLM", "llm.model_name": "m", **said, **tokens}


def check(heard: Heard) -> None:
    """The conversation that all four forms tell."""
    assert (heard.session.model, heard.session.system) == ("m", "Be brief.")
    assert [one.prompt for one in heard.of(ev.RunStarted)] == ["Sky?"]
    first, last = heard.of(ev.ResponseFinished)
    assert first.message.calls == (called("c1", "look", ARGUMENTS),)
    assert [(one.content, one.status) for one in heard.results] == [("blue", "ok")]
    assert (first.raw_finish, last.raw_finish, last.message.text) == ("tool_calls", "stop", "Blue.")
    assert first.usage == last.usage == Usage(input_tokens=10, output_tokens=4)
    assert heard.stops == ["text_final"]


@pytest.mark.parametrize("form", [today, openllmetry, openinference])
def test_each_request_adds_what_is_new_and_its_response(form: Any) -> None:
    data = file(span(20, form(3)), span(10, form(1)))
    assert detect_format(data) == "otlp"
    heard = hear("otlp", data)
    assert heard.session.id == "t1"
    check(heard)
    if form is today:
        assert heard.of(ev.ResponseFinished)[0].message.reasoning == (Reasoning("Hm."),)
    assert heard.of(ev.RunStarted)[0].started_at.startswith("1970-01-01T00:00:10")


def test_events_of_older_conventions_are_read_too() -> None:
    call = [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": ARGUMENTS}}]
    begin = [("gen_ai.system.message", {"content": "Be brief."}), ("gen_ai.user.message", {"content": "Sky?"})]
    asked = {"finish_reason": "tool_calls", "message": json.dumps({"tool_calls": call})}
    more = [
        ("gen_ai.assistant.message", {"tool_calls": call}),
        ("gen_ai.tool.message", {"id": "c1", "content": "blue"}),
    ]
    known = {name: value for name, value in today(1).items() if "messages" not in name and "instr" not in name}
    done = {"gen_ai.event.content": json.dumps({"finish_reason": "stop", "message": {"content": "Blue."}})}
    first = span(10, known, [*begin, ("gen_ai.choice", asked), ("other", {})])
    check(hear("otlp", file(first, span(20, known, [*begin, *more, ("gen_ai.choice", done)]))))


def test_other_requests_spans_and_attributes_are_counted() -> None:
    aside = {**today(1), "gen_ai.input.messages": [{"role": "user", "content": "Grade it."}], "odd": True}
    tool = {"gen_ai.operation.name": "execute_tool"}
    heard = hear("otlp", file(span(10, today(1)), span(15, aside), span(16, tool), span(17, {}), span(20, today(3))))
    check(heard)
    lost = heard.session.losses
    assert (lost["other request"], lost["other span"], lost["field: span.odd"], lost["call"]) == (1, 2, 1, 1)


def test_a_conversation_may_have_many_traces_and_a_failed_request_is_one() -> None:
    of = {"gen_ai.conversation.id": "c"}
    failed = {name: value for name, value in today(3).items() if "output" not in name}
    data = file(
        span(10, {**today(1), **of}),
        span(20, {**failed, **of}, traceId="t2", status={"code": 2, "message": "status 429"}),
        span(30, {**today(3), **of}, traceId="t3"),
        span(40, today(1)),
    )
    found = list(FORMATS["otlp"].sessions(data))
    assert [one.id for one in found] == ["c", "t1"]
    failures = [one.failure for one in found[0].messages if one.failure is not None]
    assert [one.status for one in failures] == [429]


def test_a_failed_request_has_the_status_of_its_span_and_no_other() -> None:
    failed = {name: value for name, value in today(3).items() if "output" not in name}
    broken = {"code": 2, "message": "it broke"}
    data = file(
        span(10, today(1)),
        span(20, {**failed, "http.response.status_code": 503}, traceId="t2", status=broken),
        span(30, {**failed, "error.type": "429"}, traceId="t3", status=broken),
        span(40, {**failed, "error.type": "Unavailable"}, traceId="t4", status=broken),
    )
    found = [one.failure for session in FORMATS["otlp"].sessions(data) for one in session.messages if one.failure]
    assert [one.status for one in found] == [503, 429, None]


def test_spans_without_a_request_or_a_response_are_named_and_lines_are_one_file(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="no request to a model"):
        list(FORMATS["otlp"].sessions(file(span(10, {"http.method": "GET"}), span(11, bare(model=None)))))
    silent = {name: value for name, value in today(1).items() if "output" not in name}
    with pytest.raises(Unreadable, match="1 conversations"):
        list(FORMATS["otlp"].sessions(file(span(10, silent))))
    path = tmp_path / "spans.jsonl"
    path.write_text("\n".join(json.dumps(file(span(start, today(count)))) for start, count in ((20, 3), (10, 1))))
    (found,) = find_sessions(path)
    assert isinstance(found, FoundSession)
    assert (found.format, found.id, len(found.session.messages)) == ("otlp", "t1", 4)


# ---- spans without contents, which is what most programs send


def bare(finish: str = "tool_calls", *, model: str | None = "m", **more: Any) -> dict[str, Any]:
    counted = {"gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 4} if model else {}
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": model or "m",
        "gen_ai.response.finish_reasons": [finish],
        **counted,
        **more,
    }


def tool(name: str, id: str = "", **more: Any) -> dict[str, Any]:
    named = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
    return {**named, **({"gen_ai.tool.call.id": id} if id else {}), **more}


def test_without_contents_steps_calls_statuses_and_tokens_are_counted_and_nothing_repeats() -> None:
    spans = []
    for step in range(6):
        spans.append(span(10 * step, bare()))
        spans.append(span(10 * step + 1, tool("look", f"c{step}")))
    spans.append(span(62, tool("look"), status={"code": 2}))
    spans.append(span(70, bare("stop")))
    heard = hear("otlp", file(*spans))
    steps = heard.of(ev.ResponseFinished)
    assert [len(step.message.calls) for step in steps] == [1, 1, 1, 1, 1, 2, 0]
    assert [result.status for result in heard.results] == ["ok"] * 6 + ["error"]
    assert {step.usage for step in steps} == {Usage(input_tokens=10, output_tokens=4)}
    assert heard.stops == ["text_final"]
    assert heard.session.losses["content"] == 7
    (result,) = backtest(heard.events, [replace(Policy(), repetition=Repetition(stop_at=3, same_text=2))])
    assert result.findings[0].stop_reason != "stuck", "calls whose arguments nobody knows are no repetition"
    (limited,) = backtest(heard.events, [replace(Policy(), limits=Limits(steps=4))])
    assert (limited.findings[0].parting, limited.findings[0].stop_reason) == ("earlier", "step_limit")


def test_a_call_of_which_no_span_tells_counts_as_one_and_a_text_ends_its_run() -> None:
    heard = hear("otlp", file(span(10, bare()), span(20, bare("stop")), span(30, bare()), span(40, bare("stop"))))
    called_in = [[call.name for call in step.message.calls] for step in heard.of(ev.ResponseFinished)]
    assert called_in == [["[not recorded]"], [], ["[not recorded]"], []]
    assert heard.stops == ["text_final", "text_final"]


def test_the_span_of_an_agent_says_how_its_run_ended_and_a_span_of_a_call_how_that_did() -> None:
    agent = {
        "gen_ai.operation.name": "invoke_agent",
        "endstop.stop_reason": "step_limit",
        "endstop.status": "exhausted",
    }
    failed = tool("look", "c1", **{"gen_ai.tool.call.result": "no sky"})
    told = file(
        span(5, agent), span(10, today(1)), span(12, failed, status={"code": 2}, endTimeUnixNano=str(13 * 10**9))
    )
    heard = hear("otlp", told)
    assert [(one.content, one.status) for one in heard.results] == [("no sky", "error")]
    assert heard.stops == ["step_limit"]
    broken = {"gen_ai.operation.name": "invoke_agent"}
    heard = hear("otlp", file(span(10, today(3)), span(11, broken, status={"code": 2, "message": "it fell over"})))
    assert (heard.outcomes[-1].stop_reason, heard.outcomes[-1].detail) == ("custom:agent_error", "it fell over")

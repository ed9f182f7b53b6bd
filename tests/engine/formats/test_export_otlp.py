"""Records as spans of OpenTelemetry, and the spans read again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from endstop import read_record
from endstop.decision import Event, Outcome, ToolResult
from endstop.decision import events as ev
from endstop.formats import export_otlp as to_otlp
from endstop.formats.exports import EXPORT_LOSSES, exported_messages
from endstop.formats.genai_attributes import SCHEMA_URL

from .heard import answer, call, hear, says, user

RECORDS = sorted((Path(__file__).parents[2] / "records").glob("*.jsonl"))


def events_in(path: Path) -> list[Event]:
    return [event for run in read_record(path).runs for event in run.events]


def exported(events: list[Event]) -> Any:
    whole, lost = to_otlp.export("s", events)
    assert set(lost) <= set(EXPORT_LOSSES)
    return msgspec.json.decode(msgspec.json.encode(whole))


def steps_of(events: list[Event]) -> list[Any]:
    """Each response: text, calls (arguments as JSON), tokens, finish reason."""
    found = []
    for event in events:
        if isinstance(event, ev.ResponseFinished):
            message = event.message
            calls = [(call.id, call.name, plain(call.arguments)) for call in message.calls]
            thought = "\n".join(part.text for part in message.reasoning if part.text)
            found.append((message.text, thought, calls, event.usage, event.finish))
    return found


def plain(arguments: str) -> Any:
    try:
        return msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        return arguments


def results_of(events: list[Event]) -> list[Any]:
    """The results as the model reads them."""
    results = (message for message in exported_messages(events) if isinstance(message, ToolResult))
    return sorted((result.call_id, result.content, result.status) for result in results)


def same_results(again: list[Event], events: list[Event]) -> int:
    """How many results have another status than before. Their contents must be the same."""
    before, after = results_of(events), results_of(again)
    assert [result[:2] for result in after] == [result[:2] for result in before]
    return sum(one != other for one, other in zip(before, after, strict=True))


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_record_comes_back_from_its_spans_with_the_same_steps_calls_tokens_and_ending(path: Path) -> None:
    events = events_in(path)
    again = hear("otlp", exported(events))
    assert again.session.id == "s"
    assert steps_of(again.events) == steps_of(events)
    lost = to_otlp.export("s", events)[1]["status"]
    assert same_results(again.events, events) <= lost
    before, after = outcomes(events)[-1], again.outcomes[-1]
    assert (after.stop_reason, after.status) == (before.stop_reason, before.status)


def outcomes(events: list[Event]) -> list[Outcome]:
    return [event.outcome for event in events if isinstance(event, ev.RunFinished)]


def attributes_of(span: dict[str, Any]) -> dict[str, Any]:
    return {pair["key"]: next(iter(pair["value"].values())) for pair in span["attributes"]}


def test_each_run_is_a_trace_with_a_span_of_each_request_and_call() -> None:
    (resource,) = exported(events_in(Path(__file__).parents[2] / "records" / "two.jsonl"))["resourceSpans"]
    (scope,) = resource["scopeSpans"]
    assert (scope["scope"]["name"], scope["schemaUrl"]) == ("endstop", SCHEMA_URL)
    spans = scope["spans"]
    roots = [span for span in spans if "parentSpanId" not in span]
    assert [span["name"] for span in roots] == ["invoke_agent endstop"] * len(roots)
    assert len({span["traceId"] for span in spans}) == len(roots)
    assert len({span["spanId"] for span in spans}) == len(spans)
    for span in spans:
        root = next(one for one in roots if one["traceId"] == span["traceId"])
        assert span.get("parentSpanId", root["spanId"]) == root["spanId"]
        assert (len(span["traceId"]), len(span["spanId"])) == (32, 16)
        assert int(root["startTimeUnixNano"]) <= int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])
        assert int(span["endTimeUnixNano"]) <= int(root["endTimeUnixNano"])
    assert all(attributes_of(root)["gen_ai.conversation.id"] == "s" for root in roots)
    chat = next(span for span in spans if span["name"].startswith("chat "))
    assert chat["kind"] == 3
    assert attributes_of(chat)["gen_ai.operation.name"] == "chat"


def test_nudges_failed_calls_images_and_a_failed_run_are_in_the_spans_or_counted() -> None:
    session = [
        user("go", timestamp="2026-01-01T10:00:00Z"),
        says("Look.", call("c1", "read", '{"path": "a"}'), call("c2", "read", "{broken")),
        answer("c1", "A"),
        answer("c2", "no", is_error=True),
        user("<system-reminder>go on</system-reminder>"),
        says(None, reasoning_content="Hm."),
    ]
    events = hear(
        "openai", {"id": "s", "model": "gpt-x", "messages": session, "response": {"error": "status 500"}}
    ).events
    again = hear("otlp", exported(events))
    assert [one.origin for one in again.session.messages if one.origin != "user"] == ["nudge"]
    assert results_of(again.events) == results_of(events)
    assert [(o.stop_reason, o.status, o.steps) for o in again.outcomes] == [
        (o.stop_reason, o.status, o.steps) for o in outcomes(events)
    ]
    assert outcomes(events)[-1].status == "failed"
    spans = exported(events)["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert spans[0]["status"]["code"] == 2
    assert attributes_of(spans[1])["gen_ai.provider.name"] == "openai"


def test_failed_attempts_are_events_of_their_request_and_are_read_again() -> None:
    events = events_in(Path(__file__).parents[2] / "records" / "connection.jsonl")
    failed = [event for event in events if isinstance(event, ev.AttemptFailed)]
    assert failed
    again = [event for event in hear("otlp", exported(events)).events if isinstance(event, ev.AttemptFailed)]
    assert [one.message for one in again] == [one.message for one in failed]

"""Recordings of chat endpoints."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from endstop.decision import AssistantMessage, ToolResult, Usage
from endstop.decision import events as ev
from endstop.formats import FORMATS, Unreadable, detect_format

from .heard import hear

CHAT = "/api/v1/chat/completions"


def reply(response: Any, status: int = 200, path: str = CHAT, **more: Any) -> dict[str, Any]:
    return {"scope": "https://host", "method": "POST", "path": path, "status": status, "response": response, **more}


def streamed(text: str = "", *calls: tuple[str, str, str], created: int = 1_773_683_235, **usage: Any) -> str:
    """A stream of chat completions, each call's arguments in two pieces."""
    deltas: list[dict[str, Any]] = [{"content": text}] if text else []
    for index, (id, name, arguments) in enumerate(calls):
        deltas.append({"tool_calls": [{"index": index, "id": id, "function": {"name": name, "arguments": ""}}]})
        for piece in (arguments[:3], arguments[3:]):
            deltas.append({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    chunks = [{"model": "m", "created": created, "choices": [{"delta": delta}]} for delta in deltas]
    finish = "tool_calls" if calls else "stop"
    chunks.append({"choices": [{"delta": {}, "finish_reason": finish}], "usage": usage or None})
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"


DONE = ("c9", "attempt_completion", '{"result": "All done."}')


def test_the_session_is_put_together_from_the_replies_of_the_chat_endpoint() -> None:
    recording = [
        reply({"flags": {}}, path="/flags/?v=2"),
        reply(
            streamed("Look.", ("c1", "read_file", '{"path": "a"}'), prompt_tokens=90, completion_tokens=7, cost=0.25)
        ),
        reply("", path="/batch/"),
        reply(streamed("", DONE, created=1_773_683_237), path=f"{CHAT}?x=1"),
    ]
    heard = hear("cline", recording)
    assert detect_format(recording) == "cline"
    first, result, last, _ = heard.said
    assert isinstance(first, AssistantMessage)
    assert isinstance(last, AssistantMessage)
    assert (first.text, first.calls[0].name, first.calls[0].arguments) == ("Look.", "read_file", '{"path": "a"}')
    assert isinstance(result, ToolResult)
    assert result.status == "unknown"
    responses = heard.of(ev.ResponseFinished)
    assert responses[0].usage == Usage(input_tokens=90, output_tokens=7, cost_usd=0.25)
    assert responses[1].usage.estimated
    assert [response.t for response in responses] == [0, 2000]
    assert heard.of(ev.RunStarted)[0].model == "m"
    assert heard.of(ev.RunStarted)[0].prompt is None
    assert heard.stops == ["completed"]
    assert heard.outcomes[0].answer == "All done."
    assert heard.session.losses == {"prompt": 1, "result": 1, "usage": 1}


def test_a_reply_after_the_completion_begins_a_run() -> None:
    heard = hear("cline", [reply(streamed("", DONE)), reply(streamed("", ("c2", *DONE[1:])))])
    assert heard.stops == ["completed", "completed"]
    assert [result.content for result in heard.results] == ["All done.", "All done."]


def test_a_reply_after_plain_text_begins_a_run_unless_a_completion_was_called_before() -> None:
    assert hear("cline", [reply(streamed("a")), reply(streamed("b"))]).stops == ["text_final", "text_final"]
    heard = hear("cline", [reply(streamed("", DONE)), reply(streamed("hm")), reply(streamed("", ("c2", *DONE[1:])))])
    assert heard.stops == ["completed", "completed"]
    assert [outcome.steps for outcome in heard.outcomes] == [1, 2]


def test_a_reply_may_be_whole_or_packed_or_in_hexadecimal_digits() -> None:
    whole = {"model": "m", "choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}
    hexadecimal = streamed("hex").encode().hex()
    packed = gzip.compress(streamed("packed").encode()).hex()
    recording = [
        reply(whole),
        reply(json.dumps(whole)),
        reply([hexadecimal[:20], hexadecimal[20:]]),
        reply(packed, responseIsBinary=True),
    ]
    heard = hear("cline", recording)
    assert [message.text for message in heard.said if isinstance(message, AssistantMessage)] == [
        "hi", "hi", "hex", "packed",
    ]  # fmt: skip


def test_a_failed_request_is_an_attempt_of_its_step_and_the_last_one_is_the_ending() -> None:
    failed = reply({"error": {"message": "too many"}}, 429)
    cut = reply('data: {"choices": [{"delta": {"content": "He"}}]}\n\n')
    heard = hear("cline", [failed, cut, reply(streamed("Hello"))])
    assert heard.stops == ["text_final"]
    assert [(event.attempt, event.kind, event.status) for event in heard.of(ev.AttemptFailed)] == [
        ("1.1", "rate_limit", 429), ("1.2", "server", None),
    ]  # fmt: skip
    heard = hear("cline", [reply(streamed("", ("c1", "read", "{}"))), failed])
    assert heard.stops == ["provider_error"]
    assert "too many" in heard.outcomes[0].detail


def test_replies_in_other_formats_are_counted() -> None:
    other = reply("event: message_start\ndata: {}\n\n", path="/v1/messages")
    assert hear("cline", [other, reply(streamed("hi"))]).session.losses["reply"] == 1


@pytest.mark.parametrize("response", [None, 7, True, [], [{}], {}, "", "\0", "data: {", [1], {"choices": []}])
def test_a_recording_without_a_whole_reply_is_refused(response: Any) -> None:
    with pytest.raises(Unreadable):
        list(FORMATS["cline"].sessions([reply(response)]))

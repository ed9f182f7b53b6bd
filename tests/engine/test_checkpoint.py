"""What is kept means the same as what was returned, and is nothing but JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from endstop import Completion, Continue, Phase
from endstop.checkpoint import dump_response, dump_value, load_response, load_value
from endstop.decision import AssistantMessage, Image, Reasoning, ToolCall, Usage
from endstop.decision import events as ev
from endstop.tools.results import MAX_RESULT_CHARACTERS, CallOutcome, NeedsUserInput, images_in, render_result, truncate

VALUES: list[Any] = [
    "text",
    "continue",
    "",
    "x" * (MAX_RESULT_CHARACTERS + 1000),
    "\ud800 alone",
    None,
    3,
    {"a": [1, None]},
    b"bytes",
    object(),
    Image(data=b"\x00\xff", media_type="image/png"),
    ["words", Image(url="https://example.invalid/a.png")],
    CallOutcome(content="no", status="error"),
    Completion(answer="a", content="c", pending_issues=("p",), confirm="?", percentage=100),
    Completion(answer="", success=False, error="why"),
    Phase(percentage=30, summary="s", next_phase="n"),
    Continue("not yet"),
    NeedsUserInput("which?"),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:30].partition(" at 0x")[0])
def test_a_value_comes_back_with_the_same_meaning(value: Any) -> None:
    kept = dump_value(value)
    assert json.loads(json.dumps(kept)) == kept
    back = load_value(json.loads(json.dumps(kept)))
    if isinstance(value, Completion | Phase | Continue | NeedsUserInput):
        assert back == value
    else:
        assert render_result(back) == render_result(value)
        assert images_in(back) == images_in(value)
        assert isinstance(back, str) == isinstance(value, str), "a completion tool's plain text may be `continue`"


def test_a_text_that_was_shortened_is_not_shortened_again() -> None:
    once = truncate("x" * 5000, 1000)
    assert len(once) <= 1000
    assert "left out" in once
    assert truncate(once, 1000) == once


def test_a_response_comes_back_as_it_was() -> None:
    message = AssistantMessage(
        "text", (ToolCall("c1", "write", '{"a":1}'),), (Reasoning("thought", "signed"), Reasoning("x", redacted=True))
    )
    response = ev.ResponseFinished(
        step=2, attempt="2.1", message=message, finish="tool_calls", usage=Usage(input_tokens=3), cut_at="c1"
    )
    events: list[Any] = [
        ev.AttemptStarted(seq=5, t=9, attempt="2.1", model="m"),
        ev.ToolCallEnd(attempt="2.1", call_id="c1", may_end=False),
    ]
    kept = json.loads(json.dumps(dump_response(response, events)))
    back = load_response(kept)
    assert back.response == response
    assert back.events == (ev.AttemptStarted(attempt="2.1", model="m"), events[1])

"""Anthropic's messages."""

from __future__ import annotations

from typing import Any

from endstop.decision import AssistantMessage, Image, Reasoning, SystemMessage, ToolResult, Usage, UserMessage
from endstop.decision import events as ev
from endstop.formats import detect_format

from .heard import called, hear, user


def use(id: str, name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


def result(id: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": content, **more}


def says(*blocks: Any, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks), **more}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


SESSION = {
    "id": "s1",
    "model": "claude",
    "system": [text("Be brief.")],
    "tools": [{"name": "read", "description": "Read.", "input_schema": {"type": "object"}}],
    "messages": [
        user("Read both"),
        says(
            {"type": "thinking", "thinking": "Two files.", "signature": "sig"},
            {"type": "redacted_thinking", "data": "secret"},
            text("I read."),
            use("t1", "read", path="a"),
            use("t2", "read", path="b"),
            usage={"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 5},
            stop_reason="tool_use",
        ),
        user([result("t2", "no", is_error=True), result("t1", [text("A")])]),  # type: ignore[arg-type]
        says(text("A, and b is missing."), stop_reason="end_turn"),
    ],
}


def test_blocks_become_text_calls_reasoning_and_results_at_their_calls() -> None:
    heard = hear("anthropic", SESSION)
    assert detect_format(SESSION) == "anthropic"
    assert heard.messages == [
        SystemMessage("Be brief."),
        UserMessage("Read both"),
        AssistantMessage(
            "I read.",
            (called("t1", "read", '{"path":"a"}'), called("t2", "read", '{"path":"b"}')),
            (Reasoning("Two files.", "sig"), Reasoning("", "secret", True)),
        ),
        ToolResult("t1", "read", "A"),
        ToolResult("t2", "read", "no", "error"),
        AssistantMessage("A, and b is missing."),
    ]
    assert heard.stops == ["text_final"]


def test_cached_input_counts_as_input() -> None:
    response = hear("anthropic", SESSION).of(ev.ResponseFinished)[0]
    assert response.usage == Usage(input_tokens=100, output_tokens=5, cached_tokens=90)
    assert response.finish == "tool_calls"


def test_the_response_of_the_api_beside_its_request_comes_last() -> None:
    answer = {"type": "message", "id": "m", "role": "assistant", "content": [text("Hello")], "stop_reason": "end_turn"}
    heard = hear("anthropic", {"request": {"model": "claude", "messages": [user("Hi")]}, "response": answer})
    assert heard.said == [UserMessage("Hi"), AssistantMessage("Hello")]
    assert heard.session.model == "claude"


def test_text_beside_results_is_the_loops_own_unless_the_run_was_done() -> None:
    heard = hear(
        "anthropic",
        [
            user("go"),
            says(use("t1", "read")),
            user([result("t1", "A"), text("<environment_details>3 files</environment_details>")]),  # type: ignore[arg-type]
            says(use("t2", "attempt_completion", result="Done.")),
            user([result("t2", ""), text("Now do the other one.")]),  # type: ignore[arg-type]
            says(text("Did it.")),
        ],
    )
    assert [event.prompt for event in heard.of(ev.RunStarted)] == ["go", "Now do the other one."]
    assert [(event.text[:4], event.origin) for event in heard.of(ev.MessageAdded)] == [("<env", "nudge")]
    assert heard.stops == ["completed", "text_final"]
    assert heard.outcomes[0].rounds == 2


def test_pictures_in_results_are_kept_and_tools_of_the_provider_are_counted() -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "AAEC"}}
    heard = hear(
        "anthropic",
        [
            user("go"),
            says(
                {"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {}},
                {"type": "web_search_tool_result", "tool_use_id": "srv", "content": []},
                use("t", "shot"),
            ),
            user([result("t", [picture])]),  # type: ignore[arg-type]
            says(text("ok")),
        ],
    )
    assert heard.results[0].images == (Image(data=b"\0\1\2", media_type="image/jpeg"),)
    assert heard.session.losses["provider tool"] == 2

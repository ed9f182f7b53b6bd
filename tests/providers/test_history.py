"""What goes back to a provider, read from the bytes of real requests: reasoning, signatures, prompts, cache marks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from endstop import Engine, Tool
from endstop.decision import (
    AssistantMessage,
    Message,
    Reasoning,
    SystemMessage,
    ToolCall,
    ToolResult,
    ToolSpec,
    UserMessage,
)
from endstop.providers import LiteLLM, OpenAICompatible, Provider, Request

from .endpoint import Endpoint, Reply, call_delta, delta, stream

pytestmark = pytest.mark.filterwarnings("ignore")  # litellm and what it imports warn of themselves

CLAUDE = "anthropic/claude-sonnet-4-5"
TOOL = ToolSpec(name="look", description="Look.", parameters={"type": "object", "properties": {}})
SIGNED = Reasoning("I should look.", "c2lnbmVk")
HIDDEN = Reasoning("", "aGlkZGVu", redacted=True)
CUT = Reasoning("And then I")


def claude(url: str, **options: Any) -> LiteLLM:
    return LiteLLM(CLAUDE, api_base=url.removesuffix("/v1"), api_key="placeholder", **options)


def anthropic(*events: dict[str, Any]) -> Reply:
    """A reply in Anthropic's format (API reference, "Streaming messages")."""
    usage = {"input_tokens": 9, "output_tokens": 9}
    start = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": [], "usage": usage}
    whole = [{"type": "message_start", "message": start}, *events, {"type": "message_stop"}]
    return Reply(pieces=[f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode() for e in whole])


def block(index: int, head: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": head},
        *({"type": "content_block_delta", "index": index, "delta": one} for one in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def ends(reason: str) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 9}}


TEXT = anthropic(*block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "done"}), ends("end_turn"))


def calls_look(number: int) -> Reply:
    head = {"type": "tool_use", "id": f"toolu_{number}", "name": "look", "input": {}}
    return anthropic(
        *block(0, head, {"type": "input_json_delta", "partial_json": f'{{"at": {number}}}'}), ends("tool_use")
    )


async def sent(provider: Provider, endpoint: Endpoint, messages: Sequence[Message], **request: Any) -> dict[str, Any]:
    """The body that this request makes."""
    async with provider.stream(Request(messages=messages, **request)) as chunks:
        async for _ in chunks:
            pass
    return dict(endpoint.body())


def step(number: int, *reasoning: Reasoning) -> list[Message]:
    """A response with one call, and its result."""
    made = ToolCall(f"call_{number}", "look", '{"at": 1}')
    return [AssistantMessage("", (made,), reasoning), ToolResult(made.id, "look", f"result {number}")]


# ---- reasoning


async def test_signed_and_redacted_thinking_goes_back_unchanged_before_its_call_and_a_cut_one_never() -> None:
    async with Endpoint(TEXT) as endpoint:
        body = await sent(
            claude(endpoint.url), endpoint, [UserMessage("go"), *step(1, SIGNED, HIDDEN, CUT)], tools=(TOOL,)
        )
    thinking, redacted, used = body["messages"][1]["content"]
    assert thinking == {"type": "thinking", "thinking": SIGNED.text, "signature": SIGNED.signature}
    assert redacted == {"type": "redacted_thinking", "data": HIDDEN.signature}
    assert used["type"] == "tool_use"


async def test_a_message_with_nothing_but_cut_thinking_beside_its_call_goes_back_without_any() -> None:
    async with Endpoint(TEXT) as endpoint:
        body = await sent(claude(endpoint.url), endpoint, [UserMessage("go"), *step(1, CUT)], tools=(TOOL,))
    assert [part["type"] for part in body["messages"][1]["content"]] == ["tool_use"]


async def test_thinking_makes_the_round_trip_through_a_run_whole_and_signed() -> None:
    first = anthropic(
        *block(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": "I should "},
            {"type": "thinking_delta", "thinking": "look."},
            {"type": "signature_delta", "signature": "c2lnbmVk"},
        ),
        *block(1, {"type": "redacted_thinking", "data": "aGlkZGVu"}),
        *block(
            2,
            {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}},
            {"type": "input_json_delta", "partial_json": '{"at": 1}'},
        ),
        ends("tool_use"),
    )
    async with Endpoint(first, TEXT) as endpoint:
        outcome = await looking(claude(endpoint.url)).run("go")
    assert outcome.answer == "done"
    assert endpoint.body()["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "I should look.", "signature": "c2lnbmVk"},
        {"type": "redacted_thinking", "data": "aGlkZGVu"},
        {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": 1}},
    ]


async def test_a_stream_that_is_left_inside_a_thinking_block_leaves_nothing_behind_in_the_session() -> None:
    half = anthropic(*block(0, {"type": "thinking", "thinking": ""}, {"type": "thinking_delta", "thinking": "I sh"}))
    half.pieces, half.ends = half.pieces[:3], "cut"
    async with Endpoint(half, TEXT) as endpoint:
        session = looking(claude(endpoint.url)).session()
        assert (await session.run("go")).stop_reason == "provider_error"
        assert (await session.run("again")).answer == "done"
    assert b"thinking" not in endpoint.requests[-1]


def looking(provider: Provider) -> Engine:
    async def look(at: int = 0) -> str:
        return "seen"

    return Engine(provider, tools=[Tool(look, name="look", description="Look.")], presets=())


@pytest.mark.parametrize(("model", "goes_back"), [("deepseek-chat", True), ("kimi-k2", True), ("gpt-4o", False)])
@pytest.mark.parametrize("setting", [None, True, False])
async def test_reasoning_as_text_goes_back_with_calls_where_the_model_insists_or_a_setting_says_so(
    model: str, goes_back: bool, setting: bool | None
) -> None:
    expected = [CUT.text] if (goes_back if setting is None else setting) else []
    async with Endpoint(stream(delta(content="ok", finish="stop"))) as endpoint:
        provider = OpenAICompatible(model, endpoint.url, send_reasoning=setting)
        answered = AssistantMessage("No.", (), (CUT,))
        body = await sent(provider, endpoint, [UserMessage("go"), *step(1, CUT), answered, UserMessage("go on")])
    assert [m["reasoning_content"] for m in body["messages"] if "reasoning_content" in m] == expected


@pytest.mark.parametrize(("model", "goes_back"), [("deepseek/deepseek-chat", True), ("openai/some-model", False)])
async def test_through_litellm_reasoning_as_text_goes_back_to_those_that_insist(model: str, goes_back: bool) -> None:
    async with Endpoint(stream(delta(content="ok", finish="stop"))) as endpoint:
        provider = LiteLLM(model, api_base=endpoint.url, api_key="placeholder")
        body = await sent(provider, endpoint, [UserMessage("go"), *step(1, SIGNED)], tools=(TOOL,))
    assert body["messages"][1].get("reasoning_content") == (SIGNED.text if goes_back else None)
    assert SIGNED.signature.encode() not in endpoint.requests[-1]


async def test_a_thought_signature_of_gemini_makes_the_round_trip_within_the_id_of_its_call() -> None:
    """Gemini API reference, "Thought signatures": the part that called must come back with its own."""
    part = {"functionCall": {"name": "look", "args": {"at": 1}}, "thoughtSignature": "dGhvdWdodA=="}
    first = {"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}]}
    last = {"candidates": [{"content": {"role": "model", "parts": [{"text": "done"}]}, "finishReason": "STOP"}]}
    async with Endpoint(stream(first, done=False), stream(last, done=False)) as endpoint:
        provider = LiteLLM("gemini/gemini-2.5-pro", api_base=endpoint.url, api_key="placeholder")
        outcome = await looking(provider).run("go")
    assert outcome.answer == "done"
    (said,) = (content["parts"] for content in endpoint.body()["contents"] if content["role"] == "model")
    assert [one.get("thoughtSignature") for one in said] == [part["thoughtSignature"]]


# ---- the system prompt, and who speaks


async def test_the_system_prompt_stands_first_and_once_on_both_paths() -> None:
    messages = [SystemMessage("Be brief."), UserMessage("go"), *step(1), UserMessage("on"), UserMessage("and on")]
    async with Endpoint(TEXT) as endpoint:
        body = await sent(claude(endpoint.url), endpoint, messages, tools=(TOOL,))
    assert [part["text"] for part in body["system"]] == ["Be brief."]
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]
    async with Endpoint(stream(delta(content="ok", finish="stop"))) as endpoint:
        body = await sent(OpenAICompatible("m", endpoint.url), endpoint, messages, tools=(TOOL,))
    assert [message["role"] for message in body["messages"]] == ["system", "user", "assistant", "tool", "user", "user"]


# ---- the prompt cache


def marked(body: dict[str, Any]) -> list[str]:
    """Where the marks of a request stand: `tools`, `system`, or the text of a part of a message."""
    found = ["tools"] * sum("cache_control" in tool for tool in body.get("tools", ()))
    found += ["system"] * sum("cache_control" in part for part in body.get("system", ()))
    for message in body["messages"]:
        parts = message["content"] if isinstance(message["content"], list) else []
        found += [part.get("text") or part.get("content") for part in parts if "cache_control" in part]
    return found


def cached(body: dict[str, Any]) -> list[Any]:
    """All parts of the messages up to the last mark, without the marks."""
    parts = [(message["role"], part) for message in body["messages"] for part in message["content"]]
    last = max(at for at, (_, part) in enumerate(parts) if "cache_control" in part)
    return [(role, unmarked(part)) for role, part in parts[: last + 1]]


def unmarked(value: Any) -> Any:
    """The same without marks, which are no part of what is cached."""
    if isinstance(value, dict):
        return {name: unmarked(inner) for name, inner in value.items() if name != "cache_control"}
    return [unmarked(inner) for inner in value] if isinstance(value, list) else value


async def test_marks_stand_on_tools_system_and_what_stays_and_never_on_what_is_shown_once() -> None:
    async with Endpoint(TEXT) as endpoint:
        provider, memo = claude(endpoint.url), dict[Any, Any]()
        messages: list[Message] = [SystemMessage("Be brief."), UserMessage("go")]
        kept: list[Any] = []
        for number in range(1, 4):
            reminder = (UserMessage("one step is left"),)
            body = await sent(provider, endpoint, messages, tools=(TOOL,), memo=memo, ephemeral=reminder)
            before = "go" if number <= 2 else f"result {number - 2}"
            now = [] if number == 1 else [f"result {number - 1}"]
            assert marked(body) == ["tools", "system", before, *now]
            assert cached(body)[: len(kept)] == kept
            kept = cached(body)
            messages += step(number)


async def test_the_marks_of_a_request_stay_in_the_next_one_and_are_never_more_than_four() -> None:
    async with Endpoint(TEXT) as endpoint:
        provider, memo = claude(endpoint.url), dict[Any, Any]()
        messages: list[Message] = [SystemMessage("Be brief."), UserMessage("go")]
        latest = "go"
        for number in range(1, 11):
            body = await sent(provider, endpoint, messages, tools=(TOOL,), memo=memo)
            again = await sent(provider, endpoint, messages, tools=(TOOL,), memo=memo)
            assert again == body, "a second try marks the same"
            assert latest in marked(body)
            assert len(marked(body)) <= 4
            latest = marked(body)[-1]
            messages += step(number)


async def test_what_is_cached_is_the_beginning_of_the_next_request_over_ten_steps() -> None:
    replies = [calls_look(number) for number in range(10)]
    async with Endpoint(*replies, TEXT) as endpoint:
        outcome = await looking(claude(endpoint.url)).run("go")
    assert outcome.steps == 11
    bodies = [unmarked(json.loads(request)) for request in endpoint.requests]
    for one, next_one in pairwise(bodies):
        assert (one["tools"], one.get("system")) == (next_one["tools"], next_one.get("system"))
        assert next_one["messages"][: len(one["messages"])] == one["messages"]


async def test_the_bytes_of_a_request_are_the_beginning_of_the_next_one_over_ten_steps() -> None:
    replies = [
        stream(call_delta(index=0, id=f"call_{n}", name="look", arguments=f'{{"at": {n}}}'), delta(finish="tool_calls"))
        for n in range(10)
    ]
    async with Endpoint(*replies, stream(delta(content="done", finish="stop"))) as endpoint:
        outcome = await looking(OpenAICompatible("m", endpoint.url)).run("go")
    assert outcome.steps == 11
    for one, next_one in pairwise(endpoint.requests):
        assert next_one.startswith(one.removesuffix(b"]}") + b",")


async def test_a_changed_history_is_marked_anew() -> None:
    async with Endpoint(TEXT) as endpoint:
        provider, memo = claude(endpoint.url), dict[Any, Any]()
        long: list[Message] = [UserMessage("go"), *step(1), *step(2)]
        await sent(provider, endpoint, long, tools=(TOOL,), memo=memo)
        body = await sent(provider, endpoint, [UserMessage("summary")], tools=(TOOL,), memo=memo, edition=1)
    assert marked(body) == ["tools", "summary"]


@pytest.mark.parametrize("model", ["openai/some-model", "deepseek/deepseek-chat", "groq/openai/gpt-oss-120b"])
async def test_no_marks_go_where_the_wire_does_not_know_them(model: str) -> None:
    async with Endpoint(stream(delta(content="ok", finish="stop"))) as endpoint:
        provider = LiteLLM(model, api_base=endpoint.url, api_key="placeholder")
        await sent(provider, endpoint, [SystemMessage("Be brief."), UserMessage("go"), *step(1)], tools=(TOOL,))
    assert b"cache_control" not in endpoint.requests[-1]


async def test_marks_can_be_switched_off() -> None:
    async with Endpoint(TEXT) as endpoint:
        await sent(claude(endpoint.url, cache=False), endpoint, [UserMessage("go")], tools=(TOOL,))
    assert b"cache_control" not in endpoint.requests[-1]

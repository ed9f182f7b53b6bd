"""What servers with chat completions want back beside texts and calls, read from the bytes of the next request."""

from __future__ import annotations

from typing import Any

import pytest
from endstop import Engine, tool
from endstop.decision import AssistantMessage, Reasoning, ToolCall, ToolResult, UserMessage
from endstop.providers import OpenAICompatible, Request

from .endpoint import Endpoint, Reply, body, call_delta, delta, stream
from .played import Heard
from .streams import chunks_of

DONE = stream(delta(content="Done."), delta(finish="stop"))
LOOK = call_delta(index=0, id="call_1", name="look", arguments="{}")
CALLED = delta(finish="tool_calls")


@tool
async def look() -> str:
    """Look."""
    return "42"


async def sent_back(reply: Reply, model: str = "m", **options: Any) -> Any:
    """The message that the second request has of the first response."""
    async with Endpoint(reply, DONE) as endpoint:
        provider = OpenAICompatible(model, endpoint.url, api_key="placeholder", **options)
        outcome = await Engine(provider, tools=[look], presets=()).run("go")
        assert outcome.answer == "Done."
        return answer_in(endpoint)


def answer_in(endpoint: Endpoint) -> Any:
    """The model's first message in the second request."""
    return next(message for message in endpoint.body(1)["messages"] if message["role"] == "assistant")


def detail(text: str | None = None, index: int = 0, **fields: Any) -> dict[str, Any]:
    head = {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": index}
    return head | ({} if text is None else {"text": text}) | fields


def details(*parts: dict[str, Any], reasoning: str | None = None) -> dict[str, Any]:
    return delta(content="", reasoning=reasoning, reasoning_details=list(parts))


SIGNED = [detail("I should look.", signature="c2lnL2c=")]
IN_PIECES = (
    details(detail("", signature="")),
    details(detail("I should"), reasoning="I should"),
    details(detail(" look."), reasoning=" look."),
    details(detail(signature="c2lnL2c=")),
    details(),
)


async def test_details_of_reasoning_that_came_in_pieces_go_back_whole() -> None:
    message = await sent_back(stream(*IN_PIECES, LOOK, CALLED))
    assert message["reasoning_details"] == SIGNED
    assert not message.keys() & {"reasoning", "reasoning_content"}


async def test_details_go_back_also_without_a_call_and_from_a_response_that_was_not_streamed() -> None:
    whole = {"role": "assistant", "content": "Hm.", "reasoning": "I should look.", "reasoning_details": SIGNED}
    for reply in (
        stream(*IN_PIECES, delta(content="Hm."), delta(finish="stop")),
        body({"choices": [{"index": 0, "message": whole, "finish_reason": "stop"}]}),
    ):
        async with Endpoint(reply, DONE) as endpoint:
            session = Engine(OpenAICompatible("m", endpoint.url), presets=()).session()
            await session.run("go")
            await session.run("and?")
            said = {"role": "assistant", "content": "Hm."}
            assert answer_in(endpoint) == {**said, "reasoning_details": SIGNED}


async def test_encrypted_details_and_those_of_several_kinds_go_back_in_their_order() -> None:
    summary = {"type": "reasoning.summary", "summary": "Looks.", "index": 0, "id": "rs_1"}
    hidden = {
        "type": "reasoning.encrypted",
        "data": "gAAA/+==",
        "index": 0,
        "id": "rs_1",
        "format": "openai-responses-v1",
    }
    late = {"type": "reasoning.encrypted", "data": "late", "index": 1, "id": "call_1"}
    pieces = [{**summary, "summary": "Lo"}, {**summary, "summary": "oks."}]
    reply = stream(
        details(pieces[0], reasoning="Lo"),
        details(pieces[1], reasoning="oks."),
        details(hidden),
        LOOK,
        delta(reasoning_details=[late]),
        CALLED,
    )
    assert (await sent_back(reply))["reasoning_details"] == [summary, hidden, late]


async def test_a_text_of_reasoning_is_kept_once() -> None:
    async with Endpoint(stream(*IN_PIECES, LOOK, CALLED)) as endpoint:
        got = await Heard().all_of(OpenAICompatible("m", endpoint.url))
    (block,) = got.message.reasoning
    assert (block.text, "I should" in block.signature, block.vendor) == ("I should look.", False, "127.0.0.1")


async def test_signatures_of_calls_go_back_with_their_calls() -> None:
    signed = {"google": {"thought_signature": "c2ln/+=="}}
    other = {"vertex": {"thought_signature": "b3RoZXI="}}
    whole = {"name": "look", "arguments": "{}"}
    reply = stream(  # Gemini sends whole calls, without an index, the first of them with a signature
        delta(tool_calls=[{"id": "a", "type": "function", "function": whole, "extra_content": signed}]),
        delta(tool_calls=[{"id": "b", "type": "function", "function": whole}]),
        delta(tool_calls=[{"id": "c", "type": "function", "function": whole, "extra_content": other}]),
        CALLED,
    )
    calls = (await sent_back(reply))["tool_calls"]
    assert [(call["id"], call.get("extra_content")) for call in calls] == [("a", signed), ("b", None), ("c", other)]


async def test_a_signature_of_a_text_goes_back_with_its_message() -> None:
    signed = {"google": {"thought_signature": "c2ln"}}
    message = await sent_back(stream(delta(content="I look."), delta(extra_content=signed), LOOK, CALLED))
    assert message["extra_content"] == signed
    assert "extra_content" not in message["tool_calls"][0]


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
@pytest.mark.parametrize("model", ["openai/gpt-oss-120b", "glm-4.7", "MiniMax-M2", "deepseek-chat"])
async def test_reasoning_goes_back_under_the_name_that_the_server_gave_it(model: str, field: str) -> None:
    reply = stream(delta(**{field: "I should"}), delta(**{field: " look."}), LOOK, CALLED)
    message = await sent_back(reply, model)
    assert {name: text for name, text in message.items() if "reasoning" in name} == {field: "I should look."}
    assert "reasoning" not in str((await sent_back(reply, model, send_reasoning=False)).keys())


async def test_reasoning_of_other_models_does_not_go_back() -> None:
    reply = stream(delta(reasoning="I should look."), LOOK, CALLED)
    assert not (await sent_back(reply, "qwen3")).keys() & {"reasoning", "reasoning_content"}
    assert (await sent_back(reply, "qwen3", send_reasoning=True))["reasoning"] == "I should look."


@pytest.mark.parametrize("model", ["openai/gpt-oss-120b", "m"])
async def test_another_server_gets_none_of_it(model: str) -> None:
    kept = (
        Reasoning("Hm.", '{"reasoning_details": [{"type": "reasoning.text"}], "field": "reasoning"}', vendor="other"),
        Reasoning("", '{"extra_content": {"google": {}}, "of": "call"}', True, "other", calls_before=1),
        Reasoning("Ho.", "c2ln", vendor="anthropic"),
    )
    said = AssistantMessage("", (ToolCall("c1", "look", "{}"),), kept)
    request = Request(messages=[UserMessage("go"), said, ToolResult("c1", "look", "42")])
    async with Endpoint(DONE) as endpoint:
        await chunks_of(OpenAICompatible(model, endpoint.url), request)
        message = endpoint.body()["messages"][1]
    assert (message.keys(), message["tool_calls"][0].keys()) == (
        {"role", "content", "tool_calls"},
        {"id", "type", "function"},
    )


@pytest.mark.parametrize("odd", [7, "x", {}, [None, 3], [{"type": None}], [{"type": "reasoning.text", "text": None}]])
async def test_details_of_odd_types_break_nothing(odd: Any) -> None:
    reply = stream(delta(reasoning_details=odd, extra_content=odd), LOOK, CALLED)
    assert (await sent_back(reply))["tool_calls"][0]["id"] == "call_1"

"""Errors in the middle of a stream, wherever a server or a gateway puts them: each as its kind, with its message."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

import pytest
from endstop import Engine
from endstop.providers import Fallback, OpenAICompatible, Provider, Retry
from endstop.providers.anthropic_stream import AnthropicStream
from endstop.providers.chat_stream import ChatStream
from endstop.providers.errors import ProviderError
from endstop.providers.event_stream import EventStream
from endstop.providers.gemini_stream import GeminiStream
from endstop.providers.responses_stream import ResponsesStream

from .endpoint import Endpoint, delta, stream

Event = dict[str, Any] | bytes


def choice(**fields: Any) -> Event:
    return {"choices": [{"index": 0, "delta": {}, **fields}]}


def failing(code: int, message: str = "boom") -> dict[str, Any]:
    return {"code": code, "message": message}


CHAT: list[Event] = [{"choices": [{"index": 0, "delta": {"content": "Hel"}}]}]
ANTHROPIC: list[Event] = [
    {"type": "message_start", "message": {"id": "m", "content": []}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hel"}},
]
RESPONSES: list[Event] = [{"type": "response.output_text.delta", "output_index": 0, "delta": "Hel"}]
GEMINI: list[Event] = [{"candidates": [{"content": {"parts": [{"text": "Hel"}]}}]}]

ERRORS: list[tuple[Callable[[], EventStream], list[Event], Event, str]] = [
    (ChatStream, CHAT, choice(finish_reason="error", error=failing(502)), "server"),
    (ChatStream, CHAT, choice(finish_reason="network_error", error=failing(502)), "server"),
    (ChatStream, CHAT, choice(error=failing(429)), "rate_limit"),
    (ChatStream, CHAT, {**cast(dict[str, Any], choice()), "x_groq": {"error": failing(503)}}, "server"),
    (ChatStream, CHAT, choice(error=failing(402)), "quota"),
    (ChatStream, CHAT, {"error": failing(504), "choices": []}, "timeout"),
    (ChatStream, CHAT, {"success": False, "code": 500, "msg": "boom"}, "server"),
    (ChatStream, CHAT, b'{"error": {"code": 401, "message": "boom"}}', "auth"),
    (ChatStream, CHAT, b'{"error": {"code": 529, "message": "boom"}}\n\n', "server"),
    (AnthropicStream, ANTHROPIC, {"type": "error", "error": {"type": "overloaded_error", "message": "boom"}}, "server"),
    (AnthropicStream, ANTHROPIC, {"error": {"type": "rate_limit_error", "message": "boom"}}, "rate_limit"),
    (ResponsesStream, RESPONSES, {"type": "response.error", "error": failing(500)}, "server"),
    (ResponsesStream, RESPONSES, {"type": "error", "code": "rate_limit_exceeded", "message": "boom"}, "rate_limit"),
    (GeminiStream, GEMINI, {"error": {**failing(503), "status": "UNAVAILABLE"}}, "server"),
    (GeminiStream, GEMINI, b'[{"error": {"code": 429, "message": "boom"}}]', "rate_limit"),
    (GeminiStream, GEMINI, b'data: [{"error": {"code": 503, "message": "boom"}}]\n\n', "server"),
]  # fmt: skip


def framed(event: Event) -> bytes:
    return event if isinstance(event, bytes) else b"data: %s\n\n" % json.dumps(event).encode()


@pytest.mark.parametrize(("wire", "begun", "failure", "kind"), ERRORS)
def test_an_error_in_a_stream_keeps_its_kind_and_its_message(
    wire: Callable[[], EventStream], begun: list[Event], failure: Event, kind: str
) -> None:
    parser = wire()
    text = "".join(getattr(chunk, "text", "") for event in begun for chunk in parser.feed(framed(event)))
    assert text == "Hel"
    with pytest.raises(ProviderError) as error:
        _ = parser.feed(framed(failure)) + parser.end()
    assert error.value.kind == kind
    assert "boom" in error.value.message


async def test_after_an_error_in_a_choice_the_answer_is_asked_for_again_and_nothing_is_said_twice() -> None:
    broken = stream(delta(content="The po"), choice(finish_reason="error", error=failing(502)))
    whole = stream(delta(content="The port is 8080."), delta(finish="stop"))
    async with Endpoint(broken, whole) as endpoint:
        provider = Retry(OpenAICompatible("m", endpoint.url, api_key="k"), first_wait=0)
        outcome = await Engine(provider, presets=()).run("Which port?")
        assert (outcome.answer, outcome.steps, len(endpoint.requests)) == ("The port is 8080.", 1, 2)
        assert endpoint.body(0) == endpoint.body(1)


FAILURES = [
    "network_error",
    "network-error",
    "Network_Error",
    "error",
    "failed",
    "abort",
    "insufficient_system_resource",
]


@pytest.mark.parametrize("word", FAILURES)
@pytest.mark.parametrize("wrap", [lambda one: Retry(one, first_wait=0), lambda one: Fallback(one, one)])
async def test_a_response_that_ends_because_the_server_failed_is_retracted_and_asked_for_again(
    word: str, wrap: Callable[[Provider], Provider]
) -> None:
    broken, whole = (
        stream(delta(content="The po"), delta(finish=word)),
        stream(delta(content="8080."), delta(finish="stop")),
    )
    async with Endpoint(broken, whole) as endpoint:
        outcome = await Engine(wrap(OpenAICompatible("m", endpoint.url, api_key="k")), presets=()).run("Which port?")
        assert (outcome.answer, outcome.steps, len(endpoint.requests)) == ("8080.", 1, 2)
        assert endpoint.body(0) == endpoint.body(1)


async def test_the_vendors_own_word_says_that_it_failed_behind_a_harmless_one() -> None:
    broken = stream(choice(finish_reason="stop", native_finish_reason="network_error"))
    async with Endpoint(broken, stream(delta(content="8080."), delta(finish="stop"))) as endpoint:
        provider = Retry(OpenAICompatible("m", endpoint.url, api_key="k"), first_wait=0)
        outcome = await Engine(provider, presets=()).run("Which port?")
    assert (outcome.answer, outcome.steps) == ("8080.", 1)


async def test_where_no_attempt_is_left_the_loop_decides_about_the_word() -> None:
    async with Endpoint(stream(delta(content="The po"), delta(finish="error"))) as endpoint:
        provider = Retry(OpenAICompatible("m", endpoint.url, api_key="k"), times={"server": 1}, first_wait=0)
        outcome = await Engine(provider, presets=()).run("Which port?")
        assert (outcome.stop_reason, len(endpoint.requests)) == ("provider_error", 2)
        assert "ended with an error" in (outcome.detail or "")


async def test_a_word_that_was_taught_another_meaning_is_no_failure() -> None:
    async with Endpoint(stream(delta(content="8080."), delta(finish="network_error"))) as endpoint:
        taught = OpenAICompatible("m", endpoint.url, api_key="k", finish_words={"network_error": "stop"})
        outcome = await Engine(Retry(taught, first_wait=0), presets=()).run("Which port?")
        assert (outcome.stop_reason, outcome.answer, len(endpoint.requests)) == ("text_final", "8080.", 1)


async def test_what_the_model_wrote_wrongly_is_no_failure_of_the_server() -> None:
    first = stream(delta(content="The po"), delta(finish="malformed_tool_use"))
    async with Endpoint(first, stream(delta(content="8080."), delta(finish="stop"))) as endpoint:
        provider = Retry(OpenAICompatible("m", endpoint.url, api_key="k"), first_wait=0)
        assert (await Engine(provider, presets=()).run("Which port?")).steps == 2

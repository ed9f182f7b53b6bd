"""A2: what each provider makes of the finish words that come over the wire."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from endstop import Engine, tool
from endstop.decision import FinishReport, UserMessage
from endstop.providers import LiteLLM, OpenAICompatible, Provider, Request

from ..shared_data import STREAMS, serve_fixture
from .endpoint import Endpoint, Reply, delta, stream

GOOD = "Port 8080."
NO_SUCCESS = (
    "insufficient_system_resource", "abort", "network_error", "sensitive", "model_context_window_exceeded",
    "pause_turn", "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS",
    "malformed_model_output", "malformed_tool_use", "repetition", "weird",
)  # fmt: skip
FAILS = ("MISSING_THOUGHT_SIGNATURE", "failed", "RAG_QUERY_WHEN_RAG_DISABLED")
IGNORED = pytest.mark.filterwarnings("ignore")
"""litellm and what it imports warn of themselves."""


@tool
async def look(at: int) -> str:
    "Look."
    return f"nothing at {at}"


def reply(text: str, word: str) -> Reply:
    return stream(delta(role="assistant", content=text), delta(finish=word))


Voice = Callable[..., Provider]


def direct(url: str, **options: Any) -> Provider:
    return OpenAICompatible("m", url, api_key="placeholder", **options)


def litellm(url: str, **options: Any) -> Provider:
    return LiteLLM("openai/some-model", api_base=url, api_key="placeholder", **options)


VOICES = [pytest.param(direct, id="direct"), pytest.param(litellm, id="litellm", marks=IGNORED)]


@pytest.mark.parametrize("voice", VOICES)
@pytest.mark.parametrize("word", NO_SUCCESS)
async def test_A2_text_that_ends_with_such_a_word_is_asked_for_again(voice: Voice, word: str) -> None:
    async with asyncio.timeout(60), Endpoint(reply("The port is", word), reply(GOOD, "stop")) as at:
        outcome = await Engine(voice(at.url)).run("Which port?")
    if voice is litellm and word == "abort" and outcome.steps == 1:  # from 1.109 on it raises by itself
        assert (outcome.stop_reason, outcome.answer) == ("provider_error", "")
    else:
        assert (outcome.stop_reason, outcome.answer, outcome.steps) == ("text_final", GOOD, 2)


@pytest.mark.parametrize("voice", VOICES)
@pytest.mark.parametrize("word", FAILS)
async def test_A2_a_word_for_a_failure_ends_the_run_as_one(voice: Voice, word: str) -> None:
    async with asyncio.timeout(60), Endpoint(reply("The port is", word), reply(GOOD, "stop")) as at:
        outcome = await Engine(voice(at.url)).run("Which port?")
    assert (outcome.status, outcome.stop_reason, outcome.steps) == ("failed", "provider_error", 1)
    assert word in (outcome.detail or "")


@pytest.mark.parametrize("voice", VOICES)
async def test_A2_a_word_that_nobody_knows_fails_in_the_end_and_says_how_to_teach_it(voice: Voice) -> None:
    async with asyncio.timeout(60), Endpoint(reply(GOOD, "weird")) as at:
        outcome = await Engine(voice(at.url)).run("Which port?")
    assert (outcome.status, outcome.stop_reason, outcome.steps) == ("failed", "provider_error", 2)
    assert "'weird'" in (outcome.detail or "")
    assert "finish_words={'weird': \"stop\"}" in (outcome.detail or "")


@pytest.mark.parametrize("voice", VOICES)
async def test_A2_with_whole_calls_an_unknown_word_counts_as_tool_calls(voice: Voice) -> None:
    calls = [{"index": 0, "id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}}]
    asks = stream(delta(role="assistant", tool_calls=calls), delta(finish="weird"))
    async with asyncio.timeout(60), Endpoint(asks, asks, asks, reply(GOOD, "stop")) as at:
        outcome = await Engine(voice(at.url), tools=[look]).run("Which port?")
    assert (outcome.stop_reason, outcome.answer, outcome.steps) == ("text_final", GOOD, 4)


@pytest.mark.parametrize("voice", VOICES)
async def test_A2_a_word_that_the_provider_was_taught_is_what_it_means(voice: Voice) -> None:
    async with asyncio.timeout(60), Endpoint(reply(GOOD, "weird")) as at:
        outcome = await Engine(voice(at.url, finish_words={"weird": "stop"})).run("Which port?")
    assert (outcome.stop_reason, outcome.answer, outcome.steps) == ("text_final", GOOD, 1)


ANTHROPIC = ("anthropic/claude-sonnet-4-5", "{}")
GEMINI = ("gemini/gemini-2.5-pro", "{}/gemini")


def sse(*events: dict[str, Any]) -> Reply:
    named = [(f"event: {event['type']}\n" if "type" in event else "", json.dumps(event)) for event in events]
    return Reply(pieces=[f"{name}data: {data}\n\n".encode() for name, data in named])


def by_anthropic(text: str, word: str) -> Reply:
    message = {"id": "m", "type": "message", "role": "assistant", "content": [], "model": "c", "stop_reason": None}
    return sse(
        {"type": "message_start", "message": {**message, "usage": {"input_tokens": 1, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": word}, "usage": {"output_tokens": 3}},
        {"type": "message_stop"},
    )


def by_gemini(text: str, word: str) -> Reply:
    first = {"content": {"parts": [{"text": text}], "role": "model"}, "index": 0}
    last = {"content": {"parts": [{"text": ""}], "role": "model"}, "finishReason": word, "index": 0}
    counts = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    return sse({"candidates": [first]}, {"candidates": [last], "usageMetadata": counts})


@pytest.mark.parametrize(
    ("model", "speaks", "word", "means"),
    [
        (ANTHROPIC, by_anthropic, "pause_turn", "pause"),
        (ANTHROPIC, by_anthropic, "model_context_window_exceeded", "context_full"),
        (ANTHROPIC, by_anthropic, "weird", "other"),
        (ANTHROPIC, by_anthropic, "end_turn", "stop"),
        (ANTHROPIC, by_anthropic, "refusal", "content_filter"),
        (GEMINI, by_gemini, "MALFORMED_FUNCTION_CALL", "retry"),
        (GEMINI, by_gemini, "UNEXPECTED_TOOL_CALL", "retry"),
        (GEMINI, by_gemini, "TOO_MANY_TOOL_CALLS", "retry"),
        (GEMINI, by_gemini, "MISSING_THOUGHT_SIGNATURE", "error"),
        (GEMINI, by_gemini, "STOP", "stop"),
    ],
)
@IGNORED
async def test_A2_litellms_rewriting_is_looked_through(model: Any, speaks: Any, word: str, means: str) -> None:
    name, base = model
    async with asyncio.timeout(60), Endpoint(speaks(GOOD, word)) as at:
        provider = LiteLLM(name, api_base=base.format(at.url.removesuffix("/v1")), api_key="placeholder")
        async with provider.stream(Request(messages=[UserMessage("hello")])) as chunks:
            reports = [chunk async for chunk in chunks if isinstance(chunk, FinishReport)]
    assert reports == [FinishReport(means, word)]  # type: ignore[arg-type]


BEDROCK = STREAMS / "amazon-bedrock" / "amazon-bedrock-text.chunks.txt"
CONVERSE = "bedrock/converse/anthropic.claude-3-5-sonnet-20240620-v1:0"
AWS = {"aws_access_key_id": "x", "aws_secret_access_key": "x", "aws_region_name": "us-east-1"}


@pytest.mark.skipif(not BEDROCK.is_file(), reason="the recorded material is not here")
@pytest.mark.parametrize(
    ("word", "means"),
    [
        ("malformed_model_output", "retry"),
        ("malformed_tool_use", "retry"),
        ("model_context_window_exceeded", "context_full"),
        ("weird", "other"),
    ],
)
@IGNORED
async def test_A2_bedrocks_words_are_heard_through_litellm(word: str, means: str, tmp_path: Path) -> None:
    path = tmp_path / BEDROCK.name
    path.write_text(BEDROCK.read_text(encoding="utf-8").replace("end_turn", word), encoding="utf-8")
    replies = serve_fixture().load(path)
    async with asyncio.timeout(60), serve_fixture().FixtureServer(replies) as served:
        provider = LiteLLM(CONVERSE, api_base=served.url, api_key="placeholder", settings=AWS)
        async with provider.stream(Request(messages=[UserMessage("hello")])) as chunks:
            reports = [chunk async for chunk in chunks if isinstance(chunk, FinishReport)]
    assert reports == [FinishReport(means, word)]  # type: ignore[arg-type]


@IGNORED
async def test_A2_litellm_answers_everybody_else_as_before() -> None:
    import litellm
    from litellm.litellm_core_utils.core_helpers import map_finish_reason

    async with LiteLLM("openai/gpt-4o", api_base="http://127.0.0.1:9/v1"):
        assert [map_finish_reason(word) for word in ("end_turn", "abort", "stop", "SAFETY")] == [
            "stop", "stop", "stop", "content_filter",
        ]  # fmt: skip
    assert litellm.Choices(finish_reason="MAX_TOKENS").finish_reason == "length"

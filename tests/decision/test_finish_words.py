"""The table of finish words, as data."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from endstop.decision import FinishReason, WrongUse
from endstop.decision.finish_words import (
    ACTIONS,
    TEACHABLE_REASONS,
    check_finish_words,
    describe_finish_word,
    documented_words,
    parse_finish_reason,
)

VENDORS = (
    "OpenAI", "Azure", "Anthropic", "Gemini", "Bedrock", "Mistral", "DeepSeek", "Z.ai", "Groq", "Cohere", "vLLM",
    "SGLang", "llama.cpp", "TGI", "xAI", "Ollama", "OpenRouter",
)  # fmt: skip
NO_SUCCESS = {
    "insufficient_system_resource": "retry",
    "abort": "retry",
    "network_error": "retry",
    "sensitive": "content_filter",
    "model_context_window_exceeded": "context_full",
    "pause_turn": "pause",
    "MALFORMED_FUNCTION_CALL": "retry",
    "UNEXPECTED_TOOL_CALL": "retry",
    "TOO_MANY_TOOL_CALLS": "retry",
    "MISSING_THOUGHT_SIGNATURE": "error",
    "malformed_model_output": "retry",
    "malformed_tool_use": "retry",
}
"""Words that were taken for the end of good work."""


@pytest.mark.parametrize("vendor", VENDORS)
def test_A2_every_vendor_has_its_words_in_the_table(vendor: str) -> None:
    words = [word for word in documented_words() if vendor in word.vendor]
    assert {"stop", "length"} <= {word.does for word in words}
    for word in words:
        assert word.source.startswith("https://"), word
        assert word.meaning, word
        assert word.wire, word


def test_A2_a_word_means_the_same_wherever_it_comes_from() -> None:
    means: dict[str, set[FinishReason]] = {}
    for word in documented_words():
        means.setdefault(word.word.casefold(), set()).add(word.does)
    assert {word: them for word, them in means.items() if len(them) > 1} == {}


def test_A2_what_the_loop_does_is_said_for_every_reason() -> None:
    assert set(ACTIONS) == set(get_args(FinishReason))
    assert {word.does for word in documented_words()} == set(TEACHABLE_REASONS), (
        "each is somebody's word, `other` is nobody's"
    )


@pytest.mark.parametrize(("word", "does"), NO_SUCCESS.items())
def test_A2_these_words_are_no_success(word: str, does: str) -> None:
    assert parse_finish_reason(word) == does
    assert describe_finish_word(word)


def test_A2_a_word_is_known_in_small_letters_and_large_and_any_other_is_not() -> None:
    assert (parse_finish_reason("STOP"), parse_finish_reason("stop"), parse_finish_reason("Max_Tokens")) == (
        "stop",
        "stop",
        "length",
    )
    assert (parse_finish_reason("weird"), parse_finish_reason(""), describe_finish_word("weird")) == (
        "other",
        "other",
        "",
    )


def test_A2_a_word_can_be_taught_and_what_is_taught_wins() -> None:
    assert parse_finish_reason("weird", {"weird": "stop"}) == "stop"
    assert parse_finish_reason("abort", {"abort": "length"}) == "length"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"weird": "success"}, "finish_words['weird'] is 'success': use one of stop, "),
        ({"weird": "other"}, "use one of stop"),
        ({"": "stop"}, "finish_words has the word ''"),
        ({3: "stop"}, "finish_words has the word 3"),
        (["weird"], "finish_words is ['weird']"),
        ({"weird": ["stop"]}, "finish_words['weird'] is ['stop']"),
    ],
)
def test_A2_what_cannot_be_taught_is_refused_with_what_to_write(words: Any, says: str) -> None:
    with pytest.raises(WrongUse) as refused:
        check_finish_words(words)
    assert says in str(refused.value)

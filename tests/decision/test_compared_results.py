"""What of a result is compared with earlier results of the same call. The pairs are in compared_results.toml."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from endstop.decision import ToolCall
from endstop.decision.compared_results import AGENTS, TEST_RUNNERS, compared_text, fingerprint
from hypothesis import given
from hypothesis import strategies as st

Pair = dict[str, Any]
PAIRS: dict[str, list[Pair]] = tomllib.loads(
    Path(__file__).with_name("compared_results.toml").read_text(encoding="utf-8")
)
WRAPPERS = PAIRS["wrapper"]


def marks(command: str, first: str, second: str) -> tuple[str, str]:
    """The fingerprints of two results of a shell's command."""
    call = ToolCall("c1", "bash", json.dumps({"command": command}))
    return fingerprint(call, first), fingerprint(call, second)


def wrapped(wrapper: Pair, time: str, output: str) -> str:
    """The output in an agent's words."""
    template: str = wrapper[time]
    return template.replace("{output}", json.dumps(output) if wrapper.get("json") else output)


def by(pairs: Sequence[Pair], key: str) -> Any:
    return pytest.mark.parametrize("pair", pairs, ids=[pair[key] for pair in pairs])


def test_there_are_sixty_pairs_of_changing_commands_and_each_of_them_differs() -> None:
    assert len(PAIRS["different"]) >= 60
    assert all(pair["first"] != pair["second"] for pair in PAIRS["different"])


@by(PAIRS["different"], "what")
def test_what_a_command_prints_is_its_news(pair: Pair) -> None:
    one, other = marks(pair["command"], pair["first"], pair["second"])
    assert one != other


@by(PAIRS["different"], "what")
def test_what_a_command_prints_is_its_news_in_the_words_of_each_agent(pair: Pair) -> None:
    for wrapper in WRAPPERS:
        first, second = wrapped(wrapper, "first", pair["first"]), wrapped(wrapper, "second", pair["second"])
        one, other = marks(pair["command"], first, second)
        assert one != other, wrapper["agent"]


@by(PAIRS["same"], "what")
def test_a_program_s_own_clock_is_no_news(pair: Pair) -> None:
    one, other = marks(pair["command"], pair["first"], pair["second"])
    assert one == other


@by(PAIRS["same"], "what")
def test_a_program_s_own_clock_is_no_news_in_the_words_of_each_agent(pair: Pair) -> None:
    for wrapper in WRAPPERS:
        if not wrapper.get("json"):  # in JSON, the output has no lines
            first, second = wrapped(wrapper, "first", pair["first"]), wrapped(wrapper, "second", pair["second"])
            one, other = marks(pair["command"], first, second)
            assert one == other, wrapper["agent"]


@by(PAIRS["added"], "what")
def test_words_that_an_agent_adds_are_no_news(pair: Pair) -> None:
    one, other = marks(pair["command"], pair["first"], pair["second"])
    assert one == other


@by(WRAPPERS, "agent")
def test_an_agent_s_words_are_no_news(pair: Pair) -> None:
    for output in (
        "same",
        "",
        "a\nb\n",
        "Traceback (most recent call last):\nValueError: no",
        "é" * 5_000,
        "a\n" * 5_000,
    ):
        one, other = marks("./run", wrapped(pair, "first", output), wrapped(pair, "second", output))
        assert one == other, output[:20]


@by([pair for pair in WRAPPERS if pair["first"] != pair["second"]], "agent")
def test_an_agent_s_words_do_not_hide_an_exit_code(pair: Pair) -> None:
    first = wrapped(pair, "first", "same")
    for code in ("code 0", "Code: 0", "code: 0", "code 1", 'exit_code":0', "exit_code>0", "Exit Code: 2"):
        if code in first:
            one, other = marks("./run", first, wrapped(pair, "second", "same").replace(code, code[:-1] + "7"))
            assert one != other


@by(PAIRS["running"], "agent")
def test_a_poll_of_what_still_runs_is_never_the_same(pair: Pair) -> None:
    one, other = marks("./run", pair["first"], pair["second"])
    assert one != other


@by(PAIRS["same"] + PAIRS["added"] + PAIRS["different"], "what")
def test_the_whole_text_is_compared_where_the_record_says_so(pair: Pair) -> None:
    call = ToolCall("c1", "bash", json.dumps({"command": pair["command"]}))
    assert fingerprint(call, pair["first"], compared="text") != fingerprint(call, pair["second"], compared="text")


@given(st.text(max_size=300), st.sampled_from(WRAPPERS), st.sampled_from(["first", "second"]))
def test_two_outputs_in_an_agent_s_words_are_told_apart(output: str, wrapper: Pair, time: str) -> None:
    one = compared_text("bash", "{}", wrapped(wrapper, "first", output), "said")
    other = compared_text("bash", "{}", wrapped(wrapper, time, output + "."), "said")
    assert one != other


@given(st.text(max_size=300))
def test_a_text_without_such_words_is_compared_as_it_is(text: str) -> None:
    assert compared_text("bash", '{"command": "pytest"}', text, "said") is text


def test_a_text_in_which_nothing_is_put_aside_keeps_its_fingerprint_of_older_versions() -> None:
    call = ToolCall("c1", "bash", '{"command": "ls"}')
    assert fingerprint(call, "a.txt\nb.txt") == fingerprint(call, "a.txt\nb.txt", compared="text")


@pytest.mark.parametrize("words", [*AGENTS, *TEST_RUNNERS], ids=lambda words: repr(words.sign))
def test_each_pattern_is_tried_by_a_pair(words: Any) -> None:
    texts = [wrapped(wrapper, time, "same") for wrapper in WRAPPERS for time in ("first", "second")]
    texts += [pair[time] for pair in PAIRS["same"] + PAIRS["added"] for time in ("first", "second")]
    assert any(words.sign in text and words.pattern.search(text) for text in texts)

"""Text of the views: every end has its words, and every text is safe to show."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator
from typing import Any

import pytest
from endstop.base.sanitize import one_line, sanitize
from endstop.cli.exit_codes import exit_code
from endstop.cli.views.text import (
    actions_line,
    arguments,
    call_summary,
    duration,
    ending_of,
    first_lines,
    savings_of,
    sparkline,
    usage_line,
)
from endstop.decision import STATUS_OF, Outcome, TextDelta, ToolCallDelta
from endstop.decision.events import AttemptFailed
from endstop.providers import KINDS
from hypothesis import example, given
from hypothesis import strategies as st


def outcome(**fields: Any) -> Outcome:
    return Outcome(**{"run_id": "r", "session_id": "s", "status": "completed", "stop_reason": "completed", **fields})


# ---- the end of a run


@pytest.mark.parametrize("reason", STATUS_OF)
def test_every_stop_reason_has_its_words(reason: str) -> None:
    ending = ending_of(outcome(status=STATUS_OF[reason], stop_reason=reason, detail="what happened", answer="42"))
    assert ending.title
    assert "_" not in ending.title
    assert (ending.tone == "success") == (STATUS_OF[reason] == "completed")
    assert (ending.text == "42") == (ending.tone == "success")


def test_a_limit_never_sounds_like_success() -> None:
    ending = ending_of(outcome(status="exhausted", stop_reason="step_limit", answer=""))
    assert "not reported as done" in " ".join(ending.advice)


def test_a_stop_reason_of_ones_own_is_named() -> None:
    assert ending_of(outcome(status="exhausted", stop_reason="custom:too_late")).title == "Stopped: “too late”"


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"other", "exhausted", "cancelled"}))
def test_every_kind_of_provider_error_comes_with_advice(kind: str) -> None:
    failed = AttemptFailed(attempt="1.1", kind=kind, message="what it said", retry_after=7.0)
    ending = ending_of(outcome(status="failed", stop_reason="provider_error"), failed)
    assert ending.advice
    assert ending.text == "what it said (retry after 7 s)"


def test_figures_speak_like_people() -> None:
    assert usage_line(outcome(steps=1, duration_ms=999)) == "1 step · 999 ms"
    assert [duration(ms) for ms in (0, 1500, 59_949, 60_000, 125_000)] == [
        "0 ms", "1.5 s", "59.9 s", "1 min 00 s", "2 min 05 s"
    ]  # fmt: skip


def test_the_same_action_is_told_once_with_how_often() -> None:
    assert actions_line(["a x", "b", "a x"]) == "a x x2 · b"
    assert actions_line([str(n) for n in range(20)], most=2) == "0 · 1 · and 18 more"


def test_what_a_cut_saved_is_told_in_tokens_and_calls() -> None:
    rest = [ToolCallDelta(1, "a", "read_file"), ToolCallDelta(1, arguments="{}"), ToolCallDelta(2, "b", "read_file")]
    assert str(savings_of([TextDelta("x" * 400), *rest])) == "about 105 output tokens and 2 tool calls (read_file x2)"
    assert str(savings_of([])) == ""


# ---- text that is safe to show

NASTY = "\x1b[31mred\x1b[0m\x1b]8;;http://x\x07link\x1b]8;;\x07\x1bPdcs\x1b\\ \x9b2J\x07\x00\u202e\ud800\r\n\t\u2028end"


@given(st.text(alphabet=st.characters(), max_size=60) | st.just(NASTY))
@example(NASTY)
@example("\x1b")
@example("\x1b[")
def test_no_text_can_command_a_terminal(text: str) -> None:
    for shown in _shown(text):
        wrong = [c for c in shown if c != "\n" and unicodedata.category(c) in ("Cc", "Cs")]
        assert wrong == []
        assert not set(shown) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f")
        shown.encode()


def _shown(text: str) -> Iterator[str]:
    yield sanitize(text)
    yield one_line(text, 20)
    yield call_summary(text, text)
    yield from first_lines(text, 3)[0]
    for name, value in arguments(text, 20):
        yield name
        yield value


def test_sequences_are_taken_out_whole() -> None:
    assert sanitize("\x1b[1;31mred\x1b[0m and \x1b]8;;http://x\x1b\\a link\x1b]8;;\x1b\\") == "red and a link"


def test_one_more_line_is_shown_instead_of_being_counted() -> None:
    assert first_lines("1\n2\n3\n", 2) == (["1", "2", "3"], 0)
    assert first_lines("1\n2\n3\n4\n", 2) == (["1", "2"], 2)


def test_arguments_are_shortened_each_for_itself() -> None:
    written = '{"path": "a.txt", "text": "' + "x" * 100 + '", "n": 3, "list": [1, 2]}'
    assert arguments(written, 10) == [
        ("path", '"a.txt"'), ("text", '"xxxxxxxxx…" (100 characters)'), ("n", "3"), ("list", "[1,2]")
    ]  # fmt: skip
    assert arguments('{"broken": ', 80) == [("", '{"broken":')]
    assert arguments("", 80) == []
    assert call_summary("edit_file", written) == "edit_file a.txt"
    assert call_summary("bash", '{"cmd": "' + "x" * 100 + '"}') == f"bash {'x' * 59}…"
    assert call_summary("wait", '{"n": 3}') == "wait"


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("cd /home/me/project && pytest -q", "pytest -q"),
        ("cd 'a b'; cd c\npytest -q", "pytest -q"),
        ("cd /home/me/a/long/folder/of/a/project/with/many/parts && make check", "make check"),
        ("cd project", "cd project"),
        ("cd project &&", "cd project &&"),
        ("make && cd project && make", "make && cd project && make"),
    ],
)
def test_a_command_is_shown_without_the_change_of_folder_before_it(command: str, shown: str) -> None:
    assert call_summary("bash", json.dumps({"cmd": command})) == f"bash {shown}"


def test_the_text_of_a_response_that_was_cut_is_no_answer_to_show_again() -> None:
    cut = outcome(stop_reason="until_met", work="checked", answer="I will now", answer_from="partial_text")
    assert ending_of(cut).answered_above
    assert not ending_of(outcome(answer="It is done.", answer_from="completion")).answered_above


def test_of_what_a_check_printed_an_ending_shows_the_last_lines() -> None:
    detail = "\n".join(["`pytest -q` failed:", *(f"line {n}" for n in range(50))])
    shown = ending_of(outcome(status="exhausted", stop_reason="until_stalled", detail=detail)).text.split("\n")
    assert shown == ["`pytest -q` failed:", "… 42 earlier lines", *(f"line {n}" for n in range(42, 50))]


def test_a_mistake_of_use_before_the_first_request_is_no_failure_inside_endstop() -> None:
    wrong = {"status": "failed", "stop_reason": "internal_error", "detail": "WrongUse: the check cannot be executed"}
    wrong |= {"never_started": True}
    never = ending_of(outcome(**wrong))
    assert (never.title, never.text) == ("Never started", "the check cannot be executed")
    assert exit_code(outcome(**wrong)) == 2
    later = wrong | {"never_started": False}
    assert ending_of(outcome(**later)).title == "Failed inside endstop"
    assert exit_code(outcome(**later)) == 4


def test_only_the_highest_value_fills_the_curve() -> None:
    assert sparkline([4, 10, 16, 15, 19, 20]) == "▁▃▆▅▇█"
    assert sparkline([3, 3]) == "▁▁"

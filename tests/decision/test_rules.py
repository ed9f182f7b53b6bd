"""Each rule at its boundaries: the last facts at which it lets a run go on, and the first at which it does not."""

from __future__ import annotations

from typing import Any

import pytest
from endstop.decision import RULES, Decision, Facts, GoOn, Pause, Policy, Question, Stop
from endstop.decision.events import LimitReached
from endstop.decision.policy import Compaction, Echo, Patience, Prompts
from endstop.decision.rules import decide_on_text
from endstop.decision.text_kinds import TextKind

BY_NAME = {rule.name: rule for rule in RULES}
PROMPTS = Prompts(
    empty="EMPTY", truncated="TRUNCATED", refused="REFUSED", unfinished="UNFINISHED", paused="PAUSED", echo="ECHO",
    announcement="ANNOUNCEMENT", partial="PARTIAL", result_echo="RESULT ECHO", decide="DECIDE", text_is_no_end="NO END",
)  # fmt: skip
ECHO = Echo(phrases=("I understand",), announcements=("next I will",))


def asked(rule: str, facts: Facts, **settings: Any) -> Decision | None:
    return BY_NAME[rule].judge(facts, Policy(prompts=PROMPTS, echo=ECHO, **settings))


def test_the_rules_stand_in_their_order() -> None:
    assert [(rule.priority, rule.name) for rule in RULES] == [
        ("P0", "compaction"),
        ("P0.5", "control_flow"),
        ("P1", "finish_reason"),
        ("P2", "message_shape"),
        ("P3", "go_on"),
    ]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_says_what_it_does_and_sees_facts_that_there_are(rule: Any) -> None:
    assert rule.says.endswith(".")
    assert all(hasattr(Facts(), name) for name in rule.sees)


# ---- compaction


@pytest.mark.parametrize(("tokens", "compacts"), [(79, False), (80, True), (81, True)])
def test_the_context_is_compacted_from_the_threshold_on(tokens: int, compacts: bool) -> None:
    said = asked("compaction", Facts(context_tokens=tokens), compaction=Compaction(window=100, threshold=0.8))
    expected = GoOn(rule="compaction", compact=True, why="context over 80% of 100 tokens") if compacts else None
    assert said == expected


def test_without_a_window_no_size_is_too_large() -> None:
    assert asked("compaction", Facts(context_tokens=10**9)) is None


@pytest.mark.parametrize(("overflows", "once"), [(0, False), (1, True), (2, False)])
def test_the_first_overflow_in_a_row_is_answered_with_a_smaller_context(overflows: int, once: bool) -> None:
    facts = Facts(error_kind="context_overflow", overflows=overflows, provider_error="too long")
    compacted = GoOn(rule="compaction", compact=True, why="the provider says that the context is too large")
    assert asked("compaction", facts) == (compacted if once else None)
    again = GoOn(rule="finish_reason", why="once more with a smaller context", hand_back=True)
    failed = Stop(rule="finish_reason", reason="provider_error", detail="too long")
    assert asked("finish_reason", facts) == (again if once else failed)


def test_another_error_is_no_overflow() -> None:
    assert asked("compaction", Facts(error_kind="server", overflows=1)) is None


def test_a_full_context_is_compacted() -> None:
    said = asked("compaction", Facts(finish="context_full"))
    assert said == GoOn(rule="compaction", compact=True, why="the provider says that the context is full")


# ---- control_flow


def test_an_accepted_completion_stops_before_anything_else() -> None:
    facts = Facts(accepted="c", handled="h", questions=(Question("q", "?"),), rejection="no")
    assert asked("control_flow", facts) == Stop(
        rule="control_flow", reason="completed", detail="a completion was accepted"
    )


def test_a_handlers_answer_stops_even_if_it_is_empty() -> None:
    facts = Facts(handled="", questions=(Question("q", "?"),))
    assert asked("control_flow", facts) == Stop(
        rule="control_flow", reason="handled", detail="a handler answered, without the model"
    )


def test_open_questions_pause_with_their_ids() -> None:
    facts = Facts(questions=(Question("one", "?"), Question("two", "?")), rejection="no")
    assert asked("control_flow", facts) == Pause(rule="control_flow", questions=("one", "two"))


def test_without_a_signal_control_flow_says_nothing() -> None:
    assert asked("control_flow", Facts(rejections=99, rejections_in_vain=99)) is None


@pytest.mark.parametrize(("counted", "between"), [("in_vain", " without progress in between"), ("all", "")])
def test_a_completion_is_handed_back_as_often_as_patience_allows(counted: Any, between: str) -> None:
    patience = Patience(rejections=2, rejections_counted=counted)

    def rejected(times: int, calls: int) -> Decision | None:
        in_vain, every = (times, 99) if counted == "in_vain" else (0, times)
        facts = Facts(rejection="no tests", rejections_in_vain=in_vain, rejections=every, calls=calls)
        return asked("control_flow", facts, patience=patience)

    back = GoOn(rule="control_flow", why="completion handed back", hand_back=True)
    assert rejected(2, calls=1) == back
    assert rejected(2, calls=0) == GoOn(
        rule="control_flow", why=back.why, hand_back=True, say="Not accepted as complete: no tests"
    )
    assert rejected(3, calls=1) == Stop(
        rule="control_flow",
        reason="completion_rejected",
        detail=f"completion handed back 3 times{between}, the last time because: no tests",
    )


# ---- finish_reason


def finish(**facts: Any) -> Decision | None:
    return asked("finish_reason", Facts(attempt="attempt 1.1", **facts))


LIMIT = LimitReached(step=1, limit="seconds", used=3, allowed=2)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        pytest.param(
            {"cut_by": "c", "limit_reached": LIMIT, "degenerate": "d", "provider_error": "e", "finish": "error"},
            Stop(rule="finish_reason", reason="completed", detail="the step was cut short by an accepted completion"),
            id="cut by a completion, before all else",
        ),
        pytest.param(
            {"limit_reached": LIMIT, "degenerate": "d", "provider_error": "e", "finish": "error"},
            GoOn(rule="finish_reason", why="cut off: seconds used up", hand_back=True),
            id="cut off by a limit",
        ),
        pytest.param(
            {"degenerate": "d", "finish": "error"},
            Stop(rule="finish_reason", reason="degenerate", detail="d"),
            id="degenerate",
        ),
        pytest.param(
            {"degenerate": "d", "provider_error": "e"},
            Stop(rule="finish_reason", reason="degenerate", detail="d; then e"),
            id="degenerate, and then a failure",
        ),
        pytest.param(
            {"provider_error": "e", "finish": "error"},
            Stop(rule="finish_reason", reason="provider_error", detail="e"),
            id="provider error",
        ),
        pytest.param(
            {"finish": "error", "raw_finish": "error", "calls": 1},
            Stop(rule="finish_reason", reason="provider_error", detail="attempt 1.1: the response ended with an error"),
            id="error",
        ),
        pytest.param(
            {"finish": "error", "raw_finish": ""},
            Stop(rule="finish_reason", reason="provider_error", detail="attempt 1.1: the response ended with an error"),
            id="error without a word",
        ),
        pytest.param(
            {"finish": "error", "raw_finish": "ERROR"},
            Stop(
                rule="finish_reason",
                reason="provider_error",
                detail="attempt 1.1: the response ended with an error ('ERROR': the response failed)",
            ),
            id="error in the vendor's word",
        ),
        pytest.param(
            {"finish": "pause"},
            GoOn(rule="finish_reason", say="PAUSED", why="the provider paused the response"),
            id="pause",
        ),
        pytest.param(
            {"finish": "pause", "resumable": True},
            GoOn(rule="finish_reason", why="the provider paused the response"),
            id="pause of a response that can be sent back",
        ),
        pytest.param({"finish": "pause", "calls": 1}, None, id="pause beside calls"),
        pytest.param({"finish": "stop", "calls": 1, "text": "a"}, None, id="stop beside calls"),
        pytest.param({"finish": "stop"}, None, id="stop without text"),
        pytest.param(
            {"finish": "stop", "text": "4"},
            Stop(rule="finish_reason", reason="text_final", detail="a plain answer ends the run"),
            id="stop with text",
        ),
        pytest.param(
            {"finish": "tool_calls", "calls": 1}, GoOn(rule="finish_reason", why="calls answered"), id="tool calls"
        ),
        pytest.param({"finish": "tool_calls", "text": "a"}, None, id="tool calls without any"),
        pytest.param({"finish": None}, None, id="no response yet"),
    ],
)
def test_the_finish_reason_decides(facts: dict[str, Any], expected: Decision | None) -> None:
    assert finish(**facts) == expected


@pytest.mark.parametrize(
    ("reason", "counter", "setting", "stops_as", "detail", "say", "why"),
    [
        (
            "content_filter", "refusals", "refusals", "refusal", "the provider refused to answer",
            "REFUSED", "blocked by a content filter",
        ),
        (
            "length", "truncations", "truncated", "no_answer",
            "{} responses in a row were cut off by the provider's length limit",
            "TRUNCATED", "the response was cut off by its length limit",
        ),
        (
            "context_full", "truncations", "truncated", "no_answer",
            "{} responses in a row were cut off by the provider's length limit",
            "TRUNCATED", "the response was cut off by its length limit",
        ),
    ],
)  # fmt: skip
def test_a_blocked_or_cut_response_is_asked_for_again_as_often_as_patience_allows(
    reason: Any, counter: str, setting: str, stops_as: str, detail: str, say: str, why: str
) -> None:
    def after(times: int, calls: int = 0) -> Decision | None:
        facts = Facts(finish=reason, calls=calls, **{counter: times})  # type: ignore[arg-type]
        return asked("finish_reason", facts, patience=Patience(**{setting: 2}))  # type: ignore[arg-type]

    assert after(2) == GoOn(rule="finish_reason", say=say, why=why)
    assert after(3) == Stop(rule="finish_reason", reason=stops_as, detail=detail.format(3))
    if reason != "content_filter":
        assert after(2, calls=1) == GoOn(rule="finish_reason", why=why)


# ---- a finish word that is not a success


def test_an_unfinished_response_is_asked_for_again_and_then_ends_the_run() -> None:
    def after(times: int, word: str = "abort", reason: Any = "retry", allowed: int | None = 1) -> Decision | None:
        facts = Facts(finish=reason, raw_finish=word, unfinished=times, attempt="attempt 2.1")
        return asked("finish_reason", facts, patience=Patience(unfinished=allowed))

    ended = "the response ended with 'abort': the server aborted the response"
    assert after(0) is None
    assert after(1, allowed=None) is None
    assert after(1) == GoOn(rule="finish_reason", say="UNFINISHED", why=ended)
    assert after(1, allowed=0) == Stop(rule="finish_reason", reason="provider_error", detail=f"attempt 2.1: {ended}")
    assert after(2) == Stop(
        rule="finish_reason",
        reason="provider_error",
        detail=f"attempt 2.1: {ended} (2 responses in a row ended so)",
    )
    assert after(1, reason="other") == GoOn(
        rule="finish_reason", say="UNFINISHED", why="the response ended with 'abort'"
    )
    assert after(1, word="") == GoOn(rule="finish_reason", say="UNFINISHED", why="the response ended with 'retry'")


def test_an_unknown_finish_word_is_shown_with_the_argument_that_teaches_it() -> None:
    facts = Facts(finish="other", raw_finish="w" * 81, unfinished=2, attempt="attempt 1.1")
    word = "w" * 80
    assert asked("finish_reason", facts) == Stop(
        rule="finish_reason",
        reason="provider_error",
        detail=f"attempt 1.1: the response ended with '{word}', which is not a known finish word and so does not count "
        f"as a success. If it means that the response is complete, pass finish_words={{'{word}': \"stop\"}} "
        "(2 responses in a row ended so)",
    )


# ---- message_shape


@pytest.mark.parametrize(("times", "goes_on"), [(2, True), (3, False)])
@pytest.mark.parametrize("reasoned", [True, False])
def test_an_empty_response_is_asked_for_again_as_often_as_patience_allows(
    times: int, goes_on: bool, reasoned: bool
) -> None:
    facts = Facts(finish="stop", empty_answers=times, reasoned=reasoned)
    said = asked("message_shape", facts, patience=Patience(empty_answers=2))
    why = "nothing but reasoning" if reasoned else "an empty response"
    detail = "3 responses in a row held neither text nor a call"
    assert said == (
        GoOn(rule="message_shape", say="EMPTY", why=why)
        if goes_on
        else Stop(rule="message_shape", reason="no_answer", detail=detail)
    )


def test_tool_results_go_on_unless_the_text_rule_ends_the_run() -> None:
    facts = Facts(finish="stop", calls=1)
    assert asked("message_shape", facts) == GoOn(rule="message_shape", why="the last message is a tool result")
    facts = Facts(finish="stop", calls=1, text_verdict="final")
    for rule in ("message_shape", "finish_reason"):
        facts = Facts(finish="tool_calls", calls=1, text_verdict="final")
        assert asked(rule, facts) == Stop(
            rule=rule, reason="text_final", detail="the text rule says that this is the answer"
        )


def test_a_text_whose_finish_word_is_no_success_is_asked_for_again_before_it_counts() -> None:
    unfinished = Facts(finish="other", raw_finish="x", text="4", unfinished=1)
    assert asked("message_shape", unfinished) == GoOn(
        rule="message_shape", say="UNFINISHED", why="the response ended with 'x'"
    )
    whole = Facts(finish="tool_calls", text="4")
    assert asked("message_shape", whole) == Stop(
        rule="message_shape", reason="text_final", detail="a plain answer ends the run"
    )


def test_before_a_response_and_with_an_open_question_the_shape_says_nothing() -> None:
    assert asked("message_shape", Facts()) is None
    assert asked("message_shape", Facts(finish="stop", calls=1, questions=(Question("q", "?"),))) is None


def test_the_last_rule_always_goes_on() -> None:
    assert asked("go_on", Facts()) == GoOn(rule="go_on", why="nothing says otherwise")


# ---- text


def text(said: str = "4", kind: TextKind = "answer", settings: dict[str, Any] | None = None, **facts: Any) -> Decision:
    policy = Policy(prompts=PROMPTS, echo=ECHO, **(settings or {}))
    return decide_on_text(Facts(finish="stop", text=said, text_judged=kind, **facts), policy, "r")


def final(detail: str = "a plain answer ends the run") -> Stop:
    return Stop(rule="r", reason="text_final", detail=detail)


def no_answer(detail: str) -> Stop:
    return Stop(rule="r", reason="no_answer", detail=detail)


def test_the_users_text_rule_comes_first() -> None:
    echo = "I understand"
    assert text(echo, text_verdict="final") == final("the text rule says that this is the answer")
    assert text(text_verdict="nudge") == GoOn(rule="r", say="NO END", why="the text rule says that this is no answer")
    assert text(text_verdict="default") == final()


@pytest.mark.parametrize(
    ("said", "calls", "filtered"),
    [
        ("I understand", 0, True),
        ("I understand. 42", 0, False),
        ("Next I will look.", 1, True),
        ("Next I will look.", 0, False),
    ],
)
def test_a_text_that_only_echoes_or_announces_is_asked_about_as_often_as_patience_allows(
    said: str, calls: int, filtered: bool
) -> None:
    patience = Patience(echoes=2)

    def after(times: int) -> Decision:
        return text(said, settings={"patience": patience}, monologue=times, tool_calls=calls)

    again = GoOn(rule="r", say="ECHO", why="the text only echoes or announces")
    ended = no_answer(f"3 texts in a row, and the last only echoes or announces: {said!r}")
    assert after(2) == (again if filtered else final())
    assert after(3) == (ended if filtered else final())


def test_a_question_waits_for_the_user_or_is_decided_by_the_model() -> None:
    waits = Stop(rule="r", reason="awaiting_input", detail="the text asks the user for something")
    decides = GoOn(rule="r", say="DECIDE", why="the text asks the user, and nobody is there")
    assert text(kind="question") == final()
    assert text(kind="question", settings={"question": "ask"}) == waits
    assert text(kind="answer", settings={"question": "ask"}) == final()
    allowed = {"question": "decide", "patience": Patience(questions=2)}
    assert text(kind="question", settings=allowed, monologue=2) == decides
    assert text(kind="question", settings=allowed, monologue=3) == waits
    assert text(kind="question", settings={"question": "ask"}, monologue=1) == waits


def test_where_each_response_has_to_call_a_tool_a_text_is_no_end() -> None:
    again = GoOn(rule="r", say="NO END", why="every response is to call a tool, and this is text")
    required: dict[str, Any] = {"tool_choice": "required", "completion_tools": ("finish_task",)}
    assert text(**required) == again
    assert text(**required | {"tool_choice": "auto"}) == final()
    assert text(**required | {"completion_tools": ()}) == final()
    assert text(settings={"required_text": "as_text"}, **required) == final()


def test_where_text_is_no_end_the_model_is_told_so() -> None:
    assert text(settings={"text": "nudge"}) == GoOn(rule="r", say="NO END", why="text alone is no end")


@pytest.mark.parametrize(
    ("kind", "setting", "say", "does"),
    [
        ("announcement", "announcements", "ANNOUNCEMENT", "only announces what comes next"),
        ("partial", "partial_reports", "PARTIAL", "reports unfinished work"),
        ("echo", "result_echoes", "RESULT ECHO", "only repeats the result of a tool"),
    ],
)
def test_a_text_that_is_no_end_is_handed_back_after_a_call_as_often_as_patience_allows(
    kind: TextKind, setting: str, say: str, does: str
) -> None:
    def after(times: int, allowed: int | None = 2, calls: int = 1) -> Decision:
        patience = Patience(**{setting: allowed})  # type: ignore[arg-type]
        return text(kind=kind, settings={"patience": patience}, monologue=times, tool_calls=calls)

    assert after(2) == GoOn(rule="r", say=say, why=f"the text {does}")
    assert after(2, allowed=None) == final()
    assert after(2, calls=0) == final()
    ended = no_answer(f"3 texts in a row without a call, and the last {does}")
    assert after(3) == (final() if kind == "echo" else ended)


def test_an_announcement_has_the_words_of_an_echo_where_it_has_none_of_its_own() -> None:
    policy = Policy(prompts=Prompts(announcement="", echo="ECHO"))
    facts = Facts(finish="stop", text="I run the tests.", text_judged="announcement", tool_calls=1, monologue=1)
    assert decide_on_text(facts, policy, "r") == GoOn(
        rule="r", say="ECHO", why="the text only announces what comes next"
    )


@pytest.mark.parametrize("kind", ["answer", "refusal", "refusal_with_offer", "error", "question"])
def test_any_other_text_ends_the_run_after_a_call(kind: TextKind) -> None:
    assert text(kind=kind, tool_calls=1, monologue=1) == final()

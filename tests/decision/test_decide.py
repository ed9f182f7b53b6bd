"""The order in which rules and guards are asked, the trace, and what an outcome says of a decision."""

from __future__ import annotations

from typing import Any

import pytest
from endstop.decision import (
    GoOn,
    Limits,
    Outcome,
    Pause,
    Policy,
    Question,
    SessionLimits,
    Stop,
    TraceEntry,
    Usage,
    WrongUse,
    build_outcome,
    decide,
)
from endstop.decision.decide import (
    applies_before_first_step,
    complete_outcome,
    go_on_in_round,
    needs_closing_step,
    select_rules,
    without_round_limits,
)
from endstop.decision.decisions import Decision
from endstop.decision.events import BudgetRefused
from endstop.decision.facts import Facts
from endstop.decision.failures import Failures
from endstop.decision.outcome import CutSavings, LimitUse, SubagentUse
from endstop.decision.policy import Compaction
from endstop.decision.rules import Rule
from endstop.decision.run_origin import Grants

POLICY = Policy(rules=("one", "two", "go_on"), guards=("three", "four"))


def rule(name: str, said: object, sees: tuple[str, ...] = (), priority: str = "own") -> Rule:
    return Rule(priority, name, "Says what it was given.", sees, lambda facts, policy: said)  # type: ignore[return-value, arg-type]


def decided(one: object = None, two: object = None, three: object = None, four: object = None) -> Decision:
    rules = tuple(rule(name, said) for name, said in (("one", one), ("two", two), ("three", three), ("four", four)))
    return decide(Facts(), POLICY, rules, traced=False)


BARE = GoOn(rule="go_on", why="nothing says otherwise")
STOP = Stop(rule="x", reason="judged", detail="d")
PAUSE = Pause(rule="x", questions=("q",))


def test_the_first_rule_that_decides_wins() -> None:
    assert decided(STOP, PAUSE) == STOP
    assert decided(None, PAUSE) == PAUSE
    assert decided() == BARE
    said = GoOn(rule="one", say="a")
    assert decided(said, STOP) == said


def test_a_rule_that_only_compacts_is_added_to_what_a_later_rule_decides() -> None:
    compact = GoOn(rule="one", compact=True, say="c")
    assert decided(compact, GoOn(rule="two", say="a", why="w")) == GoOn(rule="two", say="a\nc", why="w", compact=True)
    assert decided(compact, STOP) == STOP


def test_without_any_rule_the_run_goes_on() -> None:
    assert decide(Facts(), Policy(rules=(), guards=())) == GoOn(rule="none", why="no rule spoke")


def test_guards_are_asked_only_after_a_go_on_and_the_first_that_ends_it_wins() -> None:
    assert decided(None, None, STOP, PAUSE) == STOP
    assert decided(None, None, PAUSE, STOP) == PAUSE
    assert decided(None, None, None, STOP) == STOP
    assert decided(None, PAUSE, STOP) == PAUSE


def test_what_guards_say_is_added_in_their_order() -> None:
    both = decided(
        None,
        GoOn(rule="two", say="a", why="w"),
        GoOn(rule="three", remind="b", topics=("steps",), hand_back=True),
        GoOn(rule="four", say="c", remind="d", topics=("rounds",), extend=5),
    )
    assert both == GoOn(
        rule="two", why="w", say="a\nc", remind="b\nd", topics=("steps", "rounds"), hand_back=True, extend=5
    )
    assert decided(None, None, GoOn(rule="three", say="b"), STOP) == STOP


def test_a_guard_that_asks_for_steps_keeps_what_the_model_was_to_be_told() -> None:
    asks = Pause(rule="three", questions=("q",), extend=5)
    assert decided(None, GoOn(rule="two", say="a"), asks) == Pause(rule="three", questions=("q",), extend=5, say="a")
    assert decided(None, GoOn(rule="two", say="a"), PAUSE) == PAUSE


def test_the_trace_has_each_rule_that_was_asked_with_what_it_saw_and_said() -> None:
    rules = (
        rule("one", None, ("steps", "questions"), "P9"),
        rule("two", GoOn(rule="two", say="a", why="because"), ("text",)),
        rule("three", GoOn(rule="three", remind="b")),
        rule("four", Stop(rule="four", reason="judged")),
    )
    facts = Facts(steps=2, text="t", questions=(Question("q", "?"),))
    policy = Policy(rules=("one", "two", "go_on"), guards=("three", "four"))
    said = decide(facts, policy, rules)
    assert said.trace[0].rule == "P9 one"
    assert said.trace[0].saw["steps"] == 2
    assert said.trace[0].saw["questions"][0]["call_id"] == "q"
    assert said.trace[1:] == (
        TraceEntry("own two", {"text": "t"}, "go on (because)"),
        TraceEntry("own three", {}, "remind"),
        TraceEntry("own four", {}, "stop(judged)"),
    )
    assert said.trace[0].said == ""
    assert decide(facts, policy, rules, traced=False).trace == ()


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (GoOn(rule="one"), "go on"),
        (GoOn(rule="one", compact=True, remind="r"), "compact"),
        (PAUSE, "pause(awaiting_input)"),
    ],
)
def test_the_trace_says_what_a_rule_said_in_a_word(said: Decision, words: str) -> None:
    policy = Policy(rules=("one",), guards=())
    assert decide(Facts(), policy, (rule("one", said),)).trace[0].said == words


def test_a_rule_that_fails_or_returns_something_else_is_named() -> None:
    def fails(facts: Facts, policy: Policy) -> Decision:
        raise ValueError("no")

    policy = Policy(rules=("one",), guards=())
    with pytest.raises(WrongUse, match=r"^rule 'one': ValueError: no$"):
        decide(Facts(), policy, (Rule("own", "one", "Fails.", (), fails),))
    with pytest.raises(WrongUse, match=r"^rule 'one' returned True: return GoOn, Pause, Stop or None$"):
        decide(Facts(), policy, (rule("one", True),))
    with pytest.raises(WrongUse, match=r"^rule 'one': AttributeError: "):
        decide(Facts(), policy, (rule("one", None, ("nothing_of_this_name",)),))


def test_rules_are_chosen_by_name_in_the_policys_order() -> None:
    offered = (rule("one", None), rule("two", None))
    assert [chosen.name for chosen in select_rules(("two", "one"), offered)] == ["two", "one"]
    with pytest.raises(WrongUse, match=r"^policy: unknown rule or guard 'twoo' \(did you mean 'two'\?\)$"):
        select_rules(("one", "twoo"), offered)


# ---- inside a round


def test_the_inner_loop_goes_on_alone_only_after_a_bare_go_on() -> None:
    def after(decision: Decision, **facts: Any) -> GoOn | None:
        return go_on_in_round(Facts(**facts), Policy(max_inner_steps=3), lambda facts, policy: decision)

    assert after(BARE) == BARE
    assert after(BARE, inner_steps=2) == BARE
    assert after(BARE, inner_steps=3) is None
    assert after(BARE, questions=(Question("q", "?"),)) is None
    assert after(STOP) is None
    for more in ({"say": "a"}, {"compact": True}, {"hand_back": True}, {"remind": "a"}, {"extend": 1}):
        assert after(GoOn(rule="x", **more)) is None  # type: ignore[arg-type]


def test_inside_a_round_no_limit_on_rounds_counts() -> None:
    policy = Policy(
        limits=Limits(steps=9, rounds=2, soft_rounds=1, tool_calls=7),
        session_limits=SessionLimits(rounds=5, soft_rounds=4, steps=30),
    )
    without = without_round_limits(policy)
    assert without.limits == Limits(steps=9, tool_calls=7)
    assert without.session_limits == SessionLimits(steps=30)
    seen: list[Policy] = []
    go_on_in_round(Facts(), policy, lambda facts, given: seen.append(given) or BARE)  # type: ignore[func-returns-value]
    assert seen == [without]


@pytest.mark.parametrize("limits", [{"limits": Limits(steps=9, rounds=2)}, {"session_limits": SessionLimits(rounds=2)}])
def test_a_limit_on_rounds_of_the_run_or_of_the_session_alone_is_left_out(limits: dict[str, Any]) -> None:
    without = without_round_limits(Policy(**limits))
    assert without.limits.rounds is without.session_limits.rounds is None


def test_a_policy_without_limits_on_rounds_is_left_as_it_is() -> None:
    policy = Policy()
    assert without_round_limits(policy) is policy


@pytest.mark.parametrize(
    ("decision", "applies"),
    [
        (BARE, False),
        (GoOn(rule="x", say="a", hand_back=True), False),
        (GoOn(rule="x", compact=True), True),
        (GoOn(rule="x", remind="a"), True),
        (GoOn(rule="x", extend=1), True),
        (STOP, True),
        (PAUSE, True),
    ],
)
def test_a_go_on_or_a_nudge_before_the_first_step_has_no_effect(decision: Decision, applies: bool) -> None:
    assert applies_before_first_step(decision) is applies


# ---- the closing step


def closes(reason: str = "stuck", facts: dict[str, Any] | None = None, **policy: Any) -> bool:
    status: Any = {"status": "exhausted"} if reason.startswith("custom:") else {}
    known = Facts(**{"attempt": "attempt 1.1", **(facts or {})})
    return needs_closing_step(known, Policy(**policy), Stop(rule="x", reason=reason, **status))


def test_an_exhausted_run_is_asked_for_a_summary() -> None:
    assert closes()
    assert closes("step_limit")
    assert closes("custom:mine")
    assert not closes(closing=False)
    assert not closes("completed")
    assert not closes("provider_error")


def test_there_is_no_summary_where_nothing_was_asked_or_nothing_can_be() -> None:
    assert not closes(facts={"attempt": ""})
    assert closes(facts={"attempt": "", "grants": Grants(refused=True)})
    assert not closes(facts={"refused": BudgetRefused(step=1, limit="cost_usd", used=1, allowed=1)})


def test_the_same_text_again_and_again_is_its_own_summary() -> None:
    assert closes(facts={"same_texts": 1})
    assert not closes(facts={"same_texts": 2})
    assert closes("step_limit", facts={"same_texts": 2})


def test_after_limits_alone_other_endings_have_no_summary() -> None:
    assert closes("time_limit", closing_after="limits")
    assert not closes("stuck", closing_after="limits")


@pytest.mark.parametrize(("tokens", "fits"), [(99, True), (100, False)])
def test_a_context_that_fills_its_window_has_no_room_for_a_summary(tokens: int, fits: bool) -> None:
    facts = {"context_tokens": tokens}
    assert closes("compaction_stalled", facts, compaction=Compaction(window=100)) is fits
    assert closes("compaction_stalled", facts)
    assert closes("stuck", facts, compaction=Compaction(window=100))


# ---- the outcome


def test_an_outcome_says_what_the_facts_hold() -> None:
    facts = Facts(
        run_id="r", session_id="s", steps=3, rounds=2, requests=4, usage=Usage(output_tokens=5),
        subagents=SubagentUse(runs=1), saved=CutSavings(cuts=1), phases=({"summary": "half"},),
        pending_issues=("docs",), accepted="c", answer="done", accepted_by=("user",), t=30, carried_ms=12,
        failures=Failures(writes=("edit",)),
    )  # fmt: skip
    policy = Policy(limits=Limits(steps=9, soft_steps=4), flag_cost_usd=None)
    assert build_outcome(facts, policy, Stop(rule="x", reason="completed", detail="d")) == Outcome(
        run_id="r", session_id="s", status="completed", stop_reason="completed", detail="d", answer="done",
        answer_from="completion", steps=3, rounds=2, requests=4, usage=Usage(output_tokens=5),
        subagents=SubagentUse(runs=1), saved=CutSavings(cuts=1), phases=({"summary": "half"},),
        limits={"steps": LimitUse(used=3, allowed=9), "soft_steps": LimitUse(used=3, allowed=4, soft=True)},
        exceeded_limit=False, pending_issues=("docs",), accepted_by=("user",), failed_calls=("edit",), duration_ms=42,
    )  # fmt: skip


def outcome(decision: Stop | Pause = STOP, policy: dict[str, Any] | None = None, **facts: Any) -> Outcome:
    return build_outcome(Facts(**facts), Policy(**(policy or {})), decision)


def test_a_pause_waits_for_the_user() -> None:
    questions = (Question("q", "Which port?"),)
    paused = outcome(PAUSE, questions=questions)
    assert (paused.status, paused.stop_reason) == ("awaiting_input", "awaiting_input")
    assert paused.detail == "the model waits for the user's answer"
    assert paused.questions == questions
    limit = (*questions, Question("limits.steps.3", "More?", extends=5))
    assert outcome(PAUSE, questions=limit).detail == "the limit of steps is reached, and the user is asked for more"


def test_only_who_accepted_a_completed_run_is_named() -> None:
    assert outcome(STOP, accepted_by=("gate",)).accepted_by == ("gate",)
    assert outcome(Stop(rule="x", reason="stuck"), accepted_by=("gate",)).accepted_by == ()


@pytest.mark.parametrize(("steps", "exceeded"), [(4, False), (5, True)])
def test_a_limit_that_was_passed_is_flagged_whatever_ended_the_run(steps: int, exceeded: bool) -> None:
    soft = {"limits": Limits(steps=9, soft_steps=4)}
    assert outcome(STOP, soft, steps=steps).exceeded_limit is exceeded
    assert outcome(Stop(rule="x", reason="step_limit"), soft, steps=1).exceeded_limit


def test_an_older_outcome_gets_who_accepted_it_and_what_failed() -> None:
    facts = Facts(accepted_by=("gate",), failures=Failures(others=("look",)))
    old = Outcome(run_id="r", session_id="s", status="completed", stop_reason="completed")
    assert complete_outcome(old, facts).accepted_by == ("gate",)
    assert complete_outcome(old, facts).failed_calls == ("look",)
    stuck = Outcome(run_id="r", session_id="s", status="exhausted", stop_reason="stuck")
    assert complete_outcome(stuck, facts).accepted_by == ()


@pytest.mark.parametrize(
    ("reason", "facts", "answer", "source"),
    [
        ("completed", {"accepted": "c", "answer": "done", "handled": "h"}, "done", "completion"),
        ("completed", {"accepted": "c", "answer": " ", "latest_text": "l"}, "l", "latest_text"),
        ("completed", {"answer": "done", "latest_text": "l"}, "l", "latest_text"),
        ("handled", {"handled": "h", "closing": True, "text": "t"}, "h", "handler"),
        ("handled", {"handled": " ", "latest_text": "l"}, "l", "latest_text"),
        ("stuck", {"closing": True, "text": "sum", "same_texts": 2}, "sum", "closing"),
        ("stuck", {"closing": True, "text": " ", "latest_text": "l"}, "l", "latest_text"),
        ("text_final", {"text": "t", "latest_text": "l"}, "t", "text"),
        ("judged", {"text": "t", "latest_text": "l"}, "t", "text"),
        ("judged", {"text": " ", "latest_text": "l"}, "l", "latest_text"),
        ("awaiting_input", {"text": "t?", "latest_text": "l"}, "t?", "text"),
        ("awaiting_input", {"text": "t?", "latest_text": "l", "calls": 1}, "l", "latest_text"),
        ("awaiting_input", {"text": "t?", "latest_text": "l", "questions": (Question("q", "?"),)}, "l", "latest_text"),
        ("stuck", {"text": "t", "latest_text": "l", "same_texts": 2}, "t", "not_accepted"),
        ("stuck", {"text": "t", "latest_text": "l", "same_texts": 1}, "l", "latest_text"),
        ("step_limit", {"text": "t", "latest_text": "l", "same_texts": 2}, "l", "latest_text"),
        ("step_limit", {"latest_text": "l", "latest_text_partial": True}, "l", "partial_text"),
        ("step_limit", {"completion_text": "c", "latest_text": "l"}, "l", "latest_text"),
        ("step_limit", {"completion_text": "c"}, "c", "not_accepted"),
        ("awaiting_input", {"completion_text": "c"}, "", ""),
        ("step_limit", {}, "", ""),
    ],
)
def test_the_answer_is_the_best_text_there_is(reason: str, facts: dict[str, Any], answer: str, source: str) -> None:
    ended = outcome(Stop(rule="x", reason=reason), **facts)
    assert (ended.answer, ended.answer_from) == (answer, source)

"""The rule and the guard of the user's check of the work, as pure functions of the facts."""

from functools import reduce
from typing import Any

import pytest
from endstop.decision import Facts, GoOn, Patience, Policy, Stop, build_outcome, decide, fold
from endstop.decision import events as ev
from endstop.decision.until_facts import CheckFacts
from endstop.decision.until_rules import policy_for_until
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

POLICY = policy_for_until(Policy(patience=Patience(checks=4, checks_untold=2)))
ANSWERS = st.lists(
    st.tuples(st.sampled_from(["not_met", "unknown"]), st.none() | st.integers(0, 5), st.integers(0, 4)), max_size=40
)


def facts_after(*answers: tuple[str, float | None, int], **more: Any) -> Facts:
    facts = fold(Facts(), ev.CheckStarted(step=0, place="start", name="pytest"))
    for said, score, failure in answers:
        ended: Any = {"said": said, "score": score, "failure": failure, **more}
        facts = fold(facts, ev.CheckEnded(step=0, place="step", **ended))
    return facts


def test_a_check_that_is_met_ends_the_run_before_any_other_rule() -> None:
    decision = decide(facts_after(("met", None, 0)), POLICY)
    assert isinstance(decision, Stop)
    assert (decision.rule, decision.reason) == ("until", "until_met")
    assert decision.trace[0].rule == "check until"
    assert len(decision.trace) == 1


def test_a_policy_without_the_rule_does_not_look_at_it() -> None:
    assert isinstance(decide(facts_after(("met", None, 0)), Policy()), GoOn)


def test_the_policy_of_a_run_without_a_check_has_neither_rule_nor_guard() -> None:
    assert "until" not in Policy().rules
    assert "check_stalled" not in Policy().guards


def test_a_policy_gets_the_rule_once_and_keeps_its_own_question() -> None:
    assert policy_for_until(POLICY) == POLICY
    assert POLICY.question == "decide"
    assert policy_for_until(Policy(question="ask")).question == "ask"


@pytest.mark.parametrize(
    ("scores", "in_vain"), [([1, 2, 3], 0), ([3, 3, 3], 2), ([3, 1, 2], 2), ([1, 2, 1, 2, 3], 0), ([1, 1, 2, 2], 1)]
)
def test_only_a_score_above_the_best_so_far_is_progress(scores: list[float], in_vain: int) -> None:
    facts = facts_after(*(("not_met", score, 0) for score in scores))
    assert facts.check_in_vain == in_vain


@pytest.mark.parametrize(("failures", "in_vain"), [([1, 2, 3], 0), ([1, 1, 1], 2), ([1, 2, 1, 2], 2), ([1, 1, 5], 0)])
def test_without_a_score_a_failure_that_was_not_seen_before_is_progress(failures: list[int], in_vain: int) -> None:
    assert facts_after(*(("not_met", None, mark) for mark in failures)).check_in_vain == in_vain


def test_the_model_is_told_once_and_then_the_run_stops() -> None:
    facts, said = facts_after(("not_met", 1, 0)), []
    for _ in range(9):
        facts = fold(facts, ev.CheckEnded(step=1, place="step", said="not_met", score=1, detail="2 tests fail"))
        decision = decide(facts, POLICY)
        if isinstance(decision, Stop):
            break
        if decision.say:
            facts = fold(facts, ev.MessageAdded(text=decision.say, origin="nudge"))
        said.append(decision.say)
    assert isinstance(decision, Stop)
    assert decision.reason == "until_stalled"
    assert "2 tests fail" in decision.detail
    assert [bool(text) for text in said] == [False, True, False, False]
    assert "2 tests fail" in said[1]


def test_an_answer_that_cannot_tell_counts_as_none() -> None:
    facts = facts_after(("not_met", 1, 0), ("unknown", None, 0), ("unknown", None, 0))
    assert (facts.check_said, facts.check_in_vain) == ("not_met", 0)


@given(ANSWERS)
def test_answers_without_progress_are_counted_and_progress_forgives_them(answers: list[Any]) -> None:
    facts = facts_after(*answers)
    heard = [answer for answer in answers if answer[0] != "unknown"]
    check = facts.check or CheckFacts()
    assert check.answers == len(heard)
    assert 0 <= check.in_vain <= max(0, len(heard) - 1)
    better = fold(facts, ev.CheckEnded(step=9, place="step", said="not_met", score=99))
    assert better.check_in_vain == 0


@pytest.mark.parametrize(
    ("said", "more", "verdict", "work"),
    [
        ("met", {}, "passed", "checked"),
        ("met", {"guard_changed": ("tests/test_a.py",)}, "not_run", "said"),
        ("met", {"judged_by": "judge"}, "not_run", "said"),
        ("not_met", {}, "failed", "wrong"),
        ("not_met", {"judged_by": "judge"}, "not_run", "said"),
    ],
)
def test_the_last_answer_is_the_verdict_at_any_end(said: str, more: Any, verdict: str, work: str) -> None:
    stop = Stop(rule="control_flow", reason="completed", detail="a completion was accepted")
    outcome = build_outcome(facts_after((said, None, 0), **more), POLICY, stop)
    assert (outcome.verdict, outcome.work) == (verdict, work)
    assert bool(outcome.checked_by) == (verdict != "not_run")


def test_a_check_that_is_met_has_the_whole_score() -> None:
    facts = fold(facts_after(("not_met", 2, 0), of=5), ev.CheckEnded(step=3, place="step", said="met"))
    assert facts.check is not None
    assert facts.check.shown_score == "5 of 5"


def test_a_report_that_is_accepted_ends_the_run_as_blocked() -> None:
    facts = fold(facts_after(("not_met", 1, 0)), ev.BlockReported(call_id="c", reason="no key", accepted=False))
    assert isinstance(decide(facts, POLICY), GoOn)
    decision = decide(fold(facts, ev.BlockReported(call_id="d", reason="no key", accepted=True)), POLICY)
    assert isinstance(decision, Stop)
    assert (decision.reason, decision.final_status) == ("blocked", "exhausted")
    assert "no key" in decision.detail


def test_of_a_check_that_passes_only_with_changed_files_no_score_is_guessed() -> None:
    facts = fold(
        facts_after(("not_met", 2, 0), of=5),
        ev.CheckEnded(step=3, place="step", said="met", guard_changed=("tests/test_a.py",)),
    )
    assert facts.check is not None
    assert facts.check.shown_score == ""


def test_a_model_that_claims_on_unchanged_work_is_told_since_when() -> None:
    began = ev.CheckStarted(step=0, place="start", name="pytest")
    ended = ev.CheckEnded(step=0, place="start", said="not_met", detail="1 failed")
    rejected = ev.CompletionRejected(call_id="a", name="finish", reason="1 failed", by="until")
    by_gate = replace(rejected, by="review")
    changed = ev.CheckStarted(step=1, place="step", name="pytest")
    cases = [
        ([began, ended], "the start"),
        ([began, ended, rejected], "the start"),
        ([began, ended, changed, ended], ""),
        ([began, ended, changed, ended, by_gate], ""),
        ([began, ended, changed, ended, rejected], "the last check"),
        ([began, ended, changed, ended, ev.BlockReported(call_id="b", reason="no")], "the last check"),
        ([began, ended, changed, ended, rejected, changed, ended], ""),
        ([replace(began, place="claim"), ended], ""),
    ]
    for events, since in cases:
        check = reduce(fold, events, Facts()).check
        assert check is not None
        said = f"Nothing has changed since {since}.\n1 failed" if since else "1 failed"
        assert (check.unchanged_since, check.told_detail) == (since, said)

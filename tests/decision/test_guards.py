"""Each guard at its boundaries: the last facts at which it lets a run go on, and the first at which it does not."""

from __future__ import annotations

from typing import Any

import pytest
from endstop.decision import GUARDS, Decision, Extend, Facts, GoOn, Limits, Pause, Policy, Question, SessionLimits, Stop
from endstop.decision import Usage as Tokens
from endstop.decision.events import BudgetRefused, LimitReached
from endstop.decision.guards import may_stop_after_next_step
from endstop.decision.policy import Compaction, Patience, Prompts, Repetition, Stagnation
from endstop.decision.repetition import Repetitions
from endstop.decision.run_origin import Carried, Grants
from msgspec.structs import replace

BY_NAME = {guard.name: guard for guard in GUARDS}
NO_LIMIT = Limits(steps=None)


def asked(guard: str, facts: Facts, **settings: Any) -> Decision | None:
    return BY_NAME[guard].judge(facts, Policy(**settings))


def stop(rule: str, detail: str, reason: str = "") -> Stop:
    return Stop(rule=rule, reason=reason or rule, detail=detail)


def same(times: int, results: int | None = None) -> Repetitions:
    """The same calls so many times in a row; with the same results only so many."""
    alike = times if results is None else results
    return Repetitions(steps=(*range(1, times - alike + 1), *(0,) * alike), calls=(0,) * times, counts=True)


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_a_guard_says_what_it_does_and_sees_facts_that_there_are(guard: Any) -> None:
    assert guard.priority == "guard"
    assert guard.says.endswith((".", ")."))
    assert all(hasattr(Facts(), name) for name in guard.sees)


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_no_guard_has_anything_to_say_of_a_run_that_has_just_begun(guard: Any) -> None:
    assert guard.judge(Facts(), Policy()) is None


def test_the_judges_reason_is_the_detail() -> None:
    assert asked("judged", Facts(judged="")) == stop("judged", "")
    assert asked("judged", Facts(judged="all tests pass")) == stop("judged", "all tests pass")


def test_steps_with_nothing_but_invalid_calls_are_allowed_as_often_as_patience_says() -> None:
    patience = Patience(invalid_calls=2)
    assert asked("invalid_calls", Facts(invalid_steps=2), patience=patience) is None
    assert asked("invalid_calls", Facts(invalid_steps=3), patience=patience) == stop(
        "invalid_calls", "3 steps in a row held nothing but invalid calls"
    )


# ---- stuck, and the word before


def test_repeated_calls_stop_at_the_number_of_times_that_is_set() -> None:
    repetition = Repetition(stop_at=4)
    assert asked("stuck", Facts(repetitions=same(3)), repetition=repetition) is None
    assert asked("stuck", Facts(repetitions=same(5, results=3)), repetition=repetition) is None
    assert asked("stuck", Facts(repetitions=same(4)), repetition=repetition) == stop(
        "stuck", "the same calls with the same results were repeated 4 times"
    )
    assert asked("stuck", Facts(repetitions=same(9)), repetition=Repetition(stop_at=None)) is None


def test_repeated_calls_count_without_their_results_where_that_is_set() -> None:
    facts = Facts(repetitions=same(4, results=1))
    assert asked("stuck", facts, repetition=Repetition(stop_at=4, by="calls")) == stop(
        "stuck", "the same calls were repeated 4 times"
    )


def test_a_longer_cycle_than_is_set_does_not_count() -> None:
    facts = Facts(repetitions=Repetitions(steps=(1, 2) * 4, calls=(1, 2) * 4, counts=True))
    assert asked("stuck", facts, repetition=Repetition(stop_at=4, longest_cycle=1)) is None
    assert asked("stuck", facts, repetition=Repetition(stop_at=4, longest_cycle=2)) is not None


def test_the_same_text_and_steps_without_a_call_stop_at_their_numbers() -> None:
    repetition = Repetition(same_text=3, monologue=5)
    assert asked("stuck", Facts(same_texts=2, monologue=4), repetition=repetition) is None
    assert asked("stuck", Facts(same_texts=3), repetition=repetition) == stop(
        "stuck", "the same text was given 3 times"
    )
    assert asked("stuck", Facts(monologue=5), repetition=repetition) == stop(
        "stuck", "5 steps in a row without any call"
    )
    off = Repetition(same_text=None, monologue=None, claims=None)
    assert asked("stuck", Facts(same_texts=99, monologue=99, claims=99), repetition=off) is None


def test_work_that_is_reported_as_done_again_and_again_stops_at_its_number() -> None:
    assert asked("stuck", Facts(claims=5)) is None
    assert asked("stuck", Facts(claims=6)) == stop(
        "stuck", "the work was reported as done in 6 steps in a row, whose calls changed nothing"
    )


def test_the_model_is_told_of_a_repetition_at_these_numbers_and_once_a_cycle() -> None:
    settings: dict[str, Any] = {
        "repetition": Repetition(nudge_at=(3, 5)),
        "prompts": Prompts(repetition="{count} times"),
    }

    def told(repetitions: Repetitions) -> Decision | None:
        return asked("repetition", Facts(repetitions=repetitions), **settings)

    assert [told(same(times)) is not None for times in range(1, 7)] == [False, False, True, False, True, False]
    assert told(same(3)) == GoOn(rule="repetition", say="3 times", why="the same calls 3 times")
    assert told(same(5, results=2)) is None
    cycle = Repetitions(steps=(1, 2) * 3, calls=(1, 2) * 3, counts=True)
    assert told(cycle) is not None
    midway = Repetitions(steps=(*cycle.steps, 1), calls=(*cycle.calls, 1), counts=True)
    assert told(midway) is None
    settings["repetition"] = Repetition(nudge_at=(3, 5), by="calls")
    assert told(same(3, results=1)) == GoOn(rule="repetition", say="3 times", why="the same calls 3 times")
    assert told(same(4, results=3)) is None


# ---- stagnation, and the word before


def stalled(*points: int, **facts: Any) -> Facts:
    return Facts(**{"steps": 8, "stalled": points[-1], "points": points, "brought": "known", **facts})


def test_points_stop_a_run_only_after_it_was_told_and_made_as_many_steps_as_are_set() -> None:
    stagnation = Stagnation(nudge_at=5, stop_at=9, after_nudge=2, least_steps=8)
    detail = "9 points for steps without progress, the last one for nothing new"

    def said(facts: Facts, **settings: Any) -> Decision | None:
        return asked("stagnation", facts, **{"stagnation": stagnation, **settings})

    assert said(stalled(5, 7, 9)) == stop("stagnation", detail, "stuck")
    assert said(stalled(5, 7, 8)) is None
    assert said(stalled(4, 7, 9)) is None
    assert said(stalled(7, 9)) is None
    assert said(stalled(4, 5, 7, 9)) is not None
    assert said(stalled(5, 7, 9, steps=7)) is None
    assert said(stalled(4, 7, 9), repetition=Repetition(nudge_at=())) is not None
    assert said(stalled(5, 7, 9), repetition=Repetition(stop_at=None)) is None
    assert said(stalled(9), stagnation=Stagnation(nudge_at=None, stop_at=9)) is not None
    assert said(stalled(5, 7, 99), stagnation=Stagnation(stop_at=None)) is None


@pytest.mark.parametrize(
    ("brought", "words"),
    [("known", "nothing new"), ("failed_change", "a failure"), ("same_change", "a change made before")],
)
def test_the_detail_says_for_what_the_last_points_were(brought: Any, words: str) -> None:
    said = asked("stagnation", stalled(9, 9, 9, brought=brought))
    assert isinstance(said, Stop)
    assert said.detail.endswith(f"the last one for {words}")


def test_the_same_results_whatever_the_arguments_stop_a_run() -> None:
    stagnation = Stagnation(same_results=4)
    assert asked("stagnation", Facts(same_results=3), stagnation=stagnation) is None
    assert asked("stagnation", Facts(same_results=4), stagnation=stagnation) == stop(
        "stagnation", "the same tools gave the same results 4 times, whatever the arguments were", "stuck"
    )
    assert asked("stagnation", Facts(same_results=999), stagnation=Stagnation(same_results=None)) is None


def test_the_model_is_told_in_the_step_in_which_the_points_pass_the_mark() -> None:
    told = GoOn(rule="no_progress", say="MOVE ON", why="5 points without progress")

    def said(before: int, now: int, **settings: Any) -> Decision | None:
        facts = Facts(stalled_before=before, stalled=now)
        given = {"stagnation": Stagnation(nudge_at=5), "prompts": Prompts(stagnation="MOVE ON"), **settings}
        return asked("no_progress", facts, **given)

    assert said(4, 5) == told
    assert said(3, 4) is None
    assert said(5, 7) is None
    assert said(4, 5, stagnation=Stagnation(nudge_at=None)) is None
    assert said(4, 5, repetition=Repetition(nudge_at=())) is None


# ---- compaction


@pytest.mark.parametrize(("allowed", "in_vain", "stops"), [(2, 1, False), (2, 2, True), (0, 0, False), (0, 1, True)])
def test_compactions_in_vain_are_allowed_once_at_least(allowed: int, in_vain: int, stops: bool) -> None:
    said = asked(
        "compaction_stalled",
        Facts(compactions_in_vain=in_vain, context_tokens=95),
        patience=Patience(compactions=allowed),
        compaction=Compaction(window=100),
    )
    detail = f"{in_vain} compactions in a row did not help: 95 tokens are left of a window of 100"
    assert said == (stop("compaction_stalled", detail) if stops else None)


# ---- limits

LIMITS = [
    ("steps", "step_limit", "steps", {"steps": 3}),
    ("rounds", "step_limit", "rounds", {"rounds": 3}),
    ("tool_calls", "tool_call_limit", "tool calls", {"tool_calls": 3}),
    ("input_tokens", "token_limit", "input tokens", {"usage": Tokens(input_tokens=3)}),
    ("output_tokens", "token_limit", "output tokens", {"usage": Tokens(output_tokens=3)}),
    ("cost_usd", "cost_limit", "US dollars", {"usage": Tokens(cost_usd=3.0)}),
    ("seconds", "time_limit", "seconds", {"t": 2000, "carried_ms": 1000}),
]


@pytest.mark.parametrize(("limit", "guard", "unit", "facts"), LIMITS, ids=[row[0] for row in LIMITS])
def test_a_limit_stops_where_it_is_used_up(limit: str, guard: str, unit: str, facts: dict[str, Any]) -> None:
    steps = {} if limit == "steps" else {"steps": None}

    def at(allowed: int) -> Decision | None:
        return asked(guard, Facts(**facts), limits=Limits(**{**steps, limit: allowed}))

    assert at(4) is None
    assert at(3) == stop(guard, f"3 of 3 {unit} used; raise limits.{limit} if the task needs more")
    assert at(2) == stop(guard, f"3 of 2 {unit} used; raise limits.{limit} if the task needs more")


@pytest.mark.parametrize(("limit", "guard", "unit", "facts"), LIMITS, ids=[row[0] for row in LIMITS])
def test_a_soft_limit_never_stops(limit: str, guard: str, unit: str, facts: dict[str, Any]) -> None:
    limits = Limits(**({} if limit == "steps" else {"steps": None}), **{f"soft_{limit}": 1, limit: 4})
    assert asked(guard, Facts(**facts), limits=limits) is None


@pytest.mark.parametrize("limit", ["steps", "rounds", "tool_calls"])
def test_a_limit_of_the_session_counts_its_earlier_runs(limit: str) -> None:
    guard = {row[0]: row[1] for row in LIMITS}[limit]
    unit = limit.replace("_", " ")
    facts = Facts(before=Carried(**{limit: 2}), **{limit: 1})  # type: ignore[arg-type]

    def at(allowed: int) -> Decision | None:
        return asked(guard, facts, limits=NO_LIMIT, session_limits=SessionLimits(**{limit: allowed}))  # type: ignore[arg-type]

    assert at(4) is None
    assert at(3) == stop(
        guard, f"3 of 3 {unit} of the session used; raise session_limits.{limit} if the task needs more"
    )


def test_the_session_counts_tokens_cost_and_time_of_its_earlier_runs() -> None:
    before = Carried(usage=Tokens(input_tokens=2, cost_usd=2.0), elapsed_ms=2000)
    facts = Facts(before=before, usage=Tokens(input_tokens=1, cost_usd=1.0), t=1000)
    for limit, guard in (("input_tokens", "token_limit"), ("cost_usd", "cost_limit"), ("seconds", "time_limit")):
        assert asked(guard, facts, session_limits=SessionLimits(**{limit: 3})) is not None  # type: ignore[arg-type]
        assert asked(guard, facts, session_limits=SessionLimits(**{limit: 4})) is None  # type: ignore[arg-type]


def test_a_budget_that_is_used_up_stops_at_its_limit_alone() -> None:
    refused = BudgetRefused(step=2, limit="cost_usd", used=1.5, allowed=1.0)
    assert asked("cost_limit", Facts(refused=refused)) == stop(
        "cost_limit", "1.5 of 1 US dollars of the shared budget used; raise Budget.cost_usd if the task needs more"
    )
    assert asked("token_limit", Facts(refused=refused)) is None


def test_a_step_that_a_limit_cut_off_stops_although_less_than_the_limit_was_counted() -> None:
    def said(**reached: Any) -> Decision | None:
        cut = LimitReached(**{"step": 1, "limit": "seconds", "used": 9.9996, "allowed": 10, **reached})
        return asked("time_limit", Facts(t=9_999, limit_reached=cut), limits=Limits(seconds=10))

    assert said() == stop("time_limit", "9.999 of 10 seconds used; raise limits.seconds if the task needs more")
    assert said(allowed=11) is not None
    assert said(allowed=9) is None
    assert said(scope="session") is None
    assert said(limit="output_tokens") is None


def test_the_flag_of_the_cost_is_a_soft_limit() -> None:
    assert asked("cost_limit", Facts(usage=Tokens(cost_usd=99.0)), flag_cost_usd=5.0) is None


# ---- more steps


def extended(facts: dict[str, Any], policy: dict[str, Any] | None = None, **extend: Any) -> Decision | None:
    limits = Limits(steps=10, extend=Extend(**{"by": 5, "most": 3, "below": 8, **extend}))
    ready = Facts(**{"steps": 10, "stalled": 7, "progressed": 1, **facts})
    return asked("step_limit", ready, limits=limits, **(policy or {}))


REACHED = stop("step_limit", "10 of 10 steps used; raise limits.steps if the task needs more")


def test_a_run_that_makes_progress_gets_more_steps_at_the_limit() -> None:
    granted = extended({})
    assert granted == GoOn(rule="step_limit", extend=5, why="5 steps more, since the work makes progress")
    assert extended({"steps": 9}) is None
    assert extended({"stalled": 8}) == REACHED
    assert extended({"progressed": 0}) == REACHED


def test_only_progress_since_the_latest_grant_counts() -> None:
    def after(progressed: int, times: int = 1) -> Decision | None:
        grants = Grants(steps=5, times=times, at=10)
        return extended({"steps": 15, "progressed": progressed, "grants": grants})

    used_up = stop("step_limit", "15 of 15 steps used; raise limits.steps if the task needs more")
    assert isinstance(after(11), GoOn)
    assert after(10) == used_up
    assert isinstance(after(11, times=2), GoOn)
    assert after(11, times=3) == used_up


def test_a_grant_raises_no_limit_of_the_session_or_on_rounds() -> None:
    of_session = stop(
        "step_limit", "10 of 10 steps of the session used; raise session_limits.steps if the task needs more"
    )
    assert extended({}, {"session_limits": SessionLimits(steps=10)}) == of_session
    assert extended({}, {"session_limits": SessionLimits(steps=10)}, when="ask") == of_session
    rounds = Limits(steps=10, rounds=2, extend=Extend(by=5))
    assert asked("step_limit", Facts(steps=10, rounds=2, progressed=1), limits=rounds) == stop(
        "step_limit", "2 of 2 rounds used; raise limits.rounds if the task needs more"
    )


def test_the_user_is_asked_for_steps_where_that_is_set() -> None:
    ask = {"when": "ask"}
    id = "limits.steps.12"
    facts: dict[str, Any] = {"before": Carried(steps=2)}
    assert extended(facts, **ask) == Pause(rule="step_limit", questions=(id,), extend=5)
    asked_already = {**facts, "questions": (Question(id, "More?"),)}
    assert extended(asked_already, **ask) == Pause(rule="step_limit", questions=(id,), extend=0)
    other = {**facts, "questions": (Question("limits.steps.10", "More?"),)}
    assert extended(other, **ask) == Pause(rule="step_limit", questions=(id,), extend=5)


def test_the_user_is_not_asked_for_steps_that_another_limit_would_not_allow() -> None:
    limits = Limits(steps=10, tool_calls=3, extend=Extend(by=5, when="ask"))
    spent = Facts(steps=10, tool_calls=3)
    assert asked("step_limit", spent, limits=limits) is None
    assert isinstance(asked("step_limit", spent, limits=limits, guards=("step_limit",)), Pause)


def test_a_users_no_to_more_steps_ends_the_run() -> None:
    facts = {"steps": 4, "grants": Grants(refused=True)}
    assert extended(facts) == stop("step_limit", "4 steps used, and the user grants no more")


# ---- the reminder


def reminded(facts: Facts, reminder: float | None = 0.5, **settings: Any) -> Decision | None:
    prompts = Prompts(reminder="{used} of {allowed} {name}")
    return asked("reminder", facts, prompts=prompts, reminder=reminder, **settings)


def test_the_model_is_reminded_near_a_hard_limit_once() -> None:
    limits = Limits(steps=10)
    assert reminded(Facts(steps=4), limits=limits) is None
    assert reminded(Facts(steps=5), limits=limits) == GoOn(
        rule="reminder", remind="5 of 10 steps", topics=("steps",), why="near a limit"
    )
    assert reminded(Facts(steps=5, reminded=("steps",)), limits=limits) is None
    assert reminded(Facts(steps=9), reminder=None, limits=limits) is None


def test_the_model_is_reminded_at_a_soft_limit_and_not_before() -> None:
    limits = Limits(soft_steps=6, steps=20)
    assert reminded(Facts(steps=5), limits=limits) is None
    at = reminded(Facts(steps=6), limits=limits)
    assert isinstance(at, GoOn)
    assert at.topics == ("soft_steps",)
    assert at.remind == "6 of 6 steps"


def test_all_limits_that_are_near_are_in_one_reminder() -> None:
    said = reminded(
        Facts(steps=5, usage=Tokens(cost_usd=0.5), before=Carried(usage=Tokens(cost_usd=0.5))),
        limits=Limits(steps=10, cost_usd=1.0),
        session_limits=SessionLimits(cost_usd=2.0),
    )
    assert isinstance(said, GoOn)
    assert said.topics == ("steps", "cost_usd", "session_cost_usd")
    assert said.remind == "5 of 10 steps\n0.5 of 1 US dollars\n1 of 2 US dollars of the session"


def test_a_share_that_is_not_exact_in_binary_still_counts_as_reached() -> None:
    assert reminded(Facts(steps=7), reminder=0.7, limits=Limits(steps=10)) is not None
    assert reminded(Facts(steps=6), reminder=0.7, limits=Limits(steps=10)) is None


def test_grants_move_the_limit_of_which_the_model_is_reminded() -> None:
    limits = Limits(steps=10)
    assert reminded(Facts(steps=7, grants=Grants(steps=5)), limits=limits) is None
    assert reminded(Facts(steps=8, grants=Grants(steps=5)), limits=limits) == GoOn(
        rule="reminder", remind="8 of 15 steps", topics=("steps",), why="near a limit"
    )


# ---- what the next step could do


@pytest.mark.parametrize(
    ("facts", "settings"),
    [
        pytest.param({"invalid_steps": 2}, {"patience": Patience(invalid_calls=2)}, id="invalid calls"),
        pytest.param({"same_texts": 4}, {"repetition": Repetition(same_text=5)}, id="the same text"),
        pytest.param({"claims": 4}, {"repetition": Repetition(claims=5)}, id="done again"),
        pytest.param({"monologue": 4}, {"repetition": Repetition(monologue=5)}, id="no calls"),
        pytest.param({"same_results": 4}, {"stagnation": Stagnation(same_results=5)}, id="the same results"),
        pytest.param({"repetitions": same(3)}, {"repetition": Repetition(stop_at=4)}, id="repeated calls"),
        pytest.param(
            {"repetitions": same(3, results=1)},
            {"repetition": Repetition(stop_at=4, by="calls")},
            id="calls repeated with other results",
        ),
        pytest.param(
            {"repetitions": replace(same(3), counts=False)},
            {"repetition": Repetition(stop_at=4)},
            id="repeated calls before a step that only polls",
        ),
        pytest.param(
            {"steps": 7, "stalled": 5, "points": (5, 5)},
            {"stagnation": Stagnation(stop_at=9, least_steps=8)},
            id="points",
        ),
    ],
)
def test_one_more_step_may_stop_a_run_that_is_one_step_before_a_guard(
    facts: dict[str, Any], settings: dict[str, Any]
) -> None:
    near = Facts(**facts)
    assert may_stop_after_next_step(near, Policy(**settings))
    assert not may_stop_after_next_step(near, Policy(**settings, guards=("step_limit",)))


@pytest.mark.parametrize(
    ("facts", "settings"),
    [
        pytest.param({"invalid_steps": 1}, {"patience": Patience(invalid_calls=2)}, id="invalid calls"),
        pytest.param({"same_texts": 3}, {"repetition": Repetition(same_text=5)}, id="the same text"),
        pytest.param({"claims": 3}, {"repetition": Repetition(claims=5)}, id="done again"),
        pytest.param({"monologue": 3}, {"repetition": Repetition(monologue=5)}, id="no calls"),
        pytest.param({"same_results": 3}, {"stagnation": Stagnation(same_results=5)}, id="the same results"),
        pytest.param({"repetitions": same(2)}, {"repetition": Repetition(stop_at=4)}, id="repeated calls"),
        pytest.param({"repetitions": same(2)}, {"repetition": Repetition(stop_at=4, by="calls")}, id="calls alone"),
        pytest.param({"repetitions": same(3, results=1)}, {"repetition": Repetition(stop_at=4)}, id="other results"),
        pytest.param(
            {"steps": 7, "stalled": 4, "points": (5, 5)},
            {"stagnation": Stagnation(stop_at=9, least_steps=8)},
            id="points",
        ),
        pytest.param(
            {"steps": 6, "stalled": 5, "points": (5, 5)},
            {"stagnation": Stagnation(stop_at=9, least_steps=8)},
            id="too few steps",
        ),
        pytest.param({}, {}, id="nothing has happened"),
    ],
)
def test_one_more_step_cannot_stop_a_run_that_is_two_steps_before_a_guard(
    facts: dict[str, Any], settings: dict[str, Any]
) -> None:
    assert not may_stop_after_next_step(Facts(**facts), Policy(**settings))

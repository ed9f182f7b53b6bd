"""Row F6: `exceeded_limit` says whether more was used than a limit allows, or a limit ended the run."""

from __future__ import annotations

from endstop.decision import Facts, Limits, Policy, Stop, Usage, build_outcome
from endstop.decision import events as ev
from endstop.decision.limits import STOP_REASONS, SessionLimits
from hypothesis import given
from hypothesis import strategies as st

NUMBERS = st.integers(1, 60)
USED = st.builds(Usage, input_tokens=NUMBERS, output_tokens=NUMBERS, cost_usd=st.none() | st.floats(0, 5))
REASONS = st.sampled_from(
    ["completed", "text_final", "stuck", "provider_error", "cancelled", *dict.fromkeys(STOP_REASONS.values())]
)


@st.composite
def limits_of(draw: st.DrawFn, kind: type[SessionLimits]) -> SessionLimits:
    given = {}
    for name in STOP_REASONS:
        soft, hard = draw(st.none() | NUMBERS), draw(st.none() | NUMBERS)
        if soft is not None and hard is not None:
            soft, hard = min(soft, hard), max(soft, hard)
        given |= {f"soft_{name}": soft, name: hard}
    return kind(**given)


FACTS = st.builds(
    Facts,
    t=st.integers(0, 90_000),
    carried_ms=st.integers(0, 9_000),
    steps=NUMBERS,
    rounds=NUMBERS,
    tool_calls=NUMBERS,
    usage=USED,
    before=st.builds(
        ev.Carried, steps=NUMBERS, rounds=NUMBERS, tool_calls=NUMBERS, usage=USED, elapsed_ms=st.integers(0, 9_000)
    ),
)


@given(FACTS, limits_of(Limits), limits_of(SessionLimits), REASONS)
def test_F6_exceeded_limit_is_any_used_above_allowed_or_a_limit_that_ended_the_run(
    facts: Facts, limits: Limits, session_limits: SessionLimits, reason: str
) -> None:
    policy = Policy(limits=limits, session_limits=session_limits)
    outcome = build_outcome(facts, policy, Stop(rule="any", reason=reason))
    over = [name for name, use in outcome.limits.items() if use.used > use.allowed]
    assert outcome.exceeded_limit is (bool(over) or reason in STOP_REASONS.values())
    names = [name for name in STOP_REASONS for _ in (0,) if getattr(limits, name) is not None]
    assert all(name in outcome.limits for name in names), "each limit that is set is in the outcome"


def test_F6_overshoot_is_flagged_however_the_run_ended_and_the_limit_itself_is_no_overshoot() -> None:
    policy = Policy(limits=Limits(output_tokens=50))
    done = Stop(rule="control_flow", reason="completed")
    assert build_outcome(Facts(usage=Usage(output_tokens=5_000)), policy, done).exceeded_limit
    assert not build_outcome(Facts(usage=Usage(output_tokens=50)), policy, done).exceeded_limit
    soft = Policy(limits=Limits(soft_steps=3, steps=9))
    assert [build_outcome(Facts(steps=n), soft, done).exceeded_limit for n in (3, 4)] == [False, True]

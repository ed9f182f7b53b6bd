"""Guards: checks that run only after the rules have decided to go on, so no limit can overrule a completion.

The first guard that stops or pauses wins. One that speaks to the model (a nudge, a reminder) adds to the GoOn, and the
next guard is evaluated.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

from msgspec.structs import replace

from .decisions import Decision, GoOn, Pause, Stop
from .facts import Facts
from .limit_usage import LimitStatus, limit_statuses
from .limits import STOP_REASONS
from .policy import Policy, fill_in
from .repetition import Repetitions
from .rules import Rule
from .run_origin import Grants
from .step_history import POINTS, describe_step


def _judged(facts: Facts, policy: Policy) -> Decision | None:
    if facts.judged is None:
        return None
    return Stop(rule="judged", reason="judged", detail=facts.judged)


def _invalid_calls(facts: Facts, policy: Policy) -> Decision | None:
    if facts.invalid_steps <= policy.patience.invalid_calls:
        return None
    detail = f"{facts.invalid_steps} steps in a row held nothing but invalid calls"
    return Stop(rule="invalid_calls", reason="invalid_calls", detail=detail)


def _stuck(facts: Facts, policy: Policy) -> Decision | None:
    settings = policy.repetition
    repeats = facts.repetitions.times(settings.longest_cycle, settings.by)
    if settings.stop_at is not None and repeats >= settings.stop_at:
        detail = f"{_what_repeats(policy)} were repeated {repeats} times"
        return Stop(rule="stuck", reason="stuck", detail=detail)
    if settings.same_text is not None and facts.same_texts >= settings.same_text:
        return Stop(rule="stuck", reason="stuck", detail=f"the same text was given {facts.same_texts} times")
    if settings.claims is not None and facts.claims >= settings.claims:
        detail = f"the work was reported as done in {facts.claims} steps in a row, whose calls changed nothing"
        return Stop(rule="stuck", reason="stuck", detail=detail)
    if settings.monologue is not None and facts.monologue >= settings.monologue:
        return Stop(rule="stuck", reason="stuck", detail=f"{facts.monologue} steps in a row without any call")
    return None


def _stagnation(facts: Facts, policy: Policy) -> Decision | None:
    settings = policy.stagnation
    if policy.repetition.stop_at is None:
        return None
    if settings.stop_at is not None and facts.stalled >= settings.stop_at and _was_told_in_vain(facts, policy):
        detail = f"{facts.stalled} points for steps without progress, the last one for {describe_step(facts.brought)}"
        return Stop(rule="stagnation", reason="stuck", detail=detail)
    if settings.same_results is not None and facts.same_results >= settings.same_results:
        detail = f"the same tools gave the same results {facts.same_results} times, whatever the arguments were"
        return Stop(rule="stagnation", reason="stuck", detail=detail)
    return None


def _was_told_in_vain(facts: Facts, policy: Policy) -> bool:
    """Return whether enough steps were made in total, and enough since the model was told that it makes no progress."""
    settings = policy.stagnation
    if facts.steps < settings.least_steps:
        return False
    if settings.nudge_at is None or not policy.repetition.nudge_at:
        return True  # the model is not told
    latest = facts.points[-1 - settings.after_nudge :]
    return len(latest) > settings.after_nudge and min(latest) >= settings.nudge_at


def _compaction_stalled(facts: Facts, policy: Policy) -> Decision | None:
    if facts.compactions_in_vain < max(1, policy.patience.compactions):
        return None
    detail = (
        f"{facts.compactions_in_vain} compactions in a row did not help: {facts.context_tokens} tokens are left "
        f"of a window of {policy.compaction.window}"
    )
    return Stop(rule="compaction_stalled", reason="compaction_stalled", detail=detail)


def _limit(reason: str) -> Callable[[Facts, Policy], Decision | None]:
    limits = tuple(limit for limit, stops_as in STOP_REASONS.items() if stops_as == reason)
    allowed = attrgetter(*limits)
    unset = None if len(limits) == 1 else (None,) * len(limits)

    def reached(facts: Facts, policy: Policy) -> Decision | None:
        if facts.refused is None and allowed(policy.limits) == unset and allowed(policy.session_limits) == unset:
            return None  # the usual case, found without checking what was used
        for status in limit_statuses(facts, policy, limits):
            if not status.use.soft and (status.reached or _was_cut_off(facts, status)):
                return Stop(rule=reason, reason=reason, detail=_describe_limit(status))
        return None

    return reached


_step_or_round_limit = _limit("step_limit")


def _step_limit(facts: Facts, policy: Policy) -> Decision | None:
    if facts.grants.refused:
        detail = f"{facts.steps} steps used, and the user grants no more"
        return Stop(rule="step_limit", reason="step_limit", detail=detail)
    reached = _step_or_round_limit(facts, policy)
    extend, granted = policy.limits.extend, facts.grants
    if reached is None or extend is None:
        return reached
    by = extend.by
    longer = replace(facts, grants=Grants(steps=granted.steps + by, times=granted.times + 1, at=facts.steps))
    still = _step_or_round_limit(longer, policy)  # a limit on rounds, or one of the session, is not extended
    if policy.limits.asks:
        return still or _ask_for_steps(facts, policy, by)
    if granted.times >= extend.most or facts.progressed <= granted.at or facts.stalled >= extend.below:
        return reached
    return still or GoOn(rule="step_limit", extend=by, why=f"{by} steps more, since the work makes progress")


def _ask_for_steps(facts: Facts, policy: Policy, by: int) -> Pause | None:
    """Return the Pause that asks the user for more steps; None if another limit ends the run."""
    others = (guard for guard in _OTHER_LIMITS if guard.name in policy.guards)
    if any(guard.judge(facts, policy) is not None for guard in others):
        return None
    id = f"limits.steps.{facts.before.steps + facts.steps}"  # unique within the session
    asked = any(question.call_id == id for question in facts.questions)
    return Pause(rule="step_limit", questions=(id,), extend=0 if asked else by)


def _was_cut_off(facts: Facts, status: LimitStatus) -> bool:
    """Return whether the latest step was cut off in the middle at this limit, or at a higher value of the same limit.

    Comparing used with allowed is not enough: times are rounded, and tokens and cost were estimates at that moment.
    """
    reached = facts.limit_reached
    if reached is None or (reached.limit, reached.scope) != (status.limit, status.scope):
        return False
    return status.use.allowed <= reached.allowed


def _describe_limit(status: LimitStatus) -> str:
    of = f"{status.use.used:g} of {status.use.allowed:g} {_unit(status)}"
    return f"{of} used; raise {_WHERE[status.scope]}.{status.limit} if the task needs more"


def _unit(status: LimitStatus) -> str:
    words = {"cost_usd": "US dollars"}.get(status.limit, status.limit.replace("_", " "))
    return words + _WHOSE[status.scope]


_WHERE = {"": "limits", "session": "session_limits", "budget": "Budget"}
_WHOSE = {"": "", "session": " of the session", "budget": " of the shared budget"}


def _repetition(facts: Facts, policy: Policy) -> Decision | None:
    settings = policy.repetition
    repeats = facts.repetitions.times(settings.longest_cycle, settings.by)
    if repeats not in settings.nudge_at or not facts.repetitions.has_advanced(settings.longest_cycle, settings.by):
        return None
    say = fill_in(policy.prompts.repetition, count=str(repeats))
    return GoOn(rule="repetition", say=say, why=f"the same calls {repeats} times")


def _no_progress(facts: Facts, policy: Policy) -> Decision | None:
    nudge_at = policy.stagnation.nudge_at
    if nudge_at is None or not policy.repetition.nudge_at or not facts.stalled_before < nudge_at <= facts.stalled:
        return None
    return GoOn(rule="no_progress", say=policy.prompts.stagnation, why=f"{facts.stalled} points without progress")


def _what_repeats(policy: Policy) -> str:
    return "the same calls" if policy.repetition.by == "calls" else "the same calls with the same results"


def _reminder(facts: Facts, policy: Policy) -> Decision | None:
    due = [
        status
        for status in limit_statuses(facts, policy)
        if status.name not in facts.reminded and _is_near(status, policy)
    ]
    if not due:
        return None
    prompt = policy.prompts.reminder
    lines = [
        fill_in(prompt, used=f"{status.use.used:g}", allowed=f"{status.use.allowed:g}", name=_unit(status))
        for status in due
    ]
    return GoOn(rule="reminder", remind="\n".join(lines), topics=tuple(s.name for s in due), why="near a limit")


def _is_near(status: LimitStatus, policy: Policy) -> bool:
    if status.use.soft:
        return status.use.used >= status.use.allowed
    return policy.reminder is not None and status.use.used >= status.use.allowed * policy.reminder - 1e-9


GUARDS: tuple[Rule, ...] = (
    Rule("guard", "judged", "Stops as `judged` if the judge says that the task is complete.", ("judged",), _judged),
    Rule(
        "guard",
        "invalid_calls",
        "Stops after too many steps in a row with only invalid calls.",
        ("invalid_steps",),
        _invalid_calls,
    ),
    Rule(
        "guard",
        "stuck",
        "Stops when calls (cycles too) or a text are repeated too often, or too many steps have no call.",
        ("repeats", "repeated_calls", "same_texts", "claims", "monologue"),
        _stuck,
    ),
    Rule(
        "guard",
        "stagnation",
        "Stops when steps make no progress: calls fail, repeat or return what is already known. Never before the model "
        "was told and made some steps more, nor in the first steps of a run.",
        ("steps", "stalled", "brought", "points", "same_results"),
        _stagnation,
    ),
    Rule(
        "guard",
        "compaction_stalled",
        "Stops when compaction does not get the context below its threshold.",
        ("compactions_in_vain", "context_tokens"),
        _compaction_stalled,
    ),
    Rule(
        "guard",
        "step_limit",
        "Stops at the limit on steps or rounds. Grants more steps instead while the work makes progress, or asks the "
        "user for them (`limits.extend`).",
        ("steps", "rounds", "grants", "progressed", "stalled"),
        _step_limit,
    ),
    Rule("guard", "tool_call_limit", "Stops at the limit on tool calls.", ("tool_calls",), _limit("tool_call_limit")),
    Rule(
        "guard",
        "token_limit",
        "Stops at the limit on input or output tokens.",
        ("usage", "refused", "limit_reached"),
        _limit("token_limit"),
    ),
    Rule(
        "guard",
        "cost_limit",
        "Stops at the limit on cost, or when the shared budget is spent.",
        ("usage", "refused", "limit_reached"),
        _limit("cost_limit"),
    ),
    Rule(
        "guard", "time_limit", "Stops at the limit on time.", ("t", "carried_ms", "limit_reached"), _limit("time_limit")
    ),
    Rule(
        "guard",
        "repetition",
        "Tells the model that it repeats the same calls with the same results.",
        ("repeats",),
        _repetition,
    ),
    Rule(
        "guard",
        "no_progress",
        "Tells the model that its steps make no progress, before `stagnation` stops the run.",
        ("stalled", "brought"),
        _no_progress,
    ),
    Rule(
        "guard",
        "reminder",
        "Reminds the model near a hard limit and at a soft limit, once per limit.",
        ("reminded",),
        _reminder,
    ),
)
"""The guards that come with endstop. They are asked in this order, and only if no rule stopped or paused the run."""

_OTHER_LIMITS = tuple(guard for guard in GUARDS if guard.name in STOP_REASONS.values() and guard.name != "step_limit")
_OF_STEPS = tuple(guard for guard in GUARDS if guard.name in ("invalid_calls", "stuck", "stagnation"))


def may_stop_after_next_step(facts: Facts, policy: Policy) -> bool:
    """Return whether a guard that judges steps could stop the run after one more step, whatever that step brings.

    The guard is evaluated with every count one higher, which is the most that a single step can add.
    """
    stalled = facts.stalled + max(POINTS.values())
    worst = replace(
        facts,
        steps=facts.steps + 1,
        invalid_steps=facts.invalid_steps + 1,
        same_texts=facts.same_texts + 1,
        monologue=facts.monologue + 1,
        repetitions=_repeated_once_more(facts.repetitions, policy),
        stalled=stalled,
        points=(*facts.points, stalled),
        same_results=facts.same_results + 1,
        claims=facts.claims + 1,
    )
    return any(guard.judge(worst, policy) is not None for guard in _OF_STEPS if guard.name in policy.guards)


def _repeated_once_more(repetitions: Repetitions, policy: Policy) -> Repetitions:
    """Return repetitions that are as many as these can be after one more step."""
    longest, seen = policy.repetition.longest_cycle, replace(repetitions, counts=bool(repetitions.steps))
    return Repetitions(
        steps=(0,) * (seen.times(longest) + 1), calls=(0,) * (seen.times(longest, "calls") + 1), counts=True
    )

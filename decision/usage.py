"""What of each limit is used, by the facts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from .decisions import Pause, Stop
from .events import Carried
from .facts import Facts
from .limits import STOP_REASONS, SessionLimits
from .limits import STOP_REASONS as LIMITS
from .messages import blank
from .outcome import AnswerFrom, LimitUse, Outcome
from .policy import Policy


class Spent(Struct, frozen=True):
    """One limit that is set, and what is used of it."""

    limit: str
    """A key of `STOP_REASONS`."""
    scope: str
    """Empty for the run, `session` for all runs of the session, `budget` for all runs that share one."""
    use: LimitUse

    @property
    def name(self) -> str:
        """The name under which it stands in the outcome: `steps`, `soft_steps`, `session_steps`, ..."""
        soft = "soft_" if self.use.soft else ""
        return f"{self.scope}_{soft}{self.limit}" if self.scope else f"{soft}{self.limit}"

    @property
    def reached(self) -> bool:
        """Whether a hard limit is used up, or a soft one passed."""
        return self.use.used > self.use.allowed if self.use.soft else self.use.used >= self.use.allowed


def spending(facts: Facts, policy: Policy, names: tuple[str, ...] = tuple(LIMITS)) -> Iterator[Spent]:
    """Each of these limits that is set, hard before soft, the run's before the session's; last, a budget's."""
    took, before = facts.t + facts.carried_ms, facts.before
    for name, soft, allowed in _set(policy.limits, names):
        yield Spent(name, "", LimitUse(used=_used(facts, name, took), allowed=allowed, soft=soft))
    for name, soft, allowed in _set(policy.session_limits, names):
        used = _used(facts, name, took) + _used(before, name, before.elapsed_ms)
        yield Spent(name, "session", LimitUse(used=used, allowed=allowed, soft=soft))
    if facts.refused is not None and facts.refused.limit in names:
        used_up = LimitUse(used=facts.refused.used, allowed=facts.refused.allowed)
        yield Spent(facts.refused.limit, "budget", used_up)


@lru_cache(maxsize=256)
def _set(limits: SessionLimits, names: tuple[str, ...]) -> tuple[tuple[str, bool, float], ...]:
    """Which of these limits are set, as name, soft and allowed."""
    every = [
        (name, soft, getattr(limits, f"soft_{name}" if soft else name)) for name in names for soft in (False, True)
    ]
    return tuple(limit for limit in every if limit[2] is not None)


def _used(counted: Facts | Carried, name: str, milliseconds: int) -> float:
    """What these runs have used of a limit; `milliseconds` is how long they took."""
    if name == "seconds":
        return milliseconds / 1000
    of = counted if name in ("steps", "rounds", "tool_calls") else counted.usage
    return getattr(of, name) or 0


# From the last decision to the outcome.


def conclude(facts: Facts, policy: Policy, decision: Stop | Pause) -> Outcome:
    """The outcome of a run that this decision ends or pauses."""
    if isinstance(decision, Stop):
        status, reason, detail = decision.ends_as, decision.reason, decision.detail
    else:
        status, reason, detail = "awaiting_input", "awaiting_input", "the model waits for the user's answer"
    spent = list(spending(facts, policy))
    answer, answer_from = _answer(facts, reason)
    return Outcome(
        run_id=facts.run_id,
        session_id=facts.session_id,
        status=status,
        stop_reason=reason,
        detail=detail,
        answer=answer,
        answer_from=answer_from,
        steps=facts.steps,
        rounds=facts.rounds,
        requests=facts.requests,
        usage=facts.usage,
        limits={one.name: one.use for one in spent},
        exceeded_limit=reason in STOP_REASONS.values() or any(one.use.used > one.use.allowed for one in spent),
        phases=facts.phases,
        pending_issues=facts.pending_issues,
        accepted_by=facts.accepted_by if status == "completed" else (),
        failed_calls=facts.failures.names,
        questions=facts.questions,
        duration_ms=facts.t + facts.carried_ms,
    )


def renewed(outcome: Outcome, facts: Facts) -> Outcome:
    """A recorded outcome with what older versions did not write into it; `facts`: at the end of its run."""
    accepted_by = facts.accepted_by if outcome.status == "completed" else ()
    return replace(outcome, accepted_by=accepted_by, failed_calls=facts.failures.names)


def closes(facts: Facts, policy: Policy, stop: Stop) -> bool:
    """Whether the model is asked once more after this stop, without tools, to sum up.

    Every exhausted ending is summed up, unless the policy says `limits` or something speaks against it: a budget that
    is used up is not this run's alone, a context that is too large leaves no room for one more request, and a run
    that has asked nothing yet has nothing to sum up.
    """
    if not policy.closing or stop.ends_as != "exhausted" or facts.refused is not None or not facts.attempt:
        return False
    if policy.closing_after == "limits":
        return stop.reason in STOP_REASONS.values()
    window = policy.compaction.window
    return stop.reason != "compaction_stalled" or window is None or facts.context_tokens < window


def _answer(facts: Facts, reason: str) -> tuple[str, AnswerFrom]:
    """The answer, and what it is."""
    if facts.accepted is not None and not blank(facts.answer):
        return facts.answer, "completion"
    if facts.handled is not None and not blank(facts.handled):
        return facts.handled, "handler"
    if facts.closing and not blank(facts.text):
        return facts.text, "closing"
    if reason in ("text_final", "judged") and not blank(facts.text):
        return facts.text, "text"
    if facts.latest_text:
        return facts.latest_text, "partial_text" if facts.latest_text_partial else "latest_text"
    if facts.completion_said and reason != "awaiting_input":  # while the user is asked it is not decided
        return facts.completion_said, "not_accepted"
    return "", ""

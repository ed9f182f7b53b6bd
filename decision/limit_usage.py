"""How much of each limit a run has used."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from msgspec import Struct

from .events import Carried, LimitExtended
from .facts import Facts
from .limits import STOP_REASONS as LIMITS
from .limits import SessionLimits
from .outcome import LimitUse
from .policy import Policy


class LimitStatus(Struct, frozen=True):
    """One limit that is set, with how much of it is used."""

    limit: str
    """A key of `STOP_REASONS`."""
    scope: str
    """Empty for the run, `session` for all runs of its session, `budget` for all runs that share a budget."""
    use: LimitUse

    @property
    def name(self) -> str:
        """The limit's name in an outcome: `steps`, `soft_steps`, `session_steps`, ..."""
        soft = "soft_" if self.use.soft else ""
        return f"{self.scope}_{soft}{self.limit}" if self.scope else f"{soft}{self.limit}"

    @property
    def reached(self) -> bool:
        """Whether a hard limit is used up, or a soft one exceeded."""
        return self.use.used > self.use.allowed if self.use.soft else self.use.used >= self.use.allowed


def limit_statuses(facts: Facts, policy: Policy, names: tuple[str, ...] = tuple(LIMITS)) -> Iterator[LimitStatus]:
    """Yield each of these limits that is set: the run's, the session's, then a budget's; hard before soft.

    `Policy.flag_cost_usd` is a soft limit of the run, if its cost is known and no limit bounds it.
    """
    took, before = facts.t + facts.carried_ms, facts.before
    for name, soft, allowed in _set(policy.limits, names):
        if name == "steps" and not soft:
            allowed += facts.grants.steps
        yield LimitStatus(name, "", LimitUse(used=_used(facts, name, took), allowed=allowed, soft=soft))
    if "cost_usd" in names and (flag := cost_flag(facts, policy)) is not None:
        yield LimitStatus("cost_usd", "", flag)
    for name, soft, allowed in _set(policy.session_limits, names):
        used = _used(facts, name, took) + _used(before, name, before.elapsed_ms)
        yield LimitStatus(name, "session", LimitUse(used=used, allowed=allowed, soft=soft))
    if facts.refused is not None and facts.refused.limit in names:
        used_up = LimitUse(used=facts.refused.used, allowed=facts.refused.allowed)
        yield LimitStatus(facts.refused.limit, "budget", used_up)


def extension(by: int, facts: Facts, policy: Policy) -> LimitExtended:
    """Return the event that grants a run additional steps beyond its limit."""
    return LimitExtended(by=by, allowed=policy.limits.hard_steps + facts.grants.steps + by)


def cost_flag(facts: Facts, policy: Policy) -> LimitUse | None:
    """Return how much of `Policy.flag_cost_usd` a run has used; None if the flag does not apply."""
    if policy.flag_cost_usd is None or facts.usage.cost_usd is None or policy.limits.cost_usd is not None:
        return None
    return LimitUse(used=facts.usage.cost_usd, allowed=policy.flag_cost_usd, soft=True)


@lru_cache(maxsize=256)
def _set(limits: SessionLimits, names: tuple[str, ...]) -> tuple[tuple[str, bool, float], ...]:
    """Return the limits that are set, as (name, soft, allowed)."""
    every = [
        (name, soft, getattr(limits, f"soft_{name}" if soft else name)) for name in names for soft in (False, True)
    ]
    return tuple(limit for limit in every if limit[2] is not None)


def _used(counted: Facts | Carried, name: str, milliseconds: int) -> float:
    """Return how much of a limit was used; `milliseconds` is the time taken."""
    if name == "seconds":
        return milliseconds / 1000
    of = counted if name in ("steps", "rounds", "tool_calls") else counted.usage
    return getattr(of, name) or 0

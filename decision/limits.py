"""Limits on what a run, or a whole session, may use, with recommended values by kind of task.

A hard limit ends the run as exhausted; a soft one flags it, reminds the model and lets it continue. Steps, rounds and
tool calls are checked after each step; hard limits on time, output tokens and cost are also enforced within a step.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any, ClassVar, Literal

from msgspec import UNSET
from msgspec.structs import force_setattr, replace

from .errors import WrongUse
from .settings import Settings

DEFAULT_STEPS = 30
MOST_STEPS_OF_A_GRANT = 15
"""Largest number of steps of a grant; with a larger one the limit would have no effect."""

STOP_REASONS: dict[str, str] = {
    "steps": "step_limit",
    "rounds": "step_limit",
    "tool_calls": "tool_call_limit",
    "input_tokens": "token_limit",
    "output_tokens": "token_limit",
    "cost_usd": "cost_limit",
    "seconds": "time_limit",
}
"""Stop reason of a run that a limit ends, by the limit's name."""


def require_at_least(name: str, value: float | None, least: float) -> None:
    """Raise WrongUse unless `value` is None or at least `least`."""
    if value is not None and value < least:
        raise WrongUse(f"{name} is {value}: use {least} or more")


class SessionLimits(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What all runs of a session may use together. Every limit is off unless set.

    A hard limit must be above 0; a soft one may not exceed its hard one. If only the soft one is set, the hard one is
    twice that. Raises WrongUse for other values.
    """

    section: ClassVar[str] = "session_limits."

    steps: int | None = None
    """Model steps."""
    rounds: int | None = None
    """Rounds of the outer loop."""
    tool_calls: int | None = None
    """Tool calls that were executed."""
    input_tokens: int | None = None
    """Tokens of all requests, cached ones included."""
    output_tokens: int | None = None
    """Tokens of all responses."""
    cost_usd: float | None = None
    """US dollars. Attempts without a known price count as 0; a run whose model has no known price is refused."""
    seconds: float | None = None
    """Seconds since the start of the run; for a session, the seconds of all its runs."""
    soft_steps: int | None = None
    """The soft limit of `steps`: flags the run and reminds the model."""
    soft_rounds: int | None = None
    """The soft limit of `rounds`: flags the run and reminds the model."""
    soft_tool_calls: int | None = None
    """The soft limit of `tool_calls`: flags the run and reminds the model."""
    soft_input_tokens: int | None = None
    """The soft limit of `input_tokens`: flags the run and reminds the model."""
    soft_output_tokens: int | None = None
    """The soft limit of `output_tokens`: flags the run and reminds the model."""
    soft_cost_usd: float | None = None
    """The soft limit of `cost_usd`: flags the run and reminds the model."""
    soft_seconds: float | None = None
    """The soft limit of `seconds`: flags the run and reminds the model."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in STOP_REASONS:
            soft, hard = getattr(self, f"soft_{name}"), getattr(self, name)
            for key, value in ((name, hard), (f"soft_{name}", soft)):
                if value is not None and value <= 0:
                    least = "above 0" if name in ("cost_usd", "seconds") else "1 or more"
                    raise WrongUse(f"{self.section}{key} is {value}: use {least}")
            if soft is not None and hard is None:
                force_setattr(self, name, 2 * soft)
            elif soft is not None and hard is not None and soft > hard:
                raise WrongUse(
                    f"{self.section}soft_{name} ({soft}) is above {self.section}{name} ({hard}): "
                    "lower the soft limit or raise the hard one"
                )


class Extend(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a run that has reached its limit of steps is granted more.

    A grant does not raise any other limit, nor one of the session or of a shared budget. Raises WrongUse for a value
    out of range.
    """

    section: ClassVar[str] = "limits.extend."

    by: int = 15
    """Steps of one grant, 1 to 15. With `ask` the user may grant any other number."""
    most: int = 8
    """Maximum number of grants on progress, 1 or more; after that the limit ends the run."""
    below: int = 8
    """Points for steps without progress (`stagnation`) that the run must stay under for a grant on progress, 1 or
    more."""
    when: Literal["progress", "ask"] = "progress"
    """What decides on a grant. `progress`: a step since the last grant changed the work or brought news, and the points
    are under `below`. `ask`: the user; the run pauses and asks, and the answer grants any number of steps or ends the
    run. A foreign loop, which endstop does not run, cannot ask, and stops."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.by <= MOST_STEPS_OF_A_GRANT:
            raise WrongUse(f"{self.section}by is {self.by}: use 1 to {MOST_STEPS_OF_A_GRANT}, or raise limits.steps")
        require_at_least(f"{self.section}most", self.most, 1)
        require_at_least(f"{self.section}below", self.below, 1)


DEFAULT_EXTEND = Extend()
"""Value of `extend` for limits without a number of steps. It belongs to `DEFAULT_STEPS`: a copy with another number has
none."""


def _is_unset(value: object) -> bool:
    return value is UNSET


class Limits(SessionLimits, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a run may use. As for a session, except for `steps`.

    If neither `steps` nor `soft_steps` is given, `steps` is 30 and extended on progress. A given number of steps is not
    extended unless `extend` is also given. None means no limit of steps.
    """

    section: ClassVar[str] = "limits."
    legacy_defaults: ClassVar[Mapping[str, Any]] = {"steps": DEFAULT_STEPS, "extend": None}

    steps: int | None = UNSET  # type: ignore[assignment]  # until __post_init__
    """Model steps; 30 if neither this nor `soft_steps` is given. None: no limit, for loops that have their own."""
    extend: Extend | None = UNSET  # type: ignore[assignment]  # until __post_init__
    """When more steps are granted at the limit; on progress if no number of steps is given. None: never."""

    def __post_init__(self) -> None:
        unset = _is_unset(self.steps) and self.soft_steps is None
        if _is_unset(self.extend):
            force_setattr(self, "extend", DEFAULT_EXTEND if unset else None)
        if _is_unset(self.steps):
            force_setattr(self, "steps", DEFAULT_STEPS if unset else None)
        if self.extend is DEFAULT_EXTEND and self.steps != DEFAULT_STEPS:
            force_setattr(self, "extend", None)
        super().__post_init__()
        if self.extend is not None and self.steps is None:
            raise WrongUse("limits.extend is given, and there is no limit of steps to extend: give limits.steps, too")

    def with_steps(self, steps: int | None) -> Limits:
        """Return the limits with this number of steps, which is not extended. Raises WrongUse as when they are made."""
        return replace(self, steps=steps, extend=None)

    @property
    def hard_steps(self) -> int:
        """The limit of steps, for limits that have one."""
        assert self.steps is not None
        return self.steps

    @property
    def most_steps(self) -> float:
        """Maximum number of steps of the run, with all grants except a user's; infinite without a limit."""
        if self.steps is None:
            return inf
        return self.steps + (0 if self.extend is None or self.asks else self.extend.by * self.extend.most)

    @property
    def asks(self) -> bool:
        """Whether the user is asked for more steps at the limit."""
        return self.extend is not None and self.extend.when == "ask"


RECOMMENDED: dict[str, Limits] = {
    "look_up": Limits(soft_steps=10, steps=20),
    "data_and_files": Limits(soft_steps=50, steps=100),
    "many_systems": Limits(soft_steps=100, steps=200),
    "open_search": Limits(soft_steps=200),
}
"""Starting values by kind of task; your own records show what fits better.

look_up: a question that a few calls answer. data_and_files: read, change and check files or tables. many_systems: work
across several services. open_search: research without a known end; its hard limit is twice the soft one.

A task that needs more than the soft limit is unusual; one that needs more than the hard limit is unlikely to finish.
"""

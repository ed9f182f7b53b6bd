"""Limits on what a run, or a whole session, may use, with recommended values by kind of task.

A hard limit ends the run as exhausted; a soft one flags it, reminds the model and lets it continue. Steps, rounds and
tool calls are checked after each step; hard limits on time, output tokens and cost are enforced within a step, too.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec.structs import force_setattr

from .errors import WrongUse
from .settings import Settings

DEFAULT_STEPS = 30

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

    A hard limit must be above 0; a soft one may not exceed its hard one. Where only the soft one is set, the hard one
    is twice that. Raises WrongUse for other values.
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
    """US dollars. Attempts without a known price count as 0; a run with a model without a price is refused."""
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


class Limits(SessionLimits, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a run may use. As for a session, except that `steps` is 30 if neither `steps` nor `soft_steps` is set."""

    section: ClassVar[str] = "limits."

    def __post_init__(self) -> None:
        if self.steps is None and self.soft_steps is None:
            force_setattr(self, "steps", DEFAULT_STEPS)
        super().__post_init__()

    @property
    def hard_steps(self) -> int:
        """`steps`, which is never None once the object exists."""
        assert self.steps is not None
        return self.steps


RECOMMENDED: dict[str, Limits] = {
    "look_up": Limits(soft_steps=10, steps=20),
    "data_and_files": Limits(soft_steps=50, steps=100),
    "many_systems": Limits(soft_steps=100, steps=200),
    "open_search": Limits(soft_steps=200),
}
"""Starting values by kind of task; your own records show what fits better.

look_up: a question that a few calls answer. data_and_files: read, change and check files or tables. many_systems: work
across several services. open_search: research without a known end; its hard limit is twice the soft one.

A task that needs more than the soft limit is unusual; one that needs more than the hard limit is not going to finish.
"""

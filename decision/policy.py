"""What the user chose: limits, what ends a run, and how much patience the loop has.

A policy is data. Its whole content, with every default written out, stands in each run's record, so that a later
change of a default changes no old record.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr

from .errors import WrongUse, nearest

DEFAULT_STEPS = 30


def at_least(name: str, value: float | None, least: int) -> None:
    """Raise WrongUse unless `value` is None or at least `least`."""
    if value is not None and value < least:
        raise WrongUse(f"{name} is {value}: use {least} or more")


class Limits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a run may use. A hard limit ends the run as `exhausted`; a soft one only flags it."""

    steps: int | None = None
    """Hard limit of model steps, 1 or more. Unset: twice `soft_steps` if that is set, else 30."""
    soft_steps: int | None = None
    """Soft limit of model steps, 1 to `steps`. Off unless set."""

    def __post_init__(self) -> None:
        at_least("limits.soft_steps", self.soft_steps, 1)
        if self.steps is None:
            steps = 2 * self.soft_steps if self.soft_steps else DEFAULT_STEPS
            force_setattr(self, "steps", steps)
        at_least("limits.steps", self.steps, 1)
        if self.soft_steps and self.soft_steps > self.hard_steps:
            raise WrongUse(f"limits.soft_steps ({self.soft_steps}) is above limits.steps ({self.steps}): lower it")

    @property
    def hard_steps(self) -> int:
        """`steps`, which is always a number once the object exists."""
        assert self.steps is not None
        return self.steps


class Patience(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often in a row something is handed back to the model before the run stops. 0: never, stop at once."""

    empty_answers: int = 2
    """Responses without text and calls; then `no_answer`."""
    truncated: int = 2
    """Responses cut off by the provider's own length limit; then `no_answer`."""
    refusals: int = 1
    """Responses ended by a content filter; then `refusal`."""
    invalid_calls: int = 3
    """Steps in which every call was invalid; then `invalid_calls`."""
    rejections: int = 3
    """Completions handed back, over the whole run; then `completion_rejected`."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            at_least(f"patience.{name}", getattr(self, name), 0)


class Compaction(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When the context is made smaller (P0). Off unless the window's size is known."""

    window: int | None = None
    """Size of the model's context window, in tokens, 1 or more."""
    threshold: float = 0.8
    """Share of the window, above 0 and at most 1, at which the context is compacted."""
    keep_results: int = 4
    """The latest tool results that stay whole; older ones are shortened."""

    def __post_init__(self) -> None:
        at_least("compaction.window", self.window, 1)
        at_least("compaction.keep_results", self.keep_results, 0)
        if not 0 < self.threshold <= 1:
            raise WrongUse(f"compaction.threshold is {self.threshold}: use a share above 0 and at most 1")


class Prompts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the loop says to the model, in the user's role. No prompt names a tool."""

    empty: str = "Your last response was empty. Go on with the task, or give your final answer."
    truncated: str = "Your last response was cut off by the length limit. Go on in smaller pieces."
    refused: str = "The last response was blocked by a content filter. Go on in a way that avoids it."
    text_is_no_end: str = (
        "Text alone does not end this task. If the work is done, say so with the completion tool; if it is not, go on."
    )


class Policy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a run goes on, pauses and stops. `Policy()` is the shipped policy `agent`."""

    name: str = "agent"
    limits: Limits = Limits()
    text: Literal["final", "nudge"] = "final"
    """`final`: a plain answer ends the run. `nudge`: it never does, and the model is told so."""
    completion: Literal["offered", "required", "none"] = "offered"
    """`required`: a run without a completion tool is refused at start. `none`: none is offered."""
    max_inner_steps: int = 10
    """Steps the inner layer may make before the outer one looks, 1 or more."""
    inner_cancel: bool = True
    """Cut the stream at a completion call, and all in flight when it is accepted."""
    reject_after_failure: bool = True
    """Hand a completion back if a call before it in the same response failed."""
    patience: Patience = Patience()
    compaction: Compaction = Compaction()
    prompts: Prompts = Prompts()
    rules: tuple[str, ...] = ("compaction", "control_flow", "finish_reason", "message_shape", "go_on")
    """The priorities by name, first to last. A user's own rule stands as `module:name`."""
    guards: tuple[str, ...] = ("invalid_calls", "step_limit")
    """What may turn a go-on, and only that, into something else; the first that fires speaks."""

    def __post_init__(self) -> None:
        at_least("max_inner_steps", self.max_inner_steps, 1)
        if self.text == "nudge" and self.completion == "none":
            raise WrongUse("text = 'nudge' with completion = 'none' can never end: change one of the two")


POLICIES: dict[str, Policy] = {
    "chat": Policy(name="chat", completion="none"),
    "agent": Policy(),
    "strict": Policy(name="strict", text="nudge", completion="required"),
}
"""The shipped policies: text ends the run; text or a completion does; only an accepted completion does."""


def policy_from(data: Mapping[str, Any], where: str = "policy") -> Policy:
    """A policy from plain data (a parsed TOML file). Key `base` names the shipped policy it starts from.

    Raises WrongUse that names the key and the nearest known one, or the value and the expected type.
    """
    given = dict(data)
    base = given.pop("base", "agent")
    if base not in POLICIES:
        raise WrongUse(f"{where}: unknown base {base!r}{nearest(str(base), POLICIES)}")
    plain = msgspec.to_builtins(POLICIES[base])
    if "limits" in given:
        plain["limits"] = {}  # limits depend on each other: unset ones are derived anew
    _merge(plain, given, msgspec.to_builtins(POLICIES[base]), where)
    try:
        return msgspec.convert(plain, Policy)
    except msgspec.ValidationError as error:
        raise WrongUse(f"{where}: {error}") from None


def _merge(into: dict[str, Any], given: Mapping[str, Any], known: Mapping[str, Any], where: str) -> None:
    for key, value in given.items():
        if key not in known:
            raise WrongUse(f"{where}: unknown key {key!r}{nearest(key, known)}")
        if isinstance(known[key], dict) and isinstance(value, Mapping):
            _merge(into[key], value, known[key], f"{where}, [{key}]")
        else:
            into[key] = value

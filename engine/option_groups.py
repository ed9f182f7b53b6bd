"""Groups of options of an engine.

Each group checks its values when it is made, so that a wrong one is refused where it was written, before any run.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Protocol, cast

from .decision import Decision, Facts, FinishReason, Policy, Rule, ToolCall, WrongUse
from .decision.finish_words import check_finish_words
from .decision.wrong_calls import checked
from .effects import Effects
from .evaluation import Evaluator
from .event_log import Log
from .hard_limits import HardLimits
from .hooks import Compactor, Gate, Judge, ModelCompactor, PromptHandler, TextRule
from .providers import Provider, ToolChoice
from .providers.clock import Clock, SystemClock
from .providers.provider import check_settings
from .records.format import ATTACH_ABOVE, Redact
from .tools.function_roles import check_functions
from .tools.tool import Tool
from .validation import as_tuple, check_clock, check_size, check_tool_choice, checked_rules

Decide = Callable[[Facts, Policy], Decision]

Execute = Callable[[ToolCall, Tool, Mapping[str, Any]], Coroutine[Any, Any, Any]]
"""Function that runs one call of a tool with its parsed arguments and returns what the tool's function returns."""


async def execute_here(call: ToolCall, tool: Tool, arguments: Mapping[str, Any]) -> Any:
    """Run the tool's function in this process."""
    return await tool.run(arguments)


class OptionGroup:
    """Base of the groups. Their `repr` leaves out defaults."""

    __slots__ = ()

    def __repr__(self) -> str:
        default = type(self)()
        values = {one.name: getattr(self, one.name) for one in fields(self)}  # type: ignore[arg-type]  # a dataclass
        changed = [f"{name}={value!r}" for name, value in values.items() if value != getattr(default, name)]
        return f"{type(self).__name__}({', '.join(changed)})"


@checked
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Hooks(OptionGroup):
    """Your functions that take part in decisions about a run (`hooks.py`). Their answers are recorded.

    gates: check a completion, in order; the first that rejects it hands it back to the model.
    text_rule: decides whether a response without a completion call ends the run.
    judge: asked after each round, unless the run ends anyway, whether the task is complete.
    compactor: shrinks the context first: a function, or a model that writes a summary.
    evaluate: evaluates the work at the end of a run. prompt_handlers: see a prompt before the model does.
    rules: your own rules and guards, which the policy names in addition to the built-in ones.

    Raises WrongUse for what cannot be called as it will be.
    """

    gates: Sequence[Gate] = ()
    """Each checks a completion, in order. The first that rejects it hands it back to the model."""
    text_rule: TextRule | None = None
    """Decides whether a response without a completion call ends the run."""
    judge: Judge | None = None
    """Asked after each round, unless the run ends anyway, whether the task is complete."""
    compactor: Compactor | Provider | None = None
    """Shrinks the context before the policy's strategies are tried: a function, or a model that writes a summary."""
    evaluate: Evaluator | None = None
    """Evaluates the work at the end of every run, except failed, cancelled and paused ones."""
    prompt_handlers: Sequence[PromptHandler] = ()
    """Each sees a prompt before the model does, and may answer it or add a message."""
    rules: Sequence[Rule] = ()
    """Your own rules and guards, which the policy names in addition to the built-in ones."""

    def __post_init__(self) -> None:
        set_tuples(self, "gates", "prompt_handlers")
        if callable(getattr(self.compactor, "stream", None)):
            object.__setattr__(self, "compactor", ModelCompactor(cast(Provider, self.compactor)))
        check_functions(
            gates=self.gates,
            text_rule=self.text_rule,
            judge=self.judge,
            compactor=self.compactor,
            evaluate=self.evaluate,
            prompt_handlers=self.prompt_handlers,
        )
        object.__setattr__(self, "rules", checked_rules(self.rules))


@checked
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ModelOptions(OptionGroup):
    """Settings of model requests, and the meaning of unknown finish words. Raises WrongUse for wrong values."""

    tool_choice: ToolChoice = "auto"
    """`auto`, `required` (the model must call a tool) or `none`."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Passed to the provider with each request: `temperature`, `max_tokens` and any others that its endpoint takes."""
    finish_words: Mapping[str, FinishReason] = field(default_factory=dict)
    """The meaning of finish words, such as `{"done": "stop"}`, for every provider; overrides endstop's own table."""

    def __post_init__(self) -> None:
        check_tool_choice(self.tool_choice)
        object.__setattr__(self, "settings", check_settings(self.settings))
        object.__setattr__(self, "finish_words", check_finish_words(self.finish_words))


@checked
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RecordOptions(OptionGroup):
    """Options for writing events to a record. Raises WrongUse for wrong values."""

    redact: Redact | None = None
    """Applied to each text of a user, a model or a tool before it is written (`records/redaction.py`)."""
    attach_above: int | None = ATTACH_ABOVE
    """A text or picture of at least this many bytes gets a separate file next to the record; None: never."""
    strict_resume: bool = False
    """Whether a resumed run that would differ from its record raises ResumeRefused and writes nothing.
    Otherwise it continues with every recorded result, and its record says where it differs (RESUME_DIVERGED)."""

    def __post_init__(self) -> None:
        check_functions(redact=self.redact)
        check_size("attach_above", self.attach_above)
        if not isinstance(self.strict_resume, bool):
            raise WrongUse(f"strict_resume is {self.strict_resume!r}: write True or False")


class ReplaySource(Protocol):
    """Factory of the effects and limits of a replayed run, which need neither the outside world nor a clock."""

    def effects(self, log: Log, /) -> Effects:
        """Return the effects of a run with this log."""
        ...

    def limits(self, log: Log, policy: Policy, clock: Clock, /) -> HardLimits:
        """Return the limits of a run with this log."""
        ...


@checked
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Runtime(OptionGroup):
    """Clock, decision function and tool executor: replaced by replays and tests, rarely in production.

    Raises WrongUse for a clock without the methods of `Clock`, and functions that cannot be called as they will be.
    """

    clock: Clock = field(default_factory=SystemClock)
    decide: Decide | None = None
    """Called after each step and round; None for the built-in `decide` with the rules in `Hooks.rules`."""
    decide_untraced: Decide | None = None
    """Called when the loop needs to predict a decision, for example before another step; None for `decide`."""
    execute: Execute = execute_here
    """Executes a tool call; replace it to run tools elsewhere, or to answer calls from a record."""
    replay: ReplaySource | None = None
    """In a replay, the stand-in for the outside world; None in a live run."""

    def __post_init__(self) -> None:
        check_clock(self.clock)
        check_functions(decide=self.decide, decide_untraced=self.decide_untraced, execute=self.execute)


def set_tuples(group: Any, *names: str) -> None:
    """Convert these fields of a frozen group to tuples. Raises WrongUse for a value that has no elements."""
    for name in names:
        object.__setattr__(group, name, as_tuple(name, getattr(group, name)))

"""The settings of an engine, in groups, and `RunConfig`: all that a run is made from.

Each group checks its own values when it is made, so a wrong one is refused where it was written, before any run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, Protocol, cast

from msgspec import structs

from ._version import __version__
from .budget import Budget
from .context import Decide, Execute, execute_here
from .decision import Event, Facts, FinishReason, Message, Outcome, Policy, Price, Rule, SystemMessage, WrongUse
from .decision import decide as built_in_decide
from .decision.events import RunFinished
from .decision.finish_words import check_finish_words
from .dependencies import check_factory
from .effects import Effects
from .evaluation import Evaluator
from .event_bus import DEFAULT_CAPACITY, Lagged
from .event_log import Log
from .hard_limits import HardLimits
from .hooks import Compactor, Gate, Judge, ModelCompactor, PromptHandler, SystemPrompt, TextRule, qualified_name
from .prompts import system_prompt
from .providers import Prices, Provider, ToolChoice
from .providers._logging import log_warning
from .providers._wrapper import iter_leaf_providers
from .providers.clock import Clock, SystemClock
from .providers.provider import check_settings
from .records.attachments import ATTACH_ABOVE
from .records.event_redaction import Redact
from .run import Run
from .subscribers import Middleware, Subscriber
from .tools.output import OutputTool, OutputType, output_type_of
from .tools.tool import Tool, Toolbox
from .tools.user_functions import check_functions
from .validation import (
    as_tuple,
    check_budget,
    check_buffer,
    check_clock,
    check_combination,
    check_ends,
    check_measurable,
    check_output,
    check_policy,
    check_prices,
    check_provider,
    check_size,
    check_system,
    check_text_rule,
    check_tool_choice,
    check_tools,
    checked_rules,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """Functions of yours that take part in decisions about a run; see `hooks.py`. Their answers are recorded.

    Raises WrongUse for what cannot be called.
    """

    gates: Sequence[Gate] = ()
    """Check a completion, in order; the first that rejects it hands it back to the model."""
    text_rule: TextRule | None = None
    """Decides whether a response without a completion call ends the run."""
    judge: Judge | None = None
    """Asked after each round, unless the run ends anyway, whether the task is complete."""
    compactor: Compactor | Provider | None = None
    """Makes the context smaller, before the policy's strategies are tried: a function, or a model for a summary."""
    evaluate: Evaluator | None = None
    """Evaluates the work at the end of every run, except failed, cancelled and paused ones."""
    prompt_handlers: Sequence[PromptHandler] = ()
    """See a prompt before the model does: each may answer it or add a message."""
    rules: Sequence[Rule] = ()
    """Rules and guards of your own, which the policy names beside the built-in ones."""

    def __post_init__(self) -> None:
        _as_tuples(self, "gates", "prompt_handlers")
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
        check_text_rule(self.text_rule)
        object.__setattr__(self, "rules", checked_rules(self.rules))


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """Settings of requests to the model, and the meaning of unknown finish words. Raises WrongUse for wrong values."""

    tool_choice: ToolChoice = "auto"
    """`auto`, `required` (the model must call a tool) or `none`."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Passed to the provider with each request: `temperature`, `max_tokens` and whatever else its endpoint takes."""
    finish_words: Mapping[str, FinishReason] = field(default_factory=dict)
    """The meaning of finish words, as `{"done": "stop"}`, for every provider; overrides endstop's own table."""

    def __post_init__(self) -> None:
        check_tool_choice(self.tool_choice)
        object.__setattr__(self, "settings", check_settings(self.settings))
        object.__setattr__(self, "finish_words", check_finish_words(self.finish_words))


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordOptions:
    """How events are written to a record. Raises WrongUse for wrong values."""

    redact: Redact | None = None
    """Applied to each text of a user, a model or a tool before it is written; see `records/redaction.py`."""
    attach_above: int | None = ATTACH_ABOVE
    """A text or picture of at least this many bytes gets a file of its own beside the record; None: never."""
    strict_resume: bool = False
    """Whether a resumed run that would go on differently from its record raises ResumeRefused, and writes nothing.
    Otherwise it goes on with every recorded result, and its record says where it differs (RESUME_DIVERGED)."""

    def __post_init__(self) -> None:
        check_functions(redact=self.redact)
        check_size("attach_above", self.attach_above)
        if not isinstance(self.strict_resume, bool):
            raise WrongUse(f"strict_resume is {self.strict_resume!r}: write True or False")


@dataclass(frozen=True, slots=True, kw_only=True)
class Observers:
    """Functions that observe or surround a run without influencing it. Raises WrongUse for wrong values.

    A subscriber that cancels a run after a step does so one request late, since nothing waits for it; a guard is exact.
    """

    subscribers: Sequence[Subscriber] = ()
    """Called with each event and its run. Each has its own task, so a slow or failing one harms no run."""
    on_completed: Callable[[Outcome], Awaitable[None] | None] | None = None
    """Called with the outcome of each run that completed."""
    middleware: Sequence[Middleware] = ()
    """Context managers that each run enters in its own task, the first outermost; see `run.py`."""
    buffer: int = DEFAULT_CAPACITY
    """Events that each run keeps for its readers, 1 or more; a slower reader gets a `Lagged` for what it missed."""

    def __post_init__(self) -> None:
        _as_tuples(self, "subscribers", "middleware")
        check_functions(subscribers=self.subscribers, on_completed=self.on_completed, middleware=self.middleware)
        check_buffer(self.buffer)

    @property
    def all_subscribers(self) -> tuple[Subscriber, ...]:
        """The subscribers, with `on_completed` as one of them."""
        callback = self.on_completed
        return (*self.subscribers, *(() if callback is None else (_when_completed(callback),)))


class ReplaySource(Protocol):
    """Makes the effects and limits of a replayed run, which need neither the outside world nor a clock."""

    def effects(self, log: Log, /) -> Effects:
        """Makes the effects of a run with this log."""
        ...

    def limits(self, log: Log, policy: Policy, clock: Clock, /) -> HardLimits:
        """Makes the limits of a run with this log."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """Clock, decision function and tool executor: replaced by replays and tests, rarely in production.

    Raises WrongUse for a clock without the methods of `Clock`.
    """

    clock: Clock = field(default_factory=SystemClock)
    decide: Decide | None = None
    """Called after each step and round; None for the built-in `decide` with the rules in `Hooks.rules`."""
    decide_untraced: Decide | None = None
    """Called where the loop needs to foresee a decision, for example before another step; None for `decide`."""
    execute: Execute = execute_here
    """Executes a tool call; replace it to run tools elsewhere, or to answer calls from a record."""
    replay: ReplaySource | None = None
    """In a replay, what stands for the outside world; None in a live run."""

    def __post_init__(self) -> None:
        check_clock(self.clock)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """Everything that a run is made from, checked. Made by `Engine`, shared by its sessions, never changed."""

    provider: Provider
    policy: Policy
    toolbox: Toolbox
    system: str
    """The system prompt; none if it is empty."""
    system_function: SystemPrompt | None
    """Asked for the system prompt before each step; None if `system` is the prompt."""
    own_system: bool
    """Whether the user gave the system prompt; if not, that of a history counts."""
    prices: Prices
    budget: Budget | None
    hooks: Hooks
    model_options: ModelOptions
    record_options: RecordOptions
    observers: Observers
    runtime: Runtime
    output: OutputType | None = None
    """The type as which `Outcome.output` is read; None: the output is the answer's text."""
    deps: Any = None
    """Makes what belongs to a run that is given nothing (`dependencies.py`); None: nothing does."""

    @classmethod
    def of(
        cls,
        provider: Provider,
        *,
        tools: Sequence[Tool],
        presets: Sequence[Tool],
        policy: Policy,
        system: str | SystemPrompt | None,
        prices: Prices | None,
        budget: Budget | None,
        hooks: Hooks,
        model_options: ModelOptions,
        record_options: RecordOptions,
        observers: Observers,
        runtime: Runtime,
        output: Any = None,
        deps: Any = None,
    ) -> RunConfig:
        """The configuration from the arguments of `Engine`. Raises WrongUse."""
        check_provider(provider)
        check_policy(policy)
        check_system(system)
        check_prices(prices)
        check_factory(deps)
        _check_groups(
            hooks=hooks,
            model_options=model_options,
            record_options=record_options,
            observers=observers,
            runtime=runtime,
        )
        if runtime.replay is None:
            check_tools("tools", tools)
            check_tools("presets", presets)
            for warning in filter(None, (getattr(tool, "kind_warning", "") for tool in (*tools, *presets))):
                log_warning(warning)
        output_type = output_type_of(output)
        if output_type is not None and runtime.replay is None:
            check_output(policy, hooks, model_options.tool_choice, tools)
            policy = _for_output(policy)
            tools = [*tools, OutputTool(output_type)]
        own = Toolbox(tools)
        extra = [preset for preset in presets if not (preset.kind == "completion" and own.can_complete)]
        toolbox = Toolbox([*tools, *extra]).for_policy(policy)
        config = cls(
            provider=provider,
            policy=policy,
            toolbox=toolbox,
            system=_fixed_system(system, toolbox),
            system_function=None if system is None or isinstance(system, str) else system,
            own_system=system is not None,
            prices=Prices() if prices is None else prices,
            budget=budget,
            hooks=hooks,
            model_options=model_options,
            record_options=record_options,
            observers=observers,
            runtime=runtime,
            output=output_type,
            deps=deps,
        )
        check_combination(policy, hooks.judge, toolbox.specs, model_options.tool_choice)
        check_budget(policy, budget)
        if runtime.replay is None:
            check_ends(policy)
            check_measurable(policy, budget, provider, config.known_prices)
        config.decide(Facts(), policy)  # a policy that names unknown rules fails here, not in a run
        return config

    @property
    def decide(self) -> Decide:
        """The function that decides after each step and round: `Runtime.decide`, or the built-in one."""
        return self.runtime.decide or partial(built_in_decide, user_rules=tuple(self.hooks.rules))

    @property
    def decide_untraced(self) -> Decide:
        """`decide` without a trace, for decisions that the loop only foresees and does not record."""
        looks = self.runtime.decide_untraced or self.runtime.decide
        return looks or partial(built_in_decide, user_rules=tuple(self.hooks.rules), traced=False)

    @property
    def functions(self) -> dict[str, tuple[str, ...]]:
        """The qualified names of the user functions that influence a run, by role, as records hold them."""
        hooks, redact = self.hooks, self.record_options.redact
        one = {
            "text_rule": hooks.text_rule,
            "judge": hooks.judge,
            "compactor": hooks.compactor,
            "system": self.system_function,
            "evaluator": hooks.evaluate,
            "redaction": redact,
        }
        many = {"gate": hooks.gates, "handler": hooks.prompt_handlers}
        all_of = {**many, **{role: (function,) for role, function in one.items() if function is not None}}
        return {role: tuple(map(qualified_name, functions)) for role, functions in all_of.items() if functions}

    def system_messages(self, history: Sequence[Message]) -> list[SystemMessage]:
        """The system prompt of a session with this history: the engine's own, else the history's, else the general."""
        given = [message for message in history if isinstance(message, SystemMessage)]
        if given and not self.own_system:
            return given
        return [SystemMessage(self.system)] if self.system else []

    def recorded_settings(self, history: Sequence[Message] = ()) -> dict[str, Any]:
        """The fields of RUN_STARTED that say with what a new run begins. history: with what its session begins."""
        return {
            "system": "".join(message.text for message in self.system_messages(history)),
            "model": self.provider.model,
            "policy": self.policy,
            "tools": self.toolbox.specs,
            "tool_choice": self.model_options.tool_choice,
            "settings": dict(self.model_options.settings),
            "finish_words": dict(self.model_options.finish_words),
            "endpoint": getattr(self.provider, "endpoint", ""),
            "prices": self.known_prices(),
            "functions": self.functions,
            "engine": __version__,
        }

    def known_prices(self) -> dict[str, Price]:
        """The prices of the provider's models, by their names, as far as they are known."""
        known = {provider.model: self.prices.of(provider) for provider in iter_leaf_providers(self.provider)}
        return {model: price for model, price in known.items() if price is not None}

    def with_provider(self, provider: Provider, evaluate: Evaluator | None = None) -> RunConfig:
        """Return a copy with another provider, and another evaluator if one is given. Raises WrongUse."""
        check_provider(provider)
        hooks = self.hooks if evaluate is None else replace(self.hooks, evaluate=evaluate)
        return replace(self, provider=provider, hooks=hooks)

    def with_middleware(self, *middleware: Middleware) -> RunConfig:
        """Return a copy with more middleware, which is entered after (inside) the present one. Raises WrongUse."""
        observers = replace(self.observers, middleware=(*self.observers.middleware, *middleware))
        return replace(self, observers=observers)


def _for_output(policy: Policy) -> Policy:
    """The policy of an engine with an output type: a text does not end a run, and is handed back a few times."""
    repetition = policy.repetition
    if repetition.monologue is None:
        repetition = structs.replace(repetition, monologue=max(2, policy.patience.invalid_calls + 1))
    return structs.replace(policy, text="nudge", repetition=repetition)


GROUPS = {
    "hooks": Hooks,
    "model_options": ModelOptions,
    "record_options": RecordOptions,
    "observers": Observers,
    "runtime": Runtime,
}
"""The parameters of `Engine` that hold a group of settings."""

GROUP_OF = {setting.name: parameter for parameter, group in GROUPS.items() for setting in fields(group)}
"""For each setting in a group, the parameter of `Engine` that holds the group."""

_RENAMED = {"intents": "prompt_handlers", "around": "middleware", "recalled": "replay"}


def refuse_ungrouped(names: Sequence[str]) -> None:
    """Refuse keywords that `Engine` does not take. Raises WrongUse if one is a setting of a group, else TypeError."""
    for name in names:
        setting = _RENAMED.get(name, name)
        if setting in GROUP_OF:
            parameter = GROUP_OF[setting]
            group = GROUPS[parameter].__name__
            raise WrongUse(f"{name} is set in a group now: Engine(..., {parameter}={group}({setting}=...))")
    raise TypeError(f"Engine() got an unexpected keyword argument {names[0]!r}")


def _fixed_system(system: str | SystemPrompt | None, toolbox: Toolbox) -> str:
    """The system prompt with which runs begin: the user's, the general one, or none yet if a function makes it."""
    if system is None:
        return system_prompt(toolbox.can_complete)
    return system if isinstance(system, str) else ""


def _check_groups(**given: object) -> None:
    for parameter, value in given.items():
        group = GROUPS[parameter]
        if not isinstance(value, group):
            raise WrongUse(f"{parameter} is {value!r}: write {parameter}={group.__name__}(...)")


def _as_tuples(group: Any, *names: str) -> None:
    for name in names:
        object.__setattr__(group, name, as_tuple(name, getattr(group, name)))


def _when_completed(callback: Callable[[Outcome], Awaitable[None] | None]) -> Subscriber:
    def on_event(event: Event | Lagged, run: Run) -> Awaitable[None] | None:
        if isinstance(event, RunFinished) and event.outcome.status == "completed":
            return callback(event.outcome)
        return None

    return on_event

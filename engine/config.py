"""`RunConfig`: everything that a run is made from, checked. The groups of options are in `option_groups.py`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

from msgspec import structs

from .base.version import __version__
from .budget import Budget
from .decision import Event, Facts, Message, Outcome, Policy, Price, SystemMessage, WrongUse
from .decision import decide as built_in_decide
from .decision.events import RunFinished
from .decision.policy import shipped_policy
from .decision.wrong_calls import checked
from .evaluation import Evaluator
from .event_bus import DEFAULT_CAPACITY, Lagged
from .hooks import SystemPrompt, qualified_name
from .option_groups import Decide, Hooks, ModelOptions, OptionGroup, RecordOptions, Runtime, set_tuples
from .prompts import system_prompt
from .providers import Prices, Provider
from .providers._logging import log_warning
from .providers._wrapper import iter_leaf_providers
from .run import Run
from .subscribers import Middleware, Subscriber
from .tools.function_roles import check_functions
from .tools.tool import Tool, Toolbox
from .validation import (
    check_budget,
    check_buffer,
    check_combination,
    check_ends,
    check_measurable,
    check_named,
    check_policy,
    check_provider,
    check_tools,
)

if TYPE_CHECKING:
    from .tools.output import OutputType
    from .until import Until


@checked
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Observers(OptionGroup):
    """Functions that observe or surround a run without influencing it. Raises WrongUse for wrong values.

    A subscriber that cancels a run after a step does so one request late, because nothing waits for it. A guard is
    exact.
    """

    subscribers: Sequence[Subscriber] = ()
    """Called with each event and its run. Each has its own task, so a slow or failing one does not affect the run."""
    on_completed: Callable[[Outcome], Awaitable[None] | None] | None = None
    """Called with the outcome of each run that completed."""
    middleware: Sequence[Middleware] = ()
    """Context managers that each run enters in its own task, the first outermost (`run.py`)."""
    buffer: int = DEFAULT_CAPACITY
    """Events that each run keeps for its readers, 1 or more; a slower reader gets a `Lagged` for what it missed."""

    def __post_init__(self) -> None:
        set_tuples(self, "subscribers", "middleware")
        check_functions(subscribers=self.subscribers, on_completed=self.on_completed, middleware=self.middleware)
        check_buffer(self.buffer)

    @property
    def all_subscribers(self) -> tuple[Subscriber, ...]:
        """The subscribers, with `on_completed` as one of them."""
        callback = self.on_completed
        return (*self.subscribers, *(() if callback is None else (_when_completed(callback),)))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """Everything that a run is made from, checked. Made by `Engine`, shared by its sessions, never changed."""

    provider: Provider
    policy: Policy
    toolbox: Toolbox
    system: str
    """The system prompt; none if it is empty."""
    system_function: SystemPrompt | None
    """Called for the system prompt before each step; None if `system` is the prompt."""
    own_system: bool
    """Whether the user gave the system prompt; if not, the one in the history is used."""
    prices: Prices
    budget: Budget | None
    hooks: Hooks
    model_options: ModelOptions
    record_options: RecordOptions
    observers: Observers
    runtime: Runtime
    until: Until | None = None
    """The check that says when the work is done."""
    output: OutputType | None = None
    """The type that `Outcome.output` has; None: the output is the answer's text."""
    deps: Any = None
    """Makes the dependencies of a run that is given none (`dependencies.py`); None: such a run has none."""

    def check(self) -> None:
        """Check that the settings fit each other. Raises WrongUse."""
        policy = self.policy
        check_combination(policy, self.hooks.judge, self.toolbox.specs, self.model_options.tool_choice)
        check_budget(policy, self.budget)
        if self.until is not None and self.hooks.judge is not None:
            raise WrongUse("until and a judge both say when the work is done: use one of them, or both in one function")
        if self.runtime.replay is None:
            check_ends(policy)
            check_measurable(policy, self.budget, self.provider, self.known_prices)
            check_named(self.hooks.rules, policy)
        self.decide(Facts(), policy)  # so that a policy with unknown rules fails here, not in a run

    @property
    def decide(self) -> Decide:
        """The function that decides after each step and round: `Runtime.decide`, or the built-in one."""
        return self.runtime.decide or partial(built_in_decide, user_rules=tuple(self.hooks.rules))

    @property
    def decide_untraced(self) -> Decide:
        """`decide` without a trace, for decisions that the loop only predicts and does not record."""
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
        names = {role: tuple(map(qualified_name, functions)) for role, functions in all_of.items() if functions}
        return names if self.until is None else {**names, "until": (self.until.name,)}

    def system_messages(self, history: Sequence[Message]) -> list[SystemMessage]:
        """Return the system prompt of a session with this history: the engine's, the history's, or the general one."""
        given = [message for message in history if isinstance(message, SystemMessage)]
        if given and not self.own_system:
            return given
        return [SystemMessage(self.system)] if self.system else []

    def recorded_settings(self, history: Sequence[Message] = ()) -> dict[str, Any]:
        """Return the fields of RUN_STARTED that hold a new run's settings. history: messages before the session."""
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
        """Return the prices of the provider's models by name, as far as they are known."""
        known = {provider.model: self.prices.of(provider) for provider in iter_leaf_providers(self.provider)}
        return {model: price for model, price in known.items() if price is not None}

    def with_provider(self, provider: Provider | str, evaluate: Evaluator | None = None) -> RunConfig:
        """Return a copy with another provider, and another evaluator if one is given. Raises WrongUse."""
        provider = provider_of(provider)
        hooks = self.hooks if evaluate is None else replace(self.hooks, evaluate=evaluate)
        return replace(self, provider=provider, hooks=hooks)

    def with_until(self, until: Until) -> RunConfig:
        """Return a copy with this check. A replay has the recorded policy and tools. Raises WrongUse."""
        if self.runtime.replay is not None:
            return replace(self, until=until)
        policy, toolbox = until.prepare(self.policy, self.toolbox)
        config = replace(self, until=until, policy=policy, toolbox=toolbox)
        config.check()
        return config

    def with_middleware(self, *middleware: Middleware) -> RunConfig:
        """Return a copy with more middleware, which is entered after (inside) the existing one. Raises WrongUse."""
        observers = replace(self.observers, middleware=(*self.observers.middleware, *middleware))
        return replace(self, observers=observers)


def provider_of(provider: Provider | str) -> Provider:
    """Return the given provider, or the one of a model with this name. Raises WrongUse."""
    if isinstance(provider, str):
        from .providers.model_names import provider_for

        return provider_for(provider)
    check_provider(provider)
    return provider


def policy_of(policy: Policy | str) -> Policy:
    """Return the given policy, or the shipped one of this name. Raises WrongUse."""
    if isinstance(policy, str):
        policy = shipped_policy(policy)
    check_policy(policy)
    return policy


def policy_for_output(policy: Policy) -> Policy:
    """Return the policy of an engine with an output type: text does not end a run, and is handed back a few times."""
    repetition = policy.repetition
    if repetition.monologue is None:
        repetition = structs.replace(repetition, monologue=max(2, policy.patience.invalid_calls + 1))
    return structs.replace(policy, text="nudge", repetition=repetition)


def check_offered(tools: Sequence[Tool], presets: Sequence[Tool]) -> None:
    """Check the tools of an engine, and warn of what their authors seem to have forgotten. Raises WrongUse."""
    check_tools("tools", tools)
    check_tools("presets", presets)
    for tool in (*tools, *presets):
        for warning in filter(None, (getattr(tool, "kind_warning", ""), getattr(tool, "docstring_warning", ""))):
            log_warning(warning)


def toolbox_of(tools: Sequence[Tool], presets: Sequence[Tool], policy: Policy) -> Toolbox:
    """Return the toolbox of an engine. A completion tool among `tools` takes the place of the preset ones."""
    completes = Toolbox(tools).can_complete
    extra = [preset for preset in presets if not (preset.kind == "completion" and completes)]
    return Toolbox([*tools, *extra]).for_policy(policy)


GROUPS = {
    "hooks": Hooks,
    "model_options": ModelOptions,
    "record_options": RecordOptions,
    "observers": Observers,
    "runtime": Runtime,
}
"""The parameters of `Engine` that hold a group of settings."""


def fixed_system(system: str | SystemPrompt | None, toolbox: Toolbox) -> str:
    """Return the system prompt with which runs begin: the user's, the general one, or "" if a function makes it."""
    if system is None:
        return system_prompt(toolbox.can_complete)
    return system if isinstance(system, str) else ""


def check_groups(**given: object) -> None:
    """Check that each group of settings is of its type. Raises WrongUse."""
    for parameter, value in given.items():
        group = GROUPS[parameter]
        if not isinstance(value, group):
            raise WrongUse(f"{parameter} is {value!r}: write {parameter}={group.__name__}(...)")


def _when_completed(callback: Callable[[Outcome], Awaitable[None] | None]) -> Subscriber:
    @wraps(callback)
    def on_event(event: Event | Lagged, run: Run) -> Awaitable[None] | None:
        if isinstance(event, RunFinished) and event.outcome.status == "completed":
            return callback(event.outcome)
        return None

    return on_event

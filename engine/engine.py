"""The engine: a provider, tools and a policy, and from then on any number of runs at once."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from copy import copy
from functools import partial
from typing import Any, Literal
from uuid import uuid4

from .batch import Fleet, fleet_of
from .budget import Budget
from .connections import held_open
from .context import Decide, Execute, execute_here
from .decision import Event, Facts, FinishReason, Outcome, Policy, Price, Rule, WrongUse
from .decision import decide as built_in_decide
from .decision.errors import did_you_mean
from .decision.events import RunFinished
from .decision.finish_words import check_finish_words
from .evaluation import Evaluator
from .event_bus import KEPT, Lagged
from .event_log import Kept
from .hook_runner import Handler
from .hooks import Gate, Judge, Recalled, TextRule, qualified
from .prompts import system_prompt
from .providers import Prices, Provider, ToolChoice
from .providers._wrapper import iter_leaf_providers
from .providers.clock import Clock, SystemClock
from .providers.provider import check_settings
from .race import RaceResult, racing
from .records.attachments import ATTACH_ABOVE
from .records.event_redaction import Redact
from .run import Around, Run, Subscriber, deliver
from .session import Session
from .tasks import Task
from .tools import finish_task
from .tools.tool import Tool, Toolbox
from .tools.user_functions import check_functions
from .validation import (
    as_tuple,
    check_budget,
    check_kept,
    check_measurable,
    check_parts,
    check_plain,
    check_size,
    check_system,
    check_together,
    check_tools,
)


class Engine:
    """Runs agents. Safe for many runs at once in one event loop.

    provider: where responses come from.
    tools: what the model may call. `presets` are added to them, but for a completion tool where `tools` bring one.
    policy: when a run goes on, pauses and stops.
    system: the system prompt; None for the general one, "" for none.
    subscribers: called with each event and its run, from a task of their own; see `subscriber.py`.
    on_completed: called with the outcome of each run that completed.
    rules: a user's own rules and guards, for the names in the policy that are not ours.
    gates: asked in order whether a completion is good; see `hooks.py`.
    text_rule: the user's own rule on whether a response ends the run.
    judge: asked after each round that would go on whether the task is complete.
    evaluate: whether the work was good; asked at the end of every run but failed, cancelled and paused ones.
    intents: handlers that may answer or prepare a prompt before the model is asked; see `intents.py`.
    prices: what models cost, where the provider does not say; None for list prices, see `providers/prices.py`.
    budget: what its runs may use together with those of other engines; see `budget.py`.
    recalled: in a replay, what all of these said then.
    decide: what is asked after each step; the built-in one unless you bring your own.
    execute: runs a call; the place to run tools elsewhere, or to answer them from a record.
    tool_choice: passed to the provider: `auto`, `required` or `none`.
    settings: passed to the provider with each request (`temperature`, `max_tokens`, ...).
    finish_words: what finish words mean that the table does not know, as `{"done": "stop"}`; for every provider.
    redact: applied to each text of a user, a model or a tool that goes into a record; see `records/redaction.py`.
    attach_above: bytes from which on a text or a picture lies beside the record, in a file of its own; None: never.
    buffer: events that each run keeps for its readers, 1 or more.
    around: entered around each run, in the run's own task; see `around.py`.

    Raises WrongUse if two tools have one name, the policy cannot work with what is offered, or a limit on cost could
    never be measured. As an async context manager it keeps the provider's connections open between runs.
    """

    def __init__(
        self,
        provider: Provider,
        *,
        tools: Sequence[Tool] = (),
        policy: Policy = Policy(),  # noqa: B008  frozen
        system: str | None = None,
        presets: Sequence[Tool] = (finish_task,),
        subscribers: Sequence[Subscriber] = (),
        on_completed: Callable[[Outcome], Awaitable[None] | None] | None = None,
        rules: Sequence[Rule] = (),
        gates: Sequence[Gate] = (),
        text_rule: TextRule | None = None,
        judge: Judge | None = None,
        evaluate: Evaluator | None = None,
        intents: Sequence[Handler] = (),
        prices: Prices | None = None,
        budget: Budget | None = None,
        recalled: Recalled | None = None,
        decide: Decide | None = None,
        execute: Execute = execute_here,
        tool_choice: ToolChoice = "auto",
        settings: Mapping[str, Any] | None = None,
        finish_words: Mapping[str, FinishReason] | None = None,
        redact: Redact | None = None,
        attach_above: int | None = ATTACH_ABOVE,
        clock: Clock | None = None,
        buffer: int = KEPT,
        around: Sequence[Around] = (),
    ) -> None:
        check_plain(provider, policy, tool_choice, buffer)
        check_size("attach_above", attach_above)
        check_system(system)
        check_parts(prices, clock, rules)
        if recalled is None:
            check_tools("tools", tools)
            check_tools("presets", presets)
            settings = check_settings(settings)
        own = Toolbox(tools)
        extra = [preset for preset in presets if not (preset.kind == "completion" and own.can_complete)]
        self.provider = provider
        self.policy = policy
        self.toolbox = Toolbox([*tools, *extra]).under(policy)
        self.system = system_prompt(self.toolbox.can_complete) if system is None else system
        self.decide: Decide = decide or partial(built_in_decide, user_rules=tuple(rules))
        self.look_ahead: Decide = decide or partial(built_in_decide, user_rules=tuple(rules), traced=False)
        """The same for those who only look ahead: what they hear is not recorded, and needs no trace."""
        self.execute = execute
        self.gates: tuple[Gate, ...] = as_tuple("gates", gates)
        self.text_rule = text_rule
        self.judge = judge
        self.evaluate = evaluate
        self.intents: tuple[Handler, ...] = as_tuple("intents", intents)
        self.prices = Prices() if prices is None else prices
        self.budget = budget
        self.recalled = recalled
        self.tool_choice: ToolChoice = tool_choice
        self.settings = dict(settings or {})
        self.finish_words = check_finish_words(finish_words)
        self.redact = redact
        self.attach_above = attach_above
        self.clock: Clock = clock or SystemClock()
        self.buffer = buffer
        self.around: tuple[Around, ...] = as_tuple("around", around)
        self._subscribers: list[Subscriber] = list(as_tuple("subscribers", subscribers))
        check_functions(
            gates=self.gates,
            text_rule=text_rule,
            judge=judge,
            evaluate=evaluate,
            intents=self.intents,
            subscribers=tuple(self._subscribers),
            on_completed=on_completed,
            redact=redact,
            around=self.around,
        )
        check_together(policy, judge, self.toolbox.specs, tool_choice)
        check_budget(policy, budget)
        if recalled is None:
            check_measurable(policy, budget, provider, self.known_prices)
        if on_completed is not None:
            self._subscribers.append(_when_completed(on_completed))
        self.decide(Facts(), policy)  # a policy that names unknown rules fails here, not in a run

    async def __aenter__(self) -> Engine:
        self._open = AsyncExitStack()
        await self._open.enter_async_context(self.opened())
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._open.aclose()

    @property
    def functions(self) -> dict[str, tuple[str, ...]]:
        """The user functions that have a say in a run, by role and qualified name, as records hold them."""
        one = {"text_rule": self.text_rule, "judge": self.judge, "evaluator": self.evaluate, "redaction": self.redact}
        many = {"gate": self.gates, "handler": self.intents}
        all_of = {**many, **{role: (function,) for role, function in one.items() if function is not None}}
        return {role: tuple(map(qualified, functions)) for role, functions in all_of.items() if functions}

    def known_prices(self) -> dict[str, Price]:
        """The prices of the provider's models, by their names, as far as they are known."""
        known = {provider.model: self.prices.of(provider) for provider in iter_leaf_providers(self.provider)}
        return {model: price for model, price in known.items() if price is not None}

    def session(
        self,
        session_id: str | None = None,
        *,
        busy: Literal["refuse", "queue"] = "refuse",
        record: Kept = None,
        drain: bool = False,
    ) -> Session:
        """A new conversation.

        record: a file to write its events to, in JSON Lines, which is appended to; or a journal, see `journal.py`.
        drain: read the rest of responses that were cut into the record, so that it shows what the cut saved.
        """
        if busy not in ("refuse", "queue"):
            raise WrongUse(f"busy is {busy!r}{did_you_mean(str(busy), ('refuse', 'queue'))}")
        if session_id is not None and not isinstance(session_id, str):
            raise WrongUse(f"session_id is {session_id!r}: write a text, or leave it out")
        check_kept(record)
        return Session(self, session_id or f"session_{uuid4().hex[:12]}", busy=busy, record=record, drain=drain)

    def start(self, prompt: str, *, record: str | os.PathLike[str] | None = None, drain: bool = False) -> Run:
        """A run in a session of its own. Enter it with `async with` and read its events."""
        return self.session(record=record, drain=drain).start(prompt)

    async def run(self, prompt: str, *, record: str | os.PathLike[str] | None = None, drain: bool = False) -> Outcome:
        """Run to the outcome. If the caller is cancelled, so is the run."""
        async with self.start(prompt, record=record, drain=drain) as run:
            return await run.wait()

    def run_many(
        self,
        tasks: Iterable[str | Task],
        *,
        providers: Provider | Sequence[Provider] | None = None,
        limit: int = 10,
        record: str | os.PathLike[str] | None = None,
        keep: bool = True,
    ) -> Fleet:
        """Many runs, `limit` at once. Enter it with `async with` and read its results as they finish.

        providers: they take turns; the engine's own if left out. A task may bring one of its own.
        record: a folder; each run gets a record in it under a name of its own.
        keep: whether the outcomes are kept, for `outcomes`; False only hands results on, however many there are.
        """
        return fleet_of(self, tasks, providers, limit, record, keep)

    async def race(
        self,
        prompt: str,
        providers: Sequence[Provider],
        *,
        compare: bool = False,
        record: str | os.PathLike[str] | None = None,
    ) -> RaceResult:
        """Run this prompt with each provider at once; the first good completion wins and ends the others.

        compare: let all of them run to their end.
        record: a folder for a record of each.
        """
        return await racing(self, prompt, providers, compare, record).result()

    def using(self, provider: Provider, *, evaluate: Evaluator | None = None) -> Engine:
        """An engine like this one with another provider, and another evaluator if one is given."""
        check_plain(provider, self.policy, self.tool_choice, self.buffer)
        check_functions(evaluate=evaluate)
        other = copy(self)
        other.provider, other.evaluate = provider, evaluate or self.evaluate
        return other

    def within(self, *around: Around) -> Engine:
        """An engine like this one whose runs go on within these, too; see `around.py`."""
        check_functions(around=around)
        other = copy(self)
        other.around = (*self.around, *around)
        return other

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Hold the provider's connections open."""
        if isinstance(self.provider, AbstractAsyncContextManager):
            async with held_open(self.provider, self.provider.model):
                yield
        else:
            yield

    @asynccontextmanager
    async def watched(self, run: Run) -> AsyncIterator[None]:
        """Let the subscribers follow a run; they get a moment to catch up at its end, and no more."""
        tasks = [asyncio.create_task(deliver(subscriber, run)) for subscriber in self._subscribers]
        try:
            yield
        finally:
            if tasks:
                await _let_catch_up(tasks)


CATCH_UP_SECONDS = 1.0
"""How long the end of a run waits for its subscribers."""


async def _let_catch_up(tasks: Sequence[asyncio.Task[None]]) -> None:
    try:
        await asyncio.wait(tasks, timeout=CATCH_UP_SECONDS)
    finally:
        for task in tasks:
            task.cancel()


def _when_completed(callback: Callable[[Outcome], Awaitable[None] | None]) -> Subscriber:
    def on_event(event: Event | Lagged, run: Run) -> Awaitable[None] | None:
        if isinstance(event, RunFinished) and event.outcome.status == "completed":
            return callback(event.outcome)
        return None

    return on_event

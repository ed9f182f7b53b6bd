"""`Context`: the state that the parts of one run share, from the loop down to a single call.

It includes the inbox: messages that the user sends during a run are delivered before the next request, never in the
middle of a step. A run ends when its work is done, even if a message has just arrived; messages that were not
delivered by then are in `Run.undelivered`, for the session's next run.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from .base.ids import new_message_id
from .budget import Budget, BudgetShare
from .cancel_scope import Cause, RoundScope
from .decision import Image, Policy, Price, Transcript, Usage
from .decision.cost import with_cost
from .decision.events import CutOff, MessageAdded
from .decision.transcript import estimate_tokens
from .effects import Effects
from .event_log import Log
from .hard_limits import HardLimits
from .hooks import SystemPrompt
from .option_groups import Decide, Execute, Hooks, ModelOptions
from .option_groups import execute_here as execute_here
from .providers import Prices, Provider
from .providers._logging import log_warning
from .providers.clock import Clock
from .records.format import Redact
from .tools.results import reports_completion
from .tools.run_context import RunContext
from .tools.tool import Tool, Toolbox
from .user_message import Prompt, user_message

if TYPE_CHECKING:
    from .tools.output import OutputType
    from .until_background import BackgroundCheck


async def nothing_to_flush() -> None:
    """Do nothing. The `flush` of a run without a record."""


@dataclass(slots=True)
class Subagents:
    """The sub-agents of a run."""

    runs: dict[str, Any] = field(default_factory=dict)
    """Runs of the sub-agents so far in this process, by id; shown by `Run.children`."""
    waiting: dict[str, Any] = field(default_factory=dict)
    """Sessions of sub-agents that wait for the user's answers, by id."""
    records: Any = None
    """Where the sessions of sub-agents are kept (`SubagentRecords`); None: next to the record of the run."""


@dataclass(slots=True, kw_only=True)
class Context:
    """State that the parts of one run share."""

    log: Log
    transcript: Transcript
    provider: Provider
    toolbox: Toolbox
    policy: Policy
    decide: Decide
    decide_untraced: Decide
    """`decide` without a trace, for decisions that the loop only predicts and does not record."""
    hooks: Hooks
    model_options: ModelOptions
    effects: Effects
    """Does everything that is not computed (`effects.py`)."""
    limits: HardLimits
    """Enforces the run's limits on time, tokens and cost within a step."""
    execute: Execute = execute_here
    clock: Clock
    taken_ids: set[str]
    """The call ids used so far in the session."""
    memo: dict[Any, Any]
    """Data that providers keep between the requests of a session, such as messages that are already encoded."""
    price_list: Prices = field(default_factory=Prices)
    """Prices of all known models, for requests that are not part of a step (a judge, a summary)."""
    prices: Mapping[str, Price] = field(default_factory=dict)
    """Prices of the run's own models, as in its first event."""
    share: BudgetShare | None = None
    """The run's part in a budget that it shares with other runs; None without a budget."""
    budget: Budget | None = None
    """The whole shared budget, for the run's sub-agents; None without a budget."""
    redact: Redact | None = None
    """Redacts the texts in the records of the run and of its sub-agents; None: no redaction."""
    replays: bool = False
    """Whether the run is a replay of a record."""
    drain: bool = False
    """Whether the rest of cut responses is read, to record what the cuts saved. Also applies to sub-agents."""
    subagents: Subagents = field(default_factory=Subagents)
    resumable: bool = False
    """Whether the run stops without an end when its provider is away, so that it can be resumed."""
    deps: Any = None
    """The dependencies of the run, which the user's functions get as `RunContext.deps`."""
    owner: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    check: BackgroundCheck | None = None
    """Runs the check that says when the work is done (`until`); None without one."""
    output: OutputType | None = None
    """The type of the output, for gates and in the outcome; None: the output is the answer's text."""
    system_prompt: SystemPrompt | None = None
    prompt: str | None = None
    started_at: str
    """Start of the run, ISO 8601; for a resumed run, its first start."""
    record_path: str | None = None
    flush: Callable[[], Awaitable[None]] = nothing_to_flush
    """Awaited before every side effect: stores all events so far, so that they survive the death of this process."""
    cut_off: Mapping[int, CutOff] = field(default_factory=dict)
    """By step number: a summary of what the provider sent after its response was cut, if that was read."""
    inbox: deque[QueuedMessage]
    """Messages of the user that are not in the transcript yet."""
    scope: RoundScope | None = None
    cancelled: Cause | None = None
    shutdown: asyncio.CancelledError | None = None
    """The cancellation of the run's own task, if there was one; raised again once the run has its outcome."""
    redacted_calls: Collection[str] = ()
    """Ids of calls that wait for approval and whose arguments are known only in redacted form."""
    left_behind: set[str] = field(default_factory=set)
    """Ids of the calls whose functions kept running after they were cancelled and are no longer awaited."""
    warned_of: set[str] = field(default_factory=set)
    """Names of the tools for which the log already has a warning that their kind is missing."""

    def __post_init__(self) -> None:
        self.log.on_caught_up = self._cancel_scope

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.log.facts.run_id

    def run_context(self, call_id: str = "", *, again: bool = False) -> RunContext:
        """Return the run as the user's functions see it. again: whether the call was running in a process that died."""
        facts = self.log.facts
        return RunContext(
            facts.session_id,
            facts.run_id,
            facts.steps,
            call_id,
            again,
            deps=self.deps,
            owner=self.owner,
            metadata=self.metadata,
        )

    def tokens_now(self) -> int:
        """Return the tokens of the context: the provider's last count and an estimate of what came after it."""
        tokens, characters = self.transcript.last_count
        since = self.transcript.characters - characters
        return tokens + estimate_tokens(max(0, since if tokens else since + self.toolbox.characters))

    def warn_of_missing_kind(self, tool: Tool, value: Any) -> None:
        """Log, once per run, that a result of a tool without a kind says that the task is complete."""
        if tool.name in self.warned_of or not (field := reports_completion(value)):
            return
        self.warned_of.add(tool.name)
        log_warning(
            f"tool {tool.name!r} has no kind, so its result does not end the run, though it says that the task is "
            f"complete ({field}): {tool.kind_advice}",
            run_id=self.run_id,
        )

    def priced(self, usage: Usage, model: str) -> Usage:
        """Return the usage with its cost, computed from a known price if the provider did not report it."""
        return with_cost(usage, self.prices.get(model))

    @contextmanager
    def cancellable(self) -> Iterator[RoundScope]:
        """Open a new shared cancel scope, which `cancel` ends.

        A cancellation of the run's own task, for example at the end of the event loop, also ends the scope. It is held
        back until the run has its outcome, and then raised.
        """
        scope = self.scope = RoundScope()
        self._cancel_scope()
        try:
            with scope.shared:
                yield scope
        except asyncio.CancelledError as error:
            self.shut_down(error)
        finally:
            self.scope = None
        if scope.error is not None:
            raise scope.error

    def shut_down(self, error: asyncio.CancelledError) -> None:
        """Cancel the run because its own task was cancelled; `error` is raised once the run has its outcome."""
        self.shutdown = self.shutdown or error
        self.cancel("shutdown")

    def cancel(self, cause: str) -> None:
        """Cancel everything in flight for an external cause. Only the first call counts."""
        if self.cancelled is None:
            self.cancelled = Cause("caller", cause)
            self._cancel_scope()

    def _cancel_scope(self) -> None:
        """Cancel what is in flight if the run is cancelled. A resumed run first catches up with its record."""
        if self.cancelled is not None and self.scope is not None and not self.log.catching_up:
            self.scope.cancel(self.cancelled)


class QueuedMessage(Struct, frozen=True):
    """Message of the user that waits to be delivered."""

    id: str
    text: str
    images: tuple[Image, ...] = ()


def new_message(said: Prompt, id: str | None = None) -> QueuedMessage:
    """Return a message, with a new id if none is given. Raises WrongUse if `said` is not valid (`user_message.py`)."""
    message = user_message(said, "message")
    return QueuedMessage(id or new_message_id(), message.text, message.images)


def deliver_messages(context: Context) -> None:
    """Add the user's waiting messages to the transcript, except before a step that is already recorded."""
    while context.inbox and not context.log.catching_up:
        message = context.inbox.popleft()
        context.log.append(MessageAdded(text=message.text, origin="user", message_id=message.id, images=message.images))

"""What the parts of one run share. Made by the run, handed down to loop, step and calls."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar
from uuid import uuid4

import anyio
from anyio.lowlevel import checkpoint_if_cancelled
from msgspec import Struct

from ._logging import log_warning
from .budget import BudgetShare
from .decision import Decision, Event, Facts, FinishReason, Message, Policy, Price, ToolCall, Transcript, Usage
from .decision.cost import with_cost
from .decision.events import CutOff, MessageAdded, StageFinished
from .decision.transcript import estimate_tokens
from .durability import StepKey, Steps
from .event_log import Log
from .hard_limits import HardLimits
from .hooks import Gate, Judge, ReplaySource, TextRule
from .providers import Prices, Provider, ToolChoice
from .providers._wrapper import wait_shielded
from .providers.clock import Clock
from .resume_point import PartialStep, ResumePoint
from .tools.tool import Tool, Toolbox
from .validation import check_prompt

E = TypeVar("E", bound=Event)

Decide = Callable[[Facts, Policy], Decision]

Execute = Callable[[ToolCall, Tool, Mapping[str, Any]], Coroutine[Any, Any, Any]]
"""Runs one call of a tool with its parsed arguments and gives what the function returned."""


async def nothing_to_flush() -> None:
    """Where no record is kept."""


async def execute_here(call: ToolCall, tool: Tool, arguments: Mapping[str, Any]) -> Any:
    """Run the tool's own function, in this process."""
    return await tool.run(arguments)


@dataclass(slots=True, kw_only=True)
class Context:
    """One run's parts."""

    log: Log
    transcript: Transcript
    provider: Provider
    toolbox: Toolbox
    policy: Policy
    decide: Decide
    look_ahead: Decide
    """Decides the same, without a trace: for all but what is recorded."""
    execute: Execute = execute_here
    clock: Clock
    taken_ids: set[str]
    """Call ids used so far in the session."""
    memo: dict[Any, Any]
    """The providers' own notes on the session."""
    price_list: Prices = field(default_factory=Prices)
    """What any model costs; for those that are asked beside the run's own."""
    prices: Mapping[str, Price] = field(default_factory=dict)
    """What the run's own model costs, as its first event holds it."""
    share: BudgetShare | None = None
    """The run's part in a budget that it shares with others."""
    gates: Sequence[Gate] = ()
    text_rule: TextRule | None = None
    judge: Judge | None = None
    replay: ReplaySource | None = None
    """In a replay: what a function that is not ours said then."""
    prompt: str | None = None
    started_at: str = ""
    record_path: str | None = None
    interrupted: ResumePoint | None = None
    """Where the run stood when its process was killed; None once it has been taken up."""
    skip_next_step: bool = False
    """A handler asked for no next-step prompt in this run."""
    ephemeral: list[Message] = field(default_factory=list)
    """Shown with the next request, and never again."""
    tool_choice: ToolChoice = "auto"
    settings: Mapping[str, Any] = field(default_factory=dict)
    finish_words: Mapping[str, FinishReason] = field(default_factory=dict)
    """What words of the provider's mean, beside those of the table."""
    flush: Callable[[], Awaitable[None]] = nothing_to_flush
    """Hands all events so far to where they outlive this process; called before every side effect."""
    steps: Steps | None = None
    """A durable engine that keeps what responses and calls gave; None: only the record does."""
    cut_off: Mapping[int, CutOff] = field(default_factory=dict)
    """By step: what came after the cut of its response, once that is read."""
    inbox: deque[Said] = field(default_factory=deque)
    """What the user has said that no request has held yet."""
    scope: RoundScope | None = None
    cancelled: Cause | None = None
    shutdown: asyncio.CancelledError | None = None
    """The cancellation of the run's own task, if somebody did that: it is passed on once the run has its outcome."""
    left_behind: set[str] = field(default_factory=set)
    """The calls whose functions went on after they were cancelled, by id."""

    limits: HardLimits = field(init=False)
    """What is left of the hard limits inside a step."""

    def __post_init__(self) -> None:
        self.limits = HardLimits(self.log, self.policy, self.clock, self.replay)

    @property
    def run_id(self) -> str:
        """The run's name."""
        return self.log.facts.run_id

    def before_kill(self, kind: type[E], **fields: object) -> E | None:
        """What the process that was killed had recorded of this, if the run goes on from there; claimed once."""
        return None if self.interrupted is None else self.interrupted.take_recorded(kind, **fields)

    @property
    def halfway(self) -> PartialStep | None:
        """The step that was under way when the process was killed, if its response had come whole."""
        killed = self.interrupted
        if killed is None or killed.partial_step is None or killed.partial_step.response is None or not killed.in_round:
            return None
        return killed.partial_step

    def began_before(self, call_id: str) -> bool:
        """Whether this call had begun in a process that was killed."""
        killed = self.interrupted
        return killed is not None and killed.partial_step is not None and call_id in killed.partial_step.started_calls

    def altered(self, call: ToolCall) -> bool:
        """Whether only the redacted record of a killed process still knows what this call was to do."""
        halfway, killed = self.halfway, self.interrupted
        if halfway is None or killed is None or halfway.response is None or not killed.redaction:
            return False
        return call in halfway.response.message.calls and killed.may_be_redacted(call.arguments)

    def step_key(self, call_id: str = "") -> StepKey:
        """Which durable step the response of the step under way is, or one of its calls."""
        facts = self.log.facts
        return StepKey(facts.session_id, facts.run_id, facts.steps + facts.closing, call_id)

    def tokens_now(self) -> int:
        """The tokens of the context: what the provider counted last, and a rough count of what has come since."""
        tokens, characters = self.transcript.last_count
        since = self.transcript.characters - characters
        return tokens + estimate_tokens(max(0, since if tokens else since + self.toolbox.characters))

    def priced(self, usage: Usage, model: str) -> Usage:
        """The usage of one attempt with its cost, where the provider named none and a price is known."""
        return with_cost(usage, self.prices.get(model))

    def stage(self, finished: StageFinished) -> None:
        """Record the end of a stage, once: not again where a run goes on that was killed after it."""
        if self.before_kill(StageFinished, stage=finished.stage) is None:
            self.log.append(finished)

    @contextmanager
    def cancellable(self) -> Iterator[RoundScope]:
        """A fresh shared scope for what is in flight; a cancel from outside ends it.

        So does a cancellation of the run's own task, as the end of the event loop is one: it ends here like any other,
        so that the run comes to its outcome, and is passed on after that.
        """
        scope = self.scope = RoundScope()
        if self.cancelled is not None:
            scope.cancel(self.cancelled)
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
        """The run's own task was cancelled: nothing more is begun."""
        self.shutdown = self.shutdown or error
        self.cancel("shutdown")

    def cancel(self, cause: str) -> None:
        """End everything in flight, for a reason from outside. Only the first call counts."""
        if self.cancelled is None:
            self.cancelled = Cause("caller", cause)
            if self.scope is not None:
                self.scope.cancel(self.cancelled)


# The shared cancel scope of a round, what is in flight inside it, and who cancelled it.
#
# There is one scope a round, and it is around all that the round does: the inner loop itself, which waits inside it,
# and what the inner loop has begun and not waited for yet (the stream, reading calls). An accepted completion cancels
# it from inside, the caller (disconnect, timeout, shutdown) from outside; the first cause to fire is the one that is
# recorded. Whoever leaves the scope calls `end`, which gives up whatever is still in flight.
#
# The stream has no scope of its own: a completion call makes its reader *leave* the stream's context, which closes
# the connection (decision note 5). What is still being closed when the completion is accepted is in flight like all
# else.

SETTLING_SECONDS = 2.0
"""How long a step waits for what the step before it has left in flight: a stream that is still being closed."""
CLOSING_SECONDS = 0.1
"""How long the end of a round waits for streams that are being closed, before it cancels that."""
ENDING_SECONDS = 0.6
"""How long what was cancelled may take to end, before it is left behind."""


class Cause(Struct, frozen=True):
    """Why a round was cancelled: the call id of an accepted completion, or the caller's word."""

    by: Literal["completion", "caller"]
    detail: str


class RoundScope:
    """The shared scope of one round."""

    def __init__(self) -> None:
        self.shared = anyio.CancelScope()
        self.cause: Cause | None = None
        self.error: BaseException | None = None
        """What something in flight has raised; it ends the round."""
        self._in_flight: set[asyncio.Task[Any]] = set()
        self._slow: set[asyncio.Task[Any]] = set()

    def cancel(self, cause: Cause) -> None:
        """End everything in flight. Only the first cause is kept."""
        if self.cause is None:
            self.cause = cause
        self.shared.cancel()

    async def checkpoint(self) -> None:
        """Go no further if the scope is cancelled. Gives way to nobody if it is not."""
        if self.shared.cancel_called:
            await checkpoint_if_cancelled()

    @property
    def cut_by(self) -> str | None:
        """The accepted completion that ended the round, if one did."""
        if self.cause is None or not self.shared.cancel_called:
            return None
        return self.cause.detail if self.cause.by == "completion" else None

    def start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Begin something that is in flight until it ends, or until the round does. What it raises ends the round."""
        task = asyncio.create_task(work, name=name)
        self._in_flight.add(task)
        task.add_done_callback(self._ended)
        return task

    async def settled(self) -> None:
        """Wait a while until nothing is in flight: a connection that is free again serves the next request."""
        waited_for = self._in_flight - self._slow
        if waited_for:
            await asyncio.wait(waited_for, timeout=SETTLING_SECONDS)
            self._slow = set(self._in_flight)  # nothing waits for these again

    async def end(self) -> None:
        """Give up what is still in flight. What does not end in time is left behind, and named in the log."""
        if self._in_flight and not self.shared.cancel_called and self.error is None:
            await asyncio.wait(self._in_flight, timeout=CLOSING_SECONDS)
        tasks = list(self._in_flight)
        for task in tasks:
            task.cancel()
        try:
            if tasks:
                await wait_shielded(asyncio.ensure_future(asyncio.wait(tasks)), ENDING_SECONDS)
        finally:
            for task in tasks:
                if not task.done():
                    log_warning("it does not end although it was cancelled, and is left behind", task=task.get_name())

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._in_flight.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.error = self.error or error
            self.shared.cancel()


# What a user says while a run is going. It is heard before the next request, never in the middle of a step.
#
# A run ends when the work is done, whoever has just said something: what it has not heard by then is in
# `Run.unheard`, for the session's next run.


class Said(Struct, frozen=True):
    """One message of the user."""

    id: str
    text: str


def said(text: str, id: str | None = None) -> Said:
    """A message with an id of its own. Raises WrongUse if there is nothing in it."""
    check_prompt(text, "message")
    return Said(id or f"message_{uuid4().hex[:12]}", text)


def hear(context: Context) -> None:
    """Add what the user has said meanwhile to the transcript; in a replay, what was heard before this step."""
    if context.replay is not None:
        for added in context.replay.heard(context.log.facts.steps + 1):
            context.log.append(added)
        return
    while context.inbox:
        message = context.inbox.popleft()
        context.log.append(MessageAdded(text=message.text, origin="user", message_id=message.id))

"""One run: a task of its own, and the handle that a user holds.

    async with engine.start("Set the port to 8080") as run:
        async for event in run:
            ...
    print(run.outcome.stop_reason)

The run's task owns everything that waits: scopes, task groups, connections, context variables. The user's side only
reads numbers from a bus, so it may stall, raise or leave without harm. Leaving the block ends a run that is still
going; a cancellation of the user's task ends it too and is passed on once the run has tidied up.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from inspect import isawaitable
from typing import Any
from uuid import uuid4

from ._logging import log_warning
from .context import Context, Said, said
from .decision import Event, Facts, Outcome, Stop, WrongUse, build_outcome
from .decision.errors import error_text
from .decision.events import DecisionMade, RunFinished
from .durability import RunLost
from .evaluation import Evaluator, run_evaluation
from .event_bus import Bus, Lagged
from .hook_runner import ask_handlers
from .hooks import PromptHandler
from .loop import run_rounds
from .providers._wrapper import wait_shielded

TIDY_SECONDS = 10.0
"""How long a run that was cancelled may take to tidy up before it is left behind."""


def new_run_id() -> str:
    """A name that no other run has."""
    return f"run_{uuid4().hex[:12]}"


class Run:
    """The handle of one run. Made by `Engine.start` and `Session.start`; entering it starts the run."""

    def __init__(self, run_id: str, session_id: str, bus: Bus, body: Callable[[Run], Awaitable[None]]) -> None:
        self.id = run_id
        self.session_id = session_id
        self.bus = bus
        self.context: Context | None = None
        """The run's parts, once it has started."""
        self._body = body
        self._outcome: Outcome | None = None
        self._lost: RunLost | None = None
        self._task: asyncio.Task[None] | None = None
        self._started: asyncio.Future[None] | None = None
        self._cancel_early: str | None = None
        self._prompt_handlers: tuple[PromptHandler, ...] = ()
        self._evaluate: Evaluator | None = None
        self._inbox: deque[Said] = deque()

    @property
    def outcome(self) -> Outcome:
        """The outcome. Raises WrongUse while the run is still going, RunLost if another process has it now."""
        if self._lost is not None:
            raise self._lost
        if self._outcome is None:
            raise WrongUse(f"run {self.id} is not finished: `await run.wait()`, or read its events to the end")
        return self._outcome

    @property
    def finished(self) -> bool:
        """Whether the outcome is there."""
        return self._outcome is not None

    @property
    def begun(self) -> bool:
        """Whether it has begun, and so has something to tidy up."""
        return self.context is not None

    @property
    def facts(self) -> Facts:
        """What is known now."""
        return self.context.log.facts if self.context is not None else Facts()

    async def __aenter__(self) -> Run:
        if self._task is not None:
            raise WrongUse(f"run {self.id} was started before: a run happens once")
        self._started = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._main(), name=f"endstop run {self.id}")
        try:
            await asyncio.shield(self._started)
        except BaseException:
            await self._leave()
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *more: object) -> None:
        await self._leave()
        if self._lost is not None and kind is None:
            raise self._lost

    def __aiter__(self) -> AsyncIterator[Event | Lagged]:
        return self.events()

    def events(self, after: int = 0) -> AsyncIterator[Event | Lagged]:
        """The run's events after number `after`, up to the terminal one, or to where another process took the run.

        Raises WrongUse if nobody has entered the run: it has not begun, and would never say anything.
        """
        self._entered("read its events")
        return self.bus.read(after)

    def cancel(self, cause: str = "caller") -> None:
        """End the run; its outcome will say `cancelled`. A run that has finished stays as it is."""
        if self.context is not None:
            self.context.cancel(cause)
        else:
            self._cancel_early = self._cancel_early or cause

    def say(self, text: str, *, id: str | None = None) -> str:
        """Say something to the run while it is going; gives the message's id.

        It is heard before the next request. Raises WrongUse if the run has finished, or the text is empty.
        """
        message = said(text, id)
        if self._outcome is not None:
            raise WrongUse(f"run {self.id} has finished: start another one in its session")
        self._inbox.append(message)
        return message.id

    @property
    def unheard(self) -> tuple[Said, ...]:
        """What was said and not heard (yet): the run went on to its end before another request."""
        return tuple(self._inbox)

    async def wait(self) -> Outcome:
        """Wait for the outcome. If the waiting task is cancelled, the run is, too.

        Raises RunLost if another process has the run now: nothing more was written of it here. Raises WrongUse if
        nobody has entered the run.
        """
        task = self._entered("wait for it")
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            await self._leave()
            raise
        return self.outcome

    def _entered(self, to: str) -> asyncio.Task[None]:
        if self._task is None:
            raise WrongUse(
                f"run {self.id} has not begun: enter it, and {to} inside:\n"
                "    async with engine.start(prompt) as run:\n"
                "        async for event in run: ...   # or: outcome = await run.wait()\n"
                "or, for the outcome alone: outcome = await engine.run(prompt)"
            )
        return self._task

    def _attached(self) -> Context:
        if self.context is None:
            raise WrongUse(f"run {self.id} has no parts yet: its session gives them to it when it begins")
        return self.context

    def attach(self, context: Context, prompt_handlers: Sequence[PromptHandler], evaluate: Evaluator | None) -> None:
        """Give the run its parts; called by its session, in the run's own task."""
        self.context = context
        self._prompt_handlers = tuple(prompt_handlers)
        self._evaluate = evaluate
        context.inbox = self._inbox
        if self._cancel_early is not None:
            context.cancel(self._cancel_early)

    def ready(self) -> None:
        """Tell who entered the run that it has begun."""
        if self._started is not None and not self._started.done():
            self._started.set_result(None)

    async def drive(self) -> None:
        """Run to the outcome and write the terminal event, whatever happens.

        A cancellation of the run's own task (the event loop shuts down, or somebody did that) ends it as `run.cancel`
        does, and is passed on after that.
        """
        context = self._attached()
        try:
            await ask_handlers(context, self._prompt_handlers)
            outcome = await run_rounds(context)
            outcome = await run_evaluation(context, self._evaluate, outcome)
        except BaseException as error:
            if _lost_in(error) is None:
                await self._finish(_crashed(context, error))
            raise
        else:
            await self._finish(outcome)
        if context.shutdown is not None:
            raise context.shutdown

    async def _finish(self, outcome: Outcome) -> None:
        context = self._attached()
        self._outcome = outcome
        context.log.append(RunFinished(outcome=outcome))
        try:
            await context.flush()
        except OSError as error:
            if context.record_path is None:
                raise
            log_warning(
                "the record ends before the end of its run",
                record=context.record_path,
                run_id=self.id,
                error=error_text(error),
            )

    async def _main(self) -> None:
        try:
            await self._body(self)
        except BaseException as error:
            self._lost = _lost_in(error)
            if self._lost is not None:
                self._outcome = None  # if there is one, it could not be stored
                self.bus.close()
            if self._started is not None and not self._started.done():
                if isinstance(error, asyncio.CancelledError):
                    self._started.cancel()
                else:
                    self._started.set_exception(error)
                return
            if self._lost is not None:
                return  # told to whoever waits, asks for the outcome or leaves
            if isinstance(error, Exception) and self._outcome is not None:
                return  # told as the outcome `internal_error`
            raise

    async def _leave(self) -> None:
        task = self._task
        if task is None or task.done():
            return
        if self.context is None:
            task.cancel()  # it has not begun (it waits for its turn, or for the provider): nothing to tidy up
        self.cancel("caller")
        await wait_shielded(task, TIDY_SECONDS)


def _lost_in(error: BaseException) -> RunLost | None:
    """The RunLost that this is, or that is among what several tasks have raised at once."""
    if isinstance(error, RunLost):
        return error
    if isinstance(error, BaseExceptionGroup):
        return next((lost for one in error.exceptions if (lost := _lost_in(one)) is not None), None)
    return None


def _crashed(context: Context, error: BaseException) -> Outcome:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    stop = Stop(rule="internal_error", reason="internal_error", detail=error_text(error))
    context.log.append(DecisionMade(round=context.log.facts.rounds, decision=stop))
    return build_outcome(context.log.facts, context.policy, stop)


# Subscribers: functions that are told every event, each in a task of its own, so that none can hurt a run.
#
#     def on_event(event: Event | Lagged, run: Run) -> None: ...      # or async
#
# A subscriber that raises is logged and gets the next event; one that is slow gets a `Lagged` where it missed events;
# one that never returns is left behind when the run ends.

Subscriber = Callable[[Any, "Run"], Awaitable[None] | None]
"""Takes an `Event` or `Lagged`, and the run it belongs to."""


CATCH_UP_SECONDS = 1.0
"""How long the end of a run waits for its subscribers."""


@asynccontextmanager
async def notify_subscribers(subscribers: Sequence[Subscriber], run: Run) -> AsyncIterator[None]:
    """Let the subscribers follow a run; they get a moment to catch up at its end, and no more."""
    tasks = [asyncio.create_task(deliver(subscriber, run)) for subscriber in subscribers]
    try:
        yield
    finally:
        if tasks:
            await _let_catch_up(tasks)


async def _let_catch_up(tasks: Sequence[asyncio.Task[None]]) -> None:
    try:
        await asyncio.wait(tasks, timeout=CATCH_UP_SECONDS)
    finally:
        for task in tasks:
            task.cancel()


async def deliver(subscriber: Subscriber, run: Run) -> None:
    """Tell a subscriber every event of a run."""
    async for event in run:
        try:
            told = subscriber(event, run)
            if told is not None and isawaitable(told):
                await told
        except Exception as error:
            _complain(subscriber, event, run, error)


def _complain(subscriber: Subscriber, event: Event | Lagged, run: Run, error: Exception) -> None:
    log_warning(
        "subscriber raised",
        subscriber=getattr(subscriber, "__qualname__", repr(subscriber)),
        event_type=type(event).__name__,
        run_id=run.id,
        error=error_text(error),
    )


# What goes on around a whole run, in the run's own task: tracing, a logging context, a transaction of yours.
#
#     @asynccontextmanager
#     async def tenant(run: Run) -> AsyncIterator[None]:
#         token = TENANT.set("a")          # seen by tools, provider, gates, evaluator and subscribers of this run
#         yield
#         TENANT.reset(token)
#
#     engine = Engine(provider, observers=Observers(middleware=[tenant]))
#
# One task enters and leaves it, so that a context variable or a span that it sets is the run's, and nobody else's.
# The run is attached when it is entered (`run.context` is there) and has its outcome when it is left. One that raises
# when it is entered keeps the run from beginning, and whoever starts the run gets the error.

Middleware = Callable[["Run"], AbstractAsyncContextManager[None]]


@asynccontextmanager
async def enter_middleware(each: Sequence[Middleware], run: Run) -> AsyncIterator[None]:
    """Enter all of them, the first outermost."""
    async with AsyncExitStack() as stack:
        for middleware in each:
            await stack.enter_async_context(middleware(run))
        yield

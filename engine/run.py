"""One run: a separate task, and the handle that a user holds.

    async with engine.start("Set the port to 8080") as run:
        async for event in run:
            ...
    print(run.outcome.stop_reason)

The run's task owns everything that waits: scopes, task groups, connections, context variables. The user's side only
reads from a bus, so it may stall, raise or leave without harm. Leaving the block ends a run that has not ended; a
cancellation of the user's task also ends it, and is passed on once the run has cleaned up.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic

from msgspec.structs import replace

from .context import Context, QueuedMessage, new_message
from .decision import Decision, Event, Facts, Outcome, Stop, ToolResult, WrongUse, build_outcome
from .decision.errors import error_text
from .decision.events import DecisionMade, RunFinished, SubagentStarted
from .decision.outcome import OUTPUT_TOOL, OutputT
from .decision.wrong_attributes import Refused
from .decision.wrong_calls import checked, explained
from .durability import ResumeRefused, RunLost
from .evaluation import Evaluator
from .event_bus import Bus, Lagged
from .hook_runner import SystemPromptFailed, run_evaluation, run_prompt_handlers
from .hooks import PromptHandler
from .loop import run_rounds
from .message_history import MessageFormat, messages_in
from .providers._logging import log_warning
from .providers._wrapper import wait_shielded
from .user_errors import log_failure
from .user_message import Prompt

TIDY_SECONDS = 10.0
"""Seconds that leaving `async with run` waits for a run to clean up before it cancels the task."""


@checked
class Run(Generic[OutputT]):
    """Handle of one run. Made by `Engine.start` and `Session.start`; entering it starts the run.

        async with engine.start(prompt) as run:
            async for event in run: ...  # or: async for piece in run.text()

    `wait()` returns the outcome, `outcome` is it after the end. `say(text)` sends a message to the run, `cancel()` ends
    it, `messages()` returns what was said. Its constructor is called by sessions:

    run_id: unique id of the run. session_id: that of its session.
    bus: where the run publishes its events.
    body: function that the run's task executes, called with this handle.
    """

    if not TYPE_CHECKING:  # type checkers refuse these uses themselves
        __await__ = Refused("Run", "await")
        __iter__ = Refused("Run", "for")
        __enter__ = __exit__ = Refused("Run", "with")
        __call__ = Refused("Run", "()")

    def __init__(self, run_id: str, session_id: str, bus: Bus, body: Callable[[Run[OutputT]], Awaitable[None]]) -> None:
        self.id = run_id
        self.session_id = session_id
        self.bus = bus
        self.context: Context | None = None
        """The state that the parts of the run share; None until the run has begun."""
        self._body = body
        self._outcome: Outcome[OutputT] | None = None
        self._lost: RunLost | ResumeRefused | None = None
        self._task: asyncio.Task[None] | None = None
        self._started: asyncio.Future[None] | None = None
        self._waiting: list[asyncio.Future[None]] = []
        """Done when the task ends. A callback of the task would wake up waiting tasks one loop turn later."""
        self._cancel_early: str | None = None
        self._prompt_handlers: tuple[PromptHandler, ...] = ()
        self._evaluate: Evaluator | None = None
        self.inbox: deque[QueuedMessage] = deque()
        """Messages of the user that are not in the transcript yet."""
        self.leave_cause = "caller"
        """The cause that is recorded if the task that waits for the run is cancelled, or leaves the run early."""

    @property
    def outcome(self) -> Outcome[OutputT]:
        """The outcome. Raises WrongUse while the run is still going, RunLost if another process has taken it over."""
        if self._lost is not None:
            raise self._lost
        if self._outcome is None:
            self._entered("wait for its outcome")
            raise WrongUse(f"run {self.id} is not finished: `await run.wait()`, or read its events to the end")
        return self._outcome

    @property
    def finished(self) -> bool:
        """Whether the run has its outcome."""
        return self._outcome is not None

    @property
    def begun(self) -> bool:
        """Whether the run has its context. Before that it only waits: for its turn or for its provider."""
        return self.context is not None

    @property
    def facts(self) -> Facts:
        """The facts after the run's latest event; empty facts if it has not begun."""
        return self.context.log.facts if self.context is not None else Facts()

    @property
    def children(self) -> Mapping[str, Run[Any]]:
        """The runs of its sub-agents so far, by id; each begins with the event SUBAGENT_STARTED of this run."""
        return self.context.subagents.runs if self.context is not None else {}

    async def __aenter__(self) -> Run[OutputT]:
        if self._task is not None:
            raise WrongUse(f"run {self.id} was started before: a run happens once")
        self._started = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._main(), name=f"endstop run {self.id}")
        self._task.add_done_callback(self._not_begun)
        try:
            await asyncio.shield(self._started)
        except BaseException:
            await self._leave()
            raise
        return self

    def _not_begun(self, task: asyncio.Task[None]) -> None:
        """Wake up the task that entered the run: a task cancelled before its first turn runs no code that would."""
        if self._started is not None and not self._started.done():
            self._started.cancel()
        self._wake()

    def _wake(self) -> None:
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)
        self._waiting.clear()

    async def __aexit__(self, kind: type[BaseException] | None, *more: object) -> None:
        await self._leave()
        if self._lost is not None and kind is None:
            raise self._lost

    def __aiter__(self) -> AsyncIterator[Event | Lagged]:
        return self.events()

    def events(self, after: int = 0) -> AsyncIterator[Event | Lagged]:
        """Yield the run's events after number `after`, up to the last one or until another process takes over the run.

        Raises WrongUse if nobody has entered the run: it has not begun, and would never publish an event.
        """
        self._entered("read its events")
        return self.bus.read(after)

    @explained
    def text(self) -> AsyncIterator[str]:
        """Yield what the model says to the user, piece by piece while it is written: no reasoning, no calls.

        A blank line stands between the texts of two steps. The last piece is what the answer has and no piece had, such
        as the summary of a completion, so that the joined pieces end with `outcome.answer`. If an attempt is replaced
        by another one, its pieces are out, and the text of the next begins on a new line. Any number of readers may
        read, and each begins at the start of the run. One that is more than `Observers(buffer=...)` events behind may
        miss the text of whole steps, but never the answer.

        Raises WrongUse if nobody has entered the run. For more than the text, read its events.
        """
        from .text_stream import TextPieces

        self._entered("read its text")
        return TextPieces(self.bus.read())

    async def tree_events(self) -> AsyncIterator[tuple[Run[Any], Event | Lagged]]:
        """Yield the events of this run and of all its sub-agents, each with its run. Those of one run are in order.

        What sub-agents did in a process that died is in their records only.
        """
        self._entered("read its events")
        queue: asyncio.Queue[tuple[Run[Any], Event | Lagged] | None] = asyncio.Queue(1)
        readers: set[asyncio.Task[None]] = set()

        async def read(run: Run[Any]) -> None:
            async for event in run:
                if isinstance(event, SubagentStarted) and event.run_id in run.children:
                    begin(run.children[event.run_id])
                await queue.put((run, event))

        async def read_to_the_end(run: Run[Any]) -> None:
            try:
                await read(run)
            finally:
                readers.discard(asyncio.current_task())
            if not readers:
                await queue.put(None)

        def begin(run: Run[Any]) -> None:
            readers.add(asyncio.create_task(read_to_the_end(run), name=f"endstop reader of run {run.id}"))

        begin(self)
        try:
            while (pair := await queue.get()) is not None:
                yield pair
        finally:
            for reader in readers:
                reader.cancel()

    def messages(self, format: MessageFormat | None = None) -> list[Any]:
        """Return the session's messages up to here; none if the run has not begun. format: as in `Session.messages`."""
        return messages_in(format, [] if self.context is None else self.context.transcript.messages)

    def cancel(self, cause: str = "caller") -> None:
        """End the run as `cancelled`. A finished run is not changed. cause: a word that is recorded."""
        if self.context is not None:
            self.context.cancel(cause)
        else:
            self._cancel_early = self._cancel_early or cause

    def say(self, text: Prompt, *, id: str | None = None) -> str:
        """Send a message of the user to the run and return the message's id.

        text: or texts and images, as in a prompt. id: a unique id that you choose. The message is part of the next
        request. Raises WrongUse if the run has finished, or the message is empty.
        """
        message = new_message(text, id)
        if self._outcome is not None:
            raise WrongUse(f"run {self.id} has finished: start another one in its session")
        self.inbox.append(message)
        return message.id

    @property
    def undelivered(self) -> tuple[QueuedMessage, ...]:
        """Messages sent with `say` that are not in the transcript yet; if the run ends first, they stay here."""
        return tuple(self.inbox)

    async def wait(self) -> Outcome[OutputT]:
        """Wait for the outcome. If the waiting task is cancelled, the run is, too.

        Raises RunLost if another process has taken the run over: this one did not write its end. Raises WrongUse if
        nobody has entered the run.
        """
        task = self._entered("wait for it")
        if not task.done():
            over = asyncio.get_running_loop().create_future()
            self._waiting.append(over)
            try:
                await over
            except asyncio.CancelledError:
                await self._leave()
                raise
        task.result()  # raises what ended the task, if something did
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
            raise WrongUse(f"run {self.id} has not begun")
        return self.context

    def attach(self, context: Context, prompt_handlers: Sequence[PromptHandler], evaluate: Evaluator | None) -> None:
        """Give the run its context, `prompt_handlers` and evaluator (`evaluate`). The session calls it in its task."""
        self.context = context
        self._prompt_handlers = tuple(prompt_handlers)
        self._evaluate = evaluate
        if self._cancel_early is not None:
            context.cancel(self._cancel_early)

    def ready(self) -> None:
        """Report that the run has begun: `async with run` then continues in the task that entered it."""
        if self._started is not None and not self._started.done():
            self._started.set_result(None)

    async def drive(self, decision: Decision | None, *, next_step: bool) -> None:
        """Execute the run and write its last event, `RunFinished`, even if an error ends it.

        decision: one that a resumed run or a fork acts on first, None in a run that begins. next_step: whether the
        policy's next-step prompt follows the prompt, unless a prompt handler leaves it out.

        RunLost and ResumeRefused end it without another event. A cancellation of the run's own task, for example at the
        end of the event loop, ends the run like `cancel` and is then raised again.
        """
        context = self._attached()
        try:
            if decision is None:
                next_step = await run_prompt_handlers(context, self._prompt_handlers) and next_step
            outcome = with_output(context, await run_rounds(context, decision, next_step=next_step))
            outcome = with_output(context, await run_evaluation(context, self._evaluate, outcome))
        except BaseException as error:
            if _lost_in(error) is None:
                crashed = _crashed(context, error)
                told = isinstance(error, SystemPromptFailed) or crashed.never_started
                if isinstance(error, Exception) and not told:
                    log_failure("a run ended by an error", error)
                await self._finish(with_output(context, crashed))
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
                return  # raised to whoever waits, asks for the outcome or leaves
            if isinstance(error, Exception) and self._outcome is not None:
                return  # the outcome is `internal_error`
            raise
        finally:
            self._wake()

    async def _leave(self) -> None:
        task = self._task
        if task is None or task.done():
            return
        if self.context is None:
            task.cancel()  # waiting for its turn or for the provider: nothing to clean up
        self.cancel(self.leave_cause)
        await wait_shielded(task, TIDY_SECONDS)


def with_output(context: Context, outcome: Outcome) -> Outcome:
    """Return the outcome with `output` in the engine's type, or with the reason why it has none."""
    output = context.output
    if output is None:
        return outcome
    return outcome.reading_output(output.read, output.label, _why_no_output(context))


def _why_no_output(context: Context) -> str:
    """Return what became of the model's last output in this run, if it was not accepted; empty if that is not known."""
    for message in reversed(context.transcript.messages):
        if isinstance(message, ToolResult) and message.name == OUTPUT_TOOL and message.status != "skipped":
            return f"the last {OUTPUT_TOOL} was not accepted: {message.content}"
        if message == context.transcript.prompt:
            break
    return "" if context.log.facts.completion_text else f"the model never called {OUTPUT_TOOL}"


def _lost_in(error: BaseException) -> RunLost | ResumeRefused | None:
    """Return the reason why this process writes no end of the run, if the error is or contains one; else None."""
    if isinstance(error, RunLost | ResumeRefused):
        return error
    if isinstance(error, BaseExceptionGroup):
        return next((lost for one in error.exceptions if (lost := _lost_in(one)) is not None), None)
    return None


def _crashed(context: Context, error: BaseException) -> Outcome:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    stop = Stop(rule="internal_error", reason="internal_error", detail=error_text(error))
    context.log.append(DecisionMade(round=context.log.facts.rounds, decision=stop))
    outcome = build_outcome(context.log.facts, context.policy, stop)
    return replace(outcome, never_started=isinstance(error, WrongUse) and outcome.requests == 0)

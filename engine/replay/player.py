"""Engine of a replay, whose model, tools, user functions and clock are those of a recorded run."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any, Protocol

import anyio
from anyio.lowlevel import checkpoint
from msgspec.structs import replace

from ..answers import recorded_answers
from ..config import Observers
from ..context import QueuedMessage
from ..decision import (
    AnyChunk,
    Decision,
    Facts,
    GoOn,
    Policy,
    Rule,
    ToolCall,
    ToolSpec,
    UserMessage,
    WrongUse,
    decide,
)
from ..decision import events as ev
from ..decision.run_origin import is_foreign
from ..decision.until_rules import ALL_GUARDS, ALL_RULES
from ..engine import Engine
from ..option_groups import Decide, Execute, Hooks, ModelOptions, Runtime, execute_here
from ..providers import Exchange, Exhausted, Interrupted, Prices, Request
from ..providers.replay import rebuild_error
from ..recorded_values import recorded_values
from ..records.reader import RecordedRun
from ..run import Run
from ..session import Session
from ..tools.control import CONTROL_TOOLS
from ..tools.output import OutputTool, output_type_of
from ..tools.results import CallOutcome
from ..tools.tool import Tool
from .diff import RECORD_ENDS
from .recorded import (
    RecordedEffects,
    recorded_check,
    recorded_evaluator,
    recorded_function,
    recorded_messages,
    recorded_replies,
    recorded_tools,
    void_calls,
    without_stream_parts,
)
from .recorded_decisions import LoopDecisions
from .responses import RecordedResponse, recorded_responses

CHECKPOINTS_BEFORE_CANCEL = 100
"""Number of event loop turns that a replay waits before it cancels its run at the point where the recorded run was
cancelled, so that parallel calls get as far as they did in the record."""


class RecordedClock:
    """Clock that shows the time of the record, in seconds since the run began."""

    def __init__(self) -> None:
        self._now = 0.0
        self._latest: anyio.CancelScope | None = None

    def now(self) -> float:
        """Return the seconds since the recorded run began."""
        return self._now

    def wall(self) -> datetime:
        """Return the actual time of day."""
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        """Advance the clock without waiting."""
        self._now += seconds

    def deadline(self, seconds: float | None) -> anyio.CancelScope:
        """Return a scope without a deadline: a timeout is answered from the record, or ended by `time_out`."""
        scope = anyio.CancelScope()
        if seconds is not None:
            self._latest = scope
        return scope

    def time_out(self) -> None:
        """Cancel the scope of the latest deadline."""
        if self._latest is not None:
            self._latest.cancel()

    def reach(self, milliseconds: int) -> None:
        """Set the clock to this time of the record, unless it is already later."""
        now = (milliseconds + 0.25) / 1000  # a little more, because rounding down would lose a millisecond
        if now > self._now:
            self._now = now


class ReplayWatcher(Protocol):
    """Consumer of the events of a replayed run, which waits for it."""

    @property
    def paced(self) -> bool:
        """Whether to wait between chunks as long as the recorded run did."""
        ...

    @property
    def close(self) -> bool:
        """Whether the replay must wait before each chunk until the follower has seen all events so far."""
        ...

    async def catch_up(self) -> None:
        """Wait until the follower has seen all events so far."""
        ...


class Player:
    """Engine for one recorded run, and the provider that gives the recorded responses.

    live: the tools that are really called; None to answer calls from the record.
    rules: your own rules and guards that the recorded policy names.
    output: the type that the answer is read as, for `Outcome.output`.

    Raises WrongUse if one of those rules, or a live tool that the record offers, is missing.
    """

    def __init__(
        self,
        recorded: RecordedRun,
        follower: ReplayWatcher,
        *,
        live: Sequence[Tool] | None,
        rules: Sequence[Rule],
        output: Any = None,
    ) -> None:
        started = recorded.started
        _check_rules(recorded, rules)
        self.clock = RecordedClock()
        self.run: Run | None = None
        """Run of the replay; None until `start`."""
        self._recorded = recorded
        self._follower = follower
        self._streamed = anyio.Event()
        """Set when the response of the current step has been read."""
        self._waited: float | None = None
        """Time of the record, in seconds, up to which the replay has waited; None before the first wait."""
        self._responses = recorded_responses(recorded)
        events = without_stream_parts(recorded)
        self._values = recorded_values(events, started.tools)
        self._started = {e.call_id for e in events if isinstance(e, ev.ToolExecutionStarted)}
        self._void_calls = void_calls(recorded)
        self._messages = recorded_messages(events)
        self._answers = [e for e in events if isinstance(e, ev.QuestionAnswered)]
        self._replies = recorded_replies(events)
        self._given_up = {e.call_id for e in events if isinstance(e, ev.ToolCallResult) and e.status == "invalid"}
        self._decisions = decisions = LoopDecisions(recorded, partial(decide, user_rules=tuple(rules)))
        self._cause: str | None = None
        """Cause of the recorded run's cancellation, if any; None if another loop ended it like this itself."""
        if not decisions.ended_it:
            self._cause = next((e.cause for e in events if isinstance(e, ev.CancelRequested)), None)
        self._cancelled_at = _cancelled_at(events)
        self._cancelled = {e.call_id for e in events if isinstance(e, ev.ToolCallResult) and e.status == "cancelled"}
        self._cut_off = _cut_off(events)
        self._decided_at = _decided_at(recorded)
        self._look_ahead: Decide = partial(decide, user_rules=tuple(rules), traced=False)
        output_type = output_type_of(output)
        if live is not None and output_type is not None:
            live = [*live, OutputTool(output_type)]
        execute: Execute = self._from_record if live is None else self._run_live
        verdicts = RecordedEffects(recorded, self.clock.reach, self._hang, decisions, live=live is not None)
        self.engine = Engine(
            self,
            tools=recorded_tools(recorded) if live is None else _live_tools_of(started.tools, live),
            presets=(),
            output=output,
            policy=_policy_of(started),
            until=recorded_check(events),
            system=recorded_function(started, "system") or started.system,
            model_options=ModelOptions(
                tool_choice="required" if started.tool_choice == "required" and started.tools else "auto"
            ),
            hooks=Hooks(
                rules=rules,
                gates=verdicts.stand_ins("gate"),
                text_rule=verdicts.stand_in("text_rule"),
                judge=verdicts.stand_in("judge"),
                compactor=recorded_function(started, "compactor"),
                prompt_handlers=verdicts.stand_ins("handler"),
                evaluate=recorded_evaluator(recorded, self.clock.reach) if live is None else None,
            ),
            prices=Prices(started.prices, listed=False),
            runtime=Runtime(
                clock=self.clock,
                execute=execute,
                replay=verdicts,
                decide=decisions.decide,
                decide_untraced=self._decide_where_the_record_did,
            ),
            observers=Observers(
                middleware=(self._watched,), buffer=sys.maxsize
            ),  # no event may be lost, and the record needs as much memory anyway
        )

    def start(self, session: Session, copies: RecordedRun | None) -> Run:
        """Start the run under its recorded id. `copies`: the events that it copied from its origin, if it is a fork."""
        if copies is not None:
            self.clock.reach(copies.events[-1].t)
            session.load_fork([copies])
            self.run = session.start_fork()
            return self.run
        answers = [replace(answer, says=self._replies.get(answer.call_id)) for answer in self._answers]
        given = recorded_answers(session.questions, answers)
        if given or (self._recorded.started.continues is not None and session.questions):
            self.run = session.start_given(given)  # without an answer if a kill lost it
        else:
            started = self._recorded.started
            session.history = started.history
            self.run = session.start(UserMessage(started.prompt or "", started.images))
        self.run.id = self._recorded.started.run_id
        return self.run

    @asynccontextmanager
    async def _watched(self, run: Run) -> AsyncIterator[None]:
        assert run.context is not None
        run.context.log.add_sink(self._decisions.take)
        run.context.log.add_sink(self._cancel_where_the_record_was)
        run.context.log.add_sink(self._say_what_the_user_said)
        yield

    def _cancel_where_the_record_was(self, event: ev.Event) -> None:
        """Cancel the replay if the recorded run was cancelled between two steps, after this event.

        A run that was cancelled within a step is cancelled when it waits for something that the record lacks: in
        `stream` or `_hang`.
        """
        if self.run is not None and self._cause is not None and _step_boundary(event) in self._cancelled_at:
            self.run.cancel(self._cause)

    def _say_what_the_user_said(self, event: ev.Event) -> None:
        """Put the user's messages into the inbox at the end of the step before the one in which they were delivered."""
        if self.run is not None and self.run.context is not None and _step_boundary(event) is not None:
            facts = self.run.context.log.facts
            for said in self._messages.pop(facts.steps + 1, ()):
                self.clock.reach(said.t)
                self.run.context.inbox.append(QueuedMessage(said.message_id, said.text, said.images))

    def _decide_where_the_record_did(self, facts: Facts, policy: Policy) -> Decision:
        """Let the inner loop go on, but return to the outer loop where the record has a decision to compare with."""
        decision = self._decisions.silent(facts.steps) or self._look_ahead(facts, policy)
        if isinstance(decision, GoOn) and facts.steps in self._decided_at:
            return replace(decision, hand_back=True)
        return decision

    # ---- the model

    @property
    def model(self) -> str:
        """The recorded model's name."""
        return self._recorded.started.model

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[AnyChunk]]:
        """Play the recorded response of the current step. Cancels the run if the record has none."""
        step = request.attempt.partition(".")[0]
        if not step.isdigit():
            raise Exhausted("the record holds no answer to requests that are not part of a step")
        response = self._responses.get(int(step))
        assert self.run is not None
        if response is None or response.closing is not self.run.facts.closing:
            self.run.cancel(self._cause or RECORD_ENDS)
            await anyio.sleep_forever()
            raise AssertionError("cancelled above")
        await self._follower.catch_up()
        await self._until(response.start)
        chunks, self._streamed = self._play(response), anyio.Event()
        try:
            yield chunks
        finally:
            await chunks.aclose()
            self.clock.reach(response.end)
            self._streamed.set()

    async def _play(self, response: RecordedResponse) -> Any:
        exchange, follower, pauses, reach = response.exchange, self._follower, response.pauses, self.clock.reach
        for number, chunk in enumerate(exchange.chunks):
            at = exchange.times[number]
            if number in pauses:
                await checkpoint()  # lets a call start that may start early
            if follower.close:
                await follower.catch_up()
            if follower.paced:
                await self._until(response.start + at)
            else:
                reach(response.start + at)
            yield chunk
        for chunk in exchange.after_cut:
            yield chunk
        await self._end(exchange)

    async def _until(self, milliseconds: int) -> None:
        """Advance to this time of the record. If the replay is paced, wait as long as the record did."""
        if self._follower.paced:
            if self._waited is None:
                self._waited = self.clock.now()
            seconds = milliseconds / 1000
            await anyio.sleep(max(0.0, seconds - self._waited))
            self._waited = max(self._waited, seconds)
        self.clock.reach(milliseconds)

    async def _end(self, exchange: Exchange) -> None:
        if exchange.ended == "cancelled":
            await self._hang()
            raise Interrupted("the record holds no end of this response")
        if exchange.failure is not None:
            raise rebuild_error(exchange.failure)

    # ---- the tools

    async def _from_record(self, call: ToolCall, tool: Tool, arguments: Mapping[str, Any]) -> Any:
        value = self._values.get(call.id)
        if value is not None:
            await self._until(value.t)
            return value.value
        if call.id in self._void_calls:
            await self._streamed.wait()  # usually it is cancelled earlier, when its attempt fails
        elif call.id in self._started and call.id in self._given_up:
            await anyio.sleep_forever()  # it was started too early, and is cancelled again when more arguments arrive
        elif call.id in self._cut_off:
            await anyio.sleep_forever()  # the accepted completion cancels it again
        elif call.id in self._started or (self._cause is not None and call.id in self._cancelled):
            await self._hang()
        return CallOutcome(content="The record holds no result of this call.", status="error")

    async def _run_live(self, call: ToolCall, tool: Tool, arguments: Mapping[str, Any]) -> Any:
        with anyio.move_on_after(tool.timeout):
            return await execute_here(call, tool, arguments)
        return CallOutcome(content=f"{tool.name} was stopped after {tool.timeout:g} seconds.", status="error")

    async def _hang(self) -> None:
        """End a wait for something whose end is not in the record, in the way the recorded run ended it.

        If the recorded run was cancelled or killed, cancel the replay; in the closing step, let its deadline pass;
        otherwise, return.
        """
        assert self.run is not None
        if self._cause is not None or self._recorded.finished is None:
            for _ in range(CHECKPOINTS_BEFORE_CANCEL):
                await checkpoint()
            self.run.cancel(self._cause or RECORD_ENDS)
        elif self.run.facts.closing:
            self.clock.time_out()
        else:
            return
        await anyio.sleep_forever()


def _policy_of(started: ev.RunStarted) -> Policy:
    """Return the recorded policy. For another loop, nothing is cut, and the tools are those that it offered."""
    if not is_foreign(started.engine):
        return started.policy
    return replace(started.policy, inner_cancel=False, completion="offered")


def _check_rules(recorded: RecordedRun, rules: Sequence[Rule]) -> None:
    started = recorded.started
    known = {rule.name for rule in (*ALL_RULES, *ALL_GUARDS, *rules)}
    own = [name for name in (*started.policy.rules, *started.policy.guards) if name not in known]
    if own:
        raise WrongUse(
            f"{started.run_id} used rules of your own, which a record cannot hold: {', '.join(map(repr, own))}; "
            "pass them in Python: endstop.replay.replay(path, rules=[...])"
        )


def _step_boundary(event: ev.Event) -> tuple[str, int] | None:
    """Return an identifier of a boundary between two steps; None for other events."""
    match event:
        case ev.StepFinished(step=number) | ev.RoundStarted(round=number):
            return type(event).__name__, number
        case _:
            return None


def _cancelled_at(events: Sequence[ev.Event]) -> set[tuple[str, int]]:
    """Return the last boundary between steps before the run was cancelled, unless a step or decision followed."""
    place: tuple[str, int] | None = None
    for event in events:
        match event:
            case ev.CancelRequested():
                break
            case ev.StepStarted() | ev.DecisionMade():
                place = None
            case _:
                place = _step_boundary(event) or place
    return {place} if place is not None else set()


def _cut_off(events: Sequence[ev.Event]) -> set[str]:
    """Return the calls that were cancelled because in the same step a completion was accepted or a check was met."""
    cancelled: set[str] = set()
    cut: set[str] = set()
    met = False
    for event in events:
        match event:
            case ev.CheckEnded(said="met" | "impossible"):
                met = True
            case ev.ToolCallResult(status="cancelled"):
                cancelled.add(event.call_id)
            case ev.StepFinished():
                cut |= cancelled if event.cut_by is not None or met else set()
                cancelled = set()
            case _:
                pass
    return cut


def _decided_at(recorded: RecordedRun) -> set[int]:
    """Return the steps directly followed in the record by a decision or its end."""
    step, at, refused = 0, set(), False
    for event in without_stream_parts(recorded):
        match event:
            case ev.StepStarted(closing=False):
                step, refused = event.step, False
            case ev.RunResumed(interrupted_step=int() as interrupted) if interrupted == step:
                step -= 1  # the step was not made: it may begin again
            case ev.BudgetRefused():
                refused = True  # the inner loop went on, but was stopped before its next step
            case ev.LimitReached(step=before) if before > step:
                refused = True
            case ev.DecisionMade(decision=decision) if not refused and decision.rule != "cancelled":
                at.add(step)
            case _:
                pass
    cancelled = any(isinstance(event, ev.CancelRequested) for event in recorded.events)
    return at if refused or cancelled or recorded.finished is None else at | {step}


def _live_tools_of(specs: Sequence[ToolSpec], live: Sequence[Tool]) -> list[Tool]:
    offered = {tool.name: tool for tool in (*CONTROL_TOOLS, *live)}
    missing = [spec.name for spec in specs if spec.name not in offered]
    if missing:
        raise WrongUse(f"live_tools: pass the tools that the record uses; missing: {', '.join(missing)}")
    return [offered[spec.name] for spec in specs]

"""The outer layer: a round of steps, one decision, and acting on what it says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from functools import partial

from .checkpoint import checkpoint_response
from .compaction import compact
from .connections import read_stream
from .context import Context, RoundScope, hear
from .decision import (
    AnyChunk,
    AssistantMessage,
    Decision,
    GoOn,
    Outcome,
    Pause,
    Stop,
    ToolCall,
    UsageReport,
    UserMessage,
    build_outcome,
)
from .decision.decide import applies_before_first_step, continues_round, needs_closing_step
from .decision.events import (
    BudgetRefused,
    CancelRequested,
    Carried,
    ContextCompacted,
    DecisionMade,
    MessageAdded,
    ResponseFinished,
    RoundStarted,
    StepFinished,
    StepStarted,
    ToolCallResult,
)
from .decision.transcript import UNANSWERED
from .durability import RunLost
from .hook_runner import ask, ask_text_rule, check_text, progress, read_judge
from .hooks import ModelJudge
from .providers import Cancelled, Interrupted, ProtocolError, ProviderError, Request, ToolChoice
from .response import ResponseBuilder
from .resume_point import PartialStep
from .tool_calls import ToolCalls
from .tools.results import NOT_RUN_WHILE_CLOSING

LOOKED_BACK = 3
"""The next-step prompt is not added while it is among so many of the user's latest messages."""


async def run_rounds(context: Context) -> Outcome:
    """Drive a run to its outcome."""
    decision = _taken_up(context)
    while True:
        if decision is None:
            await _round(context)
            if context.cancelled is None or context.log.facts.accepted is not None:
                decision = _decide(context)
        if decision is None or _cancelled_before_its_end(context, decision):
            return cancelled(context)
        match decision:
            case Stop() | Pause():
                if _wants_closing(context, decision):
                    await run_closing_step(context)
                return build_outcome(context.log.facts, context.policy, decision)
            case GoOn():
                await _prepare(context, decision)
        context.interrupted = decision = None


def _decide(context: Context) -> Decision:
    decision = context.decide(context.log.facts, context.policy)
    context.log.append(DecisionMade(round=context.log.facts.rounds, decision=decision))
    return decision


def _taken_up(context: Context) -> Decision | None:
    """What is decided before any round: by the run's beginning, or where its process was killed."""
    facts, killed = context.log.facts, context.interrupted
    if killed is not None and (killed.decision is not None or killed.in_round):
        return killed.decision
    if facts.accepted is not None or facts.handled is not None or facts.questions:
        return _decide(context)
    if facts.before == Carried() and facts.steps == 0:
        return None
    # Limits that an earlier run has used up end this one before it costs anything, and a context that is too large is
    # made smaller before it is sent.
    decision = context.look_ahead(facts, context.policy)
    return _decide(context) if applies_before_first_step(decision) else None


def _cancelled_before_its_end(context: Context, decision: Decision) -> bool:
    """A stop that was decided stays one, and so does what an accepted completion has come to."""
    if isinstance(decision, GoOn):
        return context.cancelled is not None
    ended = isinstance(decision, Stop) or context.log.facts.accepted is not None
    return context.cancelled is not None and not ended


def cancelled(context: Context) -> Outcome:
    """The outcome of a run that was ended from outside."""
    cause = context.cancelled.detail if context.cancelled is not None else "shutdown"
    context.log.append(CancelRequested(cause=cause))
    stop = Stop(rule="cancelled", reason="cancelled", detail=f"cancelled from outside: {cause}")
    context.log.append(DecisionMade(round=context.log.facts.rounds, decision=stop))
    return build_outcome(context.log.facts, context.policy, stop)


async def _round(context: Context) -> None:
    killed = context.interrupted
    if killed is None or not killed.in_round:
        context.log.append(RoundStarted(round=context.log.facts.rounds + 1))
    if context.halfway is None:
        _add_next_step_prompt(context)
    await run_round(context)
    if context.judge is not None and context.cancelled is None and _would_go_on(context):
        with context.cancellable():
            tokens = context.tokens_now() if isinstance(context.judge, ModelJudge) else None
            await ask(context, "judge", context.judge, (progress(context),), read_judge, tokens=tokens)


def _would_go_on(context: Context) -> bool:
    return isinstance(context.look_ahead(context.log.facts, context.policy), GoOn)


def _wants_closing(context: Context, decision: Decision) -> bool:
    if context.interrupted is not None and context.interrupted.closed:
        return False
    return isinstance(decision, Stop) and needs_closing_step(context.log.facts, context.policy, decision)


def _add_next_step_prompt(context: Context) -> None:
    prompt = context.policy.prompts.next_step
    if not prompt or context.skip_next_step:
        return
    latest: list[str] = []
    for message in reversed(context.transcript.messages):
        if isinstance(message, UserMessage):
            latest.append(message.text)
            if len(latest) == LOOKED_BACK:
                break
    if prompt not in latest:
        context.log.append(MessageAdded(text=prompt, origin="next_step"))


async def _prepare(context: Context, decision: GoOn) -> None:
    """Do what a go-on asks for before the next request."""
    for call in context.transcript.open_calls:  # only where the rule that pauses was taken out of the policy
        context.log.append(ToolCallResult(call_id=call.id, name=call.name, content=UNANSWERED, status="unanswered"))
    if decision.compact and context.before_kill(ContextCompacted) is None:
        with context.cancellable():
            await compact(context)
    if decision.say and context.before_kill(MessageAdded, origin="nudge") is None:
        context.log.append(MessageAdded(text=decision.say, origin="nudge"))
    if decision.remind and context.before_kill(MessageAdded, origin="reminder") is None:
        context.ephemeral.append(UserMessage(decision.remind))
        context.log.append(
            MessageAdded(text=decision.remind, origin="reminder", ephemeral=True, topics=decision.topics)
        )


# The inner layer: steps of one round, inside one shared cancel scope.
#
# After each step it asks the same `decide` as the outer loop. For a bare "go on" it goes on by itself, up to
# `max_inner_steps`; anything else goes back to the outer loop, which decides again by the same facts, records and
# acts.


class _Step:
    """One step as far as it has come, for those who must tidy up after a cancellation."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.message: AssistantMessage | None = None
        self.calls: ToolCalls | None = None
        self.finished = False


async def run_round(context: Context) -> None:
    """Make steps until the outer loop must look, or the shared scope is cancelled.

    However a step ends, by an error of ours as well: each of its calls has one result, and it is closed.
    """
    step, scope = _Step(0), RoundScope()
    try:
        with context.cancellable() as scope:
            try:
                halfway = context.halfway
                if halfway is not None:
                    step = _Step(halfway.step)
                    await _enter_again(context, scope, step, halfway)
                while _goes_on(context) and await _affords(context):
                    await scope.settled()
                    await scope.checkpoint()  # so that no step begins after a cancel
                    hear(context)
                    step = _Step(context.log.facts.steps + 1)
                    await _run_step(context, scope, step)
                    if not step.finished:
                        break  # the provider gave up: what began early ends, and then the step
            except RunLost as lost:
                context.log.close(lost)  # before the calls that still run are given up, which may not like it
                raise
            finally:
                await scope.end()
    finally:
        if step.number and not step.finished and not context.log.finished:
            _close(context, scope, step)


def _goes_on(context: Context) -> bool:
    """Whether the inner layer may make another step by itself; the first of a round always."""
    facts = context.log.facts
    return facts.inner_steps == 0 or continues_round(facts, context.policy, context.look_ahead)


async def _affords(context: Context) -> bool:
    """Whether there is time for one more step, and a budget that other runs share has room for it."""
    step = context.log.facts.steps + 1
    if context.limits.replay(step, begun=False):
        return False
    refused = None
    with context.limits.deadline() as deadline:
        refused = await _refused(context, step)
    if deadline.cancel_called or context.limits.out_of_time:
        context.limits.record_time_up(step)
    elif refused is not None:
        context.log.append(refused)
    else:
        return True
    return False


async def _refused(context: Context, step: int) -> BudgetRefused | None:
    """What a budget that other runs share says to one more step; waits while it may yet have room."""
    if context.replay is not None:
        return context.replay.refused(step)
    return None if context.share is None else await context.share.reserve(step, context.tokens_now())


async def _run_step(context: Context, scope: RoundScope, step: _Step) -> None:
    context.log.append(StepStarted(step=step.number, round=context.log.facts.rounds))
    for failed in () if context.replay is None else context.replay.failed_before(step.number):
        context.log.append(failed)
    step.calls = calls = ToolCalls(context, scope)
    response = await _respond(context, scope, step.number, calls)
    if response is not None:
        context.log.append(response)
        await _settle(context, scope, step, response)


async def _enter_again(context: Context, scope: RoundScope, step: _Step, halfway: PartialStep) -> None:
    """Go on with a step whose response had come whole when the process was killed."""
    assert halfway.response is not None
    step.calls, step.message = ToolCalls(context, scope), halfway.response.message
    step.calls.restore(halfway)
    await scope.checkpoint()
    step.calls.restart_early(halfway)
    await _settle(context, scope, step, halfway.response)


async def _settle(context: Context, scope: RoundScope, step: _Step, response: ResponseFinished) -> None:
    """All that follows from a response that stands in the log."""
    assert step.calls is not None
    step.message = response.message
    step.calls.cancel_changed(response.message)
    cut_off = context.limits.reached
    if not cut_off:
        await ask_text_rule(context, response.message)
    if response.message.calls:
        broken_off = {*response.without_arguments, response.truncated or ""}
        await step.calls.run_all(response.message, broken_off)
    if not cut_off:
        await check_text(context, response.message)
    await scope.checkpoint()
    step.finished = True
    context.limits.replay(step.number)
    context.log.append(StepFinished(step=step.number, cut_by=scope.cut_by))


async def run_closing_step(context: Context) -> None:
    """One more response at a limit, without tools: what was done and what is missing, for the user.

    The list of tools stays as it is, because some providers refuse a history with calls without it; a call that comes
    nevertheless is not run. It has its own deadline and counts as no step.
    """
    number, refused = context.log.facts.steps + 1, None
    with context.cancellable(), context.clock.deadline(context.policy.deadlines.closing) as deadline:
        refused = await _refused(context, number)
        if refused is not None:
            context.log.append(refused)
    if deadline.cancel_called or refused is not None:
        return
    context.ephemeral.append(UserMessage(context.policy.prompts.closing))
    context.log.append(MessageAdded(text=context.policy.prompts.closing, origin="closing", ephemeral=True))
    context.log.append(StepStarted(step=number, round=context.log.facts.rounds, closing=True))
    with context.cancellable() as scope:
        try:
            response = await _respond(context, scope, number, None, tool_choice="none")
            if response is not None:
                context.log.append(response)
        finally:
            await scope.end()
    for call in context.transcript.open_calls:
        context.log.append(
            ToolCallResult(call_id=call.id, name=call.name, content=NOT_RUN_WHILE_CLOSING, status="skipped")
        )
    context.log.append(StepFinished(step=number))


def _close(context: Context, scope: RoundScope, step: _Step) -> None:
    """Leave a step that did not come to its end with one result for each call."""
    if step.calls is not None:
        step.calls.cancel_rest(step.message)
    context.limits.replay(step.number)
    context.log.append(StepFinished(step=step.number, cut_by=scope.cut_by))


async def _respond(
    context: Context, scope: RoundScope, step: int, calls: ToolCalls | None, tool_choice: ToolChoice | None = None
) -> ResponseFinished | None:
    """One response; None if the provider gave up. Without `calls` no call is taken up."""
    if context.steps is None:
        return await _stream(context, scope, step, calls, tool_choice)
    offer = _leave if calls is None else calls.start_early
    return await checkpoint_response(context, partial(_stream, context, scope, step, calls, tool_choice), offer)


def _leave(call: ToolCall) -> None:
    """Take no call up."""


async def _stream(
    context: Context, scope: RoundScope, step: int, calls: ToolCalls | None, tool_choice: ToolChoice | None
) -> ResponseFinished | None:
    """The response, as soon as it is whole or cut: nobody waits for its stream to be closed, which may hang."""
    attempts, limits = ResponseBuilder(context, step, calls), context.limits
    request = _request(context, attempts.attempt, tool_choice)
    failed: ProviderError | None = None
    try:
        with limits.deadline() as deadline:
            failed = await _hear_out(context, scope, attempts, request)
            while attempts.repeated is not None and failed is None and not attempts.cut_for:
                if attempts.retry_degenerate():
                    request = replace(request, attempt=attempts.attempt)
                    failed = await _hear_out(context, scope, attempts, request)
                elif not attempts.cut_for:
                    failed = attempts.degenerate_error()
    except asyncio.CancelledError:
        attempts.record_failure(Cancelled("cancelled in the middle of the response"))
        raise
    except RunLost:
        raise
    except Exception as error:  # a provider that breaks its word: what it had said is kept
        attempts.record_failure(ProtocolError(f"{type(error).__name__}: {error}"))
        raise
    if not (attempts.finished or attempts.cut):
        if deadline.cancel_called:
            attempts.cut_off(limits.record_time_up(step, attempts.live_attempt))
        elif failed is None:
            attempts.cut_off(limits.recorded_cut(step))
            if not attempts.cut:
                failed = Interrupted(f"the stream of {context.provider.model} ended without a finish reason")
    if failed is not None and not (deadline.cancel_called or attempts.cut_for):
        attempts.record_failure(failed)
        return None
    return attempts.build() if attempts.live_attempt else None


async def _hear_out(
    context: Context, scope: RoundScope, attempts: ResponseBuilder, request: Request
) -> ProviderError | None:
    """Read a response to its end, or until it is to be cut; the error by which the provider gave up, if it did."""

    def take(chunk: AnyChunk) -> bool:
        attempts.feed(chunk)
        return attempts.cut

    await context.flush()
    await scope.settled()
    try:
        await read_stream(context.provider, request, take, scope.start, partial(_drain, context, attempts))
    except ProviderError as error:
        return error
    return None


async def _drain(
    context: Context, attempts: ResponseBuilder, chunks: AsyncIterator[AnyChunk], heard: asyncio.Future[None]
) -> None:
    """Where the policy wants it: read on after the cut until the provider says what the response cost."""
    if context.policy.drain_seconds is None or attempts.cut_at is None:
        return
    with context.clock.deadline(context.policy.drain_seconds), suppress(ProviderError):
        async for chunk in chunks:
            if type(chunk) is UsageReport and not heard.done():
                attempts.set_usage(chunk)
                return


def _request(context: Context, attempt: str, tool_choice: ToolChoice | None) -> Request:
    ephemeral, context.ephemeral = context.ephemeral, []
    return Request(
        messages=context.transcript.messages,
        ephemeral=ephemeral,
        edition=context.transcript.edition,
        tools=context.toolbox.specs,
        tool_choice=tool_choice or context.tool_choice,
        settings=context.settings,
        attempt=attempt,
        memo=context.memo,
    )

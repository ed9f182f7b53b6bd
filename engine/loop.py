"""The loop, in two layers.

The outer layer runs a round of steps, asks `decide` and does what the decision says. The inner layer runs the steps
of one round inside one shared cancel scope. After each step it asks the same `decide`: after a plain "go on" it makes
the next step itself, up to `max_inner_steps`; any other decision goes back to the outer layer, which decides again from
the same facts, records the decision and acts on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from .cancel_scope import Cause, RoundScope
from .connections import read_stream
from .context import Context, deliver_messages
from .decision import (
    AnyChunk,
    AssistantMessage,
    Decision,
    GoOn,
    Outcome,
    Pause,
    Stop,
    UsageReport,
    UserMessage,
    build_outcome,
)
from .decision.decide import applies_before_first_step, go_on_in_round, needs_closing_step
from .decision.events import (
    BudgetRefused,
    CancelRequested,
    Carried,
    DecisionMade,
    LimitReached,
    MessageAdded,
    QuestionAsked,
    ResponseFinished,
    RoundStarted,
    StepFinished,
    StepStarted,
    ToolCallResult,
)
from .decision.limit_usage import cost_flag, extension
from .decision.policy import fill_in
from .decision.transcript import UNANSWERED
from .decision.until_facts import CUT_FOR_CHECK
from .durability import ProviderAway, RunLost
from .effects import EffectKey, Response
from .hook_runner import check_final_text, parse_judge, progress, run_hook, run_text_rule, update_system_prompt
from .hooks import ModelJudge
from .model_request import make_request
from .providers import Cancelled, Interrupted, ProtocolError, ProviderError, Request
from .providers._logging import log_warning
from .providers.errors import is_away
from .response import ResponseBuilder
from .tool_calls import ToolCalls
from .tools.result_texts import CANCELLED, NOT_RUN_WHILE_CLOSING

if TYPE_CHECKING:
    from .until_background import BackgroundCheck

FLAGGED_COST = "soft_cost_usd"
"""Topic of the reminder that the cost of a run has reached `Policy.flag_cost_usd`."""


async def run_rounds(context: Context, decision: Decision | None, *, next_step: bool = True) -> Outcome:
    """Run rounds until a decision ends or pauses the run, and return the outcome.

    decision: one that is already made, on which the loop acts first; None if the loop has to decide. next_step: whether
    the first round gets the policy's next-step prompt.
    """
    try:
        return await _run_rounds(context, decision, next_step=next_step)
    finally:
        if context.check is not None:
            await context.check.close()


async def _run_rounds(context: Context, decision: Decision | None, *, next_step: bool) -> Outcome:
    if context.check is not None:
        with context.cancellable():
            await context.check.start()
    if decision is None:
        ran = await run_waiting_calls(context)
        if ran and context.cancelled is not None and context.log.facts.accepted is None:
            return cancelled_outcome(context)
        decision = _initial_decision(context)
    while True:
        if decision is None:
            context.log.append(RoundStarted(round=context.log.facts.rounds + 1))
            if next_step:
                _add_next_step_prompt(context)
            await run_round(context)
            await _ask_judge(context)
            await _settle_check(context)
            if context.cancelled is None or context.log.facts.accepted is not None:
                decision = _decide(context)
        if decision is None or _cancelled_before_its_end(context, decision):
            return cancelled_outcome(context)
        match decision:
            case Stop() | Pause():
                if isinstance(decision, Stop) and needs_closing_step(context.log.facts, context.policy, decision):
                    await run_closing_step(context)
                if isinstance(decision, Pause) and decision.extend:
                    _ask_for_steps(context, decision)
                if FLAGGED_COST not in context.log.facts.reminded:
                    _log_flagged_cost(context)
                return build_outcome(context.log.facts, context.policy, decision)
            case GoOn():
                await _prepare(context, decision)
        decision = _decide(context) if context.effects.has_decision(context.log.facts.steps) else None


def _ask_for_steps(context: Context, pause: Pause) -> None:
    """Ask the user whether the run may make more steps. First add what the model is to be told."""
    if pause.say:
        context.log.append(MessageAdded(text=pause.say, origin="nudge"))
    facts, (id,) = context.log.facts, pause.questions
    text = fill_in(
        context.policy.prompts.extend,
        used=str(facts.steps),
        allowed=str(context.policy.limits.hard_steps + facts.grants.steps),
        by=str(pause.extend),
    )
    context.log.append(QuestionAsked(call_id=id, text=text, extends=pause.extend))


def _log_flagged_cost(context: Context) -> None:
    """Log a line if the run has cost more than `Policy.flag_cost_usd`. A replay logs nothing."""
    flag = cost_flag(context.log.facts, context.policy)
    if flag is not None and flag.used >= flag.allowed and not context.replays:
        what = f"a run has cost ${flag.used:.2f}; it is flagged from ${flag.allowed:g} on (policy.flag_cost_usd)"
        log_warning(f"{what}, and nothing ends it there: limits.cost_usd would", run_id=context.run_id)


def _decide(context: Context) -> Decision:
    decision = context.decide(context.log.facts, context.policy)
    context.log.append(DecisionMade(round=context.log.facts.rounds, decision=decision))
    return decision


def _initial_decision(context: Context) -> Decision | None:
    """Return the decision before the first round; None if the run begins with a round.

    There is one if a prompt handler or the user's answer settled the run, questions are open, a limit is used up, or
    the context is too large.
    """
    facts = context.log.facts
    if facts.accepted is not None or facts.handled is not None or facts.questions or facts.check_said == "met":
        return _decide(context)
    if context.effects.has_decision(facts.steps):
        return _decide(context)
    if facts.before == Carried() and facts.steps == 0:
        return None
    # Limits that an earlier run used up end this run before it costs anything. A context that is too large is compacted
    # before it is sent.
    decision = context.decide_untraced(facts, context.policy)
    return _decide(context) if applies_before_first_step(decision) else None


def _cancelled_before_its_end(context: Context, decision: Decision) -> bool:
    """Return whether to end as cancelled, not by this decision. A Stop and an accepted completion take precedence."""
    if isinstance(decision, GoOn):
        return context.cancelled is not None
    ended = isinstance(decision, Stop) or context.log.facts.accepted is not None
    return context.cancelled is not None and not ended


def cancelled_outcome(context: Context) -> Outcome:
    """Log that the run was cancelled from outside, and return its outcome."""
    for call in context.transcript.waiting_calls:
        context.log.append(ToolCallResult(call_id=call.id, name=call.name, content=CANCELLED, status="cancelled"))
    cause = context.cancelled.detail if context.cancelled is not None else "shutdown"
    context.log.append(CancelRequested(cause=cause))
    stop = Stop(rule="cancelled", reason="cancelled", detail=f"cancelled from outside: {cause}")
    context.log.append(DecisionMade(round=context.log.facts.rounds, decision=stop))
    return build_outcome(context.log.facts, context.policy, stop)


async def _ask_judge(context: Context) -> None:
    """Ask the judge, if there is one, whether the task is complete although the run would go on."""
    if context.hooks.judge is not None and context.cancelled is None and _would_go_on(context):
        with context.cancellable():
            tokens = context.tokens_now() if isinstance(context.hooks.judge, ModelJudge) else None
            await run_hook(context, "judge", context.hooks.judge, (progress(context),), parse_judge, tokens=tokens)


async def _settle_check(context: Context) -> None:
    """Check the work as it is now before the run ends or pauses."""
    if context.check is not None and context.cancelled is None and not _would_go_on(context):
        with context.cancellable():
            await context.check.settle("stop")


def _would_go_on(context: Context) -> bool:
    return isinstance(context.decide_untraced(context.log.facts, context.policy), GoOn)


def _add_next_step_prompt(context: Context) -> None:
    """Add the next-step prompt in the first round after the user's prompt, unless it is already there."""
    prompt = context.policy.prompts.next_step
    after_prompt = context.prompt is not None and context.log.facts.rounds == 1
    if not prompt.strip() or not after_prompt:
        return
    for message in reversed(context.transcript.messages):
        if not isinstance(message, UserMessage):
            break
        if message.text.strip() == prompt.strip():
            return
    context.log.append(MessageAdded(text=prompt, origin="next_step"))


async def _prepare(context: Context, decision: GoOn) -> None:
    """Do what a GoOn asks for before the next request: grant steps, compact the context, add a nudge or a reminder."""
    if decision.extend:
        context.log.append(extension(decision.extend, context.log.facts, context.policy))
    for call in context.transcript.open_calls:  # only if the policy leaves out the rule that pauses
        context.log.append(ToolCallResult(call_id=call.id, name=call.name, content=UNANSWERED, status="unanswered"))
    if decision.compact:
        from .compaction import compact

        with context.cancellable():
            await compact(context)
    if decision.say:
        context.log.append(MessageAdded(text=decision.say, origin="nudge"))
    if decision.remind:
        context.log.append(
            MessageAdded(text=decision.remind, origin="reminder", ephemeral=True, topics=decision.topics)
        )
        if FLAGGED_COST in decision.topics:
            _log_flagged_cost(context)


class _Step:
    """State of one step, for cleaning up after a cancellation."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.message: AssistantMessage | None = None
        self.calls: ToolCalls | None = None
        self.finished = False


async def run_round(context: Context) -> None:
    """Run steps until the outer layer must decide, or the shared scope is cancelled.

    However a step ends, even by an internal error, each of its calls gets one result and the step is closed.
    """
    step, scope = _Step(0), RoundScope()
    try:
        with context.cancellable() as scope:
            try:
                while await _may_begin_step(context):
                    await scope.settled()
                    await scope.checkpoint()  # no step begins after a cancellation
                    deliver_messages(context)
                    await update_system_prompt(context)
                    step = _Step(context.log.facts.steps + 1)
                    await _run_step(context, scope, step)
                    if not step.finished:
                        break  # the provider failed: calls that began early end, then the step
            except RunLost as lost:
                context.log.close(lost)  # first: cancelled calls may still want to write
                raise
            finally:
                await scope.end()
    finally:
        if step.number and not step.finished and not context.log.finished:
            _close_step(context, scope, step)


async def run_waiting_calls(context: Context) -> bool:
    """Run the calls that waited for approval, in the order of their response, once the user has settled all of them.

    Return whether there were any. They belong to the last step of the paused run, so they are not a separate step.
    """
    calls, facts = context.transcript.waiting_calls, context.log.facts
    if not calls or facts.questions or facts.accepted is not None:
        return False
    waiting = AssistantMessage(calls=calls)
    with context.cancellable() as scope:
        step = ToolCalls(context, scope)
        try:
            await step.run_approved(calls, context.transcript.approvals)
        except RunLost as lost:
            context.log.close(lost)
            raise
        finally:
            await scope.end()
            if not context.log.finished:
                step.cancel_rest(waiting)
    return True


async def _may_begin_step(context: Context) -> bool:
    """Return whether the inner layer may make another step, for which there is room, and the check is not met yet."""
    if context.check is not None and await context.check.before_step():
        return False
    return _may_continue(context) and await _has_room(context)


def _may_continue(context: Context) -> bool:
    """Return whether the inner layer may make another step by itself; always True for the first one of a round."""
    facts = context.log.facts
    if facts.inner_steps == 0 or context.effects.began(EffectKey(facts.steps + 1, "response")):
        return True
    return go_on_in_round(facts, context.policy, context.decide_untraced) is not None


async def _has_room(context: Context) -> bool:
    """Return whether there is time, and room in a shared budget, for one more step. If not, the reason is logged."""
    step = context.log.facts.steps + 1
    match await context.effects.once(EffectKey(step, "room"), partial(_ask_for_room, context, step)):
        case BudgetRefused() as refused:
            context.log.append(refused)
            return False
        case LimitReached() as reached:
            context.limits.record(reached)
            return False
        case _:
            return True


async def _ask_for_room(context: Context, step: int) -> BudgetRefused | LimitReached | None:
    """Return why there is no room for one more step; None if there is. Waits while other runs may still free some."""
    refused, late = None, False
    if context.share is not None:
        with context.limits.deadline() as deadline:
            refused = await _reserve(context, step)
        late = deadline.cancel_called
    return context.limits.time_up(step) if late or context.limits.out_of_time else refused


async def _reserve(context: Context, step: int) -> BudgetRefused | None:
    return None if context.share is None else await context.share.reserve(step, context.tokens_now())


async def _run_step(context: Context, scope: RoundScope, step: _Step) -> None:
    context.log.append(StepStarted(step=step.number, round=context.log.facts.rounds))
    step.calls = calls = ToolCalls(context, scope)
    response = await _respond(context, scope, step.number, calls)
    if response is not None:
        context.log.append(response)
        step.message = response.message
    if context.check is not None and await context.check.after_response():
        scope.cancel(Cause("check", context.check.name))
        await scope.checkpoint()  # nothing of this response runs any more
    if response is not None:
        await _finish_response(context, scope, step, response)


async def _finish_response(context: Context, scope: RoundScope, step: _Step, response: ResponseFinished) -> None:
    """Do what follows a logged response: ask the text rule, run the calls, ask the gates, end the step."""
    assert step.calls is not None
    step.calls.cancel_changed(response.message)
    cut_off = context.limits.reached
    if not cut_off:
        await run_text_rule(context, response.message)
    settled = context.effects.settled(step.number)
    if settled is not None:
        if context.check is not None:
            await context.check.settle("claim")  # the other loop asked it before it settled a completion
        for event in settled:
            context.log.append(event)
    elif response.message.calls:
        broken_off = {*response.without_arguments, response.truncated or ""}
        await step.calls.run_all(response.message, broken_off)
    if not cut_off:
        await check_final_text(context, response.message)
    await scope.checkpoint()
    step.finished = True
    _end_step(context, scope, step)


async def run_closing_step(context: Context) -> None:
    """Request one more response at a limit, without tools. It tells the user what was done and what is missing.

    The request still lists the tools, because some providers refuse a history with calls without them; a call that is
    made anyway is not run. The closing step has a separate deadline and does not count as a step.
    """
    number, refused = context.log.facts.steps + 1, None
    with context.cancellable(), context.clock.deadline(context.policy.deadlines.closing) as deadline:
        refused = await context.effects.once(EffectKey(number, "room"), partial(_reserve, context, number))
        if refused is not None:
            context.log.append(refused)
    if deadline.cancel_called or refused is not None:
        return
    context.log.append(MessageAdded(text=context.policy.prompts.closing, origin="closing", ephemeral=True))
    context.log.append(StepStarted(step=number, round=context.log.facts.rounds, closing=True))
    with context.cancellable() as scope:
        try:
            response = await _respond(context, scope, number, None)
            if response is not None:
                context.log.append(response)
        finally:
            await scope.end()
    for call in context.transcript.open_calls:
        context.log.append(
            ToolCallResult(call_id=call.id, name=call.name, content=NOT_RUN_WHILE_CLOSING, status="skipped")
        )
    context.log.append(StepFinished(step=number))


def _close_step(context: Context, scope: RoundScope, step: _Step) -> None:
    """Close a step that was broken off: each of its calls gets one result."""
    if step.calls is not None:
        step.calls.cancel_rest(step.message)
    _end_step(context, scope, step)


def _end_step(context: Context, scope: RoundScope, step: _Step) -> None:
    context.limits.end_step(step.number)
    judged = context.effects.judgement(step.number, context.log.facts.results)
    context.log.append(StepFinished(step=step.number, cut_by=scope.cut_by, judged=judged))


async def _respond(context: Context, scope: RoundScope, step: int, calls: ToolCalls | None) -> ResponseFinished | None:
    """Request the response of a step; None if the provider failed. calls: None for the closing step: no call is run."""
    work = partial(_stream, context, scope, step, calls)
    response = await context.effects.once(EffectKey(step, "response"), work)
    if response is None:
        return None
    by_id = {call.id: call for call in response.finished.message.calls}
    context.taken_ids.update(by_id)
    if calls is not None:
        for id in response.complete:
            calls.start_early(by_id[id])
    return response.finished


async def _stream(
    context: Context,
    scope: RoundScope,
    step: int,
    calls: ToolCalls | None,
) -> Response | None:
    """Request a response and return it as soon as it is complete or cut; None if the provider failed.

    The stream may then still be closing. Nobody waits for that, because it can hang.
    """
    attempts, limits = ResponseBuilder(context, step, calls), context.limits
    check = None if calls is None else context.check
    request = make_request(
        context.transcript,
        tools=context.toolbox.specs,
        tool_choice=context.model_options.tool_choice,
        settings=context.model_options.settings,
        closing=calls is None,
        attempt=attempts.attempt,
        memo=context.memo,
    )
    failed: ProviderError | None = None
    try:
        with limits.deadline() as deadline:
            failed = await _read_response(context, scope, attempts, request, check)
            while attempts.repeated is not None and failed is None and not attempts.cut_for:
                if attempts.retry_degenerate():
                    request = replace(request, attempt=attempts.attempt)
                    failed = await _read_response(context, scope, attempts, request, check)
                elif not attempts.cut_for:
                    failed = attempts.degenerate_error()
    except asyncio.CancelledError:
        attempts.record_failure(Cancelled("cancelled in the middle of the response"))
        raise
    except RunLost:
        raise
    except Exception as error:  # the provider broke the protocol: keep what came before
        attempts.record_failure(ProtocolError(f"{type(error).__name__}: {error}"))
        raise
    if not (attempts.finished or attempts.cut):
        if deadline.cancel_called:
            attempts.cut_off(limits.record_time_up(step, attempts.live_attempt))
        elif failed is None:
            attempts.cut_off(limits.cut_without_end(step))
            if not attempts.cut:
                failed = Interrupted(f"the stream of {context.provider.model} ended without a finish reason")
    if failed is not None and not (deadline.cancel_called or attempts.cut_for):
        attempts.record_failure(failed)
        if context.resumable and calls is not None and is_away(failed):
            raise ProviderAway(f"the provider was away: {failed.message}")
        return None
    return attempts.build() if attempts.live_attempt else None


async def _read_response(
    context: Context, scope: RoundScope, attempts: ResponseBuilder, request: Request, check: BackgroundCheck | None
) -> ProviderError | None:
    """Read a response until it ends or is to be cut. Return the provider's error; None if it did not fail.

    check: cuts it once it is met.
    """
    await context.flush()
    await scope.settled()
    drain, stoppable = partial(_drain, context, attempts), None
    if check is not None:
        stoppable = partial(_let_check_cut, check, attempts)
    try:
        await read_stream(
            context.provider,
            request,
            attempts.feed,
            scope.start,
            drain,
            stoppable,
            until_closed=context.drain,  # the end of the run would cancel the reading of the rest
        )
    except ProviderError as error:
        return error
    finally:
        if check is not None:
            check.cut_with(None)
    return None


def _let_check_cut(check: BackgroundCheck, attempts: ResponseBuilder, stop: Callable[[], None]) -> None:
    """Let the check cut the response as soon as it ends the run. stop: stops reading it."""

    def cut() -> None:
        if not attempts.finished:
            attempts.cut_off(CUT_FOR_CHECK)
            stop()

    check.cut_with(cut)


async def _drain(
    context: Context, attempts: ResponseBuilder, chunks: AsyncIterator[AnyChunk], reading: asyncio.Future[None]
) -> None:
    """After a cut at a completion call, read on until the provider reports the usage, for `policy.drain_seconds`.

    reading: future that is done once nobody waits for the response any more.
    """
    if context.policy.drain_seconds is None or attempts.cut_at is None:
        return
    with context.clock.deadline(context.policy.drain_seconds), suppress(ProviderError):
        async for chunk in chunks:
            if type(chunk) is UsageReport and not reading.done():
                attempts.set_usage(chunk)
                return

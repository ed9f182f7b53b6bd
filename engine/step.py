"""The inner layer: steps of one round, inside one shared cancel scope.

After each step it asks the same `decide` as the outer loop. For a bare "go on" it goes on by itself, up to
`max_inner_steps`; anything else goes back to the outer loop, which decides again by the same facts, records and acts.
"""

from __future__ import annotations

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from ..decision import Assembler, AssistantMessage, GoOn, Policy, ToolCall, Usage, UserMessage
from ..decision.events import (
    AttemptFailed,
    AttemptStarted,
    MessageAdded,
    ResponseFinished,
    StepFinished,
    StepStarted,
    ToolCallEnd,
    ToolCallResult,
)
from ..decision.transcript import rough_tokens, size
from ..providers import Cancelled, Interrupted, ProviderError, Request, ToolChoice
from .calls import Calls
from .context import Context
from .scope import RoundScope
from .texts import ask_text_rule, check_text, hear_again


class _Step:
    """One step as far as it has come, for those who must tidy up after a cancellation."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.message: AssistantMessage | None = None
        self.calls: Calls | None = None
        self.finished = False


async def run_round(context: Context) -> None:
    """Make steps until the outer loop must look, or the shared scope is cancelled."""
    step = _Step(0)
    with context.cancellable() as scope:
        async with anyio.create_task_group() as tasks:
            await hear_again(context)
            while _goes_on(context):
                step = _Step(context.log.facts.steps + 1)
                await _run_step(context, scope, step, tasks)
                if not step.finished:
                    tasks.cancel_scope.cancel()  # the provider gave up: what began early ends, and then the step
                    break
    if step.number and not step.finished:
        _close(context, scope, step)


def _goes_on(context: Context) -> bool:
    """Whether the inner layer may make another step by itself; the first of a round always."""
    facts = context.log.facts
    if facts.inner_steps == 0:
        return True
    if facts.inner_steps >= context.policy.max_inner_steps or facts.questions:
        return False
    decision = context.look_ahead(facts, _inside_a_round(context.policy))
    return isinstance(decision, GoOn) and decision.bare


def _inside_a_round(policy: Policy) -> Policy:
    """The policy without its limits on rounds: the last round that is allowed is not cut off in its middle."""
    limits, session = policy.limits, policy.session_limits
    if limits.rounds is None and session.rounds is None:
        return policy
    return replace(
        policy,
        limits=replace(limits, rounds=None, soft_rounds=None),
        session_limits=replace(session, rounds=None, soft_rounds=None),
    )


async def _run_step(context: Context, scope: RoundScope, step: _Step, tasks: TaskGroup) -> None:
    context.log.append(StepStarted(step=step.number, round=context.log.facts.rounds))
    step.calls = calls = Calls(context, scope, tasks)
    response = await _respond(context, step.number, calls)
    if response is None:
        return
    context.log.append(response)
    step.message = response.message
    await ask_text_rule(context, response.message)
    if response.message.calls:
        await calls.settle(response.message, response.truncated)
    await check_text(context, response.message)
    step.finished = True
    context.log.append(StepFinished(step=step.number, cut_by=scope.cut_by))


async def run_closing_step(context: Context) -> None:
    """One more response at a limit, without tools: what was done and what is missing, for the user.

    The list of tools stays as it is, because some providers refuse a history with calls without it; a call that comes
    nevertheless is not run. It has its own deadline and counts as no step.
    """
    number = context.log.facts.steps + 1
    context.ephemeral.append(UserMessage(context.policy.prompts.closing))
    context.log.append(MessageAdded(text=context.policy.prompts.closing, origin="closing", ephemeral=True))
    context.log.append(StepStarted(step=number, round=context.log.facts.rounds, closing=True))
    with context.cancellable() as scope, context.clock.deadline(context.policy.deadlines.closing):
        async with anyio.create_task_group() as tasks:
            response = await _respond(context, number, Calls(context, scope, tasks), tool_choice="none")
            if response is not None:
                context.log.append(response)
                for call in response.message.calls:
                    content = "Not run: the limit is reached."
                    context.log.append(
                        ToolCallResult(call_id=call.id, name=call.name, content=content, status="skipped")
                    )
    context.log.append(StepFinished(step=number))


def _close(context: Context, scope: RoundScope, step: _Step) -> None:
    """Leave a step that was cancelled with one result for each call."""
    if step.calls is not None:
        step.calls.abandon(step.message)
    context.log.append(StepFinished(step=step.number, cut_by=scope.cut_by))


async def _respond(
    context: Context, step: int, calls: Calls, tool_choice: ToolChoice | None = None
) -> ResponseFinished | None:
    """Stream one response; None if the provider gave up. With `tool_choice` none no call is taken up."""
    log, attempt = context.log, f"{step}.1"
    log.append(AttemptStarted(attempt=attempt, model=context.provider.model))
    context.flush()
    assembler = Assembler(step, attempt, context.taken_ids)
    cut_at: str | None = None
    try:
        async with context.provider.stream(_request(context, attempt, tool_choice)) as chunks:
            async for chunk in chunks:
                for event in assembler.feed(chunk):
                    if type(event) is not ToolCallEnd:
                        log.append(event)
                    elif tool_choice != "none" and _ends(context, calls, assembler.call(event.call_id), event):
                        cut_at = event.call_id
                        break
                if cut_at is not None:
                    break  # leaving the stream's context closes it: at once, and without being cancelled itself
        if assembler.finish is None and cut_at is None:
            raise Interrupted(f"the stream of {context.provider.model} ended without a finish reason")
    except ProviderError as error:
        _failed(context, attempt, error, assembler)
        return None
    except anyio.get_cancelled_exc_class():
        _failed(context, attempt, Cancelled("cancelled in the middle of the response"), assembler)
        raise
    message = assembler.message
    return ResponseFinished(
        step=step,
        attempt=attempt,
        message=message,
        finish=assembler.finish or ("tool_calls" if cut_at else "other"),
        raw_finish=assembler.raw_finish,
        usage=_usage(context, assembler, message),
        cut_at=cut_at,
        truncated=assembler.truncated,
    )


def _ends(context: Context, calls: Calls, call: ToolCall, event: ToolCallEnd) -> bool:
    """Take a call that has become whole; True if the stream is to be cut at it."""
    may_end = calls.may_end(call)
    context.log.append(replace(event, may_end=may_end))
    calls.offer(call)
    policy = context.policy
    return may_end is True and not calls.asked and policy.inner_cancel and policy.mixed != "all"


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


def _failed(context: Context, attempt: str, error: ProviderError, assembler: Assembler) -> None:
    message = assembler.message
    shown = bool(message.text or message.calls or message.reasoning)
    context.log.append(
        AttemptFailed(
            attempt=attempt,
            kind=error.kind,
            message=error.message,
            status=error.status,
            retry_after=error.retry_after,
            after_output=shown,
            usage=_usage(context, assembler, message) if shown else None,
        )
    )


def _usage(context: Context, assembler: Assembler, message: AssistantMessage) -> Usage:
    """What the provider reported; estimated (4 characters a token) where a cut came before its report."""
    reported = assembler.usage
    if reported is not None and assembler.finish is not None:
        return reported
    output = rough_tokens(size(message))
    if reported is not None:
        return replace(reported, output_tokens=max(reported.output_tokens, output), estimated=True)
    return Usage(input_tokens=_context_now(context), output_tokens=output, estimated=True)


def _context_now(context: Context) -> int:
    """The tokens of the context: what the provider counted last, and a rough count of what has come since."""
    tokens, characters = context.transcript.counted
    since = context.transcript.characters - characters
    return tokens + rough_tokens(max(0, since if tokens else since + context.toolbox.characters))

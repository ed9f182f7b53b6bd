"""Responses and calls as durable steps: the kept result, or else the work, whose result is kept before it is given."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any

from ._logging import complain
from .context import Context
from .decision import Event, ToolCall
from .decision.events import (
    FinishReported,
    ReasoningMessageContent,
    ResponseFinished,
    TextMessageContent,
    ToolCallArgs,
    ToolCallEnd,
    ToolCallStart,
    UsageReported,
)
from .durability import NotKept, StepKey
from .kept import KEPT, KeptResponse, kept_response, kept_value, response_kept, value_kept
from .tools.answers import Settled

Respond = Callable[[], Awaitable[ResponseFinished | None]]


class _GaveUp(Exception):
    """The provider gave up: there is no response to keep, and another process asks again."""


async def keep_value(context: Context, key: StepKey, work: Callable[[], Awaitable[Any]]) -> Any:
    """What a tool's function returned: kept, or else by `work`. One that cannot be kept becomes an error."""
    assert context.steps is not None

    async def kept() -> Any:
        return kept_value(await work())

    try:
        return value_kept(await context.steps.step(key, kept))
    except NotKept as error:
        refused = Settled(content=f"The tool ran, but its result cannot be kept: {error}", status="error")

    async def instead() -> Any:
        return kept_value(refused)

    with suppress(NotKept):
        await context.steps.step(key, instead)
    return refused


async def keep_response(
    context: Context, respond: Respond, offer: Callable[[ToolCall], None]
) -> ResponseFinished | None:
    """The response of the step under way: the kept one, or else by `respond`; None if the provider gave up.

    A kept one is told again, as if it had come in few large pieces; `offer` takes each call that had come whole.
    """
    assert context.steps is not None
    made: list[ResponseFinished] = []

    async def work() -> Any:
        with context.log.overheard(KEPT) as events:
            response = await respond()
        if response is None:
            raise _GaveUp
        made.append(response)
        return kept_response(response, events)

    try:
        result = await context.steps.step(context.step_key(), work)
    except _GaveUp:
        return None
    except NotKept as error:
        facts = context.log.facts
        what = "a response is not kept: should the process die now, it is requested again"
        complain(what, why=str(error), run_id=facts.run_id, session_id=facts.session_id)
    if made:
        return made[0]
    kept = response_kept(result)
    context.ephemeral = []  # it has read them
    for event in _told_again(kept):
        context.log.append(event)
    whole = _whole(kept)
    for call in kept.response.message.calls:
        context.taken_ids.add(call.id)
        if call.id in whole:
            offer(call)
    return kept.response


def _whole(kept: KeptResponse) -> dict[str, ToolCallEnd]:
    """The calls that had come whole."""
    attempt = kept.response.attempt
    return {e.call_id: e for e in kept.events if isinstance(e, ToolCallEnd) and e.attempt == attempt}


def _told_again(kept: KeptResponse) -> Iterator[Event]:
    """Its events: the attempts, then the response in one piece each, then what was reported of it."""
    reports: list[Event] = []
    for event in kept.events:
        if isinstance(event, FinishReported | UsageReported):
            reports.append(event)
        elif not isinstance(event, ToolCallEnd):
            yield event
    yield from _parts(kept.response, _whole(kept))
    yield from reports


def _parts(response: ResponseFinished, whole: dict[str, ToolCallEnd]) -> Iterator[Event]:
    attempt, message = response.attempt, response.message
    for block in message.reasoning:
        yield ReasoningMessageContent(
            attempt=attempt, delta=block.text, signature=block.signature, redacted=block.redacted
        )
    if message.text:
        yield TextMessageContent(attempt=attempt, delta=message.text)
    for call in message.calls:
        yield ToolCallStart(attempt=attempt, call_id=call.id, name=call.name)
        if call.arguments:
            yield ToolCallArgs(attempt=attempt, call_id=call.id, delta=call.arguments)
        if call.id in whole:
            yield whole[call.id]

"""Responses and calls as durable steps: the kept result, or else the work, whose result is kept before it is given."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ._logging import log_warning
from .context import Context
from .decision import Event, Image, ToolCall
from .decision.events import (
    AttemptFailed,
    AttemptRetracted,
    AttemptStarted,
    FinishReported,
    LimitReached,
    ReasoningMessageContent,
    ResponseFinished,
    TextMessageContent,
    ToolCallArgs,
    ToolCallEnd,
    ToolCallStart,
    UsageReported,
)
from .decision.messages import ResultStatus
from .durability import ResultNotStored, StepKey
from .tools.results import CallOutcome, Completion, Continue, NeedsUserInput, Phase, images_in, render_result, truncate

CHECKPOINTED_EVENTS: frozenset[type] = frozenset(
    {AttemptStarted, AttemptFailed, AttemptRetracted, ToolCallEnd, FinishReported, UsageReported, LimitReached}
)
"""The events of a response that are kept with it. Its parts are not: the whole response holds them."""
Respond = Callable[[], Awaitable[ResponseFinished | None]]


class _GaveUp(Exception):
    """The provider gave up: there is no response to keep, and another process asks again."""


async def checkpoint_value(context: Context, key: StepKey, work: Callable[[], Awaitable[Any]]) -> Any:
    """What a tool's function returned: kept, or else by `work`. One that cannot be kept becomes an error."""
    assert context.steps is not None

    async def kept() -> Any:
        return dump_value(await work())

    try:
        return load_value(await context.steps.step(key, kept))
    except ResultNotStored as error:
        refused = CallOutcome(content=f"The tool ran, but its result cannot be kept: {error}", status="error")

    async def instead() -> Any:
        return dump_value(refused)

    with suppress(ResultNotStored):
        await context.steps.step(key, instead)
    return refused


async def checkpoint_response(
    context: Context, respond: Respond, offer: Callable[[ToolCall], None]
) -> ResponseFinished | None:
    """The response of the step under way: the kept one, or else by `respond`; None if the provider gave up.

    A kept one is told again, as if it had come in few large pieces; `offer` takes each call that had come whole.
    """
    assert context.steps is not None
    made: list[ResponseFinished] = []

    async def work() -> Any:
        with context.log.captured(CHECKPOINTED_EVENTS) as events:
            response = await respond()
        if response is None:
            raise _GaveUp
        made.append(response)
        return dump_response(response, events)

    try:
        result = await context.steps.step(context.step_key(), work)
    except _GaveUp:
        return None
    except ResultNotStored as error:
        facts = context.log.facts
        what = "a response is not kept: should the process die now, it is requested again"
        log_warning(what, why=str(error), run_id=facts.run_id, session_id=facts.session_id)
    if made:
        return made[0]
    kept = load_response(result)
    context.ephemeral = []  # it has read them
    for event in _replayed_events(kept):
        context.log.append(event)
    whole = _complete_calls(kept)
    for call in kept.response.message.calls:
        context.taken_ids.add(call.id)
        if call.id in whole:
            offer(call)
    return kept.response


def _complete_calls(kept: ResponseCheckpoint) -> dict[str, ToolCallEnd]:
    """The calls that had come whole."""
    attempt = kept.response.attempt
    return {e.call_id: e for e in kept.events if isinstance(e, ToolCallEnd) and e.attempt == attempt}


def _replayed_events(kept: ResponseCheckpoint) -> Iterator[Event]:
    """Its events: the attempts, then the response in one piece each, then what was reported of it."""
    reports: list[Event] = []
    for event in kept.events:
        if isinstance(event, FinishReported | UsageReported):
            reports.append(event)
        elif not isinstance(event, ToolCallEnd):
            yield event
    yield from _response_events(kept.response, _complete_calls(kept))
    yield from reports


def _response_events(response: ResponseFinished, whole: dict[str, ToolCallEnd]) -> Iterator[Event]:
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


# The form in which a durable engine keeps results: what JSON holds, and nothing else.


class ResponseCheckpoint(Struct, frozen=True):
    """A response, and how it came."""

    response: ResponseFinished
    events: tuple[Event, ...] = ()


class _Text(Struct, frozen=True, tag_field="is", tag="text"):
    text: str


class _Settled(Struct, frozen=True, omit_defaults=True, tag_field="is", tag="settled"):
    content: str
    status: ResultStatus = "ok"
    images: tuple[Image, ...] = ()


class _Completion(Struct, frozen=True, omit_defaults=True, tag_field="is", tag="completion"):
    answer: str
    content: str | None = None
    success: bool = True
    error: str | None = None
    pending_issues: tuple[str, ...] = ()
    confirm: str | None = None
    percentage: int | None = None


class _Phase(Struct, frozen=True, omit_defaults=True, tag_field="is", tag="phase"):
    percentage: int
    summary: str = ""
    next_phase: str | None = None
    content: str | None = None


class _Continue(Struct, frozen=True, omit_defaults=True, tag_field="is", tag="continue"):
    reason: str
    content: str | None = None


class _Asked(Struct, frozen=True, tag_field="is", tag="asked"):
    question: str


_Form = _Text | _Settled | _Completion | _Phase | _Continue | _Asked
_FORMS: dict[type, type] = {Completion: _Completion, Phase: _Phase, Continue: _Continue, NeedsUserInput: _Asked}
_BACK: dict[type, type] = {form: answer for answer, form in _FORMS.items()}


def dump_value(value: Any) -> Any:
    """What a tool's function returned, as JSON: an answer as it is, all else as the model reads it."""
    form: _Form
    if isinstance(value, str):
        form = _Text(truncate(value))
    elif type(value) in _FORMS:
        kept = _FORMS[type(value)]
        form = kept(**{name: getattr(value, name) for name in kept.__struct_fields__})  # type: ignore[attr-defined]
    else:
        content, status = render_result(value)
        form = _Settled(content, status, images_in(value))
    return _plain(form)


def load_value(kept: Any) -> Any:
    """The other way round: a value that means the same to the engine as the one that was returned."""
    form = msgspec.convert(kept, _Form)
    if isinstance(form, _Text):
        return form.text
    if isinstance(form, _Settled):
        return CallOutcome(content=form.content, status=form.status, images=form.images)
    return _BACK[type(form)](**{name: getattr(form, name) for name in form.__struct_fields__})


def dump_response(response: ResponseFinished, events: list[Event]) -> Any:
    """A response as JSON; `events` are those of `CHECKPOINTED_EVENTS`, without their numbers and times."""
    return _plain(ResponseCheckpoint(response, tuple(replace(event, seq=0, t=0) for event in events)))


def load_response(kept: Any) -> ResponseCheckpoint:
    """The other way round."""
    return msgspec.convert(kept, ResponseCheckpoint)


def _plain(value: Struct) -> Any:
    """As JSON has it: no tuples, which `to_builtins` would leave."""
    return msgspec.json.decode(msgspec.json.encode(value))

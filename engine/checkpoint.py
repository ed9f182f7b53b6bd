"""Checkpoints responses and tool results in a durable engine, so that a resumed run does not compute them again.

The second half of the module defines the stored form: plain JSON, because every durable engine can store that.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

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
from .providers._logging import log_warning
from .tools.results import CallOutcome, Completion, Continue, NeedsUserInput, Phase, images_in, render_result, truncate

CHECKPOINTED_EVENTS: frozenset[type] = frozenset(
    {AttemptStarted, AttemptFailed, AttemptRetracted, ToolCallEnd, FinishReported, UsageReported, LimitReached}
)
"""Events that are stored with a response. Its deltas are not, because the response holds the whole text."""
Respond = Callable[[], Awaitable[ResponseFinished | None]]


class _GaveUp(Exception):
    """The provider gave up: there is no response to store, and another process may ask again."""


async def checkpoint_value(context: Context, key: StepKey, work: Callable[[], Awaitable[Any]]) -> Any:
    """The stored value of a tool call; if none is stored, that of `work`, which is stored.

    A value that cannot be stored becomes an error result.
    """
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
    """The stored response of the current step, or that of `respond`, which is stored; None if the provider gave up.

    The events of a stored response are logged again as if it had streamed in a few large deltas. offer: is called with
    each complete tool call.
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
    context.ephemeral = []  # the request of the stored response contained them
    for event in _replayed_events(kept):
        context.log.append(event)
    whole = _complete_calls(kept)
    for call in kept.response.message.calls:
        context.taken_ids.add(call.id)
        if call.id in whole:
            offer(call)
    return kept.response


def _complete_calls(kept: ResponseCheckpoint) -> dict[str, ToolCallEnd]:
    """The end events of the complete calls, by call id."""
    attempt = kept.response.attempt
    return {e.call_id: e for e in kept.events if isinstance(e, ToolCallEnd) and e.attempt == attempt}


def _replayed_events(kept: ResponseCheckpoint) -> Iterator[Event]:
    """The events of a stored response: its attempts, then one delta for each part, then the reports."""
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


class ResponseCheckpoint(Struct, frozen=True):
    """A response with the events of its attempts."""

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
    """The JSON form of what a tool's function returned: answers such as Completion by field, all else as text."""
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
    """The inverse of `dump_value`: a value that the engine treats like the one that was returned."""
    form = msgspec.convert(kept, _Form)
    if isinstance(form, _Text):
        return form.text
    if isinstance(form, _Settled):
        return CallOutcome(content=form.content, status=form.status, images=form.images)
    return _BACK[type(form)](**{name: getattr(form, name) for name in form.__struct_fields__})


def dump_response(response: ResponseFinished, events: list[Event]) -> Any:
    """The JSON form of a response and its `CHECKPOINTED_EVENTS`, without sequence numbers and times."""
    return _plain(ResponseCheckpoint(response, tuple(replace(event, seq=0, t=0) for event in events)))


def load_response(kept: Any) -> ResponseCheckpoint:
    """The inverse of `dump_response`."""
    return msgspec.convert(kept, ResponseCheckpoint)


def _plain(value: Struct) -> Any:
    """The value as JSON types. `to_builtins` would leave tuples."""
    return msgspec.json.decode(msgspec.json.encode(value))

"""Checkpoints of responses and tool results in a durable engine, so that a resumed run does not compute them again.

The second half of the module defines the stored form: plain JSON, because every durable engine can store that.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from .decision import Event, Image, Question
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
from .decision.messages import Reasoning, ResultStatus, message_parts
from .durability import ResultNotStored, StepKey, Steps
from .effects import EffectKey, Live, Response
from .event_log import Log
from .providers._logging import log_warning
from .tools.results import (
    CallOutcome,
    Completion,
    Continue,
    NeedsUserInput,
    Phase,
    SubagentAsks,
    images_in,
    render_result,
    truncate,
)

CHECKPOINTED_EVENTS: frozenset[type] = frozenset(
    {AttemptStarted, AttemptFailed, AttemptRetracted, ToolCallEnd, FinishReported, UsageReported, LimitReached}
)
"""Events that are stored with a response. Its deltas are not, because the response has the whole text."""


class _GaveUp(Exception):
    """Raised when the provider gave up: there is no response to store, and another process may ask again."""


class Durable(Live):
    """Effects that ask a durable engine before a response or a call, and let it store the result before anything else.

    No call starts while its response streams: a durable step inside another one cannot be stored.
    """

    def __init__(self, steps: Steps, log: Log) -> None:
        self._steps = steps
        self._log = log

    async def once(self, key: EffectKey, work: Callable[[], Awaitable[Any]]) -> Any:
        """Implement `Effects.once`. Only responses and calls are durable steps; other work is done each time."""
        if key.kind == "response":
            return await self._response(key, work)
        if key.kind == "call":
            return await self._value(key, work)
        return await work()

    def may_start_early(self, call_id: str) -> bool:
        """Return False: no call starts early."""
        return False

    def _step_key(self, key: EffectKey) -> StepKey:
        facts = self._log.facts
        return StepKey(facts.session_id, facts.run_id, key.step, key.call_id)

    async def _value(self, key: EffectKey, work: Callable[[], Awaitable[Any]]) -> Any:
        """Run a tool call as a durable step. Return the stored value, or else that of `work` after storing it.

        If the engine cannot store the value, the call gets an error result that says so, and that is stored instead.
        """

        async def kept() -> Any:
            return dump_value(await work())

        try:
            return load_value(await self._steps.step(self._step_key(key), kept))
        except ResultNotStored as error:
            refused = CallOutcome(content=f"The tool ran, but its result cannot be kept: {error}", status="error")

        async def instead() -> Any:
            return dump_value(refused)

        with suppress(ResultNotStored):
            await self._steps.step(self._step_key(key), instead)
        return refused

    async def _response(self, key: EffectKey, work: Callable[[], Awaitable[Response | None]]) -> Response | None:
        """Request a response as a durable step. Return the stored one, or else that of `work` after storing it.

        None if the provider gave up; nothing is stored then. The events of a stored response are logged again as if it
        had streamed in a few large deltas.
        """
        made: list[Response] = []

        async def kept() -> Any:
            with self._log.captured(CHECKPOINTED_EVENTS) as events:
                response = await work()
            if response is None:
                raise _GaveUp
            made.append(response)
            return dump_response(response.finished, events)

        try:
            result = await self._steps.step(self._step_key(key), kept)
        except _GaveUp:
            return None
        except ResultNotStored as error:
            facts = self._log.facts
            what = "a response is not kept: if the process dies now, it is requested again"
            log_warning(what, why=str(error), run_id=facts.run_id, session_id=facts.session_id)
        if made:
            return made[0]
        stored = load_response(result)
        for event in _replayed_events(stored):
            self._log.append(event)
        return Response(stored.response, tuple(_complete_calls(stored)))


def _complete_calls(kept: ResponseCheckpoint) -> dict[str, ToolCallEnd]:
    """Return the end events of the complete calls, by call id."""
    attempt = kept.response.attempt
    return {e.call_id: e for e in kept.events if isinstance(e, ToolCallEnd) and e.attempt == attempt}


def _replayed_events(kept: ResponseCheckpoint) -> Iterator[Event]:
    """Yield the events of a stored response: its attempts, then one delta for each part, then the reports."""
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
    for part in message_parts(message):
        if isinstance(part, str):
            yield TextMessageContent(attempt=attempt, delta=part)
        elif isinstance(part, Reasoning):
            yield ReasoningMessageContent(
                attempt=attempt,
                delta=part.text,
                signature=part.signature,
                redacted=part.redacted,
                vendor=part.vendor,
            )
        else:
            yield ToolCallStart(attempt=attempt, call_id=part.id, name=part.name)
            if part.arguments:
                yield ToolCallArgs(attempt=attempt, call_id=part.id, delta=part.arguments)
            if part.id in whole:
                yield whole[part.id]


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


class _SubagentAsks(Struct, frozen=True, tag_field="is", tag="subagent_asks"):
    questions: tuple[Question, ...]


_Form = _Text | _Settled | _Completion | _Phase | _Continue | _Asked | _SubagentAsks
_FORMS: dict[type, type] = {
    Completion: _Completion,
    Phase: _Phase,
    Continue: _Continue,
    NeedsUserInput: _Asked,
    SubagentAsks: _SubagentAsks,
}
_BACK: dict[type, type] = {form: answer for answer, form in _FORMS.items()}


def dump_value(value: Any) -> Any:
    """Return a tool function's value as JSON: answers such as Completion field by field, everything else as text."""
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
    """Return the value that `dump_value` dumped, as one that the engine treats like the original."""
    form = msgspec.convert(kept, _Form)
    if isinstance(form, _Text):
        return form.text
    if isinstance(form, _Settled):
        return CallOutcome(content=form.content, status=form.status, images=form.images)
    return _BACK[type(form)](**{name: getattr(form, name) for name in form.__struct_fields__})


def dump_response(response: ResponseFinished, events: list[Event]) -> Any:
    """Return a response and its `CHECKPOINTED_EVENTS` as JSON, without sequence numbers and times."""
    return _plain(ResponseCheckpoint(response, tuple(replace(event, seq=0, t=0) for event in events)))


def load_response(kept: Any) -> ResponseCheckpoint:
    """Return the response that `dump_response` dumped."""
    return msgspec.convert(kept, ResponseCheckpoint)


def _plain(value: Struct) -> Any:
    """Return the value as JSON types. `to_builtins` would leave tuples."""
    return msgspec.json.decode(msgspec.json.encode(value))

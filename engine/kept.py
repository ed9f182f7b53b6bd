"""The form in which a durable engine keeps results: what JSON holds, and nothing else."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from .decision import Event, Image
from .decision.events import (
    AttemptFailed,
    AttemptRetracted,
    AttemptStarted,
    FinishReported,
    LimitReached,
    ResponseFinished,
    ToolCallEnd,
    UsageReported,
)
from .decision.messages import ResultStatus
from .tools.answers import Asked, Completion, Continue, Phase, Settled
from .tools.results import as_text, images_in, shortened

KEPT: frozenset[type] = frozenset(
    {AttemptStarted, AttemptFailed, AttemptRetracted, ToolCallEnd, FinishReported, UsageReported, LimitReached}
)
"""The events of a response that are kept with it. Its parts are not: the whole response holds them."""


class KeptResponse(Struct, frozen=True):
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


_Kept = _Text | _Settled | _Completion | _Phase | _Continue | _Asked
_FORMS: dict[type, type] = {Completion: _Completion, Phase: _Phase, Continue: _Continue, Asked: _Asked}
_BACK: dict[type, type] = {form: answer for answer, form in _FORMS.items()}


def kept_value(value: Any) -> Any:
    """What a tool's function returned, as JSON: an answer as it is, all else as the model reads it."""
    form: _Kept
    if isinstance(value, str):
        form = _Text(shortened(value))
    elif type(value) in _FORMS:
        kept = _FORMS[type(value)]
        form = kept(**{name: getattr(value, name) for name in kept.__struct_fields__})  # type: ignore[attr-defined]
    else:
        content, status = as_text(value)
        form = _Settled(content, status, images_in(value))
    return _plain(form)


def value_kept(kept: Any) -> Any:
    """The other way round: a value that means the same to the engine as the one that was returned."""
    form = msgspec.convert(kept, _Kept)
    if isinstance(form, _Text):
        return form.text
    if isinstance(form, _Settled):
        return Settled(content=form.content, status=form.status, images=form.images)
    return _BACK[type(form)](**{name: getattr(form, name) for name in form.__struct_fields__})


def kept_response(response: ResponseFinished, events: list[Event]) -> Any:
    """A response as JSON; `events` are those of `KEPT`, without their numbers and times."""
    return _plain(KeptResponse(response, tuple(replace(event, seq=0, t=0) for event in events)))


def response_kept(kept: Any) -> KeptResponse:
    """The other way round."""
    return msgspec.convert(kept, KeptResponse)


def _plain(value: Struct) -> Any:
    """As JSON has it: no tuples, which `to_builtins` would leave."""
    return msgspec.json.decode(msgspec.json.encode(value))

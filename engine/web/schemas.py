"""What the routes are sent: bodies and queries, and how they are read without trusting their length."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.requests import Request

from ..providers.clock import Clock
from ..store.base import SessionStatus
from .errors import Refused

T = TypeVar("T")

Text = Annotated[str, Meta(min_length=1, pattern=r"\S", description="Not blank.")]
"""What a person says. How long it may be is the server's setting: `WebLimits.text`."""
Word = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f]+$")]
"""A name or an id."""


class NewSession(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A session to start, with its first run."""

    prompt: Text
    agent: Word | None = None
    """The one that is there first, if left out."""


class NewRun(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Another run of a session."""

    prompt: Text


class Answer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer to an open question. `call_id` is needed where several are open."""

    text: Text
    call_id: Word | None = None


class Message(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something for a run to hear while it goes on."""

    text: Text


class Cancel(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a run is cancelled: a word that its record keeps."""

    cause: Word | None = None


class SessionsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which sessions."""

    status: SessionStatus | UnsetType = UNSET
    agent: Word | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=200)] = 50
    before: Annotated[str, Meta(min_length=1, max_length=500)] | UnsetType = UNSET
    """The `next` of the page before."""


class StreamQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a stream is read."""

    last_event_id: Annotated[str, Meta(max_length=200)] = ""
    """The same as the header `Last-Event-ID`, for those who cannot set one."""


OnDisconnect = Literal["detach", "cancel"]
"""What becomes of a run once its reader has left: `detach` lets it go on."""


class OnDisconnectQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a run is read that begins with its reader."""

    on_disconnect: OnDisconnect = "detach"


class RunStreamQuery(StreamQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the stream of one run is read."""

    on_disconnect: OnDisconnect = "detach"


class OutcomeQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long to wait for the outcome, in seconds."""

    wait: Annotated[float, Meta(ge=0, le=60)] = 0


async def read_body(request: Request, most: int, seconds: float, clock: Clock) -> bytes:
    """The body, of at most so many bytes whatever its headers say. Raises Refused: 400, 408 or 413."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared[:20]) > most:
        raise _too_large(most)
    body = bytearray()
    with clock.deadline(seconds) as scope:
        async for chunk in request.stream():
            body += chunk
            if len(body) > most:
                raise _too_large(most)
    if scope.cancelled_caught:
        raise Refused(408, "timeout", f"the body did not come within {seconds:g} s", {"Connection": "close"})
    return bytes(body)


def check_media_type(given: str) -> None:
    """Refuse what web pages of other origins could send without being asked. Raises Refused: 415."""
    if given.partition(";")[0].strip().lower() != "application/json":
        raise Refused(415, "media_type", "send the body as application/json")


def decoded(body: bytes, kind: type[T]) -> T:
    """What a body says. Raises Refused: 400 or 422."""
    if not body:
        raise Refused(400, "malformed", f"the body is empty: send a JSON object with {_fields(kind)}")
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise Refused(422, "invalid", f"the body does not fit: {error}; it holds {_fields(kind)}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(400, "malformed", f"the body is no JSON: {_why(error)}") from None


def _fields(kind: type[Any]) -> str:
    """The fields of a body, for people: `prompt`, and maybe `agent`."""
    fields = msgspec.structs.fields(kind)
    needed = [f"`{field.encode_name}`" for field in fields if field.required]
    others = [f"`{field.encode_name}`" for field in fields if not field.required]
    return ", and maybe ".join(", ".join(names) for names in (needed, others) if names)


def query_of(request: Request, kind: type[T]) -> T:
    """What stands in the query. Raises Refused: 422."""
    given: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name in given:
            raise Refused(422, "invalid", f"the query names {name[:50]!r} twice")
        given[name] = value
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Refused(422, "invalid", f"the query does not fit: {error}") from None


def if_given(value: T | UnsetType) -> T | None:
    """What stood in the query; None if nothing did."""
    return None if isinstance(value, UnsetType) else value


def check_text(text: str, longest: int) -> str:
    """The text, if it is no longer than so many characters. Raises Refused: 422."""
    if len(text) > longest:
        raise Refused(422, "too_long", f"the text has {len(text):,} characters, and {longest:,} is the most")
    return text


def _too_large(most: int) -> Refused:
    return Refused(413, "too_large", f"the body is larger than {most:,} bytes")


def _why(error: Any) -> str:
    return str(error) if isinstance(error, msgspec.DecodeError) else type(error).__name__

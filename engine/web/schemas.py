"""What the routes are sent: bodies and queries, and how they are read without trusting their length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.requests import Request

from ..decision import Outcome, Question, Usage
from ..engine import Engine
from ..providers.clock import Clock
from ..store.base import SessionStatus, StoredRun, StoredSession
from .errors import HttpError

T = TypeVar("T")
Text = Annotated[str, Meta(min_length=1, pattern=r"\S", description="Not blank.")]
"""What a person says. How long it may be is the server's setting: `WebLimits.text`."""
Name = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f]+$")]
"""A name or an id."""


class SessionRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A session to start, with its first run."""

    prompt: Text
    agent: Name | None = None
    """The one that is there first, if left out."""


class RunRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Another run of a session."""

    prompt: Text


class AnswerRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer to an open question. `call_id` is needed where several are open."""

    text: Text
    call_id: Name | None = None


class MessageRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something for a run to hear while it goes on."""

    text: Text


class CancelRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a run is cancelled: a word that its record keeps."""

    cause: Name | None = None


OnDisconnect = Literal["detach", "cancel"]
"""What becomes of a run once its reader has left: `detach` lets it go on."""


class SessionsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which sessions."""

    status: SessionStatus | UnsetType = UNSET
    agent: Name | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=200)] = 50
    before: Annotated[str, Meta(min_length=1, max_length=500)] | UnsetType = UNSET
    """The `next` of the page before."""


class StreamQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a stream is read."""

    last_event_id: Annotated[str, Meta(max_length=200)] = ""
    """The same as the header `Last-Event-ID`, for those who cannot set one."""


class OnDisconnectQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a run is read that begins with its reader."""

    on_disconnect: OnDisconnect = "detach"


class RunStreamQuery(StreamQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the stream of one run is read."""

    on_disconnect: OnDisconnect = "detach"


class OutcomeQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long to wait for the outcome, in seconds."""

    wait: Annotated[float, Meta(ge=0, le=60)] = 0


class SessionResponse(Struct, frozen=True, kw_only=True):
    """One session; `runs` and `usage` are there where a single session was asked for."""

    id: str
    agent: str
    title: str
    status: SessionStatus
    stop_reason: str | None
    created_at: str
    updated_at: str
    run_id: str | None
    steps: int
    question: QuestionResponse | None
    questions: list[QuestionResponse]
    usage: Usage | None
    can_resume: bool
    holder: str | None
    """The process that runs it now; None while it rests or waits."""
    trouble: str | None
    """Why it was interrupted and does not go on by itself, if that is known."""
    runs: list[RunResponse] | UnsetType = UNSET


class QuestionResponse(Struct, frozen=True, kw_only=True):
    """A question that waits for an answer."""

    call_id: str
    text: str


# What the routes answer: sessions, runs and what belongs to them, as JSON.


class RunResponse(Struct, frozen=True, kw_only=True):
    """One run of a session."""

    id: str
    session_id: str
    number: int
    status: SessionStatus
    stop_reason: str | None
    prompt: str | None
    started_at: str
    finished_at: str | None
    last_seq: int
    outcome: Outcome | None


class SessionListResponse(Struct, frozen=True, kw_only=True):
    """One page of sessions, newest first; `next` is where the next page begins."""

    sessions: list[SessionResponse]
    next: str | None


class MessageResponse(Struct, frozen=True, kw_only=True):
    """A message that a run will hear."""

    message_id: str
    session_id: str
    run_id: str | None


class AgentResponse(Struct, frozen=True, kw_only=True):
    """An agent that sessions can be started with."""

    name: str
    model: str
    policy: str
    tools: list[str]


class AgentListResponse(Struct, frozen=True, kw_only=True):
    """All agents; the first is that of sessions that name none."""

    agents: list[AgentResponse]


class HealthResponse(Struct, frozen=True, kw_only=True):
    """Whether the server takes new runs, and how many are going on."""

    status: Literal["ok", "stopping"]
    running: int


def session_response(session: StoredSession, runs: Sequence[StoredRun] | None = None) -> SessionResponse:
    """A session as the routes tell it, with its runs if they are given."""
    questions = [_question(question) for question in session.questions]
    return SessionResponse(
        id=session.id,
        agent=session.agent,
        title=session.title,
        status=session.status,
        stop_reason=session.stop_reason,
        created_at=session.created_at,
        updated_at=session.updated_at,
        run_id=session.run_id,
        steps=session.steps,
        question=questions[0] if questions else None,
        questions=questions,
        usage=_used(runs or ()),
        can_resume=session.status == "interrupted",
        holder=session.holder,
        trouble=session.trouble,
        runs=UNSET if runs is None else [run_response(run) for run in runs],
    )


def run_response(run: StoredRun) -> RunResponse:
    """A run as the routes tell it."""
    return RunResponse(**{name: getattr(run, name) for name in RunResponse.__struct_fields__})


def agent_response(name: str, engine: Engine) -> AgentResponse:
    """An agent as the routes tell it."""
    tools = [spec.name for spec in engine.toolbox.specs]
    return AgentResponse(name=name, model=engine.provider.model, policy=engine.policy.name, tools=tools)


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
        raise HttpError(408, "timeout", f"the body did not come within {seconds:g} s", {"Connection": "close"})
    return bytes(body)


def check_media_type(given: str) -> None:
    """Refuse what web pages of other origins could send without being asked. Raises Refused: 415."""
    if given.partition(";")[0].strip().lower() != "application/json":
        raise HttpError(415, "media_type", "send the body as application/json")


def decode_body(body: bytes, kind: type[T]) -> T:
    """What a body says. Raises Refused: 400 or 422."""
    if not body:
        raise HttpError(400, "malformed", f"the body is empty: send a JSON object with {_fields(kind)}")
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise HttpError(422, "invalid", f"the body does not fit: {error}; it holds {_fields(kind)}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HttpError(400, "malformed", f"the body is no JSON: {_why(error)}") from None


def decode_query(request: Request, kind: type[T]) -> T:
    """What stands in the query. Raises Refused: 422."""
    given: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name in given:
            raise HttpError(422, "invalid", f"the query names {name[:50]!r} twice")
        given[name] = value
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise HttpError(422, "invalid", f"the query does not fit: {error}") from None


def none_if_unset(value: T | UnsetType) -> T | None:
    """What stood in the query; None if nothing did."""
    return None if isinstance(value, UnsetType) else value


def check_length(text: str, longest: int) -> str:
    """The text, if it is no longer than so many characters. Raises Refused: 422."""
    if len(text) > longest:
        raise HttpError(422, "too_long", f"the text has {len(text):,} characters, and {longest:,} is the most")
    return text


def _fields(kind: type[Any]) -> str:
    """The fields of a body, for people: `prompt`, and maybe `agent`."""
    fields = msgspec.structs.fields(kind)
    needed = [f"`{field.encode_name}`" for field in fields if field.required]
    others = [f"`{field.encode_name}`" for field in fields if not field.required]
    return ", and maybe ".join(", ".join(names) for names in (needed, others) if names)


def _too_large(most: int) -> HttpError:
    return HttpError(413, "too_large", f"the body is larger than {most:,} bytes")


def _why(error: Any) -> str:
    return str(error) if isinstance(error, msgspec.DecodeError) else type(error).__name__


def _used(runs: Sequence[StoredRun]) -> Usage | None:
    """What the runs that have ended used; one that goes on after an answer counts what was used before it, too."""
    whole: Usage | None = None
    before: Usage | None = None
    for run in runs:
        if run.outcome is None:
            continue
        start = before if run.prompt is None else whole
        before = start
        whole = run.outcome.usage if start is None else start + run.outcome.usage
    return whole


def _question(question: Question) -> QuestionResponse:
    return QuestionResponse(call_id=question.call_id, text=question.text)

"""Schemas of the HTTP interface: request bodies, queries and responses; decoding and building them.

Docstrings of the structs are descriptions in the OpenAPI document.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.requests import Request

from ..approvals import Approve, Deny
from ..decision import UserMessage
from ..engine import Engine
from ..http.problems import HttpError
from ..http.session_schemas import SessionResponse, question_response, run_response, total_usage
from ..message_history import read_prompt
from ..providers.clock import Clock
from ..service.errors import is_received
from ..store.base import SessionStatus, StoredRun, StoredSession

T = TypeVar("T")
PromptBody = str | list[dict[str, Any]]
"""A prompt, a message or an answer: a text that is not blank, or texts and images as content parts of OpenAI or
Anthropic, of which the server fetches none; `read_checked_prompt` checks it. Without constraints here: with one on a
part of this union, msgspec 0.22 made the process crash at its end, while garbage was collected, in 5 of 30 runs."""
Name = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f]+$(?!\n)")]
"""The name of an agent, a cause, or an id: without control characters. Python's `$` matches before a newline at the end
too, so the pattern refuses that newline explicitly."""


class SessionRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A session to start, with its first run."""

    prompt: PromptBody
    agent: Name | None = None
    """The default agent, if left out."""
    history: list[dict[str, Any]] = []
    """Messages before the prompt, in OpenAI's or Anthropic's form."""
    metadata: dict[str, Any] = {}
    """Stored unchanged with the session, for the functions of its runs; 16 kB at most."""
    until: str | list[str] | dict[str, Any] | None = None
    """The check that says when the work is done, in place of the agent's: a command, a list of commands, or an object
    with `commands` and `guard`, `score`, `timeout`, `share`, `copy`, `from_failing`. Only where the operator allows
    it."""


class RunRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The next run of a session."""

    prompt: PromptBody


class AnswerRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer to an open question. `call_id` is needed if several questions are open.

    A question with `extends` is answered with a number of steps (`"20"`), a yes or a no.
    """

    text: PromptBody
    call_id: Name | None = None


class ApprovalRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether a call that waits for approval may run."""

    call_id: Name
    approved: bool
    arguments: dict[str, Any] | None = None
    """With `approved`: all arguments of the call, in place of those that the model gave it."""
    reason: str = ""
    """Without `approved`: why, for the model."""


class GivenAnswer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer to one of several questions: `text`, or `approved` for a call that waits for approval."""

    call_id: Name
    text: PromptBody | None = None
    approved: bool | None = None
    arguments: dict[str, Any] | None = None
    """With `approved`: all arguments of the call, in place of those that the model gave it."""
    reason: str = ""
    """With `approved: false`: why, for the model."""


class AnswersRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Answers to several open questions, one for each: if one is wrong, none is taken."""

    answers: Annotated[list[GivenAnswer], Meta(min_length=1)]


class MessageRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message to a run that is going on."""

    text: PromptBody


class CancelRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a run is cancelled; the cause is recorded."""

    cause: Name | None = None


OnDisconnect = Literal["detach", "cancel"]
"""The fate of a run whose reader disconnects: `detach` lets it continue, `cancel` cancels it."""


class SessionsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which sessions to list."""

    parent: Name | UnsetType = UNSET
    """The sub-agents of this session; left out: sessions that are not sub-agents."""
    status: SessionStatus | UnsetType = UNSET
    agent: Name | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=200)] = 50
    before: Annotated[str, Meta(min_length=1, max_length=500)] | UnsetType = UNSET
    """The `next` of the previous page."""


class StreamQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The query of a request for a stream of events."""

    last_event_id: Annotated[str, Meta(max_length=200)] = ""
    """The same as the header `Last-Event-ID`, for clients that cannot set it."""


class OnDisconnectQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The query of a request that starts a run and streams its events in the response."""

    on_disconnect: OnDisconnect = "detach"


class RunStreamQuery(StreamQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The query of a request for the events of a run."""

    on_disconnect: OnDisconnect = "detach"


class OutcomeQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long to wait for the outcome, in seconds."""

    wait: Annotated[float, Meta(ge=0, le=60)] = 0


class SessionListResponse(Struct, frozen=True, kw_only=True):
    """One page of sessions, newest first; `next` is where the next page begins."""

    sessions: list[SessionResponse]
    next: str | None


class MessageResponse(Struct, frozen=True, kw_only=True):
    """An accepted message."""

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
    """All agents; the first is the default."""

    agents: list[AgentResponse]


class HealthResponse(Struct, frozen=True, kw_only=True):
    """Whether the server accepts new runs, and how many are going on."""

    status: Literal["ok", "stopping"]
    running: int


class ReadyResponse(Struct, frozen=True, kw_only=True):
    """The server can work. If it cannot, the response is a problem, 503 `not_ready`."""

    status: Literal["ok"]


def session_response(session: StoredSession, runs: Sequence[StoredRun] | None = None) -> SessionResponse:
    """Return the response for a session, with its runs if they are given."""
    questions = [question_response(question) for question in session.questions]
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
        usage=total_usage(runs or ()),
        can_resume=session.status == "interrupted" and not is_received(session),
        holder=session.holder,
        trouble=session.trouble,
        metadata=session.metadata,
        parent=session.parent,
        runs=UNSET if runs is None else [run_response(run) for run in runs],
    )


def agent_response(name: str, engine: Engine) -> AgentResponse:
    """Return the response for an agent."""
    tools = [spec.name for spec in engine.config.toolbox.specs]
    return AgentResponse(name=name, model=engine.config.provider.model, policy=engine.config.policy.name, tools=tools)


async def read_body(request: Request, most: int, seconds: float, clock: Clock) -> bytes:
    """Read the request body, of at most `most` bytes whatever `Content-Length` says, within `seconds`.

    Raises HttpError: 408 or 413.
    """
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
        raise HttpError(408, "timeout", f"the body did not arrive within {seconds:g} s", {"Connection": "close"})
    return bytes(body)


def check_media_type(given: str) -> None:
    """Raise HttpError (415) unless it is JSON: web pages of any origin may send forms and plain text (CSRF)."""
    if given.partition(";")[0].strip().lower() != "application/json":
        raise HttpError(415, "media_type", "send the body as application/json")


def decode_body(body: bytes, kind: type[T]) -> T:
    """Decode the body. Raises HttpError: 400 for malformed JSON, 422 if it does not match `kind`."""
    if not body:
        raise HttpError(400, "malformed", f"the body is empty: send a JSON object with {_fields(kind)}")
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise HttpError(422, "invalid", f"the body is not valid: {error}; it takes {_fields(kind)}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HttpError(400, "malformed", f"the body is not JSON: {_why(error)}") from None


def decode_query(request: Request, kind: type[T]) -> T:
    """Decode the query. Raises HttpError (422)."""
    given: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name in given:
            raise HttpError(422, "invalid", f"the query has {name[:50]!r} twice")
        given[name] = value
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise HttpError(422, "invalid", f"the query is not valid: {error}") from None


def none_if_unset(value: T | UnsetType) -> T | None:
    """Return the value, or None if the query does not have it."""
    return None if isinstance(value, UnsetType) else value


def check_length(text: str, longest: int, what: str = "the text") -> str:
    """Return the text if it has at most `longest` characters. Raises HttpError (422)."""
    if len(text) > longest:
        raise HttpError(422, "too_long", f"{what} has {len(text):,} characters, and at most {longest:,} are allowed")
    return text


def read_checked_prompt(prompt: str | list[dict[str, Any]], longest: int, role: str = "prompt") -> UserMessage:
    """Return the message of a prompt, or of another input in this role, whose text has at most `longest` characters.

    Raises HttpError (422) and WrongUse.
    """
    message = read_prompt(prompt, role)
    check_length(message.text, longest, f"the {role}")
    return message


def read_answers(body: AnswersRequest, longest: int) -> dict[str, UserMessage | Approve | Deny]:
    """Return the answers by the call ids of their questions. Raises HttpError (422), which names the answer."""
    answers: dict[str, UserMessage | Approve | Deny] = {}
    for answer in body.answers:
        if answer.call_id in answers:
            raise HttpError(422, "invalid", f"question {answer.call_id!r} is given two answers: give it one")
        answers[answer.call_id] = _read_answer(answer, longest)
    return answers


def _read_answer(answer: GivenAnswer, longest: int) -> UserMessage | Approve | Deny:
    if answer.text is None and answer.approved is not None:
        return read_approval(answer, longest)
    if answer.text is None or answer.approved is not None or answer.arguments is not None or answer.reason:
        raise HttpError(422, "invalid", f"the answer to {answer.call_id!r} needs `text` or `approved`, and one of them")
    return read_checked_prompt(answer.text, longest, f"answer to {answer.call_id!r}")


def read_approval(given: ApprovalRequest | GivenAnswer, longest: int) -> Approve | Deny:
    """Return the user's approval or denial of a call; a reason has at most `longest` characters.

    Raises HttpError (422).
    """
    if (given.approved and given.reason) or (not given.approved and given.arguments is not None):
        why = "`arguments` go with an approval, `reason` with a denial: leave the other out"
        raise HttpError(422, "invalid", f"the answer to {given.call_id!r}: {why}")
    if given.approved:
        return Approve(given.arguments)
    return Deny(check_length(given.reason, longest, f"the reason for {given.call_id!r}"))


def _fields(kind: type[Any]) -> str:
    """List the fields of a body for an error message: "`prompt`, and maybe `agent`"."""
    fields = msgspec.structs.fields(kind)
    needed = [f"`{field.encode_name}`" for field in fields if field.required]
    others = [f"`{field.encode_name}`" for field in fields if not field.required]
    return ", and maybe ".join(", ".join(names) for names in (needed, others) if names)


def _too_large(most: int) -> HttpError:
    return HttpError(413, "too_large", f"the body is larger than {most:,} bytes")


def _why(error: Any) -> str:
    return str(error) if isinstance(error, msgspec.DecodeError) else type(error).__name__

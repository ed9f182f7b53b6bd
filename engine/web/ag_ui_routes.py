"""Request handlers for AG-UI (docs/guides/ag_ui.md): start a run from a `RunAgentInput`; stream sessions as AG-UI.

The client names the thread. If the name is the id of a session, it is that session. Otherwise the id of the session is
a hash of owner and name, so that it is found again, even after a restart, without a table.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import ExitStack, aclosing
from hashlib import sha256

from starlette.responses import Response

from ..approvals import Approve, Deny
from ..decision import Event, Question, UserMessage
from ..http.sse import HEARTBEAT, RETRY, event_id
from ..records.format import decode_line
from ..records.frames import Frame, Frames
from ..service.errors import Unknown
from ..service.service import Service
from ..store.base import StoredRun, StoredSession
from .ag_ui import AgUiInput, AgUiTranslator, QuestionAnswer, read_input, to_sse
from .request_context import RequestContext, cancel_on_disconnect
from .schemas import OnDisconnectQuery, check_length
from .session_routes import resume_position


async def run_agent(context: RequestContext) -> Response:
    """Start the run that a `RunAgentInput` asks for, and stream it as AG-UI events."""
    query: OnDisconnectQuery = context.query
    agent_input = read_input(context.body)
    for text in (agent_input.prompt, *(answer.text for answer in agent_input.answers)):
        check_length(text or "", context.limits.text)
    with ExitStack() as stack:
        slot = context.state.readers.acquire(context.owner)  # first: no run may start whose stream is refused
        stack.push(slot)
        session = await _start(context.service, agent_input, context.owner)
        assert session.run_id is not None
        stored = await context.service.run(session.run_id, owner=context.owner)
        translator = AgUiTranslator(
            thread_id=agent_input.thread_id,
            run_id=agent_input.run_id,
            ignored=agent_input.ignored_by(session.metadata),
        )
        on_disconnect = cancel_on_disconnect(context.service, stored) if query.on_disconnect == "cancel" else None
        frames = _encode_stream(context.service.follow_run(stored), translator, None, with_run=False)
        response = context.stream(frames, on_disconnect=on_disconnect, slot=slot)
        stack.pop_all()
    return response


async def session_as_ag_ui(context: RequestContext) -> Response:
    """Stream the runs of a session as AG-UI events, from the start; the stream stays open for the next run."""
    id = context.id("session")
    await context.service.session(id, owner=context.owner)
    after = await resume_position(context, id)
    runs = await context.service.runs(id, owner=context.owner)
    return context.stream(
        _encode_stream(
            context.service.follow_session(id), AgUiTranslator(thread_id=id), _already_sent(runs, after), with_run=True
        )
    )


async def _start(service: Service, agent_input: AgUiInput, owner: str) -> StoredSession:
    """Start the run that the input asks for; returns its session."""
    session = await _find_session(service, agent_input.thread_id, owner)
    if session is None:
        if agent_input.prompt is None:
            agent_input.answers_to(())  # raises: no question is open
        return await service.start(
            agent_input.message,
            owner=owner,
            agent=agent_input.agent,
            metadata=agent_input.metadata,
            session_id=_session_id_for(agent_input.thread_id, owner),
        )
    answers = agent_input.answers_to(session.questions)
    if not answers:
        return await service.start_run(session.id, agent_input.message, owner=owner)
    open_now = {question.call_id: question for question in session.questions}
    given = {answer.call_id: _answer_of(answer, open_now[answer.call_id]) for answer in answers}
    return await service.answer_all(session.id, given, owner=owner)


def _answer_of(answer: QuestionAnswer, question: Question) -> UserMessage | Approve | Deny:
    """Return the answer in the form that the service takes."""
    if question.extends and answer.approved is False:
        return UserMessage("no")
    if question.tool is None or answer.approved is None:
        return answer.said
    return Approve(answer.arguments) if answer.approved else Deny(answer.text)


async def _find_session(service: Service, thread_id: str, owner: str) -> StoredSession | None:
    for id in (thread_id, _session_id_for(thread_id, owner)):
        try:
            return await service.session_at_rest(id, owner=owner)
        except Unknown:
            pass
    return None


def _session_id_for(thread_id: str, owner: str) -> str:
    """Return the session id for a thread that the client named: a hash of owner and name."""
    name = sha256(f"{owner}\n{thread_id}".encode("utf-8", "surrogatepass")).hexdigest()
    return f"session_{name[:24]}"


def _already_sent(runs: list[StoredRun], after: tuple[str, int] | None) -> dict[str, int]:
    """Return for each run the number of the last event that the reader has received."""
    already_sent: dict[str, int] = {}
    for run in runs if after is not None else ():
        if after is not None and run.id == after[0]:
            already_sent[run.id] = after[1]
            break
        already_sent[run.id] = run.last_seq
    return already_sent


async def _encode_stream(
    batches: AsyncGenerator[Frames, None],
    translator: AgUiTranslator,
    already_sent: dict[str, int] | None,
    *,
    with_run: bool,
) -> AsyncGenerator[bytes, None]:
    """Yield AG-UI events as server-sent events. `already_sent`: per run, the last event not to send again."""
    async with aclosing(batches):
        yield RETRY
        async for batch in batches:
            if not batch:
                yield HEARTBEAT
                continue
            chunk = b"".join(_encode_batch(batch, translator, already_sent or {}, with_run))
            if chunk:
                yield chunk


def _encode_batch(
    batch: Frames, translator: AgUiTranslator, already_sent: dict[str, int], with_run: bool
) -> list[bytes]:
    parts = []
    for frame in batch:
        if isinstance(frame, Frame):
            events = translator.translate(_event(frame.line), skip=frame.seq <= already_sent.get(frame.run_id, 0))
            parts.append(to_sse(event_id(frame, with_run), events))
        else:
            events = translator.lagged(frame.run_id, frame.missed, frame.next_seq)
            parts.append(b"".join(b"data: %b\n\n" % event for event in events))
    return parts


def _event(line: bytes) -> Event:
    return decode_line(line)  # type: ignore[return-value]

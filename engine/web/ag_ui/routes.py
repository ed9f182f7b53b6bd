"""The routes of AG-UI: run what its client asks for, and tell a session in its words. See docs/ag_ui.md.

The client names the thread. One that is the id of a session is that session; any other name belongs to a session of
its own, whose id is made from owner and name, so that it is found again without a table, also after a restart.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import ExitStack, aclosing
from hashlib import sha256

from starlette.responses import Response

from ...decision import Event
from ...records.format import decode_line
from ...service.errors import Unknown
from ...service.event_buffer import Frame
from ...service.follow import Frames
from ...service.service import Service
from ...store.base import StoredRun, StoredSession
from ..request import RequestContext, cancel_on_disconnect
from ..schemas import OnDisconnectQuery, check_length
from ..session_routes import resume_position
from ..sse import HEARTBEAT, RETRY, event_id
from . import AgUiInput, AgUiTranslator, read_input, to_sse


async def run(context: RequestContext) -> Response:
    """Run what a `RunAgentInput` asks for, and stream it as AG-UI events."""
    query: OnDisconnectQuery = context.query
    agent_input = read_input(context.body)
    for text in (agent_input.prompt, *(answer.text for answer in agent_input.answers)):
        check_length(text or "", context.limits.text)
    with ExitStack() as stack:
        slot = context.state.readers.acquire(context.owner)  # before the run: nobody is refused what has begun
        stack.push(slot)
        session = await _start(context.service, agent_input, context.owner)
        assert session.run_id is not None
        stored = await context.service.run(session.run_id, owner=context.owner)
        translator = AgUiTranslator(
            thread_id=agent_input.thread_id, run_id=agent_input.run_id, ignored=agent_input.ignored
        )
        on_disconnect = cancel_on_disconnect(context.service, stored) if query.on_disconnect == "cancel" else None
        frames = _translated(context.service.follow_run(stored), translator, None, with_run=False)
        response = context.stream(frames, on_disconnect=on_disconnect, slot=slot)
        stack.pop_all()
    return response


async def events(context: RequestContext) -> Response:
    """The runs of a session as AG-UI events, from its beginning; the stream stays open for the next run."""
    id = context.id("session")
    await context.service.session(id, owner=context.owner)
    after = await resume_position(context, id)
    runs = await context.service.runs(id, owner=context.owner)
    return context.stream(
        _translated(
            context.service.follow_session(id), AgUiTranslator(thread_id=id), _already_sent(runs, after), with_run=True
        )
    )


async def _start(service: Service, agent_input: AgUiInput, owner: str) -> StoredSession:
    """The session with the run that was asked for."""
    session = await _find_session(service, agent_input.thread_id, owner)
    if session is None:
        if agent_input.prompt is None:
            agent_input.answers_to(())  # raises: no question is open
        return await service.start(
            agent_input.prompt or "",
            owner=owner,
            agent=agent_input.agent,
            session_id=_session_id_for(agent_input.thread_id, owner),
        )
    answers = agent_input.answers_to(session.questions)
    if not answers:
        return await service.start_run(session.id, agent_input.prompt or "", owner=owner)
    for answer in answers:
        session = await service.answer(session.id, answer.text, call_id=answer.call_id, owner=owner)
        if answer is not answers[-1] and session.run_id is not None:  # it only hands its answer in
            run = await service.run(session.run_id, owner=owner)
            async with aclosing(service.follow_run(run)) as portions:
                async for _ in portions:
                    pass
    return session


async def _find_session(service: Service, thread_id: str, owner: str) -> StoredSession | None:
    for id in (thread_id, _session_id_for(thread_id, owner)):
        try:
            return await service.session(id, owner=owner)
        except Unknown:
            pass
    return None


def _session_id_for(thread_id: str, owner: str) -> str:
    """The id of the session of a thread that its client named."""
    name = sha256(f"{owner}\n{thread_id}".encode("utf-8", "surrogatepass")).hexdigest()
    return f"session_{name[:24]}"


def _already_sent(runs: list[StoredRun], after: tuple[str, int] | None) -> dict[str, int]:
    """How many events of each run the reader has had."""
    already_sent: dict[str, int] = {}
    for one in runs if after is not None else ():
        if after is not None and one.id == after[0]:
            already_sent[one.id] = after[1]
            break
        already_sent[one.id] = one.last_seq
    return already_sent


async def _translated(
    portions: AsyncGenerator[Frames, None],
    translator: AgUiTranslator,
    already_sent: dict[str, int] | None,
    *,
    with_run: bool,
) -> AsyncGenerator[bytes, None]:
    """Frames of AG-UI events. `had`: events of each run that the reader is not told again."""
    async with aclosing(portions):
        yield RETRY
        async for portion in portions:
            if not portion:
                yield HEARTBEAT
                continue
            chunk = b"".join(_translate_frames(portion, translator, already_sent or {}, with_run))
            if chunk:
                yield chunk


def _translate_frames(
    portion: Frames, translator: AgUiTranslator, already_sent: dict[str, int], with_run: bool
) -> list[bytes]:
    frames = []
    for frame in portion:
        if isinstance(frame, Frame):
            said = translator.translate(_event(frame.line), skip=frame.seq <= already_sent.get(frame.run_id, 0))
            frames.append(to_sse(event_id(frame, with_run), said))
        else:
            said = translator.lagged(frame.run_id, frame.missed, frame.next_seq)
            frames.append(b"".join(b"data: %b\n\n" % one for one in said))
    return frames


def _event(line: bytes) -> Event:
    return decode_line(line)  # type: ignore[return-value]

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
from ..request import Asked, cancelling
from ..schemas import OnDisconnectQuery, check_text
from ..session_routes import resumed_after
from ..sse import HEARTBEAT, RETRY, id_of
from . import AgUi
from . import Asked as Input
from . import asked as read_input
from . import framed as frames_of


async def run(asked: Asked) -> Response:
    """Run what a `RunAgentInput` asks for, and stream it as AG-UI events."""
    query: OnDisconnectQuery = asked.query
    given = read_input(asked.body)
    for text in (given.prompt, *(answer.text for answer in given.answers)):
        check_text(text or "", asked.limits.text)
    with ExitStack() as begins:
        place = asked.desk.readers.place(asked.owner)  # before the run: nobody is refused what has begun
        begins.push(place)
        begun = await _begun(asked.service, given, asked.owner)
        assert begun.run_id is not None
        stored = await asked.service.run(begun.run_id, owner=asked.owner)
        translator = AgUi(thread_id=given.thread_id, run_id=given.run_id, ignored=given.ignored)
        left = cancelling(asked.service, stored) if query.on_disconnect == "cancel" else None
        told = _translated(asked.service.follow_run(stored), translator, None, with_run=False)
        response = asked.stream(told, left=left, place=place)
        begins.pop_all()
    return response


async def events(asked: Asked) -> Response:
    """The runs of a session as AG-UI events, from its beginning; the stream stays open for the next run."""
    id = asked.id("session")
    await asked.service.session(id, owner=asked.owner)
    after = await resumed_after(asked, id)
    runs = await asked.service.runs(id, owner=asked.owner)
    return asked.stream(
        _translated(asked.service.follow_session(id), AgUi(thread_id=id), _had(runs, after), with_run=True)
    )


async def _begun(service: Service, given: Input, owner: str) -> StoredSession:
    """The session with the run that was asked for."""
    session = await _of_thread(service, given.thread_id, owner)
    if session is None:
        if given.prompt is None:
            given.answers_to(())  # raises: no question is open
        return await service.start(
            given.prompt or "", owner=owner, agent=given.agent, session_id=_named(given.thread_id, owner)
        )
    answers = given.answers_to(session.questions)
    if not answers:
        return await service.start_run(session.id, given.prompt or "", owner=owner)
    for answer in answers:
        session = await service.answer(session.id, answer.text, call_id=answer.call_id, owner=owner)
        if answer is not answers[-1] and session.run_id is not None:  # it only hands its answer in
            handing_in = await service.run(session.run_id, owner=owner)
            async with aclosing(service.follow_run(handing_in)) as portions:
                async for _ in portions:
                    pass
    return session


async def _of_thread(service: Service, thread_id: str, owner: str) -> StoredSession | None:
    for id in (thread_id, _named(thread_id, owner)):
        try:
            return await service.session(id, owner=owner)
        except Unknown:
            pass
    return None


def _named(thread_id: str, owner: str) -> str:
    """The id of the session of a thread that its client named."""
    name = sha256(f"{owner}\n{thread_id}".encode("utf-8", "surrogatepass")).hexdigest()
    return f"session_{name[:24]}"


def _had(runs: list[StoredRun], after: tuple[str, int] | None) -> dict[str, int]:
    """How many events of each run the reader has had."""
    had: dict[str, int] = {}
    for one in runs if after is not None else ():
        if after is not None and one.id == after[0]:
            had[one.id] = after[1]
            break
        had[one.id] = one.last_seq
    return had


async def _translated(
    portions: AsyncGenerator[Frames, None], translator: AgUi, had: dict[str, int] | None, *, with_run: bool
) -> AsyncGenerator[bytes, None]:
    """Frames of AG-UI events. `had`: events of each run that the reader is not told again."""
    async with aclosing(portions):
        yield RETRY
        async for portion in portions:
            if not portion:
                yield HEARTBEAT
                continue
            chunk = b"".join(_told(portion, translator, had or {}, with_run))
            if chunk:
                yield chunk


def _told(portion: Frames, translator: AgUi, had: dict[str, int], with_run: bool) -> list[bytes]:
    told = []
    for frame in portion:
        if isinstance(frame, Frame):
            said = translator.take(_event(frame.line), skip=frame.seq <= had.get(frame.run_id, 0))
            told.append(frames_of(id_of(frame, with_run), said))
        else:
            said = translator.lagged(frame.run_id, frame.missed, frame.next_seq)
            told.append(b"".join(b"data: %b\n\n" % one for one in said))
    return told


def _event(line: bytes) -> Event:
    return decode_line(line)  # type: ignore[return-value]

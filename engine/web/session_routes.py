"""The routes of sessions: start, list, read, go on, answer, steer, cancel, resume, forget."""

from __future__ import annotations

from starlette.responses import Response

from ..service.errors import Conflict
from .request import Asked, answer, cancelling
from .schemas import (
    Answer,
    Cancel,
    Message,
    MessageTold,
    NewRun,
    NewSession,
    OutcomeQuery,
    RunStreamQuery,
    SessionsQuery,
    SessionsTold,
    check_text,
    if_given,
    run_told,
    session_told,
)
from .sse import after, framed, number_in, place_in, unknown_run


async def start_session(asked: Asked) -> Response:
    """Start a session with its first run."""
    body: NewSession = asked.body
    prompt = check_text(body.prompt, asked.limits.text)
    session = await asked.service.start(prompt, owner=asked.owner, agent=body.agent)
    return answer(session_told(session), 201, Location=f"sessions/{session.id}")


async def list_sessions(asked: Asked) -> Response:
    """One page of sessions, newest first."""
    query: SessionsQuery = asked.query
    found, more = await asked.service.sessions(
        owner=asked.owner,
        status=if_given(query.status),
        agent=if_given(query.agent),
        limit=query.limit,
        before=if_given(query.before),
    )
    return answer(SessionsTold(sessions=[session_told(session) for session in found], next=more))


async def read_session(asked: Asked) -> Response:
    """One session with its runs."""
    id = asked.id("session")
    session = await asked.service.session(id, owner=asked.owner)
    return answer(session_told(session, await asked.service.runs(id, owner=asked.owner)))


async def delete_session(asked: Asked) -> Response:
    """Forget a session with all that belongs to it."""
    await asked.service.delete(asked.id("session"), owner=asked.owner)
    return Response(status_code=204)


async def start_run(asked: Asked) -> Response:
    """Start another run in a session."""
    body: NewRun = asked.body
    prompt = check_text(body.prompt, asked.limits.text)
    session = await asked.service.start_run(asked.id("session"), prompt, owner=asked.owner)
    return answer(session_told(session), 201)


async def answer_question(asked: Asked) -> Response:
    """Answer an open question; a run goes on with it."""
    body: Answer = asked.body
    text = check_text(body.text, asked.limits.text)
    session = await asked.service.answer(asked.id("session"), text, call_id=body.call_id, owner=asked.owner)
    return answer(session_told(session), 201)


async def send_message(asked: Asked) -> Response:
    """Say something to the run that is going on; it is heard before the next request to the model."""
    body: Message = asked.body
    id = asked.id("session")
    text = check_text(body.text, asked.limits.text)
    message_id = await asked.service.send_message(id, text, owner=asked.owner)
    session = await asked.service.session(id, owner=asked.owner)
    return answer(MessageTold(message_id=message_id, session_id=id, run_id=session.run_id), 202)


async def cancel_run(asked: Asked) -> Response:
    """End the run that is going on."""
    body: Cancel | None = asked.body
    cause = body.cause if body is not None and body.cause is not None else "caller"
    session = await asked.service.cancel(asked.id("session"), cause, owner=asked.owner)
    return answer(session_told(session), 202)


async def resume_run(asked: Asked) -> Response:
    """Go on with a run whose process died."""
    session = await asked.service.resume(asked.id("session"), owner=asked.owner)
    return answer(session_told(session), 201)


async def session_events(asked: Asked) -> Response:
    """The events of all runs of a session; the stream stays open for the next run."""
    id = asked.id("session")
    await asked.service.session(id, owner=asked.owner)
    place = await resumed_after(asked, id)
    return asked.stream(framed(asked.service.follow_session(id, place), with_run=True))


async def session_record(asked: Asked) -> Response:
    """The record of a session, which `endstop replay` reads."""
    session = await asked.service.session(asked.id("session"), owner=asked.owner)
    headers = {"Content-Disposition": f'attachment; filename="{session.id}.jsonl"'}
    return asked.stream(asked.service.record(session), "application/jsonl", headers=headers)


async def resumed_after(asked: Asked, session_id: str) -> tuple[str, int] | None:
    """After which event of which run a session's stream is resumed. Raises Refused: 400 if there is none such."""
    last = asked.last_event_id
    if not last:
        return None
    run_id, seen = place_in(last)
    runs = {run.id: run for run in await asked.service.runs(session_id, owner=asked.owner)}
    if run_id not in runs:
        raise unknown_run()
    return run_id, after(seen, runs[run_id])


# The routes of runs: read one, follow its events, get its outcome.


async def read_run(asked: Asked) -> Response:
    """One run."""
    return answer(run_told(await asked.service.run(asked.id("run"), owner=asked.owner)))


async def run_events(asked: Asked) -> Response:
    """The events of one run, up to its terminal one."""
    query: RunStreamQuery = asked.query
    run = await asked.service.run(asked.id("run"), owner=asked.owner)
    seen = 0
    if last := asked.last_event_id:
        seen = after(number_in(last, run.id), run)
        if seen == run.last_seq and run.finished_at is not None:
            return Response(status_code=204)
    left = cancelling(asked.service, run) if query.on_disconnect == "cancel" else None
    return asked.stream(framed(asked.service.follow_run(run, seen), with_run=False), left=left)


async def run_outcome(asked: Asked) -> Response:
    """The outcome of a run, waited for if it is asked for."""
    query: OutcomeQuery = asked.query
    id = asked.id("run")
    with asked.desk.readers.place(asked.owner):
        found = await asked.service.outcome(id, wait=query.wait, owner=asked.owner)
    if found is None and (await asked.service.run(id, owner=asked.owner)).status == "interrupted":
        raise Conflict("interrupted", f"run {id} has no outcome, its process died: resume its session")
    if found is None:
        raise Conflict("running", f"run {id} is still going: ask again, with ?wait=SECONDS, or follow its events")
    return answer(found)

"""Request handlers for sessions and runs. Their docstrings are the summaries in the OpenAPI document."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

from anyio import to_thread
from starlette.responses import Response

from ..analysis.audit import audit
from ..analysis.verdict import SessionVerdict, verdict_of
from ..decision import POLICIES, Event, Outcome
from ..decision.events import STREAM_PARTS
from ..http.session_schemas import RequestQuery, no_step, run_response
from ..http.sse import encode_sse, parse_run_event_id, parse_session_event_id, resume_seq, unknown_run
from ..model_request import RequestFinder
from ..records.reader import LineReader
from ..service.errors import Conflict
from ..store.base import SessionStatus
from .request_context import RequestContext, cancel_on_disconnect, json_response
from .schemas import (
    AnswerRequest,
    AnswersRequest,
    ApprovalRequest,
    CancelRequest,
    MessageRequest,
    MessageResponse,
    OutcomeQuery,
    RunRequest,
    RunStreamQuery,
    SessionListResponse,
    SessionRequest,
    SessionsQuery,
    none_if_unset,
    read_answers,
    read_approval,
    read_checked_prompt,
    session_response,
)


async def start_session(context: RequestContext) -> Response:
    """Start a session with its first run."""
    body: SessionRequest = context.body
    prompt = read_checked_prompt(body.prompt, context.limits.text)
    session = await context.service.start(
        prompt,
        history=body.history,
        owner=context.owner,
        agent=body.agent,
        metadata=body.metadata,
        until=body.until,
    )
    return json_response(session_response(session), 201, Location=f"sessions/{session.id}")


async def list_sessions(context: RequestContext) -> Response:
    """List sessions, newest first, a page at a time."""
    query: SessionsQuery = context.query
    found, more = await context.service.sessions(
        owner=context.owner,
        status=none_if_unset(query.status),
        agent=none_if_unset(query.agent),
        limit=query.limit,
        before=none_if_unset(query.before),
        parent=none_if_unset(query.parent),
    )
    return json_response(SessionListResponse(sessions=[session_response(session) for session in found], next=more))


async def read_session(context: RequestContext) -> Response:
    """Read a session with its runs."""
    id = context.id("session")
    session = await context.service.session(id, owner=context.owner)
    return json_response(session_response(session, await context.service.runs(id, owner=context.owner)))


async def start_run(context: RequestContext) -> Response:
    """Start another run in a session."""
    body: RunRequest = context.body
    prompt = read_checked_prompt(body.prompt, context.limits.text)
    session = await context.service.start_run(context.id("session"), prompt, owner=context.owner)
    return json_response(session_response(session), 201)


async def answer_question(context: RequestContext) -> Response:
    """Answer an open question; the next run starts with the answer."""
    body: AnswerRequest = context.body
    answer = read_checked_prompt(body.text, context.limits.text, "answer")
    session = await context.service.answer(context.id("session"), answer, call_id=body.call_id, owner=context.owner)
    return json_response(session_response(session), 201)


async def approve_call(context: RequestContext) -> Response:
    """Approve or deny a call that waits for it; the next run starts with that."""
    body: ApprovalRequest = context.body
    answers = {body.call_id: read_approval(body, context.limits.text)}
    session = await context.service.answer_all(context.id("session"), answers, owner=context.owner)
    return json_response(session_response(session), 201)


async def answer_all(context: RequestContext) -> Response:
    """Answer several open questions together, all or none; the next run starts with the answers."""
    body: AnswersRequest = context.body
    answers = read_answers(body, context.limits.text)
    session = await context.service.answer_all(context.id("session"), answers, owner=context.owner)
    return json_response(session_response(session), 201)


async def send_message(context: RequestContext) -> Response:
    """Send a message to the run that is going on; the model gets it with the next request."""
    body: MessageRequest = context.body
    id = context.id("session")
    message = read_checked_prompt(body.text, context.limits.text, "message")
    message_id = await context.service.send_message(id, message, owner=context.owner)
    session = await context.service.session(id, owner=context.owner)
    return json_response(MessageResponse(message_id=message_id, session_id=id, run_id=session.run_id), 202)


async def cancel_run(context: RequestContext) -> Response:
    """Cancel the run that is going on."""
    body: CancelRequest | None = context.body
    cause = body.cause if body is not None and body.cause is not None else "caller"
    session = await context.service.cancel(context.id("session"), cause, owner=context.owner)
    return json_response(session_response(session), 202)


async def resume_run(context: RequestContext) -> Response:
    """Resume a run whose process died."""
    session = await context.service.resume(context.id("session"), owner=context.owner)
    return json_response(session_response(session), 201)


async def delete_session(context: RequestContext) -> Response:
    """Delete a session with all its runs."""
    await context.service.delete(context.id("session"), owner=context.owner)
    return Response(status_code=204)


async def session_events(context: RequestContext) -> Response:
    """Stream the events of all runs of a session; the stream stays open for the next run."""
    id = context.id("session")
    await context.service.session(id, owner=context.owner)
    position = await resume_position(context, id)
    return context.stream(encode_sse(context.service.follow_session(id, position), with_run=True))


async def session_record(context: RequestContext) -> Response:
    """Download the record of a session, for `endstop replay`."""
    session = await context.service.session(context.id("session"), owner=context.owner)
    headers = {"Content-Disposition": f'attachment; filename="{session.id}.jsonl"'}
    return context.stream(context.service.record(session), "application/jsonl", headers=headers)


async def session_request(context: RequestContext) -> Response:
    """Read the request of a step: the system prompt, messages and tools that the model got."""
    query: RequestQuery = context.query
    session = await context.service.session(context.id("session"), owner=context.owner)
    finder, lines, rest = RequestFinder(query.run, query.step), LineReader(), b""
    async with aclosing(context.service.record(session)) as pieces:
        async for piece in pieces:
            *whole, rest = (rest + piece).split(b"\n")
            await to_thread.run_sync(_feed_lines, finder, lines, whole)
            if finder.done:
                break
    if finder.found is None:
        raise no_step(query)
    return json_response(finder.found)


async def session_verdict(context: RequestContext) -> Response:
    """Read the verdict: how the session ended, what is known of its work, and what each policy would have done."""
    session = await context.service.session(context.id("session"), owner=context.owner)
    lines, rest = LineReader(), b""
    events: list[Event] = []
    async with aclosing(context.service.record(session)) as pieces:
        async for piece in pieces:
            *whole, rest = (rest + piece).split(b"\n")
            await to_thread.run_sync(_collect_events, events, lines, whole)
    return json_response(await to_thread.run_sync(_judge, events, session.status))


def _collect_events(events: list[Event], lines: LineReader, whole: Sequence[bytes]) -> None:
    for line in whole:
        events += (one for one in lines.parse(line) if isinstance(one, Event) and type(one) not in STREAM_PARTS)


def _judge(events: Sequence[Event], status: SessionStatus) -> SessionVerdict:
    match status:
        case "running" | "queued":
            return verdict_of(audit(events, ()), state=status)
        case _:
            return verdict_of(audit(events, tuple(POLICIES.values())))


def _feed_lines(finder: RequestFinder, lines: LineReader, whole: Sequence[bytes]) -> None:
    for line in whole:
        for event in lines.parse(line):
            if isinstance(event, Event):
                finder.feed(event)


async def read_run(context: RequestContext) -> Response:
    """Read a run."""
    return json_response(run_response(await context.service.run(context.id("run"), owner=context.owner)))


async def run_events(context: RequestContext) -> Response:
    """Stream the events of a run, up to its last."""
    query: RunStreamQuery = context.query
    run = await context.service.run(context.id("run"), owner=context.owner)
    seen = 0
    if last := context.last_event_id:
        seen = resume_seq(parse_run_event_id(last, run.id), run)
        if seen == run.last_seq and run.finished_at is not None:
            return Response(status_code=204)
    on_disconnect = cancel_on_disconnect(context.service, run) if query.on_disconnect == "cancel" else None
    return context.stream(
        encode_sse(context.service.follow_run(run, seen), with_run=False), on_disconnect=on_disconnect
    )


async def run_outcome(context: RequestContext) -> Response:
    """Read the outcome of a run; waits for it at most `wait` seconds."""
    query: OutcomeQuery = context.query
    id = context.id("run")
    with context.state.readers.acquire(context.owner):
        found = await context.service.outcome(id, wait=query.wait, owner=context.owner)
    if found is None:
        run = await context.service.run(id, owner=context.owner)
        if run.status == "interrupted":
            why = (await context.service.session(run.session_id, owner=context.owner)).trouble or "its process died"
            raise Conflict("interrupted", f"run {id} has no outcome: {why}. Resume its session")
        raise Conflict("running", f"run {id} has not ended yet: try again with ?wait=SECONDS, or follow its events")
    return json_response(await _with_output(context, found))


async def _with_output(context: RequestContext, outcome: Outcome) -> Outcome | dict[str, Any]:
    """Return the outcome, with the output of an agent whose engine has a type for it."""
    session = await context.service.session(outcome.session_id, owner=context.owner)
    engine = context.service.agents.get(session.agent)
    output = None if engine is None else engine.config.output
    return outcome if output is None else outcome.reading_output(output.read).to_dict()


async def resume_position(context: RequestContext, session_id: str) -> tuple[str, int] | None:
    """Return the run and the event number after which the stream of a session resumes. Raises HttpError (400)."""
    last = context.last_event_id
    if not last:
        return None
    run_id, seen = parse_session_event_id(last)
    runs = {run.id: run for run in await context.service.runs(session_id, owner=context.owner)}
    if run_id not in runs:
        raise unknown_run()
    return run_id, resume_seq(seen, runs[run_id])

"""The routes of runs: read one, follow its events, get its outcome."""

from __future__ import annotations

from starlette.responses import Response

from ..service.errors import Conflict
from .request import Asked, answer, cancelling
from .schemas import OutcomeQuery, RunStreamQuery, run_told
from .sse import after, framed, number_in


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

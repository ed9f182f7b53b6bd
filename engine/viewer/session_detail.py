"""One session in detail, read from its file: its runs with their outcomes, its verdict, the request of a step."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from ..analysis.audit import audit
from ..analysis.verdict import SessionVerdict, verdict_of
from ..decision import Event, Policy, WrongUse
from ..decision.events import RunFinished, RunStarted
from ..http.session_schemas import RequestQuery, RunResponse, no_step, question_response
from ..model_request import StepRequest, find_request
from ..records.scan import scan
from .catalog import CatalogEntry, without_path
from .session_list import ListedSession


def detailed_session(entry: CatalogEntry, listed: ListedSession) -> ListedSession:
    """Return the session with its runs; without them if its file cannot be read. Reads the file."""
    try:
        runs = read_runs(entry.path, entry.id, listed.status)
    except WrongUse as error:
        return replace(listed, runs=[], trouble=without_path(str(error), entry.path))
    questions = runs[-1].outcome.questions if runs and runs[-1].outcome is not None else ()
    asked = [question_response(question) for question in questions]
    return replace(listed, runs=runs, questions=asked, question=asked[0] if asked else None)


def read_runs(path: Path, session_id: str, unfinished: str) -> list[RunResponse]:
    """Return the runs of a record. unfinished: status of the latest run if the record ends early. Raises WrongUse."""
    runs: list[_Run] = []
    for event in scan(path):
        if isinstance(event, RunStarted):
            runs.append(_Run(event))
        runs[-1].feed(event)
    latest = len(runs)
    return [
        run.response(session_id, number, unfinished if number == latest else "interrupted")
        for number, run in enumerate(runs, 1)
    ]


def record_verdict(path: Path, policies: Sequence[Policy], *, file: str, is_written: bool) -> SessionVerdict:
    """Return the verdict on the session of a record. Reads the file, and raises WrongUse if that is not possible.

    file: the record's name for people. is_written: whether a process still writes it.
    """
    audited = audit(scan(path), () if is_written else policies)
    return verdict_of(audited, record=file, state="running" if is_written else "")


def step_request(path: Path, query: RequestQuery) -> StepRequest:
    """Return the request of a step of a record. Raises HttpError (404) if there is no such step, and WrongUse."""
    found = find_request(scan(path, attachments=True), query.run, query.step)
    if found is None:
        raise no_step(query)
    return found


class _Run:
    def __init__(self, started: RunStarted) -> None:
        self._started = started
        self._latest: Event = started

    def feed(self, event: Event) -> None:
        self._latest = event

    def response(self, session_id: str, number: int, unfinished: str) -> RunResponse:
        outcome = self._latest.outcome if isinstance(self._latest, RunFinished) else None
        return RunResponse(
            id=self._started.run_id,
            session_id=session_id,
            number=number,
            status=unfinished if outcome is None else outcome.status,  # type: ignore[arg-type]  # as in the list
            stop_reason=None if outcome is None else outcome.stop_reason,
            prompt=self._started.prompt,
            started_at=self._started.started_at,
            finished_at=None,
            last_seq=self._latest.seq,
            outcome=outcome,
        )

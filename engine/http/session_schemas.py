"""Schemas of sessions and runs in responses. Docstrings of the structs are the descriptions in the OpenAPI document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from ..decision import Asker, Outcome, Question, Usage
from ..store.base import SessionStatus, StoredRun
from .problems import HttpError


class SessionResponse(Struct, frozen=True, kw_only=True):
    """One session. `runs` and `usage` are set only when a single session is read."""

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
    """The process that runs it; null while it is queued or not running."""
    trouble: str | None
    """Why it was interrupted and is not continued by itself, if known."""
    metadata: dict[str, Any] = {}
    """What was stored with it."""
    parent: str | None = None
    """For a sub-agent: the session whose call runs it. Only its caller starts its runs."""
    runs: list[RunResponse] | UnsetType = UNSET


class QuestionResponse(Struct, frozen=True, kw_only=True):
    """A question that waits for an answer."""

    call_id: str
    text: str
    tool: str | UnsetType = UNSET
    """For a call that waits for approval: the name of its tool."""
    arguments: dict[str, Any] | UnsetType = UNSET
    """For a call that waits for approval: its arguments."""
    expires_at: str | UnsetType = UNSET
    """For a call that waits for approval: after this time (ISO 8601) it counts as denied; left out: never."""
    asker: Asker | UnsetType = UNSET
    """For a question of a sub-agent: which one asks."""
    extends: int | UnsetType = UNSET
    """For the question whether the run may make more steps than its limit: how many it proposes. The answer is a whole
    number of steps as text, a yes for these, or a no, which ends the run."""


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


class RequestQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which step's request to read."""

    run: Annotated[int, Meta(ge=1)]
    """The number of the run in its session, from 1."""
    step: Annotated[int, Meta(ge=1)]


def no_step(query: RequestQuery) -> HttpError:
    """Return the error for a step that a session does not have."""
    return HttpError(404, "step", f"the session has no step {query.step} in run {query.run}")


def run_response(run: StoredRun) -> RunResponse:
    """Return the response for a run."""
    return RunResponse(**{name: getattr(run, name) for name in RunResponse.__struct_fields__})


def question_response(question: Question) -> QuestionResponse:
    """Return the response for a question."""
    return QuestionResponse(
        call_id=question.call_id,
        text=question.text,
        tool=UNSET if question.tool is None else question.tool,
        arguments=UNSET if question.arguments is None else question.arguments,
        expires_at=question.expires_at or UNSET,
        asker=question.asker or UNSET,
        extends=question.extends or UNSET,
    )


def total_usage(runs: Sequence[StoredRun]) -> Usage | None:
    """Return the usage of all ended runs.

    The outcome of a run that started with an answer includes the usage of the run that asked, so that is not added.
    """
    whole: Usage | None = None
    before: Usage | None = None
    for run in runs:
        if run.outcome is None:
            continue
        start = before if run.prompt is None else whole
        before = start
        whole = run.outcome.usage if start is None else start + run.outcome.usage
    return whole

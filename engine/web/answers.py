"""What the routes answer: sessions, runs and what belongs to them, as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from ..decision import Outcome, Question, Usage
from ..engine import Engine
from ..store.base import SessionStatus, StoredRun, StoredSession


class RunTold(Struct, frozen=True, kw_only=True):
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


class QuestionTold(Struct, frozen=True, kw_only=True):
    """A question that waits for an answer."""

    call_id: str
    text: str


class SessionTold(Struct, frozen=True, kw_only=True):
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
    question: QuestionTold | None
    questions: list[QuestionTold]
    usage: Usage | None
    can_resume: bool
    holder: str | None
    """The process that runs it now; None while it rests or waits."""
    trouble: str | None
    """Why it was interrupted and does not go on by itself, if that is known."""
    runs: list[RunTold] | UnsetType = UNSET


class SessionsTold(Struct, frozen=True, kw_only=True):
    """One page of sessions, newest first; `next` is where the next page begins."""

    sessions: list[SessionTold]
    next: str | None


class MessageTold(Struct, frozen=True, kw_only=True):
    """A message that a run will hear."""

    message_id: str
    session_id: str
    run_id: str | None


class AgentTold(Struct, frozen=True, kw_only=True):
    """An agent that sessions can be started with."""

    name: str
    model: str
    policy: str
    tools: list[str]


class AgentsTold(Struct, frozen=True, kw_only=True):
    """All agents; the first is that of sessions that name none."""

    agents: list[AgentTold]


class Health(Struct, frozen=True, kw_only=True):
    """Whether the server takes new runs, and how many are going on."""

    status: Literal["ok", "stopping"]
    running: int


def run_told(run: StoredRun) -> RunTold:
    """A run as the routes tell it."""
    return RunTold(**{name: getattr(run, name) for name in RunTold.__struct_fields__})


def session_told(session: StoredSession, runs: Sequence[StoredRun] | None = None) -> SessionTold:
    """A session as the routes tell it, with its runs if they are given."""
    questions = [_question(question) for question in session.questions]
    return SessionTold(
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
        runs=UNSET if runs is None else [run_told(run) for run in runs],
    )


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


def agent_told(name: str, engine: Engine) -> AgentTold:
    """An agent as the routes tell it."""
    tools = [spec.name for spec in engine.toolbox.specs]
    return AgentTold(name=name, model=engine.provider.model, policy=engine.policy.name, tools=tools)


def _question(question: Question) -> QuestionTold:
    return QuestionTold(call_id=question.call_id, text=question.text)

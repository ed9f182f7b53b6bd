"""The one table of operations. Routes and their description are made from it, so neither can drift from the other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import Response

from ..decision import Outcome
from .ag_ui import RunAgentInput
from .ag_ui import routes as ag_ui_routes
from .request import Asked, answer
from .schemas import (
    AgentsTold,
    Answer,
    Cancel,
    Health,
    Message,
    MessageTold,
    NewRun,
    NewSession,
    OnDisconnectQuery,
    OutcomeQuery,
    RunStreamQuery,
    RunTold,
    SessionsQuery,
    SessionsTold,
    SessionTold,
    StreamQuery,
    agent_told,
)
from .session_routes import (
    answer_question,
    cancel_run,
    delete_session,
    list_sessions,
    read_run,
    read_session,
    resume_run,
    run_events,
    run_outcome,
    send_message,
    session_events,
    session_record,
    start_run,
    start_session,
)
from .sse import MEDIA_TYPE as SSE

# The routes about the server itself: agents, health.


async def list_agents(asked: Asked) -> Response:
    """The agents that sessions can be started with."""
    return answer(AgentsTold(agents=[agent_told(name, engine) for name, engine in asked.service.agents.items()]))


async def read_health(asked: Asked) -> Response:
    """Whether the server takes new runs."""
    service = asked.service
    return answer(Health(status="stopping" if service.stopping else "ok", running=service.running))


JSON = "application/json"


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One thing that can be asked for."""

    method: str
    path: str
    """With `{session_id}` and `{run_id}` for ids."""
    does: Callable[[Asked], Awaitable[Response]]
    """Its docstring says what it does."""
    id: str
    tag: str
    body: type[Any] | None = None
    body_optional: bool = False
    decodes: bool = False
    """Whether it reads the body itself, as bytes."""
    query: type[Any] | None = None
    status: int = 200
    answer: type[Any] | None = None
    """None: nothing, or no JSON."""
    media_type: str = JSON
    resumes: bool = False
    """Whether it takes `Last-Event-ID`."""
    conflicts: tuple[str, ...] = ()
    """The codes of 409."""
    also: dict[int, str] = field(default_factory=dict)
    """Other statuses that are no problem."""
    needs_token: bool = True


SESSION = "/sessions/{session_id}"
RUN = "/runs/{run_id}"
_NOTHING_LEFT = {204: "The run has ended, and the reader has seen its last event."}

OPERATIONS = (
    Operation(method="POST", path="/sessions", does=start_session, id="start_session", tag="sessions",
              body=NewSession, status=201, answer=SessionTold),
    Operation(method="GET", path="/sessions", does=list_sessions, id="list_sessions", tag="sessions",
              query=SessionsQuery, answer=SessionsTold),
    Operation(method="GET", path=SESSION, does=read_session, id="read_session", tag="sessions", answer=SessionTold),
    Operation(method="DELETE", path=SESSION, does=delete_session, id="delete_session", tag="sessions",
              status=204, conflicts=("running",)),
    Operation(method="POST", path=f"{SESSION}/runs", does=start_run, id="start_run", tag="sessions",
              body=NewRun, status=201, answer=SessionTold, conflicts=("busy",)),
    Operation(method="POST", path=f"{SESSION}/answers", does=answer_question, id="answer_question", tag="sessions",
              body=Answer, status=201, answer=SessionTold, conflicts=("no_open_question", "answered", "busy")),
    Operation(method="POST", path=f"{SESSION}/messages", does=send_message, id="say", tag="sessions",
              body=Message, status=202, answer=MessageTold, conflicts=("not_running",)),
    Operation(method="POST", path=f"{SESSION}/cancel", does=cancel_run, id="cancel_run", tag="sessions",
              body=Cancel, body_optional=True, status=202, answer=SessionTold, conflicts=("not_running",)),
    Operation(method="POST", path=f"{SESSION}/resume", does=resume_run, id="resume_run", tag="sessions",
              status=201, answer=SessionTold, conflicts=("not_interrupted",)),
    Operation(method="GET", path=f"{SESSION}/events", does=session_events, id="session_events", tag="streams",
              query=StreamQuery, media_type=SSE, resumes=True),
    Operation(method="GET", path=f"{SESSION}/record", does=session_record, id="session_record", tag="sessions",
              media_type="application/jsonl"),
    Operation(method="GET", path=RUN, does=read_run, id="read_run", tag="runs", answer=RunTold),
    Operation(method="GET", path=f"{RUN}/events", does=run_events, id="run_events", tag="streams",
              query=RunStreamQuery, media_type=SSE, resumes=True, also=_NOTHING_LEFT),
    Operation(method="GET", path=f"{RUN}/outcome", does=run_outcome, id="run_outcome", tag="runs",
              query=OutcomeQuery, answer=Outcome, conflicts=("running", "interrupted")),
    Operation(method="POST", path="/ag-ui", does=ag_ui_routes.run, id="ag_ui_run", tag="ag-ui",
              body=RunAgentInput, decodes=True, query=OnDisconnectQuery, media_type=SSE,
              conflicts=("busy", "answered", "interrupted")),
    Operation(method="GET", path=f"{SESSION}/ag-ui", does=ag_ui_routes.events, id="ag_ui_events", tag="ag-ui",
              query=StreamQuery, media_type=SSE, resumes=True),
    Operation(method="GET", path="/agents", does=list_agents, id="list_agents", tag="server", answer=AgentsTold),
    Operation(method="GET", path="/health", does=read_health, id="health", tag="server", answer=Health,
              needs_token=False),
)  # fmt: skip

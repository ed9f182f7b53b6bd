"""The table of operations of the HTTP interface. Routes and the OpenAPI document are made from it, so they agree."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import Response

from ..analysis.verdict import SessionVerdict
from ..base.metrics_registry import MEDIA_TYPE as PROMETHEUS
from ..decision import Outcome
from ..http.session_schemas import RequestQuery, RunResponse, SessionResponse
from ..http.sse import MEDIA_TYPE as SSE
from ..model_request import StepRequest
from .ag_ui import RunAgentInput
from .ag_ui_routes import run_agent, session_as_ag_ui
from .errors import unready
from .request_context import RequestContext, json_response
from .schemas import (
    AgentListResponse,
    AnswerRequest,
    AnswersRequest,
    ApprovalRequest,
    CancelRequest,
    HealthResponse,
    MessageRequest,
    MessageResponse,
    OnDisconnectQuery,
    OutcomeQuery,
    ReadyResponse,
    RunRequest,
    RunStreamQuery,
    SessionListResponse,
    SessionRequest,
    SessionsQuery,
    StreamQuery,
    agent_response,
)
from .session_routes import (
    answer_all,
    answer_question,
    approve_call,
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
    session_request,
    session_verdict,
    start_run,
    start_session,
)

JSON = "application/json"


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One operation of the HTTP interface: a method on a path."""

    method: str
    path: str
    """May contain `{session_id}` or `{run_id}`."""
    handler: Callable[[RequestContext], Awaitable[Response]]
    """Its docstring is the summary in the OpenAPI document."""
    id: str
    tag: str
    body: type[Any] | None = None
    body_optional: bool = False
    raw_body: bool = False
    """Whether the handler decodes the body itself."""
    query: type[Any] | None = None
    status: int = 200
    response: type[Any] | None = None
    """None: there is no body, or it is not JSON."""
    media_type: str = JSON
    resumable: bool = False
    """Whether it is a stream that `EventSource` can read: it accepts `Last-Event-ID`, and the token in its query."""
    conflicts: tuple[str, ...] = ()
    """Codes of its 409 responses."""
    other_responses: dict[int, str] = field(default_factory=dict)
    """Other statuses that are not errors, with their descriptions."""
    needs_token: bool = True


async def list_agents(context: RequestContext) -> Response:
    """List the agents that sessions can be started with."""
    return json_response(
        AgentListResponse(agents=[agent_response(name, engine) for name, engine in context.service.agents.items()])
    )


async def read_health(context: RequestContext) -> Response:
    """Say that the process lives, and whether it accepts new runs."""
    service = context.service
    return json_response(HealthResponse(status="stopping" if service.stopping else "ok", running=service.running))


async def read_readiness(context: RequestContext) -> Response:
    """Say whether the server can work: whether it accepts new runs, and its store and its queue answer."""
    service = context.service
    parts = ["stopping"] if service.stopping else await service.unready_parts()
    if parts:
        raise unready(parts)
    return json_response(ReadyResponse(status="ok"))


async def read_metrics(context: RequestContext) -> Response:
    """Read the metrics of this process and of its store, in Prometheus' text format."""
    return Response(await context.service.metrics.current_text(), media_type=PROMETHEUS)


SESSION = "/sessions/{session_id}"
RUN = "/runs/{run_id}"
_NOTHING_LEFT = {204: "The run has ended, and the reader has received its last event."}
OPERATIONS = (
    Operation(method="POST", path="/sessions", handler=start_session, id="start_session", tag="sessions",
              body=SessionRequest, status=201, response=SessionResponse),
    Operation(method="GET", path="/sessions", handler=list_sessions, id="list_sessions", tag="sessions",
              query=SessionsQuery, response=SessionListResponse),
    Operation(method="GET", path=SESSION, handler=read_session, id="read_session", tag="sessions",
              response=SessionResponse),
    Operation(method="DELETE", path=SESSION, handler=delete_session, id="delete_session", tag="sessions",
              status=204, conflicts=("running", "subagent")),
    Operation(method="POST", path=f"{SESSION}/runs", handler=start_run, id="start_run", tag="sessions",
              body=RunRequest, status=201, response=SessionResponse, conflicts=("busy", "subagent")),
    Operation(method="POST", path=f"{SESSION}/answers", handler=answer_question, id="answer_question", tag="sessions",
              body=AnswerRequest, status=201, response=SessionResponse,
              conflicts=("no_open_question", "answered", "busy", "subagent")),
    Operation(method="POST", path=f"{SESSION}/approvals", handler=approve_call, id="approve_call", tag="sessions",
              body=ApprovalRequest, status=201, response=SessionResponse,
              conflicts=("no_open_question", "answered", "busy", "subagent")),
    Operation(method="POST", path=f"{SESSION}/answers/all", handler=answer_all, id="answer_all", tag="sessions",
              body=AnswersRequest, status=201, response=SessionResponse,
              conflicts=("no_open_question", "answered", "busy", "subagent")),
    Operation(method="POST", path=f"{SESSION}/messages", handler=send_message, id="say", tag="sessions",
              body=MessageRequest, status=202, response=MessageResponse,
              conflicts=("not_running", "subagent")),
    Operation(method="POST", path=f"{SESSION}/cancel", handler=cancel_run, id="cancel_run", tag="sessions",
              body=CancelRequest, body_optional=True, status=202, response=SessionResponse, conflicts=("not_running",)),
    Operation(method="POST", path=f"{SESSION}/resume", handler=resume_run, id="resume_run", tag="sessions",
              status=201, response=SessionResponse, conflicts=("not_interrupted", "subagent")),
    Operation(method="GET", path=f"{SESSION}/events", handler=session_events, id="session_events", tag="streams",
              query=StreamQuery, media_type=SSE, resumable=True),
    Operation(method="GET", path=f"{SESSION}/record", handler=session_record, id="session_record", tag="sessions",
              media_type="application/jsonl"),
    Operation(method="GET", path=f"{SESSION}/request", handler=session_request, id="session_request", tag="sessions",
              query=RequestQuery, response=StepRequest),
    Operation(method="GET", path=f"{SESSION}/verdict", handler=session_verdict, id="session_verdict", tag="sessions",
              response=SessionVerdict),
    Operation(method="GET", path=RUN, handler=read_run, id="read_run", tag="runs", response=RunResponse),
    Operation(method="GET", path=f"{RUN}/events", handler=run_events, id="run_events", tag="streams",
              query=RunStreamQuery, media_type=SSE, resumable=True, other_responses=_NOTHING_LEFT),
    Operation(method="GET", path=f"{RUN}/outcome", handler=run_outcome, id="run_outcome", tag="runs",
              query=OutcomeQuery, response=Outcome, conflicts=("running", "interrupted")),
    Operation(method="POST", path="/ag-ui", handler=run_agent, id="ag_ui_run", tag="ag-ui",
              body=RunAgentInput, raw_body=True, query=OnDisconnectQuery, media_type=SSE,
              conflicts=("busy", "answered", "interrupted", "subagent")),
    Operation(method="GET", path=f"{SESSION}/ag-ui", handler=session_as_ag_ui, id="ag_ui_events", tag="ag-ui",
              query=StreamQuery, media_type=SSE, resumable=True),
    Operation(method="GET", path="/agents", handler=list_agents, id="list_agents", tag="server",
              response=AgentListResponse),
    Operation(method="GET", path="/metrics", handler=read_metrics, id="metrics", tag="server", media_type="text/plain"),
    Operation(method="GET", path="/health", handler=read_health, id="health", tag="server", response=HealthResponse,
              needs_token=False),
    Operation(method="GET", path="/ready", handler=read_readiness, id="ready", tag="server", response=ReadyResponse,
              needs_token=False),
)  # fmt: skip

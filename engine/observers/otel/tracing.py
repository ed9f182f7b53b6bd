"""`traced`: OpenTelemetry spans of runs, with a child span for each request to the model and each tool call.

    engine = traced(Engine(provider, tools=[read_file]), agent_name="porter")

    invoke_agent porter                    the run
    ├── chat claude-sonnet-4-5             one request with its retries; failed attempts are events of the span
    ├── execute_tool read_file             one call; spans of the function lie below it
    └── chat claude-sonnet-4-5

Names and attributes follow OpenTelemetry's semantic conventions for generative AI, version 1.41.1 (status:
Development), the latest release that includes them. Since then they have a separate repository
(open-telemetry/semantic-conventions-genai), without a release when this was written; the attributes used here are the
same there. Attributes without a name in the conventions begin with `endstop.`; `docs/guides/tracing.md` lists all.

Spans are started, made current and ended in the tasks of the run. The span of the run lies below the span that was
current where the run was started; spans that a tool starts lie below that of its call; tool calls that run in parallel
are siblings. Tracing only observes: a run decides, records and costs the same with and without it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from time import time_ns
from typing import TYPE_CHECKING, Any

from ...context import Context
from ...decision import Event, Outcome, ToolCall, WrongUse
from ...decision import events as ev
from ...decision.wrong_calls import explained
from ...formats.genai_attributes import ContentAttributes, call_attributes, outcome_attributes
from ...tools.tool import Tool
from .attributes import provider_attributes
from .chat import ChatSpan, TracedProvider
from .spans import SafeSpan, SafeTracer

if TYPE_CHECKING:
    from ...engine import Engine
    from ...run import Run
    from .spans import TracerProvider


@explained
def traced(
    engine: Engine,
    tracer_provider: TracerProvider | None = None,
    *,
    agent_name: str = "endstop",
    agent_id: str | None = None,
    content: bool = False,
) -> Engine:
    """Return a copy of the engine whose runs are traced.

    tracer_provider: where spans go; OpenTelemetry's global provider if left out.
    agent_name, agent_id: the agent's name and id in the span of a run.
    content: whether spans hold prompts, messages, arguments, results and error messages. Without it they hold only
        names, numbers and reasons. The engine's redaction applies.

    Raises WrongUse if OpenTelemetry is not installed, or the engine is traced already.
    """
    if any(isinstance(middleware, TracingMiddleware) for middleware in engine.config.observers.middleware):
        raise WrongUse("traced: this engine is traced already, and its runs would get every span twice")
    agent = {"gen_ai.agent.name": agent_name or None, "gen_ai.agent.id": agent_id}
    attributes = ContentAttributes(engine.config.record_options.redact) if content else None
    return engine.with_middleware(TracingMiddleware(SafeTracer(tracer_provider), agent, attributes))


class TracingMiddleware:
    """Middleware that traces each run of an engine."""

    def __init__(self, tracer: SafeTracer, agent: Mapping[str, Any], content: ContentAttributes | None) -> None:
        self._tracer = tracer
        self._agent = agent
        self._content = content

    @asynccontextmanager
    async def __call__(self, run: Run) -> AsyncIterator[None]:
        """Trace a run inside the block."""
        context = run.context
        assert context is not None, "a run is attached before anything goes around it"
        name = self._agent["gen_ai.agent.name"]
        span = self._tracer.start_span(
            f"invoke_agent {name}" if name else "invoke_agent", lambda: self._run_attributes(run, context)
        )
        tracer = RunTracer(self._tracer, span, self._content)
        error: BaseException | None = None
        tracer.attach(context, run.session_id)
        try:
            with span.current():
                yield
        except BaseException as raised:
            error = raised
            raise
        finally:
            tracer.close()
            self._end(span, run.outcome if run.finished else None, error)

    def _run_attributes(self, run: Run, context: Context) -> dict[str, Any]:
        return {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.conversation.id": run.session_id,
            "endstop.run_id": run.id,
            **self._agent,
            **provider_attributes(context.provider),
            **({} if self._content is None else self._content.prompt(context.prompt)),
        }

    def _end(self, span: SafeSpan, outcome: Outcome | None, error: BaseException | None) -> None:
        if outcome is None:
            span.end(type(error).__name__ if error is not None else None)
            return
        span.set_attributes(lambda: outcome_attributes(outcome))
        content = self._content
        if content is not None and outcome.answer:
            span.set_attributes(lambda: content.answer(outcome.answer, "stop"))
        failed = outcome.status == "failed"
        detail = content.detail(outcome.detail) if content is not None and failed else None
        span.end(outcome.stop_reason if failed else None, detail=detail)


_SPAN_EVENTS = frozenset({ev.ToolCallResult, ev.QuestionAsked, ev.ResponseFinished, ev.AttemptFailed})


class RunTracer:
    """The spans of requests and tool calls of one run."""

    def __init__(self, tracer: SafeTracer, span: SafeSpan, content: ContentAttributes | None) -> None:
        self._tracer = tracer
        self._span = span
        self._content = content
        self._chat: ChatSpan | None = None
        self._calls: dict[str, _ToolSpan] = {}

    def attach(self, context: Context, session_id: str) -> None:
        """Wrap the provider and the tool execution of the run, and subscribe to its events."""
        self._execute = context.execute
        try:
            context.provider = TracedProvider(context.provider, self._tracer, session_id, self._content, self._set_chat)
        except Exception as error:
            self._tracer.warn_once(error)
        context.execute = self.execute
        context.log.add_sink(self.on_event)

    def close(self) -> None:
        """End spans that are still open: those of calls whose results are no longer awaited."""
        if self._chat is not None:
            self._chat.end(None)
        for call in self._calls.values():
            call.end("cancelled")
        self._calls.clear()

    async def execute(self, call: ToolCall, tool: Tool, arguments: Mapping[str, Any]) -> Any:
        """Execute a tool call inside a span."""
        content = self._content
        span = self._tracer.start_span(
            f"execute_tool {tool.name}",
            lambda: {**call_attributes(call, tool.kind), **({} if content is None else content.arguments(call))},
            under=self._span,
        )
        if call.id in self._calls:  # from a failed attempt
            self._calls.pop(call.id).end("cancelled")
        self._calls[call.id] = running = _ToolSpan(span, content)
        try:
            with span.current():
                return await self._execute(call, tool, arguments)
        except BaseException as error:
            running.error = type(error).__name__
            raise
        finally:
            running.ended = time_ns()

    def on_event(self, event: Event) -> None:
        """End spans by the events of the run."""
        if type(event) not in _SPAN_EVENTS:
            return
        try:
            match event:
                case ev.ToolCallResult(call_id=call_id) if call_id in self._calls:
                    self._calls.pop(call_id).end(event.status, event.content)
                case ev.QuestionAsked() if event.waiting_call in self._calls:
                    self._calls.pop(event.waiting_call).end("open")
                case ev.ResponseFinished() if self._chat is not None:
                    self._chat.end(event)
                case ev.AttemptFailed() if self._chat is not None:
                    self._chat.reject(event)
                case _:
                    pass
        except Exception as error:
            self._tracer.warn_once(error)

    def _set_chat(self, chat: ChatSpan) -> None:
        self._chat = chat


class _ToolSpan:
    """The span of a tool call. It ends when the result is known, with the time at which the function ended."""

    def __init__(self, span: SafeSpan, content: ContentAttributes | None) -> None:
        self._span = span
        self._content = content
        self.error: str | None = None
        """The type of the exception that was raised."""
        self.ended: int | None = None
        """When the function ended: nanoseconds since the epoch."""

    def end(self, status: str, content: str | None = None) -> None:
        """End the span. `status`: that of the result, or `open` for a question that waits for its answer."""
        told = self._content
        error = None
        if status == "error":
            # A cancelled call that has a result was stopped by its timeout.
            error = "timeout" if self.error == "CancelledError" else self.error or "tool_error"
        self._span.end(
            error,
            at=self.ended,
            attributes=lambda: {
                "endstop.tool.status": status,
                **({} if told is None or content is None else told.result(content)),
            },
        )

"""Export of a record as spans of OpenTelemetry, in OTLP/JSON.

A run is a trace: a span of the run, of each request to the model, and of each call that ran, with the attributes that
tracing gives them (`genai_attributes.py`, docs/guides/tracing.md) and with contents. Each request contains the whole
conversation before it, as the conventions require, except what a compaction removed. The runs of a session have one
`gen_ai.conversation.id`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Struct

from ..base.version import __version__
from ..decision import Event, ToolCall, ToolKind, Transcript, UserMessage
from ..decision import events as ev
from ..decision.finish_words import parse_finish_reason
from .exports import count_losses
from .genai_attributes import (
    FAILED_ATTEMPT,
    SCHEMA_URL,
    ContentAttributes,
    call_attributes,
    failed_attempt_attributes,
    outcome_attributes,
    provider_of,
    setting_attributes,
    usage_attributes,
)
from .otlp_messages import ORIGIN
from .otlp_values import ERROR_STATUS, write_attributes
from .parsing import parse_time

_LOSS_KINDS = frozenset({"decision", "signature", "ephemeral", "compaction"})
_INTERNAL, _CLIENT = 1, 3
"""Kinds of spans."""


def export(session_id: str, events: Sequence[Event]) -> tuple[dict[str, Any], Counter[str]]:
    """Return the spans, and the counts of what they leave out (`EXPORT_LOSSES`)."""
    writer = _SpanWriter(session_id)
    for event in events:
        writer.feed(event)
    lost = count_losses(events, _LOSS_KINDS)
    lost.update(writer.lost)
    scope = {"scope": {"name": "endstop", "version": __version__}, "spans": writer.spans, "schemaUrl": SCHEMA_URL}
    resource = {"attributes": write_attributes({"service.name": "endstop"})}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}, +lost


class _Execution(Struct):
    """One execution of a call: its times in milliseconds of the run, and how it ended."""

    call_id: str
    began: int
    ended: int = 0
    status: str = ""
    content: str | None = None


class _SpanWriter:
    def __init__(self, session_id: str) -> None:
        self.spans: list[dict[str, Any]] = []
        self.lost: Counter[str] = Counter()
        self._session_id = session_id
        self._content = ContentAttributes(None)
        self._messages = _Messages(self._content)
        self._began = 0.0
        """Start of the run, in seconds since 1970."""
        self._now = 0.0
        self._run: ev.RunStarted | None = None
        self._root: dict[str, Any] = {}
        """The span of the run."""
        self._model = ""
        self._step: int | None = None
        """Start of the current step in milliseconds, until its response has arrived."""
        self._attempt = ""
        self._events: list[dict[str, Any]] = []
        self._failed: ev.AttemptFailed | None = None
        """The latest attempt of the step, if it failed."""
        self._calls: dict[str, ToolCall] = {}
        """Calls of all responses, because a call may be answered in a later run."""
        self._running: dict[str, _Execution] = {}
        self._executed: list[_Execution] = []
        """Executions that ended while their response was still streaming."""
        self._tools_told = False

    def feed(self, event: Event) -> None:
        """Add one event."""
        self._now = self._began + event.t / 1000
        match event:
            case ev.RunStarted():
                self._begin(event)
            case ev.StepStarted():
                self._step, self._events, self._failed = event.t, [], None
            case ev.AttemptStarted():
                self._model, self._attempt = event.model or self._model, event.attempt
            case ev.AttemptFailed():
                self._add_failed_attempt(event)
            case ev.ResponseFinished():
                self._add_request(event)
            case ev.ToolExecutionStarted():
                self._running[event.call_id] = _Execution(event.call_id, event.t)
            case ev.ToolCallResult():
                self._end_execution(event.call_id, event.t, event.status, event.content)
            case ev.QuestionAsked():
                self._end_execution(event.call_id, event.t, "open")
            case ev.StepFinished() if self._step is not None:
                self._add_request(None)
            case ev.RunFinished():
                self._finish(event)
            case _:
                pass
        if not isinstance(event, ev.ContextCompacted):
            self._messages.feed(event)

    # ---- spans

    def _begin(self, event: ev.RunStarted) -> None:
        self._run, self._model, self._step = event, event.model, None
        self._began = parse_time(event.started_at) or self._now
        self._running, self._tools_told = {}, False
        name = event.engine.partition(":")[2].partition(" ")[0] or "endstop"
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.conversation.id": self._session_id,
            "endstop.run_id": event.run_id,
            "gen_ai.agent.name": name,
            **self._provider(event.model),
            **self._content.prompt(event.prompt),
        }
        self._root = self._span(f"invoke_agent {name}", event.t, event.t, _INTERNAL, attributes, root=True)
        self.lost["image"] += len(event.images)

    def _add_failed_attempt(self, event: ev.AttemptFailed) -> None:
        attributes = write_attributes(failed_attempt_attributes(event, event.message))
        when = self._nanoseconds(event.t)
        self._events.append({"timeUnixNano": when, "name": FAILED_ATTEMPT, "attributes": attributes})
        self._failed = None if event.beside else event

    def _add_request(self, response: ev.ResponseFinished | None) -> None:
        """Add the span of a step's request. response: the response; None if there was none."""
        assert self._run is not None
        began, self._step = self._step, None
        model = (response.model if response is not None else "") or self._model
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.conversation.id": self._session_id,
            **self._provider(self._run.model or model),
            "gen_ai.response.model": model or None,
            "gen_ai.request.stream": True,
            "endstop.attempt": self._attempt or None,
            **setting_attributes(self._run.settings),
            "gen_ai.input.messages": self._messages.encoded(),
        }
        if self._run.tools and not self._tools_told:
            self._tools_told = True
            attributes["gen_ai.tool.definitions"] = _definitions(self._run)
        error, detail = None, ""
        if response is not None:
            self._calls |= {call.id: call for call in response.message.calls}
            attributes |= {
                "gen_ai.response.finish_reasons": _finish_reasons(response),
                "endstop.cut": response.cut_at is not None,
                **usage_attributes(response.usage),
                **self._content.response(response.message, response.finish),
            }
        elif self._failed is not None:
            error, detail = self._failed.kind, self._failed.message
            self._events.pop()  # the span itself reports this error
        end = self._milliseconds()
        span = self._span(f"chat {self._run.model}", end if began is None else began, end, _CLIENT, attributes)
        span["events"], self._events = self._events, []
        if error is not None:
            _fail(span, error, detail)
        self._add_executions()

    def _end_execution(self, call_id: str, end: int, status: str, content: str | None = None) -> None:
        running = self._running.pop(call_id, None)
        if running is not None:
            running.ended, running.status, running.content = end, status, content
            self._executed.append(running)
            self._add_executions()
        elif status not in ("ok", "open") and call_id in self._calls:
            self.lost["status"] += 1

    def _add_executions(self) -> None:
        """Add the spans of calls that have ended, if their response has already been added."""
        waiting = []
        for execution in self._executed:
            if execution.call_id in self._calls:
                self._add_execution(execution)
            else:
                waiting.append(execution)
        self._executed = waiting

    def _add_execution(self, execution: _Execution) -> None:
        assert self._run is not None
        call, content = self._calls[execution.call_id], execution.content
        kind: ToolKind = next((tool.kind for tool in self._run.tools if tool.name == call.name), "ordinary")
        attributes = {**call_attributes(call, kind), **self._content.arguments(call)}
        attributes["endstop.tool.status"] = execution.status
        if content is not None:
            attributes |= self._content.result(content)
        span = self._span(f"execute_tool {call.name}", execution.began, execution.ended, _INTERNAL, attributes)
        if execution.status == "error":
            _fail(span, "tool_error", "")

    def _finish(self, event: ev.RunFinished) -> None:
        outcome, root = event.outcome, self._root
        for call_id in list(self._running):
            self._end_execution(call_id, event.t, "cancelled")
        self._executed.clear()
        attributes = outcome_attributes(outcome)
        if outcome.answer:
            attributes |= self._content.answer(outcome.answer, "stop")
        root["attributes"] += write_attributes(attributes)
        root["endTimeUnixNano"] = self._nanoseconds(event.t)
        if outcome.status == "failed":
            _fail(root, outcome.stop_reason, outcome.detail)

    def _span(
        self, name: str, start: int, end: int, kind: int, attributes: dict[str, Any], *, root: bool = False
    ) -> dict[str, Any]:
        """Add a span. start, end: times in milliseconds of the run."""
        assert self._run is not None
        mark = f"{self._session_id}\0{self._run.run_id}"
        span: dict[str, Any] = {"traceId": _id(mark, 16), "spanId": _id(f"{mark}\0{len(self.spans)}", 8)}
        span |= {} if root else {"parentSpanId": self._root["spanId"]}
        span |= {"name": name, "kind": kind, "attributes": write_attributes(attributes)}
        span |= {"startTimeUnixNano": self._nanoseconds(start), "endTimeUnixNano": self._nanoseconds(end)}
        self.spans.append(span)
        return span

    def _provider(self, model: str) -> dict[str, Any]:
        return {"gen_ai.provider.name": provider_of(model), "gen_ai.request.model": model or None}

    def _milliseconds(self) -> int:
        return round((self._now - self._began) * 1000)

    def _nanoseconds(self, t: int) -> str:
        return str((round(self._began * 1000) + t) * 1_000_000)


def _finish_reasons(response: ev.ResponseFinished) -> list[str] | None:
    """Return the finish reason, as the provider wrote it if our word for it says nothing; None for a cut response."""
    if response.cut_at is not None and not response.raw_finish:
        return None
    known = parse_finish_reason(response.finish) == response.finish
    return [response.finish if known else response.raw_finish or response.finish]


def _fail(span: dict[str, Any], error: str, detail: str) -> None:
    span["attributes"] += write_attributes({"error.type": error})
    span["status"] = {"code": ERROR_STATUS, **({"message": detail} if detail else {})}


def _id(text: str, size: int) -> str:
    return blake2b(text.encode("utf-8", "replace"), digest_size=size).hexdigest()


def _definitions(run: ev.RunStarted) -> str:
    tools = [
        {"type": "function", "name": tool.name, "description": tool.description, "parameters": tool.parameters}
        for tool in run.tools
    ]
    return msgspec.json.encode(tools).decode()


class _Messages:
    """Messages of a session so far, each encoded once."""

    def __init__(self, content: ContentAttributes) -> None:
        self._transcript = Transcript()
        self._content = content
        self._edition = 0
        self._encoded: list[str] = []
        self._own: set[str] = set()
        """Texts in the user's role that the loop wrote."""

    def feed(self, event: Event) -> None:
        """Add one event."""
        if isinstance(event, ev.MessageAdded) and event.origin != "user" and not event.ephemeral:
            self._own.add(event.text)
        self._transcript.feed(event)

    def encoded(self) -> str:
        """Return all messages, as `gen_ai.input.messages`."""
        messages = self._transcript.messages
        if self._edition != self._transcript.edition:
            self._edition = self._transcript.edition
            self._encoded.clear()
        for message in messages[len(self._encoded) :]:
            told = self._content.message(message)
            if isinstance(message, UserMessage) and message.text in self._own:
                told[ORIGIN] = "nudge"
            self._encoded.append(msgspec.json.encode(told).decode())
        return f"[{','.join(self._encoded)}]"

"""Export of a record in ATIF 1.7, the Agent Trajectory Interchange Format of Harbor (Terminal-Bench).

Each user message and each response is a step. Tool results are the observation of the step with the calls. Data for
which ATIF has no field goes into `extra` where the schema allows it: stop reasons, verdicts, statuses of results.
Source: Harbor, RFC 0001 "Agent Trajectory Interchange Format (ATIF) Specification", v1.7 (April 2026).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from ..decision import AssistantMessage, Event, Image, Message, Outcome, ToolCall, ToolResult, Usage, UserMessage
from ..decision import events as ev
from ..providers.openai_format import encode_tools
from .exports import count_losses, exported_messages
from .parsing import format_time, parse_time

VERSION = "ATIF-v1.7"
_IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_LOSS_KINDS = frozenset({"decision", "signature", "attempt", "arguments"})


def export(session_id: str, events: Sequence[Event]) -> tuple[dict[str, Any], Counter[str]]:
    """Return the trajectory, and the counts of what it leaves out (`EXPORT_LOSSES`)."""
    builder = _TrajectoryBuilder()
    for event in events:
        builder.feed(event)
    builder.add_results(exported_messages(events))
    lost = count_losses(events, _LOSS_KINDS)
    lost.update(builder.lost)
    return builder.trajectory(session_id), lost


class _TrajectoryBuilder:
    def __init__(self) -> None:
        self.lost: Counter[str] = Counter()
        self._steps: list[dict[str, Any]] = []
        self._runs: list[dict[str, Any]] = []
        self._first: ev.RunStarted | None = None
        self._began: float | None = None
        self._run_id = ""
        self._model = ""
        self._responses: list[tuple[AssistantMessage, dict[str, Any]]] = []
        """Each response with its step."""
        self._usage = Usage()

    def feed(self, event: Event) -> None:
        match event:
            case ev.RunStarted():
                self._begin(event)
            case ev.MessageAdded():
                extra = {"origin": event.origin, **({"ephemeral": True} if event.ephemeral else {})}
                self._add("user", event.text, event.t, extra={} if event.origin == "user" else extra)
            case ev.AttemptStarted(model=model):
                self._model = model
            case ev.ResponseFinished():
                self._respond(event)
            case ev.VerdictGiven(role="system", said="changed"):
                self._add("system", event.detail, event.t)
            case ev.VerdictGiven(role="handler", said="answered"):
                self._add("agent", event.detail, event.t, llm_call_count=0, extra={"handler": event.name})
            case ev.ContextCompacted():
                compaction = {"strategy": event.strategy, "before": event.before_tokens, "after": event.after_tokens}
                self._add("system", "The context was compacted.", event.t, extra={"context_management": compaction})
            case ev.RunFinished(outcome=outcome):
                self._runs.append(_outcome_fields(outcome))
            case _:
                pass

    def add_results(self, messages: Iterable[Message]) -> None:
        """Add the results, as the model read them, to the observation of the response that they follow.

        messages: the messages of the whole session. Two responses may have calls with the same id, so the order
        decides.
        """
        steps = {id(message): step for message, step in self._responses}
        step: dict[str, Any] | None = None
        for message in messages:
            if isinstance(message, AssistantMessage):
                step = steps.get(id(message))
            elif isinstance(message, ToolResult) and step is not None:
                step.setdefault("observation", {"results": []})["results"].append(self._result(message))

    def trajectory(self, session_id: str) -> dict[str, Any]:
        """Return the trajectory of all events and results so far."""
        whole: dict[str, Any] = {"schema_version": VERSION, "session_id": session_id, "agent": self._agent()}
        whole["steps"] = self._steps
        whole["final_metrics"] = _final_metrics(self._usage, len(self._steps))
        whole["extra"] = {"runs": self._runs}
        return whole

    def _agent(self) -> dict[str, Any]:
        first = self._first
        name, _, format = (first.engine if first is not None else "").partition(":")
        agent: dict[str, Any] = {"name": format, "version": "unknown"} if format else {"name": "endstop"}
        agent.setdefault("version", name or "unknown")
        if first is not None and first.model:
            agent["model_name"] = first.model
        if first is not None and first.tools:
            agent["tool_definitions"] = encode_tools(first.tools)
        if first is not None:
            agent["extra"] = {"policy": first.policy.name}
        return agent

    def _begin(self, event: ev.RunStarted) -> None:
        if self._first is None:
            self._first = event
        self._began, self._run_id, self._model = parse_time(event.started_at), event.run_id, event.model
        if event.system and not self._steps:
            self._add("system", event.system, 0)
        if event.prompt is not None:
            self._add("user", self._message(UserMessage(event.prompt, event.images)), 0)

    def _respond(self, event: ev.ResponseFinished) -> None:
        message = event.message
        fields: dict[str, Any] = {}
        if model := event.model or self._model:
            fields["model_name"] = model
        if thought := "".join(block.text for block in message.reasoning):
            fields["reasoning_content"] = thought
        if message.calls:
            fields["tool_calls"] = [self._call(call) for call in message.calls]
        fields["metrics"] = _metrics(event.usage)
        fields["extra"] = {"step": event.step, "finish_reason": event.raw_finish or event.finish}
        step = self._add("agent", message.text, event.t, **fields)
        self._responses.append((message, step))
        self._usage = self._usage + event.usage

    def _call(self, call: ToolCall) -> dict[str, Any]:
        out: dict[str, Any] = {"tool_call_id": call.id, "function_name": call.name}
        try:
            arguments = msgspec.json.decode(call.arguments or "{}")
        except (msgspec.DecodeError, RecursionError):
            arguments = None
        if isinstance(arguments, dict):
            return {**out, "arguments": arguments}
        self.lost["arguments"] += 1
        return {**out, "arguments": {}, "extra": {"arguments_text": call.arguments}}

    def _result(self, answer: ToolResult) -> dict[str, Any]:
        exported = [part for image in answer.images if (part := _image_part(image)) is not None]
        if len(answer.images) > len(exported):
            self.lost["image"] += len(answer.images) - len(exported)
        result: dict[str, Any] = {"source_call_id": answer.call_id}
        result["content"] = [{"type": "text", "text": answer.content}, *exported] if exported else answer.content
        if answer.status != "ok":
            result["extra"] = {"status": answer.status}
        return result

    def _message(self, message: UserMessage) -> str | list[dict[str, Any]]:
        """Return a prompt: its text, or its texts and images if an image can be exported."""
        parts: list[dict[str, Any]] = []
        exported = 0
        for part in message.parts:
            shown = _image_part(part) if isinstance(part, Image) else None
            exported += shown is not None
            parts.append(shown or {"type": "text", "text": part if isinstance(part, str) else "[image]"})
        if len(message.images) > exported:
            self.lost["image"] += len(message.images) - exported
        return parts if exported else message.text

    def _add(self, source: str, message: str | list[dict[str, Any]], t: int, **fields: Any) -> dict[str, Any]:
        step: dict[str, Any] = {"step_id": len(self._steps) + 1}
        if self._began is not None:
            step["timestamp"] = format_time(self._began + t / 1000)
        step |= {"source": source, "message": message}
        extra = {"run_id": self._run_id, **fields.pop("extra", {})}
        self._steps.append(step)
        step |= {**fields, "extra": extra}
        return step


def _image_part(image: Image) -> dict[str, Any] | None:
    """Return the image by its URL; None if it has none, because ATIF refers to images only by path or URL."""
    if not image.url or image.media_type not in _IMAGE_TYPES:
        return None
    return {"type": "image", "source": {"media_type": image.media_type, "path": image.url}}


def _metrics(usage: Usage) -> dict[str, Any]:
    metrics: dict[str, Any] = {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "cached_tokens": usage.cached_tokens,
    }
    if usage.cost_usd is not None:
        metrics["cost_usd"] = usage.cost_usd
    metrics["extra"] = {"reasoning_tokens": usage.reasoning_tokens, "estimated": usage.estimated}
    return metrics


def _final_metrics(usage: Usage, steps: int) -> dict[str, Any]:
    totals = {f"total_{name}": value for name, value in _metrics(usage).items() if name != "extra"}
    return {**totals, "total_steps": steps, "extra": {"estimated": usage.estimated}}


def _outcome_fields(outcome: Outcome) -> dict[str, Any]:
    names = ("run_id", "status", "stop_reason", "answer", "verdict", "work")
    fields: dict[str, Any] = {name: getattr(outcome, name) for name in names}
    if outcome.evaluation is not None:
        fields["evaluation"] = outcome.evaluation
    return fields

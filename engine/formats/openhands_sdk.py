"""Import of OpenHands SDK conversations: events with a `kind`, in a folder with a file for each, a list, or lines.

The actions of one response (`llm_response_id`) are one step, with the results that name their calls. Token counts are
totals of the conversation so far, which the program writes before the events of the response that increased them.
Source: OpenHands SDK, `openhands/sdk/event`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ..decision import AssistantMessage, Reasoning, Usage
from ..decision.messages import ResultStatus
from .content_blocks import MessageContent, parse_content, parse_reasoning
from .file_values import FileValue
from .imported_session import ImportedEnding, ImportedSession, Origin, RawCall, Unreadable, without_repeated_lines
from .openai import parse_calls, parse_tools
from .openhands import read_event_folder
from .parsing import as_dict, as_json, as_list, as_number, as_text, parse_time, parse_usage
from .session_builder import SessionBuilder

_RESULTS = ("ObservationEvent", "AgentErrorEvent", "UserRejectObservation")
_KINDS = frozenset(
    {*_RESULTS, "ActionEvent", "MessageEvent", "SystemPromptEvent", "ConversationStateUpdateEvent",
     "ConversationErrorEvent", "PauseEvent", "InterruptEvent", "Condensation", "CondensationRequest",
     "CondensationSummaryEvent", "LLMCompletionLogEvent", "HookExecutionEvent", "TokenEvent", "StreamingDeltaEvent",
     "ACPToolCallEvent"}
)  # fmt: skip
_FIELDS_READ: dict[str, frozenset[str]] = {
    "ActionEvent": frozenset(
        {"thought", "reasoning_content", "thinking_blocks", "action", "tool_name", "tool_call_id", "tool_call",
         "llm_response_id", "security_risk", "summary"}
    ),
    "MessageEvent": frozenset({"llm_message", "llm_response_id", "extended_content"}),
    "SystemPromptEvent": frozenset({"system_prompt", "tools", "dynamic_context"}),
    "ObservationEvent": frozenset({"tool_name", "tool_call_id", "observation", "action_id", "extended_content"}),
    "AgentErrorEvent": frozenset({"tool_name", "tool_call_id", "error"}),
    "UserRejectObservation": frozenset({"tool_name", "tool_call_id", "action_id", "rejection_reason"}),
    "ConversationErrorEvent": frozenset({"code", "detail"}),
}  # fmt: skip
_COMMON_FIELDS = frozenset({"id", "timestamp", "source", "kind"})
_OBSERVATION_FIELDS = frozenset({"content", "is_error", "command", "exit_code", "metadata", "kind", "timeout"})
_ENDINGS = {"MaxIterationsReached": "step_limit", "stuck": "stuck"}


def is_line(data: Any) -> bool:
    """Return whether this is an event of the SDK."""
    event = as_dict(data)
    return as_text(event.get("kind")) in _KINDS and "source" in event and "timestamp" in event


def matches(data: Any) -> bool:
    """Return whether these are events of the SDK."""
    return any(is_line(event) for event in as_list(data)[:5])


def sessions(data: Any) -> Iterator[ImportedSession]:
    """Yield the only session of these events."""
    if not matches(data):
        raise Unreadable("it contains no events of the OpenHands SDK")
    session = ImportedSession()
    events = list(without_repeated_lines(as_list(data), session))
    reader = _EventReader(events, session)
    for event in events:
        reader.add_event(as_dict(event))
    reader.finish()
    yield reader.session


def read_store(path: Path) -> Iterator[FileValue] | None:
    """Return the events of a conversation's folder in order; None for any other path."""
    return read_event_folder(path, is_line)


class _EventReader:
    """Reader that adds events to a session."""

    def __init__(self, events: list[Any], session: ImportedSession) -> None:
        self.session = session
        self._builder = SessionBuilder(self.session)
        self._calls: dict[str, list[RawCall]] = {}
        """The calls of each response: they are in separate events, possibly with results between them."""
        for event in map(as_dict, events):
            if event.get("kind") == "ActionEvent":
                self._calls.setdefault(as_text(event.get("llm_response_id")), []).append(_call(event))
        self._response_id: str | None = None
        self._counted: dict[str, Usage] = {}
        self._spent: Usage | None = None
        """Usage since the latest response."""

    def add_event(self, event: dict[str, Any]) -> None:
        kind, t = as_text(event.get("kind")), parse_time(event.get("timestamp"))
        if kind in _FIELDS_READ:
            self.session.count_unread_fields("line field", event, _COMMON_FIELDS | _FIELDS_READ[kind], f"{kind}.")
        if kind in _RESULTS:
            self._add_result(kind, event, t)
            return
        match kind:
            case "SystemPromptEvent":
                self._add_system(event, t)
            case "MessageEvent":
                self._add_message(event, as_dict(event.get("llm_message")), t)
            case "ActionEvent":
                self._add_action(event, t)
            case "ConversationStateUpdateEvent":
                self._note_state(as_text(event.get("key")), event.get("value"))
            case "ConversationErrorEvent":
                self._end(as_text(event.get("code")), as_text(event.get("detail")))
            case "PauseEvent" | "InterruptEvent":
                self._builder.add_user((), "interrupt", t)
            case _:
                self.session.count_unknown("line", kind, {"content": as_text(event.get("summary"))})

    def finish(self) -> None:
        """Assign the remaining usage to the last response, if it has no counts of its own."""
        spent, self._spent = self._spent, None
        if spent is None:
            return
        last = max((i for i, one in enumerate(self.session.messages) if _is_response(one.message)), default=-1)
        if last >= 0 and self.session.messages[last].usage is None:
            self.session.messages[last] = replace(self.session.messages[last], usage=spent)
        else:
            self.session.count_loss("usage without a response")

    # ---- messages

    def _add_system(self, event: dict[str, Any], t: float | None) -> None:
        for name in ("system_prompt", "dynamic_context"):
            self._builder.add_system(as_text(as_dict(event.get(name)).get("text")), t)
        tools = [as_dict(tool) for tool in as_list(event.get("tools"))]
        self.session.tools = self.session.tools or parse_tools(
            [{"name": tool.get("name") or tool.get("title"), **tool} for tool in tools]
        )

    def _add_message(self, event: dict[str, Any], message: dict[str, Any], t: float | None) -> None:
        content = self._content([*as_list(message.get("content")), *as_list(event.get("extended_content"))])
        if message.get("role") == "assistant":
            reasoning = _reasoning(message)
            self._builder.add_response(content.text, parse_calls(message), reasoning, usage=self._take_usage(), t=t)
            self._response_id = None
        elif message.get("role") == "system":
            self._builder.add_system(content.text, t)
        else:
            origin: Origin = "user" if event.get("source") == "user" else "nudge"
            self._builder.add_prompt(content, origin, t)

    def _add_action(self, event: dict[str, Any], t: float | None) -> None:
        id = as_text(event.get("llm_response_id"))
        text = self._content(event.get("thought")).text
        if id and id == self._response_id:
            self.session.count_dropped("own words", text) if text else None
            return
        self._response_id = id
        calls = self._calls[id] if id else [_call(event)]
        self._builder.add_response(text, calls, _reasoning(event), usage=self._take_usage(), t=t)

    def _add_result(self, kind: str, event: dict[str, Any], t: float | None) -> None:
        observation = as_dict(event.get("observation"))
        told = event.get("error") or event.get("rejection_reason")
        content = self._content(told or [*as_list(observation.get("content")), *as_list(event.get("extended_content"))])
        self.session.count_unread_fields("line field", observation, _OBSERVATION_FIELDS, "observation.")
        code = as_number(observation.get("exit_code"))
        failed = kind == "AgentErrorEvent" or observation.get("is_error") is True or (code is not None and code > 0)
        status: ResultStatus = "denied" if kind == "UserRejectObservation" else "error" if failed else "ok"
        id, name = as_text(event.get("tool_call_id")), as_text(event.get("tool_name"))
        self._builder.add_result_content(id, name, content, status, t)

    def _content(self, content: Any) -> MessageContent:
        """Return the texts and pictures of a content. A part with several pictures becomes one part for each."""
        parts: list[Any] = []
        for part in content if isinstance(content, list) else [content]:
            urls = as_list(as_dict(part).get("image_urls"))
            pictures = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
            parts += pictures or [_without_cache_mark(part)]
        return parse_content(parts, self.session, pictures=True)

    # ---- states

    def _note_state(self, key: str, value: Any) -> None:
        whole = as_dict(value) if key == "full_state" else {key: value}
        self._note_usage(as_dict(as_dict(whole.get("stats")).get("usage_to_metrics")))
        status = as_text(whole.get("execution_status"))
        if status == "stuck":
            self._end("stuck", "the conversation went in circles")
        elif status == "running":
            self.session.ending = None

    def _note_usage(self, metrics: dict[str, Any]) -> None:
        for name, one in metrics.items():
            total = as_dict(as_dict(one).get("accumulated_token_usage"))
            cached = {"prompt_tokens_details": {"cached_tokens": total.get("cache_read_tokens")}}
            spent = {"completion_tokens_details": {"reasoning_tokens": total.get("reasoning_tokens")}}
            counted = parse_usage({**total, **cached, **spent, "cost": as_dict(one).get("accumulated_cost")})
            before = self._counted.get(name, Usage())
            if counted is None or counted == before:
                continue
            self._counted[name] = counted
            if name == "condenser":
                self.session.count_loss("usage without a response")
            else:
                self._spent = (
                    _difference(counted, before) if self._spent is None else self._spent + _difference(counted, before)
                )
                self.session.model = self.session.model or as_text(as_dict(one).get("model_name"))

    def _take_usage(self) -> Usage | None:
        spent, self._spent = self._spent, None
        return spent

    def _end(self, code: str, detail: str) -> None:
        reason = _ENDINGS.get(code, "custom:error")
        status = "failed" if reason == "custom:error" else None
        self.session.ending = ImportedEnding(reason=reason, status=status, detail=f"{code}: {detail}"[:500])  # type: ignore[arg-type]


def _is_response(message: Any) -> bool:
    return isinstance(message, AssistantMessage)


def _call(event: dict[str, Any]) -> RawCall:
    call = as_dict(event.get("tool_call"))
    id, name = as_text(event.get("tool_call_id")), as_text(call.get("name")) or as_text(event.get("tool_name"))
    return id, name, as_json(call.get("arguments") if "arguments" in call else event.get("action"))


def _reasoning(holder: dict[str, Any]) -> list[Reasoning]:
    blocks = [parse_reasoning(block) for block in as_list(holder.get("thinking_blocks"))]
    text = as_text(holder.get("reasoning_content"))
    return [block for block in blocks if block is not None] or ([Reasoning(text)] if text else [])


def _without_cache_mark(part: Any) -> Any:
    return {name: value for name, value in part.items() if name != "cache_prompt"} if isinstance(part, dict) else part


def _difference(counted: Usage, before: Usage) -> Usage:
    cost = None if counted.cost_usd is None else max(0.0, counted.cost_usd - (before.cost_usd or 0.0))
    return Usage(
        input_tokens=max(0, counted.input_tokens - before.input_tokens),
        output_tokens=max(0, counted.output_tokens - before.output_tokens),
        cached_tokens=max(0, counted.cached_tokens - before.cached_tokens),
        reasoning_tokens=max(0, counted.reasoning_tokens - before.reasoning_tokens),
        cost_usd=cost,
    )

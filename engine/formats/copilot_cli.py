"""Import of GitHub Copilot CLI sessions: `~/.copilot/session-state/<session>/events.jsonl`.

A line is an event. A response may be several `assistant.message` of one request (`apiCallId`); its token counts are in
the `session.usage_record` of that request, in versions that write one. Sub-agents' events name the call that started
them. Source: no description is published; read as versions 0.0.420 to 1.0.95 write it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..decision import Reasoning, Usage, UserMessage
from ..decision.events import ParentCall
from ..decision.messages import ResultStatus
from .imported_session import ImportedSession, Unreadable
from .parsing import as_dict, as_json, as_list, as_text, describe_failure, first_text, parse_time, usage_from_counts
from .session_builder import ResponseParts, SessionBuilder

_PREFIXES = ("session.", "user.", "assistant.", "tool.", "hook.", "system.", "subagent.", "skill.", "permission.")
_MESSAGE_FIELDS = frozenset(
    {"content", "toolRequests", "messageId", "originatingMessageId", "model", "providerId", "interactionId", "turnId",
     "apiCallId", "clientRequestId", "requestId", "serviceRequestId", "phase", "reasoningText", "reasoningOpaque",
      "reasoningBlocks", "encryptedContent", "parentToolCallId", "chunkIndex", "chunkCount", "rte"}
)  # fmt: skip
_USER_FIELDS = frozenset(
    {"content", "transformedContent", "messageId", "delivery", "interactionId", "turnId", "parentAgentTaskId",
     "supportedNativeDocumentMimeTypes", "source", "agentMode"}
)  # fmt: skip
_COMPACTION_FIELDS = frozenset(
    {"success", "preCompactionTokens", "preCompactionMessagesLength", "summaryContent", "checkpointNumber",
     "checkpointPath", "requestId", "serviceRequestId"}
)  # fmt: skip
_RESULT_FIELDS = frozenset(
    {
        "toolCallId",
        "model",
        "interactionId",
        "turnId",
        "success",
        "result",
        "error",
        "parentToolCallId",
        "shellExecution",
        "rte",
    }
)


def is_line(data: Any) -> bool:
    """Return whether this is an event."""
    line = as_dict(data)
    return {"type", "data", "id", "timestamp", "parentId"} <= line.keys() and (
        line["type"] == "abort" or as_text(line["type"]).startswith(_PREFIXES)
    )


def matches(data: Any) -> bool:
    """Return whether these are the events of a session."""
    return isinstance(data, list) and any(is_line(line) for line in data[:5])


def sessions(data: Any) -> Iterator[ImportedSession]:
    """Yield the session of a file, then those of its sub-agents."""
    if not matches(data):
        raise Unreadable("it is not a Copilot CLI session")
    lines = [as_dict(line) for line in data]
    usages, prompts = _usages(lines), _prompts_of_agents(lines)
    agents: dict[str, list[dict[str, Any]]] = {"": []}
    for line in lines:
        agents.setdefault(_agent(line), []).append(line)
    id = ""
    for agent, events in agents.items():
        reader = _EventReader(usages)
        prompt = prompts.get(agent)
        if prompt is not None and not any(event.get("type") == "user.message" for event in events):
            reader.add_event(prompt)
        for event in events:
            reader.add_event(event)
        reader.finish()
        id = id or reader.session.id
        if len(agents) == 1:
            reader.session.usage = _whole_usage(lines)
        if agent:
            reader.session.id = f"{id}.{agent}"
            reader.session.parent = ParentCall(session_id=id, call_id=agent) if id else None
        if not agent or reader.responses:
            yield reader.session


def _usages(lines: Sequence[dict[str, Any]]) -> dict[str, Usage]:
    """Return the token counts of each request, by its id."""
    usages: dict[str, Usage] = {}
    for line in lines:
        counted = as_dict(as_dict(line.get("data")).get("usage"))
        if line.get("type") == "session.usage_record" and (usage := _parse_usage(counted)) is not None:
            usages[as_text(counted.get("apiCallId"))] = usage
    return usages


def _agent(line: dict[str, Any]) -> str:
    """Return the call that started the sub-agent of this event; empty for the main agent. Newer events have both."""
    return first_text(as_dict(line.get("data")), "parentToolCallId") or as_text(line.get("agentId"))


def _whole_usage(lines: Sequence[dict[str, Any]]) -> Usage | None:
    """Return the token counts of the whole session from its end; None if it has none or did not end."""
    if any(line.get("type") == "session.resume" for line in lines):
        return None
    ends = [as_dict(line.get("data")) for line in lines if line.get("type") == "session.shutdown"]
    models = [as_dict(one) for end in ends[-1:] for one in as_dict(end.get("modelMetrics")).values()]
    counted = [usage for one in models if (usage := _parse_usage(as_dict(one.get("usage")))) is not None]
    return sum(counted[1:], counted[0]) if counted else None


def _prompts_of_agents(lines: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the `prompt` of each call to a sub-agent, by the call's id: older versions lack the event for it."""
    prompts: dict[str, dict[str, Any]] = {}
    for line in lines:
        for call in map(as_dict, as_list(as_dict(line.get("data")).get("toolRequests"))):
            prompt = as_text(as_dict(call.get("arguments")).get("prompt"))
            if id := as_text(call.get("toolCallId")) if prompt else "":
                event = {"type": "user.message", "timestamp": line.get("timestamp"), "data": {"content": prompt}}
                prompts[id] = event
    return prompts


class _EventReader:
    """Reader that adds the events of one agent to a session."""

    def __init__(self, usages: dict[str, Usage]) -> None:
        self.session = ImportedSession()
        self.responses = 0
        self._usages = usages
        self._builder = SessionBuilder(self.session)
        self._response: ResponseParts | None = None
        self._model = ""
        self._compacting_from = 0
        """Number of messages of the session when the last compaction began. Messages after that stay, because it runs
        in parallel."""

    def add_event(self, line: dict[str, Any]) -> None:
        """Add an event."""
        data, kind, t = as_dict(line.get("data")), as_text(line.get("type")), parse_time(line.get("timestamp"))
        match kind:
            case "session.start":
                self.session.id = as_text(data.get("sessionId"))
                self._model = as_text(data.get("selectedModel"))
            case "session.model_change":
                self._model = as_text(data.get("newModel")) or self._model
            case "user.message":
                self._add_prompt(data, t)
            case "assistant.message":
                self._add_message(data, t)
            case "tool.execution_complete":
                self._add_result(data, t)
            case "system.message":
                self._end_response()
                self._add_system(as_text(data.get("content")), t)
            case "system.notification":
                self._end_response()
                self._builder.hold(UserMessage(as_text(data.get("content"))), t)
            case "session.error":
                self._end_response()
                status = as_text(data.get("statusCode"))
                text = first_text(data, "message", "errorType")
                self._builder.add_failure(f"status {status}: {text}" if status else text, t=t)
            case "session.compaction_start":
                self._end_response()
                self._compacting_from = len(self.session.messages)
            case "session.compaction_complete" if data.get("success") is not False:
                self._end_response()
                self._add_compaction(data, t)
            case "abort":
                self._end_response()
                self._builder.add_user((), "interrupt", t)
            case _:
                self.session.count_unknown("line", kind, data)

    def finish(self) -> None:
        """Add the pending messages."""
        self._end_response()
        self.session.model = self.session.model or self._model

    def _add_system(self, text: str, t: float | None) -> None:
        """Add the system prompt. It is written again with each prompt; only the first one is kept."""
        if not self.session.messages:
            self._builder.add_system(text, t)
        elif text != self.session.system:
            self.session.count_dropped("line: system.message (changed)", text)

    def _add_compaction(self, data: dict[str, Any], t: float | None) -> None:
        summary = as_text(data.get("summaryContent"))
        self.session.count_unread_fields("line field", data, _COMPACTION_FIELDS, "session.compaction_complete.")
        added = self._builder.add_compaction(
            (UserMessage(summary),),
            kept_from=self._compacting_from,
            before_tokens=data.get("preCompactionTokens"),
            t=t,
        )
        if not added:
            self._builder.hold(UserMessage(summary), t)

    def _add_prompt(self, data: dict[str, Any], t: float | None) -> None:
        self._end_response()
        self.session.count_unread_fields("message field", data, _USER_FIELDS, "user.")
        if data.get("source") == "system":
            self._builder.hold(UserMessage(as_text(data.get("content"))), t)
            return
        self._builder.add_user([as_text(data.get("content"))], "user", t)

    def _add_message(self, data: dict[str, Any], t: float | None) -> None:
        self.session.count_unread_fields("message field", data, _MESSAGE_FIELDS)
        id = first_text(data, "apiCallId", "messageId")
        if self._response is None or not id or self._response.id != id:
            self._end_response()
            self._response = ResponseParts(t, as_text(data.get("model")) or self._model, id)
        response = self._response
        if text := as_text(data.get("content")):
            response.texts.append(text)
        if data.get("reasoningText") or data.get("reasoningOpaque"):
            signature = as_text(data.get("reasoningOpaque"))
            response.reasoning.append(Reasoning(as_text(data.get("reasoningText")), signature, vendor="copilot"))
        for call in map(as_dict, as_list(data.get("toolRequests"))):
            response.calls.append(
                (as_text(call.get("toolCallId")), as_text(call.get("name")), as_json(call.get("arguments")))
            )

    def _add_result(self, data: dict[str, Any], t: float | None) -> None:
        self._end_response()
        self.session.count_unread_fields("line field", data, _RESULT_FIELDS, "tool.execution_complete.")
        result = data.get("result")
        text = first_text(as_dict(result), "content") or as_text(result) or describe_failure(data)
        exit_code = as_dict(data.get("shellExecution")).get("exitCode")
        status: ResultStatus = "error" if data.get("success") is False or exit_code else "ok"
        self._builder.add_result(as_text(data.get("toolCallId")), "", text, status, t=t)

    def _end_response(self) -> None:
        response, self._response = self._response, None
        if response is None:
            return
        self.responses += 1
        response.usage = self._usages.pop(response.id, None)
        self._builder.add_parts(response)


def _parse_usage(counted: dict[str, Any]) -> Usage | None:
    return usage_from_counts(
        counted.get("inputTokens"),
        counted.get("outputTokens"),
        cached=counted.get("cacheReadTokens"),
        reasoning=counted.get("reasoningTokens"),
    )

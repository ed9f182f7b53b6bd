"""Import of Kimi CLI sessions: `wire.jsonl` of Kimi Code CLI, and `context.jsonl` of the Kimi CLI before it.

The wire (protocol 1.4) has steps: everything between `step.begin` and `step.end` is one response with its results. The
context has messages in OpenAI's form, with `_checkpoint` and `_usage` among them.
Source: kimi-cli, `src/kimi_cli/soul/context.py`; for the wire, published files.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..decision import Reasoning, Usage, UserMessage
from ..decision.messages import ResultStatus
from ..decision.reported_usage import sum_of_counts
from .content_blocks import count_dropped_parts, parse_content
from .imported_session import ImportedSession, Unreadable
from .openai import add_message
from .parsing import as_dict, as_json, as_list, as_text, first_text, parse_time, usage_from_counts
from .session_builder import ResponseParts, SessionBuilder

_WIRE_PREFIXES = ("context.", "turn.", "llm.", "config.", "tools.", "permission.", "usage.", "full_compaction.",
                  "plan_mode.", "profile.", "plugin.", "runtime.", "token_counting.")  # fmt: skip
_CONTEXT_ROLES = ("_checkpoint", "_usage", "_system_prompt")
_USERS_OWN = ("user", "")
_ERROR = "<system>ERROR"
"""Beginning of a failed tool's result in a context."""
_EVENT_FIELDS = frozenset({"type", "uuid", "parentUuid", "turnId", "step", "stepUuid", "part", "toolCallId", "name",
                           "args", "result", "usage", "finishReason", "messageId", "description"})  # fmt: skip


def is_line(data: Any) -> bool:
    """Return whether this is a line of a wire. Lines of a context are messages."""
    line = as_dict(data)
    if line.get("type") == "metadata" and "protocol_version" in line:
        return True
    return "time" in line and as_text(line.get("type")).startswith(_WIRE_PREFIXES)


def matches(data: Any) -> bool:
    """Return whether these are the lines of a wire or a context."""
    return _is_wire(data) or _is_context(data)


def sessions(data: Any) -> Iterator[ImportedSession]:
    """Yield the only session of a wire or a context."""
    if _is_wire(data):
        yield _read_wire([as_dict(line) for line in data])
    elif _is_context(data):
        yield _read_context([as_dict(line) for line in data])
    else:
        raise Unreadable("it is not a Kimi CLI session")


def _is_wire(data: Any) -> bool:
    return any(as_text(as_dict(line).get("type")).startswith(_WIRE_PREFIXES) for line in as_list(data)[:5])


def _is_context(data: Any) -> bool:
    lines = [as_dict(line) for line in as_list(data)[:20]]
    return any(as_text(line.get("role")) in _CONTEXT_ROLES for line in lines)


# ---- context.jsonl


def _read_context(lines: list[dict[str, Any]]) -> ImportedSession:
    session = ImportedSession()
    builder = SessionBuilder(session)
    for line in lines:
        role = line.get("role")
        if role == "_system_prompt":
            builder.add_system(as_text(line.get("content")))
        elif role in _CONTEXT_ROLES:
            session.count_loss(f"role: {role}")
        else:
            content = _rename_thoughts(line.get("content"))
            failed = role == "tool" and parse_content(content, ImportedSession()).text.startswith(_ERROR)
            add_message(builder, {**line, "content": content, **({"is_error": True} if failed else {})})
    return session


def _rename_thoughts(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    return [_rename_thought(as_dict(part)) if as_dict(part).get("type") == "think" else part for part in content]


def _rename_thought(part: dict[str, Any]) -> dict[str, Any]:
    return {"type": "thinking", "thinking": part.get("think"), "signature": as_text(part.get("encrypted"))}


# ---- wire.jsonl


def _read_wire(lines: list[dict[str, Any]]) -> ImportedSession:
    reader = _WireReader()
    for line in lines:
        reader.add_line(line)
    reader.finish()
    return reader.session


class _WireReader:
    """Reader that adds the lines of a wire to a session."""

    def __init__(self) -> None:
        self.session = ImportedSession()
        self._builder = SessionBuilder(self.session)
        self._step: ResponseParts | None = None
        self._model = ""

    def add_line(self, line: dict[str, Any]) -> None:
        """Add a line."""
        kind, t = as_text(line.get("type")), parse_time(line.get("time"))
        match kind:
            case "context.append_loop_event":
                self._add_event(as_dict(line.get("event")), t)
            case "context.append_message":
                self._add_message(as_dict(line.get("message")), t)
            case "config.update" | "profile.bind":
                if not self.session.messages and not self.session.system:
                    self._builder.add_system(as_text(line.get("systemPrompt")))
            case "llm.request":
                self._model = as_text(line.get("model")) or self._model
            case "turn.cancel":
                self._end_step()
                self._builder.add_user((), "interrupt", t)
            case "context.apply_compaction":
                self._end_step()
                self._add_compaction(line, t)
            case "metadata" | "turn.prompt" | "turn.steer":
                self.session.count_loss(f"line: {kind}")  # typed text is also appended as a message
            case _:
                self.session.count_unknown("line", kind, line)

    def finish(self) -> None:
        """Add the pending response."""
        self._end_step()
        self.session.model = self.session.model or self._model

    def _add_compaction(self, line: dict[str, Any], t: float | None) -> None:
        summary = first_text(line, "contextSummary", "summary")
        before, after = line.get("tokensBefore"), line.get("tokensAfter")
        if not self._builder.add_compaction((UserMessage(summary),), before_tokens=before, after_tokens=after, t=t):
            self._builder.hold(UserMessage(summary), t)

    def _add_message(self, message: dict[str, Any], t: float | None) -> None:
        self._end_step()
        session = self.session
        content = parse_content(message.get("content"), session, pictures=True)
        count_dropped_parts(content, session, calls=True, results=True, reasoning=True)
        if message.get("role") != "user":
            session.count_unknown("role", message.get("role"), message)
        elif as_text(as_dict(message.get("origin")).get("kind")) not in _USERS_OWN:
            self._builder.hold(UserMessage(content.text), t)
        elif content.parts:
            self._builder.add_user(content.parts, "user", t)

    def _add_event(self, event: dict[str, Any], t: float | None) -> None:
        kind = as_text(event.get("type"))
        if kind == "step.begin":
            self._end_step()
            self._step = ResponseParts(t)
            return
        step = self._step = self._step or ResponseParts(t)
        match kind:
            case "content.part":
                self._add_part(step, as_dict(event.get("part")))
            case "tool.call":
                id, name = as_text(event.get("toolCallId")), as_text(event.get("name"))
                step.calls.append((id, name, as_json(event.get("args") or {})))
            case "tool.result":
                step.results.append((event, t))
            case "step.end":
                step.usage = _parse_usage(as_dict(event.get("usage")))
                step.finish = as_text(event.get("finishReason"))
            case _:
                self.session.count_dropped(f"line: loop event ({kind[:40]})", event)

    def _add_part(self, step: ResponseParts, part: dict[str, Any]) -> None:
        if part.get("type") == "think":
            step.reasoning.append(Reasoning(as_text(part.get("think")), as_text(part.get("encrypted"))))
            return
        content = parse_content([part], self.session)
        step.texts += [content.text] if content.text else []

    def _end_step(self) -> None:
        step, self._step = self._step, None
        if step is None or step.is_empty:
            return  # a request that was cancelled before anything arrived
        step.model = self._model
        self._builder.add_parts(step)
        for event, t in step.results:
            self._add_result(event, t)

    def _add_result(self, event: dict[str, Any], t: float | None) -> None:
        result = as_dict(event.get("result"))
        output = result.get("output") if "output" in result else event.get("result")
        content = parse_content(output, self.session, pictures=True)
        failed = result.get("isError") is True or bool(result.get("error"))
        status: ResultStatus = "error" if failed else "ok"
        self._builder.add_result_content(as_text(event.get("toolCallId")), "", content, status, t)


def _parse_usage(usage: dict[str, Any]) -> Usage | None:
    """Return the token counts. Tokens written to or read from a cache are not part of `inputOther`."""
    cached = usage.get("inputCacheRead")
    input = sum_of_counts(usage.get("inputOther"), cached, usage.get("inputCacheCreation"))
    return usage_from_counts(input, usage.get("output"), cached=cached)

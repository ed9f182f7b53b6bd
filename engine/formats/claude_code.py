"""Import of Claude Code transcripts: `~/.claude/projects/<project>/<session>.jsonl`, with `agent-<id>.jsonl` files.

An `agent-<id>.jsonl` is the transcript of a sub-agent. Each line wraps a message in Anthropic's form, or one block of
it, with its time, its id and the id of the line before it. One response is spread over several lines with the same
message id. A text in the user's role comes from the user, from Claude Code (`isMeta`, reminders, notices, summaries of
a compaction), or is the output of a local command; only the first kind begins a run. A transcript is a tree: if the
user goes back, the abandoned branch stays in the file.
Claude Code publishes no description of the format; it is read as versions 1.0 to 2.1 write it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..decision import UserMessage
from ..decision.events import ParentCall
from ..decision.messages import ResultStatus
from .agent_notes import COMMAND, INTERRUPTED, LOCAL_OUTPUT, REMINDERS
from .content_blocks import MessageContent, count_dropped_parts, parse_content
from .imported_session import ImportedSession, Origin, Unreadable
from .line_tree import leave_out_rewound
from .parsing import as_dict, as_json, as_list, as_text, describe_failure, first_text, parse_time, parse_usage
from .session_builder import SessionBuilder

SYNTHETIC_MODEL = "<synthetic>"
"""Model name of messages that Claude Code writes itself: errors, and placeholders for a response."""
_REJECTED = "The user doesn't want to proceed with this tool use."
_LINES_SAMPLED = 50
"""Number of lines at the beginning of a transcript among which there is a message."""
_MESSAGE_FIELDS = frozenset(
    {"role", "content", "id", "type", "model", "stop_reason", "stop_sequence", "usage", "container",
     "context_management"}
)  # fmt: skip
_LINE_FIELDS = frozenset(
    {"message", "type", "uuid", "parentUuid", "logicalParentUuid", "sessionId", "session_id", "timestamp", "isMeta",
     "isSidechain", "isCompactSummary", "isVisibleInTranscriptOnly", "isApiErrorMessage", "error", "requestId",
     "userType", "cwd", "version", "gitBranch", "entrypoint", "slug", "promptId", "permissionMode", "agentId",
     "sourceToolAssistantUUID", "sourceToolUseID", "parent_tool_use_id"}
)  # fmt: skip
"""Fields of a line that are read or carry no content; others are counted as losses."""


def is_line(data: Any) -> bool:
    """Return whether this is a line of a transcript, with or without a message."""
    line = as_dict(data)
    if line.get("type") in ("user", "assistant"):
        return "role" in as_dict(line.get("message")) and ("sessionId" in line or "session_id" in line)
    if line.get("type") in ("system", "result") and "session_id" in line:
        return "subtype" in line
    return ("type" in line and "sessionId" in line) or line.get("type") in ("file-history-snapshot", "summary")


def matches(data: Any) -> bool:
    """Return whether these are the lines of a transcript."""
    lines = as_list(data)[:_LINES_SAMPLED]
    return any(_is_message(as_dict(line)) for line in lines) and not any("role" in as_dict(line) for line in lines)


def sessions(data: Any) -> Iterator[ImportedSession]:
    """Yield the session of a transcript, then those of the sub-agents whose messages are among its lines."""
    if not matches(data):
        raise Unreadable("it is not a Claude Code transcript")
    agents = _split_agents([as_dict(line) for line in data])
    main = agents.pop("", [])
    calls = _calls_of_agents(main)
    if not agents or any(_is_response(line) for line in main):
        yield _read_session(main, "")
    elif main:
        agents = {name: (main if number == 0 else []) + agents[name] for number, name in enumerate(agents)}
    for agent, lines in agents.items():
        session = _read_session(lines, agent)
        of = next(filter(None, (first_text(line, "sessionId", "session_id") for line in lines)), "")
        by_id = first_text(lines[0], "parent_tool_use_id") or calls.get(agent, "")
        session.parent = ParentCall(session_id=of, call_id=by_id) if of else None
        yield session


def _calls_of_agents(lines: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Return the call that started each sub-agent, by the sub-agent's id, as given in the calls' results."""
    calls = {}
    for line in lines:
        agent = as_text(as_dict(line.get("toolUseResult")).get("agentId"))
        for block in as_list(as_dict(line.get("message")).get("content")) if agent else ():
            if as_dict(block).get("type") == "tool_result":
                calls[agent] = as_text(block.get("tool_use_id"))
    return calls


def _is_message(line: dict[str, Any]) -> bool:
    return line.get("type") in ("user", "assistant") and "role" in as_dict(line.get("message"))


def _is_response(line: dict[str, Any]) -> bool:
    return line.get("type") == "assistant" and _is_message(line)


def _split_agents(lines: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the lines of each agent, by its id (empty for the main agent). Sub-agents without an id are counted."""
    agents: dict[str, list[dict[str, Any]]] = {"": []}
    agent_of: dict[str, str] = {}
    for line in lines:
        agent = ""
        if line.get("isSidechain") is True or line.get("parent_tool_use_id"):
            parent = agent_of.get(as_text(line.get("parentUuid")), "")
            agent = first_text(line, "agentId", "parent_tool_use_id") or parent or f"agent-{len(agents)}"
            agent_of[as_text(line.get("uuid"))] = agent
        agents.setdefault(agent, []).append(line)
    return agents


def _read_session(lines: Sequence[dict[str, Any]], agent: str) -> ImportedSession:
    session = ImportedSession()
    kept = _merge_responses(leave_out_rewound(lines, session, _is_message, _is_prompt), session)
    reader = _TranscriptReader(session, agent)
    for line, next_text in zip(kept, _following_texts(kept), strict=True):
        reader.add_line(line, next_text)
    reader.finish()
    return session


# ---- what a line is


def _is_prompt(line: dict[str, Any]) -> bool:
    """Return whether a line is from the user."""
    return line.get("type") == "user" and not _has_result(line) and not line.get("isMeta")


def _has_result(line: dict[str, Any]) -> bool:
    blocks = as_list(as_dict(line.get("message")).get("content"))
    return any(as_dict(block).get("type") == "tool_result" for block in blocks)


def _following_texts(lines: Sequence[dict[str, Any]]) -> list[str]:
    """Return, for each line, the beginning of the next message; empty if that is a response or a result."""
    texts: list[str] = []
    text = ""
    for line in reversed(lines):
        texts.append(text)
        if _is_message(line):
            text = "" if _is_response(line) else _first_text(line)
    return texts[::-1]


def _first_text(line: dict[str, Any]) -> str:
    content = as_dict(line.get("message")).get("content")
    if isinstance(content, str):
        return content.lstrip()
    return next((as_text(as_dict(block).get("text")).lstrip() for block in as_list(content)), "")


# ---- the messages


def _merge_responses(lines: Sequence[dict[str, Any]], session: ImportedSession) -> list[dict[str, Any]]:
    """Return the lines, with those of a response merged into its first. Its last token counts are the complete ones."""
    merged: list[dict[str, Any]] = []
    first_of: dict[str, dict[str, Any]] = {}
    seen: set[str] = set()
    for line in lines:
        uuid = as_text(line.get("uuid"))
        if uuid and uuid in seen:
            session.count_loss("repeated line")
            continue
        seen.add(uuid)
        id = as_text(line["message"].get("id")) if _is_response(line) and not _is_failure(line) else ""
        if id in first_of:
            session.count_unread_fields("line field", line, _LINE_FIELDS)
            _extend(first_of[id]["message"], line["message"])
            continue
        if id:
            line = first_of[id] = {**line, "message": dict(line["message"])}
        merged.append(line)
    return merged


def _extend(message: dict[str, Any], more: dict[str, Any]) -> None:
    blocks = [*_as_blocks(message.get("content")), *_as_blocks(more.get("content"))]
    message |= {name: value for name, value in more.items() if value is not None}
    message["content"] = blocks


def _as_blocks(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [] if content is None else [content]


class _TranscriptReader:
    """Reader that adds the lines of one agent to a session."""

    def __init__(self, session: ImportedSession, agent: str) -> None:
        self._session = session
        self._agent = agent
        self._builder = SessionBuilder(session)
        self._compacted: dict[str, Any] | None = None
        """The line that reports a compaction, until its summary follows."""
        self._index_of: dict[str, int] = {}
        """Index in the session's messages at which a line's content begins, by the line's id."""

    def add_line(self, line: dict[str, Any], next_text: str) -> None:
        """Add a line. `next_text`: beginning of the next message in the user's role, if no response comes before it."""
        t = parse_time(line.get("timestamp"))
        self._index_of[as_text(line.get("uuid"))] = len(self._session.messages)
        if not _is_message(line):
            self._add_other(line, t)
        elif _is_response(line) and _is_placeholder(line):
            self._session.count_dropped("own words", line["message"])
        else:
            self._read_fields(line)
            content = parse_content(line["message"].get("content"), self._session, pictures=not _is_response(line))
            if _is_response(line):
                self._add_response(line, content, t)
            else:
                self._add_results(content, t)
                self._add_words(line, content, next_text, t)

    def finish(self) -> None:
        """Count a compaction that nothing follows."""
        self._count_compacted()

    def _count_compacted(self) -> None:
        """Count a compaction whose summary is missing: what the model read from then on is not known."""
        if self._compacted is not None:
            self._session.count_dropped("line: system (compact_boundary)", self._compacted)
        self._compacted = None

    def _read_fields(self, line: dict[str, Any]) -> None:
        session = self._session
        session.count_unread_fields("line field", line, _LINE_FIELDS)
        session.count_unread_fields("message field", line["message"], _MESSAGE_FIELDS)
        if not session.id:
            session.id = ".".join(filter(None, (first_text(line, "sessionId", "session_id"), self._agent)))

    def _add_other(self, line: dict[str, Any], t: float | None) -> None:
        """Add a line without a message: a failed request, queued words, or something that is not read."""
        type, inside = as_text(line.get("type"))[:40] or "none", as_dict(line.get("attachment"))
        if type == "system" and line.get("subtype") == "api_error":
            self._builder.add_failure(_failure_text(line), t=t)
        elif inside.get("type") == "queued_command" and inside.get("prompt"):
            content = parse_content(inside["prompt"], self._session, pictures=True)
            kind = as_text(as_dict(inside.get("origin")).get("kind")) or as_text(inside.get("commandMode"))
            self._add_words({"isMeta": kind not in ("human", "prompt", "")}, content, "", t)
        elif (reminder := REMINDERS.get(as_text(inside.get("type")))) is not None:
            self._builder.hold(UserMessage(reminder), t)
            self._session.count_loss("note")
        elif type == "system" and line.get("subtype") == "compact_boundary":
            self._count_compacted()
            self._compacted = line
        else:
            detail = first_text(line, "subtype") or first_text(as_dict(line.get("data")) or inside, "type")
            self._session.count_dropped(f"line: {type}{f' ({detail[:40]})' if detail else ''}", line)
            self._session.count_contents(line.get("data") or inside)

    def _add_response(self, line: dict[str, Any], content: MessageContent, t: float | None) -> None:
        message, model = line["message"], as_text(line["message"].get("model"))
        if _is_failure(line):
            self._builder.add_failure(content.text or describe_failure(line), t=t)
            return
        count_dropped_parts(content, self._session, results=True)
        self._session.model = self._session.model or model
        self._builder.add_response(
            content.text,
            content.calls,
            content.reasoning,
            usage=parse_usage(message.get("usage")),
            raw_finish=as_text(message.get("stop_reason")),
            model=model,
            t=t,
        )

    def _add_results(self, content: MessageContent, t: float | None) -> None:
        count_dropped_parts(content, self._session, calls=True, reasoning=True)
        self._builder.add_result_blocks(content, t, _result_status)

    def _add_words(self, line: dict[str, Any], content: MessageContent, next_text: str, t: float | None) -> None:
        """Add a text in the user's role: the user's words begin a run, others are held back."""
        if not content.text and (content.results or not content.images):
            return
        if line.get("isCompactSummary") is True and self._add_compaction(content, t):
            return
        origin = _origin(line, content.text, next_text)
        if origin == "nudge":
            self._builder.hold(UserMessage.of(content.parts), t)
        else:
            self._builder.add_user(content.parts, origin, t)

    def _add_compaction(self, summary: MessageContent, t: float | None) -> bool:
        """Add a compaction with its summary. Return False if nothing comes before it."""
        counted = as_dict(as_dict(self._compacted).get("compactMetadata"))
        head = as_text(as_dict(counted.get("preservedSegment")).get("headUuid"))
        self._compacted = None
        return self._builder.add_compaction(
            (UserMessage.of(summary.parts),),
            kept_from=self._index_of.get(head),
            before_tokens=counted.get("preTokens"),
            after_tokens=counted.get("postTokens"),
            t=t,
        )


def _origin(line: dict[str, Any], text: str, next_text: str) -> Origin:
    """Return the origin of a text. A command that prints something calls no model; any other command is a prompt."""
    begins = text.lstrip()
    if begins.startswith(INTERRUPTED):
        return "interrupt"
    own = line.get("isMeta") is True or line.get("isCompactSummary") is True
    local = begins.startswith(COMMAND) and next_text.startswith(LOCAL_OUTPUT)
    return "nudge" if own or local else "user"


def _result_status(text: str, is_error: bool) -> ResultStatus:
    if is_error and text.startswith(_REJECTED):
        return "denied"
    return "cancelled" if text.startswith(INTERRUPTED) else "error" if is_error else "ok"


def _is_placeholder(line: dict[str, Any]) -> bool:
    """Return whether Claude Code wrote this in the model's name without calling a model, and it is not an error."""
    return line["message"].get("model") == SYNTHETIC_MODEL and not _is_failure(line)


def _is_failure(line: dict[str, Any]) -> bool:
    """Return whether this is Claude Code's report, in the model's name, of a failed request."""
    if line.get("isApiErrorMessage") is True or line.get("error"):
        return True
    return line["message"].get("model") == SYNTHETIC_MODEL and _first_text(line).startswith("API Error")


def _failure_text(line: dict[str, Any]) -> str:
    error = as_dict(line.get("error"))
    text = as_json(error.get("error")) if error.get("error") else describe_failure(line)
    status = as_text(error.get("status"))
    return f"API Error: {status} {text}" if status else text

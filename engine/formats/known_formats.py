"""Formats that are recognised but not read, each with a test that recognises it and its name.

They are tried when no format in `FORMATS` matches, or only one that reads anything that looks like messages. A format
that gets a reader leaves this list.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from msgspec import Struct

from .parsing import as_dict, as_list, as_text


class KnownFormat(Struct, frozen=True):
    """A format that is recognised but not read."""

    name: str
    """Its usual name, with the article."""
    matches: Callable[[Any], bool]
    """Whether decoded JSON (a whole file, or a line of JSON Lines) has this format."""
    version: Callable[[dict[str, Any]], str] = lambda data: ""
    """The version named in the data; empty if there is none."""
    sessions: bool = True
    """Whether it contains sessions; a list of prompts, for example, does not."""

    def describe(self, data: Any) -> str:
        """Describe the data and say that it is not read: "this is an HTTP archive of version 1.2, which ..."."""
        first = as_dict(data) or as_dict(next(iter(as_list(data)), None))
        version = self.version(first)[:40]
        named = f"{self.name} of version {version}" if version else self.name
        return f"this is {named}, which {'endstop does not read yet' if self.sessions else 'holds no session'}"


def find_known(data: Any) -> KnownFormat | None:
    """Return the format of this decoded JSON if it is in `KNOWN`."""
    return next((known for known in KNOWN if known.matches(data)), None)


def describe_database(tables: Collection[str]) -> str | None:
    """Describe an SQLite database with these tables; None if it is not known."""
    names = {name.lower() for name in tables}
    return next((what for needed, what in _DATABASES if needed <= names), None)


def _has(*names: str) -> Callable[[Any], bool]:
    """Return a test: whether data is an object with all of these fields."""
    wanted = set(names)
    return lambda data: isinstance(data, dict) and wanted <= data.keys()


def _has_text(name: str, *values: str, also: Collection[str] = ()) -> Callable[[Any], bool]:
    """Return a test: whether data is an object with one of these texts in a field, and with all fields of `also`."""
    return lambda data: isinstance(data, dict) and data.get(name) in values and data.keys() >= set(also)


def _elements(matches: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Return a test: whether data, or the first element of a list, matches."""
    return lambda data: matches(data[0]) if isinstance(data, list) and data else matches(data)


def _listed(name: str, matches: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Return a test: whether data is an object with a list in a field whose first element matches."""
    return lambda data: any(matches(one) for one in as_list(as_dict(data).get(name))[:1])


def _inside(name: str, matches: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Return a test: whether data is an object with a matching value in a field."""
    return lambda data: matches(as_dict(data).get(name))


def _either(*matches: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda data: any(one(data) for one in matches)


def _all(*matches: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda data: all(one(data) for one in matches)


def _field(*path: str) -> Callable[[dict[str, Any]], str]:
    """Return a function that returns the text at the end of a path of fields."""

    def read(data: dict[str, Any]) -> str:
        for name in path[:-1]:
            data = as_dict(data.get(name))
        return as_text(data.get(path[-1]))

    return read


_GEMINI_PARTS = _all(_has_text("role", "user", "model"), _listed("parts", lambda one: isinstance(one, dict)))

_GROK_EVENTS = ("step_start", "text", "tool_use", "step_finish")
"""Types of the events that Grok CLI prints with `--format json` (its `src/headless/output.ts`)."""


def _grok_event(type: str) -> Callable[[Any], bool]:
    return _has_text("type", type, also=("stepNumber", "timestamp"))


_GROK_ENTRY = _all(
    _has_text("type", "user", "assistant", "tool_call", "tool_result", also=("content", "timestamp")),
    lambda data: not ({"role", "message", "uuid", "sessionId"} & data.keys()),
)
"""Test for an entry of Grok CLI's chat history (`ChatEntry` in its `src/types/index.ts`)."""

KNOWN: tuple[KnownFormat, ...] = (
    KnownFormat("a list of Codex prompts", _elements(_has("session_id", "ts", "text")), sessions=False),
    KnownFormat(
        "a list of Claude Code prompts", _elements(_has("display", "pastedContents", "project")), sessions=False
    ),
    KnownFormat("messages of the Gemini API", _either(_elements(_GEMINI_PARTS), _listed("contents", _GEMINI_PARTS))),
    KnownFormat(
        "a part of an OpenCode session",
        _either(_has("sessionID", "messageID", "type"), _has("sessionID", "role", "id"), _has("projectID", "title")),
        _field("version"),
    ),
    KnownFormat(
        "an old Copilot CLI session",
        _elements(_has("sessionId", "chatMessages", "timeline")),
    ),
    KnownFormat(
        "a VS Code chat session", _has("requests", "requesterUsername", "responderUsername"), _field("version")
    ),
    KnownFormat(
        "the wire of an older Kimi CLI",
        _elements(_all(_has("timestamp"), _inside("message", _has("type", "payload")))),
    ),
    KnownFormat(
        "a Factory Droid session", _elements(_has_text("type", "session_start", also=("id", "cwd"))), _field("version")
    ),
    KnownFormat("a Kiro conversation", _all(_has("conversation_id"), _listed("history", _has("user", "assistant")))),
    KnownFormat("the JSON output of Grok CLI", _elements(_either(*map(_grok_event, _GROK_EVENTS)))),
    KnownFormat("a chat history of Grok CLI", _elements(_GROK_ENTRY)),
    KnownFormat("a run of LangSmith", _elements(_has("run_type", "inputs", "trace_id"))),
    KnownFormat("a ChatGPT export", _elements(_has("mapping", "current_node"))),
    KnownFormat("an export of claude.ai", _elements(_has("chat_messages", "uuid"))),
    KnownFormat("the head of a cline session", _has("session_id", "messages_path", "workspace_root"), sessions=False),
    KnownFormat(
        "a list of Continue sessions", _elements(_has("sessionId", "workspaceDirectory", "dateCreated")), sessions=False
    ),
    KnownFormat("an HTTP archive (HAR)", _inside("log", _has("entries", "creator")), _field("log", "version")),
)
"""Formats that are recognised, the most specific first."""

_DATABASES: tuple[tuple[frozenset[str], str], ...] = (
    (frozenset({"workspaces", "messages", "tool_results", "usage_events"}), "a database of Grok CLI"),
    (frozenset({"blobs", "meta"}), "a database of the Cursor agent"),
    (frozenset({"checkpoints", "writes"}), "a database of LangGraph checkpoints"),
    (frozenset({"app_states", "sessions", "events"}), "a database of Google ADK sessions"),
    (frozenset({"itemtable"}), "a database of VS Code or Cursor"),
)
"""Tables, in lower case, that identify a database."""

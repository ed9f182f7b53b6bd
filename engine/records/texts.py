"""The texts in an event: what somebody said, by a table of types and fields, and a function applied to all of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..decision import (
    AssistantMessage,
    Image,
    Outcome,
    Question,
    Reasoning,
    SystemMessage,
    ToolCall,
    ToolResult,
    ToolSpec,
    UserMessage,
)
from ..decision import events as ev
from ..decision.chunks import AttemptEnded, ProviderToolReport
from ..decision.decisions import Considered, GoOn, Pause, Stop
from ..decision.policy import Echo, Policy, Prompts
from .format import AfterCut

Redact = Callable[[str], str]
"""A function from a text to what may be written of it. Called with whole texts; the same text, the same answer."""
FAILED = "[redacted: the function that redacts failed]"
"""Stands for a text with which the function raised, or for which it gave no text."""
LONGEST_CALLED = 500
"""Characters up to which a text is looked at together with its name."""
S = TypeVar("S", bound=Struct)

TEXTS: dict[type, Mapping[str, str]] = {
    ev.RunStarted: {
        "prompt": "text",
        "system": "text",
        "policy": "struct",
        "tools": "many",
        "settings": "plain",
        "functions": "names",
        "carried": "struct",
        "before": "struct",
    },
    ev.Carried: {"phases": "many", "questions": "many"},
    ev.MessageAdded: {"text": "text"},
    ev.CancelRequested: {"cause": "text"},
    ev.RunFinished: {"outcome": "struct"},
    ev.AttemptFailed: {"message": "text", "text": "text"},
    ev.ResponseFinished: {"message": "struct"},
    ev.DecisionMade: {"decision": "struct"},
    ev.TextMessageContent: {"delta": "text"},
    ev.ReasoningMessageContent: {"delta": "text"},
    ev.ToolCallArgs: {"delta": "arguments"},
    ev.ProviderToolReported: {"arguments": "arguments", "result": "text"},
    ev.ToolCallResult: {"content": "text", "images": "many"},
    ev.CompletionAccepted: {"answer": "text", "pending_issues": "texts"},
    ev.CompletionRejected: {"reason": "text"},
    ev.PhaseReported: {"summary": "text", "next_phase": "text"},
    ev.QuestionAsked: {"text": "text", "confirms": "text", "pending_issues": "texts"},
    ev.QuestionAnswered: {"text": "text"},
    ev.ThoughtRecorded: {"text": "text"},
    ev.VerdictGiven: {"name": "text", "detail": "arguments"},
    ev.ContextCompacted: {"put_first": "many"},
    ev.StageFinished: {"detail": "text"},
    ev.EvaluationFinished: {"name": "text", "details": "plain"},
    AfterCut: {"chunk": "struct"},
    ProviderToolReport: {"arguments": "arguments", "result": "text"},
    AttemptEnded: {"message": "text", "text": "text"},
    Outcome: {
        "detail": "text",
        "answer": "text",
        "evaluation": "plain",
        "phases": "many",
        "pending_issues": "texts",
        "accepted_by": "texts",
        "questions": "many",
    },
    Question: {"text": "text", "confirms": "text", "pending_issues": "texts"},
    SystemMessage: {"text": "text"},
    UserMessage: {"text": "text"},
    AssistantMessage: {"text": "text", "calls": "many", "reasoning": "many"},
    ToolResult: {"content": "text", "images": "many"},
    ToolCall: {"arguments": "arguments"},
    Reasoning: {"text": "text"},
    Image: {"url": "text"},
    ToolSpec: {"description": "text", "parameters": "schema"},
    GoOn: {"say": "text", "why": "text", "remind": "text", "trace": "many"},
    Pause: {"trace": "many"},
    Stop: {"detail": "text", "trace": "many"},
    Considered: {"saw": "plain", "said": "text"},
    Policy: {"prompts": "struct", "echo": "struct"},
    Prompts: dict.fromkeys(Prompts.__struct_fields__, "text"),
    Echo: {"phrases": "texts", "announcements": "texts"},
}
"""What is a text of somebody's, by type and field. All else are names, ids, numbers and words of ours."""
_BY = frozenset({"tool", "failed_call", "open_question", "user"})
"""Words of ours in `CompletionRejected.by`, which is else the name of a gate."""


class Texts:
    """Applies a function to every text. Keyed anew for each: marks of results say nothing about what was in them."""

    def __init__(self, redact: Redact) -> None:
        self._redact = redact
        self._key = os.urandom(16)

    def text(self, text: str) -> str:
        """A text, redacted. Where the function fails, nothing of the text is left."""
        if not text:
            return text
        try:
            redacted = self._redact(text)
        except Exception:
            return FAILED
        return redacted if isinstance(redacted, str) else FAILED

    def arguments(self, text: str) -> str:
        """Arguments of a call: the texts and numbers in them, so that JSON stays JSON. What is no JSON is a text."""
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return self.text(text)
        if not isinstance(value, dict | list):
            return self.text(text)
        redacted = {name: self._part(name, part) for name, part in value.items()} if isinstance(value, dict) else None
        redacted = self.plain(value) if redacted is None else redacted
        return text if redacted == value else msgspec.json.encode(redacted).decode()

    def plain(self, value: Any) -> Any:
        """Plain data of any depth, with every text in it redacted. A number becomes a text if it has to."""
        match value:
            case str():
                return self.text(value)
            case bool() | float() | None:
                return value
            case int():
                text = self.text(str(value))
                return value if text == str(value) else text
            case dict():
                return dict(self._members(value))
            case list() | tuple():
                return [self.plain(part) for part in value]
            case Struct():
                return self.struct(value)
            case _:
                return self.text(repr(value))

    def _members(self, value: Mapping[Any, Any]) -> Iterator[tuple[Any, Any]]:
        names: set[Any] = set()
        for name, part in value.items():
            called = name
            name = redacted = self.text(name) if isinstance(name, str) else name
            while name in names:
                name = f"{redacted} ({len(names)})"
            names.add(name)
            yield name, self._part(called, part)

    def _part(self, name: Any, part: Any) -> Any:
        """A part of plain data with the name that it has: only that may say what it is, as in `{"password": ...}`."""
        redacted = self.plain(part)
        if not isinstance(part, str):
            return redacted
        text = part
        if redacted != text or not isinstance(name, str) or len(text) > LONGEST_CALLED or '"' in text:
            return redacted
        begins = f'{name}="'
        whole = self.text(f'{begins}{text}"')
        return whole[len(begins) : -1] if whole.startswith(begins) and whole.endswith('"') else redacted

    def struct(self, struct: S) -> S:
        """An event, a message or a part of one."""
        changes: dict[str, Any] = {}
        for name, kind in TEXTS.get(type(struct), {}).items():
            value = getattr(struct, name)
            if value:
                changes[name] = self._value(kind, value)
        if isinstance(struct, Reasoning) and changes.get("text", struct.text) != struct.text:
            changes["signature"] = ""  # it signs what was there
        if isinstance(struct, ev.ToolCallResult) and struct.fingerprint:
            mark = blake2b(struct.fingerprint.encode(), key=self._key, digest_size=8)  # what was there can be guessed
            changes["fingerprint"] = mark.hexdigest()
        if isinstance(struct, ev.CompletionRejected) and struct.by not in _BY:
            changes["by"] = self.text(struct.by)
        return replace(struct, **changes) if changes else struct

    def _value(self, kind: str, value: Any) -> Any:
        match kind:
            case "text":
                return self.text(value)
            case "texts":
                return tuple(map(self.text, value))
            case "arguments":
                return self.arguments(value)
            case "plain":
                return self.plain(value)
            case "schema":
                return _schema(value, self.text)
            case "names":
                return {role: tuple(map(self.text, names)) for role, names in value.items()}
            case "struct":
                return self.struct(value)
            case _:
                return tuple(self.plain(part) if isinstance(part, dict) else self.struct(part) for part in value)


_SAID = frozenset({"description", "title", "default", "examples", "const", "enum"})
"""Members of a JSON Schema that hold what people wrote; all others are names and types."""


def _schema(value: Any, text: Redact, said: bool = False) -> Any:
    match value:
        case str():
            return text(value) if said else value
        case dict():
            return {name: _schema(part, text, said or name in _SAID) for name, part in value.items()}
        case list() | tuple():
            return [_schema(part, text, said) for part in value]
        case _:
            return value

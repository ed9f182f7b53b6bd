"""One session of another loop in our words, before it becomes the events of a record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any, Literal

from msgspec import Struct, field

from ..decision import AttemptEnded, Message, Status, ToolSpec, Usage
from .parsing import held_in

Origin = Literal["user", "nudge", "beside"]
"""Who speaks in the user's role: the user, the loop itself, or one of them beside the results of tools."""

LOST: dict[str, str] = {
    "time": "messages without a time: as if they had come at once",
    "usage": "responses without token counts: estimated, 4 characters a token",
    "usage split": "sessions with token counts for all of it only: split over its responses by their size",
    "finish reason": "responses without a finish reason: taken from what they hold",
    "result": "calls without a result: marked as unknown, cancelled or unanswered",
    "result without a call": "results of calls that nobody made: left out",
    "second result": "more results for a call that has one: left out",
    "call id": "calls without an id: numbered",
    "doubled call id": "calls with an id that another call has: numbered",
    "system in the middle": "system messages after the beginning: kept as words of the loop, in the user's role",
    "demonstration": "demonstrations: in the system prompt, or left out where they are whole conversations",
    "prompt": "runs whose user message is not in the recording",
    "image": "pictures outside of tool results: left out",
    "provider tool": "tools that the provider ran itself: left out",
    "reply": "replies of the chat endpoint in another format: left out",
    "side chain": "messages of subagents: left out",
    "no message": "messages that are none: left out",
    "another form": "messages in a form that is not known: left out",
    "last words": "last words of the user that ended the session: left out",
    "own words": "words that the loop said in the model's name: left out",
    "step": "steps whose place in the history is not known: left out",
    "choice": "further choices of a response: left out",
    "characters": "characters of text (white space aside) in what was left out",
    "call": "calls in what was left out",
    "answer": "results of tools in what was left out",
    "thought": "blocks of reasoning in what was left out",
}
"""What an import can lose, in the words that people read."""

GROUPS: dict[str, str] = {
    "role": "messages in a role that is not known ({}): left out",
    "content part": "parts of messages that are not known ({}): left out",
    "part field": "fields of parts of messages that are not read ({}): left out",
    "message field": "fields of messages that are not read ({}): left out",
    "field": "fields that are not read ({}): left out",
    "item": "items that are no message and not known ({}): left out",
    "item field": "fields of items that are not read ({}): left out",
    "line": "lines that hold no message ({}): left out",
    "line field": "fields of lines that are not read ({}): left out",
}
"""Losses that bear a name out of the data, as `role: NAME`."""

KINDS_KEPT = 60
"""So many kinds of losses of one session are told apart; what is more is counted together."""


class Said(Struct, frozen=True, kw_only=True):
    """One message, and what the other loop tells beside it."""

    message: Message
    origin: Origin = "user"
    """Of a message in the user's role."""
    t: float | None = None
    """Seconds since 1970."""
    usage: Usage | None = None
    raw_finish: str = ""
    model: str = ""
    begins: bool = False
    """Of a response: it begins a run although the user's message is not known."""
    failed: AttemptEnded | None = None
    """Of a response that none came of: how the provider failed. Its message is empty."""


class Ending(Struct, frozen=True, kw_only=True):
    """How the other loop ended its session, where it says so."""

    reason: str
    """A stop reason of ours, or `custom:<name>`."""
    detail: str
    status: Status | None = None
    """For `custom:<name>`."""


class Judged(Struct, frozen=True, kw_only=True):
    """What the other side says of the work itself."""

    passed: bool
    name: str
    """Whose word it is: `tau-bench:reward`."""
    details: dict[str, Any] = {}


class Foreign(Struct, kw_only=True):
    """One session."""

    id: str = ""
    """The session's own id; empty if it has none."""
    within_file: bool = False
    """True if the id says only which session of its file it is."""
    model: str = ""
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    """As they were offered, where that is known. Their kinds are settled later."""
    settings: dict[str, Any] = {}
    said: list[Said] = []
    usage: Usage | None = None
    """Of the whole session, where its responses have none of their own."""
    ending: Ending | None = None
    judged: Judged | None = None
    lost: Counter[str] = field(default_factory=Counter)
    """How often what was lost, by kind: a key of `LOST`, or a key of `GROUPS` with a name, as `role: NAME`."""

    def lose(self, kind: str, times: int = 1) -> None:
        """Count a loss. What kinds there are may come from the data, so their number is bounded."""
        if not times:
            return
        if kind not in LOST and kind not in self.lost and len(self.lost) >= KINDS_KEPT:
            kind = "other"
        self.lost[kind] += times

    def leave_out(self, kind: str, value: Any) -> None:
        """Count a message, or a part of one, that is left out, and what it held."""
        self.lose(kind)
        for what, times in held_in(value).items():
            self.lose(what, times)

    def lose_fields(self, group: str, data: Mapping[str, Any], known: Collection[str], prefix: str = "") -> None:
        """Count the fields that are not known, unless they hold nothing."""
        for name, value in data.items():
            if name not in known and (value or value == 0) and value is not False:
                self.lose(f"{group}: {prefix}{name[:40]}")


class Unreadable(ValueError):
    """No session of the format, or a broken one. The message says why."""

"""One session of another loop in our words, before it becomes the events of a record."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from ..decision import (
    AssistantMessage,
    AttemptEnded,
    FinishReason,
    Image,
    Message,
    Reasoning,
    Status,
    ToolCall,
    ToolKind,
    ToolResult,
    ToolSpec,
    Usage,
    UserMessage,
)
from ..decision.messages import ResultStatus
from ..providers.error_replies import build_error, parse_error_body
from .parsing import held_in, letters

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


# Messages of another loop put together: every call id once in the session, every result at its call.
#
# The first result of a call counts. A call without an id, or with one that was used before, becomes `{step}.{index}`,
# as it would in the engine.

_STATUS = re.compile(r"(?:API Error|HTTP status|status code|status|Error code)\W{0,4}([45][0-9][0-9])\b", re.IGNORECASE)
UNKNOWN = 500
"""The status of a failure that names none: trouble of the provider's own."""

RawCall = tuple[str, str, str]
"""A call as the data has it: id or nothing, name, arguments as text."""


class Conversation:
    """Adds messages to a foreign session, in their order."""

    def __init__(self, foreign: Foreign) -> None:
        self.foreign = foreign
        self.steps = 0
        self._taken: set[str] = set()
        self._used: set[str] = set()
        self._waiting: dict[str, ToolCall] = {}
        self._by_id: dict[str, deque[str]] = {}
        self._by_name: dict[str, deque[str]] = {}

    def system(self, text: str, t: float | None = None) -> None:
        """A system message: the prompt at the beginning, else words of the loop."""
        if not text:
            return
        if not self.foreign.said:
            self.foreign.system = f"{self.foreign.system}\n\n{text}" if self.foreign.system else text
        else:
            self.foreign.lose("system in the middle")
            self._add(Said(message=UserMessage(text), origin="nudge", t=t))

    def user(self, text: str, origin: Origin = "user", t: float | None = None) -> None:
        """A message in the user's role. Words that are known to be a loop's own are a nudge, whatever `origin` says."""
        self._add(Said(message=UserMessage(text), origin="nudge" if is_nudge(text) else origin, t=t))

    def assistant(
        self,
        text: str,
        calls: Sequence[RawCall] = (),
        reasoning: Sequence[Reasoning] = (),
        *,
        usage: Usage | None = None,
        raw_finish: str = "",
        model: str = "",
        t: float | None = None,
        begins: bool = False,
    ) -> None:
        """A response of the model."""
        self.steps += 1
        self._waiting, self._by_id, self._by_name = {}, {}, {}
        for index, (raw_id, name, arguments) in enumerate(calls):
            call = ToolCall(self._id(raw_id, index), name, arguments)
            self._waiting[call.id] = call
            self._by_id.setdefault(raw_id, deque()).append(call.id)
            self._by_name.setdefault(name, deque()).append(call.id)
        message = AssistantMessage(text, tuple(self._waiting.values()), tuple(reasoning))
        self._add(Said(message=message, t=t, usage=usage, raw_finish=raw_finish, model=model, begins=begins))

    def failed(self, message: str, *, model: str = "", t: float | None = None, begins: bool = False) -> None:
        """A request that no response came of: the provider failed, and this is what it said."""
        message = message.strip() or "the provider failed, and does not say why"
        error = build_error(parse_error_body(message), status=_status_in(message))
        ended = AttemptEnded(model=model, kind=error.kind, message=message, status=error.status or None)
        self._waiting, self._by_id, self._by_name = {}, {}, {}
        self._add(Said(message=AssistantMessage(), t=t, model=model, begins=begins, failed=ended))

    def result(
        self,
        raw_id: str,
        name: str,
        content: str,
        status: ResultStatus = "ok",
        images: Sequence[Image] = (),
        t: float | None = None,
    ) -> None:
        """The result of a call of the latest response: found by its id, else by the tool's name, else the next one."""
        call = self._answered(raw_id, name)
        if call is None:
            self.foreign.lose("second result" if raw_id in self._used else "result without a call")
            self.foreign.lose("characters", letters(content))
            self.foreign.lose("image", len(images))
            return
        self._add(Said(message=ToolResult(call.id, call.name, content, status, tuple(images)), t=t))

    @property
    def waiting(self) -> list[ToolCall]:
        """Calls of the latest response that have no result yet."""
        return list(self._waiting.values())

    def _answered(self, raw_id: str, name: str) -> ToolCall | None:
        if raw_id:
            candidates = self._by_id.get(raw_id, deque())
        elif name:
            candidates = self._by_name.get(name, deque())
        else:
            candidates = deque([next(iter(self._waiting))] if self._waiting else [])
        while candidates:
            id = candidates.popleft()
            if id in self._waiting:
                return self._waiting.pop(id)
        return None

    def _id(self, raw_id: str, index: int) -> str:
        if raw_id and raw_id not in self._taken:
            id = raw_id
        else:
            self.foreign.lose("doubled call id" if raw_id else "call id")
            id = f"{self.steps}.{index}"
            while id in self._taken:
                id += "+"
        self._taken.add(id)
        self._used.add(raw_id)
        return id

    def _add(self, said: Said) -> None:
        self.foreign.said.append(said)


def _status_in(message: str) -> int:
    found = _STATUS.search(message)
    return int(found[1]) if found else UNKNOWN


# What a call of a foreign tool means to the loop: guessed by its name, unless the user names the tools.

COMPLETION = frozenset(
    {
        "attempt_completion", "complete", "complete_task", "completion", "done", "end_task", "final_answer",
        "finish", "finish_run", "finish_task", "finish_work", "mark_complete", "provide_final_answer",
        "report_completion", "submit", "submit_and_exit", "submit_answer", "submit_final_answer", "submit_result",
        "submit_task", "task_complete", "task_completed", "task_done", "task_finish", "terminate",
    }
)  # fmt: skip
"""Names that mean "the work is done", in small letters."""
QUESTION = frozenset(
    {
        "ask_follow_up_question", "ask_followup_question", "ask_for_clarification", "ask_human", "ask_question",
        "ask_user", "ask_user_question", "askuserquestion", "clarify", "get_user_input", "human_input",
        "plan_mode_respond", "request_user_input",
    }
)  # fmt: skip
"""Names that mean "the user must say something first"."""
THINK = frozenset({"think", "thinking", "thought", "think_aloud"})
OWN: dict[str, frozenset[str]] = {"tau-bench": frozenset({"transfer_to_human_agents"})}
"""Completions of single formats."""


class Kinds(Struct, frozen=True, kw_only=True):
    """The user's word on tools: exact names, in place of the guesses. And on finish words."""

    completion: tuple[str, ...] = ()
    question: tuple[str, ...] = ()
    finish_words: dict[str, FinishReason] = {}
    """The meaning of finish words that `decision/finish_words.py` does not list."""

    def of(self, name: str, format: str) -> ToolKind:
        """The kind of a tool."""
        if name in self.completion:
            return "completion"
        if name in self.question:
            return "question"
        small = name.lower()
        if not self.completion and small in COMPLETION | OWN.get(format, frozenset()):
            return "completion"
        if not self.question and small in QUESTION:
            return "question"
        return "think" if small in THINK else "ordinary"

    def unused(self, seen: Collection[str]) -> list[str]:
        """Names that the user gave and no session knows."""
        return [name for name in (*self.completion, *self.question) if name not in seen]


def tools_of(foreign: Foreign, kinds: Kinds, format: str) -> tuple[ToolSpec, ...]:
    """The tools that were offered, and those that were only seen to be called, each with its kind."""
    specs = {spec.name: spec for spec in foreign.tools}
    for name in _called(foreign):
        if name and name not in specs:
            specs[name] = ToolSpec(name=name, description="", parameters={"type": "object"})
    return tuple(replace(spec, kind=kinds.of(name, format)) for name, spec in specs.items())


def _called(foreign: Foreign) -> Iterable[str]:
    for said in foreign.said:
        if isinstance(said.message, AssistantMessage):
            yield from (call.name for call in said.message.calls)


# Words in the user's role that are known to be a loop's own: they begin no run.
#
# Each line is how such a text begins, and which loop says it. Sources: the prompts of cline, OpenHands and SWE-agent,
# and what Claude Code writes into its transcripts.

NUDGES: tuple[tuple[str, str], ...] = (
    ("[ERROR] You did not use a tool", "cline"),
    ("<environment_details>", "cline"),
    ("Please continue working on the task on whatever approach you think is suitable.", "OpenHands"),
    ("Please continue on whatever approach you think is suitable.", "OpenHands"),
    ("Your output was not formatted correctly.", "SWE-agent"),
    ("Your last output did not use any tool calls!", "SWE-agent"),
    ("Your last output included multiple tool calls!", "SWE-agent"),
    ("<system-reminder>", "Claude Code"),
    ("[Request interrupted by user", "Claude Code"),
    ("Caveat: The messages below were generated by the user while running local commands.", "Claude Code"),
)

_BEGINNINGS = tuple(beginning for beginning, _ in NUDGES)


def is_nudge(text: str) -> bool:
    """Whether a text in the user's role is known to be a loop's own."""
    return text.lstrip().startswith(_BEGINNINGS)

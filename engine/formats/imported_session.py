"""A session of another loop, in types that all formats share, before it becomes the events of a record.

`SessionBuilder` (`session_builder.py`) builds the session from messages in order. Two things are guessed from fixed
tables: the kind of a tool, from its name, and which texts in the user's role the loop itself wrote (`agent_notes.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Literal

from msgspec import field
from msgspec.structs import replace

from ..base.plural import counted
from ..base.sanitize import one_line
from ..decision import (
    AssistantMessage,
    AttemptEnded,
    FinishReason,
    Message,
    Status,
    ToolKind,
    ToolSpec,
    Usage,
    UserMessage,
)
from ..decision.events import ParentCall, SessionSource
from ..decision.tool_names import kind_by_name
from ..decision.wrong_attributes import explained_attributes
from ..decision.wrong_calls import CheckedStruct, ExplainedStruct
from .parsing import as_text, count_contents

Origin = Literal["user", "nudge", "beside", "interrupt"]
"""Who wrote a message in the user's role: the user, the loop itself (`nudge`), or one of the two, not known which,
because the text stands next to tool results (`beside`). `interrupt`: the loop's note that the user interrupted it,
perhaps without words."""

RawCall = tuple[str, str, str]
"""A tool call as the data has it: id (may be empty), name, arguments as text."""

LOSSES: dict[str, str] = {
    "time": "message(s) without a time: dated like the message before (it|them)",
    "usage": "response(s) without token counts: estimated at 4 characters per token",
    "usage split": "session(s) with token counts for the whole session only: split over the responses by size",
    "content": "response(s) whose contents were not recorded: (a step|steps) with model, tokens and names alone",
    "usage without a response": "token count(s) that (belongs|belong) to no response: left out",
    "finish reason": "response(s) without a finish reason: inferred from (its|their) content",
    "result": "call(s) without a result: marked as unknown, cancelled or unanswered",
    "result without a call": "result(s) that (belongs|belong) to no call: left out",
    "second result": "second result(s) of the same call: left out",
    "call id": "call(s) without an id: given a number",
    "doubled call id": "call(s) whose id another call already has: given a number",
    "system in the middle": (
        "system message(s) after the beginning: kept as (a message|messages) of the loop, in the user's role"
    ),
    "demonstration": "demonstration(s): kept in the system prompt; left out if (it is a|they are) whole "
    "(conversation|conversations)",
    "prompt": "run(s) whose user message is not in the recording",
    "image": ("image(s) that (is|are) neither in a prompt nor in a tool result, or cannot be read: left out"),
    "provider tool": "tool(s) that the provider ran itself: left out",
    "reply": "(reply|replies) of chat endpoints in a format that is not supported: left out",
    "side chain": "message(s) of subagents: left out",
    "no message": "(entry that is not a message|entries that are not messages): left out",
    "no part": "part(s) of messages that cannot be read: left out",
    "another form": "message(s) in an unknown form: left out",
    "last words": "final user message(s) that only ended the session: left out",
    "rewound": "message(s) of branches that the user went back from: left out",
    "repeated line": "line(s) that (occurs|occur) in the transcript twice: left out",
    "other request": "request(s) outside of the conversation, such as a grader's: left out",
    "user's tool": "(call or result|calls and results) of a simulated user's own tools: left out",
    "other span": "span(s) that (is not a request|are not requests) to a model: left out",
    "copied step": "response(s) copied from an earlier trajectory: left out",
    "local command": "command(s) that called no model, with (its|their) output: left out",
    "failed response": "(response that failed|responses that failed), with (its|their) content: left out",
    "note": "note(s) of the agent of which only the kind was recorded: (its|their) usual beginning is used",
    "own words": "message(s) that the loop wrote in the model's name: left out",
    "step": "step(s) whose place in the history is unknown: left out",
    "choice": "further choice(s) of a response: left out",
    "characters": "character(s) of text (without white space) in what was left out",
    "call": "call(s) in what was left out",
    "answer": "tool result(s) in what was left out",
    "thought": "reasoning block(s) in what was left out",
}
"""A description of each kind of loss, for `counted`: "3 calls without an id: given a number"."""

LOSS_GROUPS: dict[str, str] = {
    "role": "message(s) with an unknown role ({}): left out",
    "content part": "message part(s) of an unknown type ({}): left out",
    "part field": "field(s) of message parts that (is|are) not read ({}): left out",
    "message field": "field(s) of messages that (is|are) not read ({}): left out",
    "field": "field(s) that (is|are) not read ({}): left out",
    "item": "response item(s) of an unknown type ({}): left out",
    "item field": "field(s) of response items that (is|are) not read ({}): left out",
    "call field": "field(s) of calls that (is|are) not read ({}): left out",
    "line": "line(s) that (has|have) no message ({}): left out",
    "line field": "field(s) of lines that (is|are) not read ({}): left out",
}
"""Kinds of loss that contain a name from the data, written `role: NAME`."""

NAMES_SHOWN = 12
"""Maximum number of names that `describe_losses` gives for one group of losses."""


def describe_losses(losses: Mapping[str, int]) -> list[str]:
    """Describe each kind of loss with its number, the largest first. Kinds of one group are put together."""
    groups: dict[str, Counter[str]] = {}
    for kind, times in losses.items():
        group, named, name = kind.partition(": ")
        grouped = bool(named) and group in LOSS_GROUPS
        groups.setdefault(group if grouped else kind, Counter())[name if grouped else ""] += times
    largest = sorted(groups.items(), key=lambda one: -one[1].total())
    return [_describe_loss(group, names) for group, names in largest]


def _describe_loss(group: str, names: Counter[str]) -> str:
    if group not in LOSS_GROUPS or "" in names:
        return counted(names.total(), LOSSES.get(group, "other item(s): left out"))
    shown = [f"{one_line(name, 60)} {times:,}" for name, times in names.most_common(NAMES_SHOWN)]
    if len(names) == 1:
        shown = [one_line(next(iter(names)), 60)]
    elif len(names) > len(shown):
        shown.append(f"{len(names) - len(shown):,} more")
    return counted(names.total(), LOSS_GROUPS[group]).format(", ".join(shown))


MAX_LOSS_KINDS = 60
"""Maximum number of kinds in one session, because names can come from the data. Further losses are counted as
`other`."""


class ImportedMessage(ExplainedStruct, frozen=True, kw_only=True, rename={"failure": "failed", "starts_run": "begins"}):
    """One message, with everything else that the other loop recorded about it.

    Two fields keep their old names in the encoded form, from which the ids of imported runs are derived.
    """

    message: Message
    origin: Origin = "user"
    """Only for messages in the user's role."""
    t: float | None = None
    """Seconds since 1970; None if not recorded."""
    usage: Usage | None = None
    raw_finish: str = ""
    """The finish reason as the provider wrote it."""
    model: str = ""
    starts_run: bool = False
    """Only for responses: a run begins here although its user message was not recorded."""
    failure: AttemptEnded | None = None
    """How the request failed, if there was no response. `message` is then an empty assistant message."""


class ImportedCompaction(ImportedMessage, frozen=True, kw_only=True):
    """A compaction of the context, at the point where it happened. `message` is empty and not part of the session."""

    put_first: tuple[UserMessage, ...]
    """Messages that the model read from then on in place of earlier ones."""
    kept_from: int | None = None
    """Index in `ImportedSession.messages` of the first message that it still read; None if it read none of them."""
    before_tokens: int = 0
    """Tokens of the context before it; 0 if not recorded."""
    after_tokens: int = 0
    """Tokens of the context after it; 0 if not recorded."""


class ImportedEnding(CheckedStruct, frozen=True, kw_only=True):
    """How the session ended, as the other loop recorded it."""

    reason: str
    """One of our stop reasons, or `custom:<name>`."""
    detail: str
    status: Status | None = None
    """Required for `custom:<name>`."""


class ImportedVerdict(CheckedStruct, frozen=True, kw_only=True):
    """A judgement of the work that came with the session, such as the reward of a benchmark."""

    passed: bool
    name: str
    """Name of the judge, such as `tau-bench:reward`."""
    details: dict[str, Any] = {}


class ImportedSession(ExplainedStruct, kw_only=True):
    """One session of another loop."""

    id: str = ""
    """The session's own id; empty if it has none."""
    within_file: bool = False
    """Whether `id` is unique only within its file."""
    source: SessionSource | None = None
    """Where it was found; None if it did not come from a file or stream."""
    parent: ParentCall | None = None
    """For a sub-agent's session: the session that started it, by that session's id, with the call if it is named
    (and no run). None for any other session, and for one whose files do not tell."""
    model: str = ""
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    """The tools that were offered, where recorded. `tool_specs` sets their kinds."""
    settings: dict[str, Any] = {}
    messages: list[ImportedMessage] = []
    held: list[ImportedMessage] = []
    """Messages of the loop that wait for what they precede. Those left at the end are left out, and counted."""
    usage: Usage | None = None
    """Token counts of the whole session, if its responses have none; None if not recorded."""
    ending: ImportedEnding | None = None
    torn: bool = False
    """Whether its file is torn after it. If nothing then tells how it ended, that is unknown."""
    verdict: ImportedVerdict | None = None
    losses: Counter[str] = field(default_factory=Counter)
    """Count of each kind of loss: a key of `LOSSES`, or `GROUP: NAME` with a key of `LOSS_GROUPS`."""

    def count_loss(self, kind: str, times: int = 1) -> None:
        """Add to the losses of one kind."""
        if not times:
            return
        if kind not in LOSSES and kind not in self.losses and len(self.losses) >= MAX_LOSS_KINDS:
            kind = "other"
        self.losses[kind] += times

    def count_dropped(self, kind: str, value: Any) -> None:
        """Count a message (or part of one) that is left out, together with its contents."""
        self.count_loss(kind)
        self.count_contents(value)

    def count_unknown(self, group: str, name: Any, value: Any) -> None:
        """Count a message (or part of one) whose type is not read, by the type's name, together with its contents.

        group: a key of `LOSS_GROUPS`.
        """
        self.count_dropped(f"{group}: {as_text(name)[:40] or 'none'}", value)

    def count_contents(self, value: Any) -> None:
        """Count the contents of something that is left out, but not the thing itself."""
        for content, times in count_contents(value).items():
            self.count_loss(content, times)

    def count_unread_fields(
        self, group: str, data: Mapping[str, Any], known: Collection[str], prefix: str = ""
    ) -> None:
        """Count the fields that are not `known`, except empty ones."""
        for name, value in data.items():
            if name not in known and (value or value == 0) and value is not False:
                self.count_loss(f"{group}: {prefix}{name[:40]}")


@explained_attributes
class Unreadable(ValueError):
    """The data contains no session of the format, or a broken one. The message says why."""


def with_responses(sessions: Iterable[ImportedSession], called: str) -> Iterator[ImportedSession]:
    """Yield the sessions that have a response. If others have none, raise Unreadable at the end with their ids.

    called: the format's word for its sessions, such as `samples`.
    """
    silent: list[str] = []
    for session in sessions:
        if any(isinstance(one.message, AssistantMessage) for one in session.messages):
            yield session
        else:
            silent.append(session.id)
    if silent:
        raise Unreadable(f"no response of a model in {len(silent):,} {called} ({', '.join(silent[:4])})")


def without_repeated_lines(lines: Iterable[Any], session: ImportedSession) -> Iterator[Any]:
    """Yield the lines without those written twice (identical to the previous one, with an `id`), which are counted."""
    before: Any = None
    for line in lines:
        if line == before and isinstance(line, dict) and as_text(line.get("id")):
            session.count_loss("repeated line")
        else:
            yield line
        before = line


# ---- kinds of tools, by name


FORMAT_COMPLETION_NAMES: dict[str, frozenset[str]] = {
    **dict.fromkeys(("tau-bench", "tau2-bench"), frozenset({"transfer_to_human_agents"})),
    "pydantic-ai": frozenset({"final_result"}),
}
"""Further completion tools, by format."""


class ImportOptions(CheckedStruct, frozen=True, kw_only=True):
    """User-given facts about the sessions, which replace guesses."""

    completion: tuple[str, ...] = ()
    """Exact names of the completion tools. If empty, tools with a usual name count as such
    (`decision/tool_names.py`)."""
    question: tuple[str, ...] = ()
    """Exact names of the tools that ask the user. If empty, tools with a usual name count as such."""
    finish_words: dict[str, FinishReason] = {}
    """The meaning of finish words that `decision/finish_words.py` does not list."""
    model: str = ""
    """The model of the sessions, which replaces the recorded one. If empty, the recorded one is used."""

    def tool_kind(self, name: str, format: str) -> ToolKind:
        """Return the kind of a tool in a session of this format."""
        if name in self.completion:
            return "completion"
        if name in self.question:
            return "question"
        kind = "completion" if name.lower() in FORMAT_COMPLETION_NAMES.get(format, ()) else kind_by_name(name)
        named_otherwise = (kind == "completion" and self.completion) or (kind == "question" and self.question)
        return "ordinary" if named_otherwise else kind

    def unmatched_names(self, tool_names: Collection[str]) -> list[str]:
        """Return the names given by the user that are not among these tools."""
        return [name for name in (*self.completion, *self.question) if name not in tool_names]


def tool_specs(session: ImportedSession, options: ImportOptions, format: str) -> tuple[ToolSpec, ...]:
    """Return the tools that were offered, then those that were called without being offered, each with its kind."""
    specs = {spec.name: spec for spec in session.tools}
    for name in _called_tools(session):
        if name and name not in specs:
            specs[name] = ToolSpec(name=name, description="", parameters={"type": "object"})
    return tuple(replace(spec, kind=options.tool_kind(name, format)) for name, spec in specs.items())


def _called_tools(session: ImportedSession) -> Iterator[str]:
    for imported in session.messages:
        if isinstance(imported.message, AssistantMessage):
            yield from (call.name for call in imported.message.calls)

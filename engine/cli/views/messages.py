"""The messages of a request for people: who says what, shortened, the newest last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...decision import AssistantMessage, Event, Message, SystemMessage, ToolResult, Transcript, UserMessage
from ...decision import events as ev
from ...records.reader import RecordedRun
from .base import Shade
from .clean import arguments, first_lines, one_line
from .replay import Line, folded
from .text import counted

MESSAGES_SHOWN = 24
"""Messages that are shown, the newest ones."""
ROWS_PER_MESSAGE = 4
"""Rows of each."""

_WHO: dict[type, tuple[str, Shade]] = {
    SystemMessage: ("system", "quiet"),
    UserMessage: ("user", "user"),
    AssistantMessage: ("model", "strong"),
    ToolResult: ("result", "quiet"),
}


def request_messages(before: Sequence[RecordedRun], events: Sequence[Event]) -> list[Message]:
    """What the model was sent for the step in which these events of a run end, or for the next one.

    `before`: the runs of the session before it.
    """
    transcript = Transcript()
    for run in before:
        for event in run.events:
            transcript.feed(event)
    bounds = [n for n, event in enumerate(events) if isinstance(event, ev.StepStarted | ev.StepFinished)]
    inside = bool(bounds) and isinstance(events[bounds[-1]], ev.StepStarted)
    sent = events[: bounds[-1]] if inside else events
    once: list[Message] = []
    for event in sent:
        transcript.feed(event)
        if isinstance(event, ev.MessageAdded) and event.ephemeral:
            once.append(UserMessage(event.text))
        elif isinstance(event, ev.ResponseFinished):
            once = []
    return [*transcript.messages, *once]


def message_lines(messages: Sequence[Message], step: int, width: int) -> Iterator[Line]:
    """The messages in lines of this width."""
    yield [("  ✉ ", "user"), (f"{counted(len(messages), 'message')} for step {step}", "strong")]
    if len(messages) > MESSAGES_SHOWN:
        yield [(f"    … {counted(len(messages) - MESSAGES_SHOWN, 'message')} before these", "quiet")]
    for message in messages[-MESSAGES_SHOWN:]:
        who, shade = _WHO[type(message)]
        for number, row in enumerate(_rows(message, width - 14)):
            yield [
                (f"    {who:<8}  " if number == 0 else " " * 14, shade),
                (row, None if shade != "quiet" else "quiet"),
            ]


def _rows(message: Message, width: int) -> list[str]:
    match message:
        case AssistantMessage():
            calls = [f"{one_line(call.name, 40)}({_given(call.arguments)})" for call in message.calls]
            rows = [*(_text(message.text, width) if message.text.strip() else []), *(one_line(c, width) for c in calls)]
            return rows or [""]
        case ToolResult():
            status = "" if message.status == "ok" else f" ({message.status})"
            return [one_line(f"of {message.name}{status}", width), *_text(message.content, width)]
        case SystemMessage(text) | UserMessage(text):
            return _text(text, width)


def _text(text: str, width: int) -> list[str]:
    lines, more = first_lines(text, ROWS_PER_MESSAGE)
    rows = [row for line in lines for row in folded(line, width)]
    if len(rows) > ROWS_PER_MESSAGE:
        rows, more = rows[:ROWS_PER_MESSAGE], 0
        rows[-1] = one_line(rows[-1] + " …", width)
    return [*rows, f"… {counted(more, 'more line')}"] if more else rows


def _given(written: str) -> str:
    return ", ".join(f"{name}={value}" if name else value for name, value in arguments(written, 60))

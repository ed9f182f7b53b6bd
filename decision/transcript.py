"""The transcript: the messages that the model receives, as a projection of the events.

It is valid for every provider at any time: each call of a response has exactly one result, in the order of the calls,
before any other message. The one exception is an open question, which is answered or closed before the next request.
Results of a response that never finished (a failed attempt) belong to no message and are left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy

import msgspec
from msgspec.structs import replace

from . import events as ev
from .call_arguments import count_members
from .messages import AssistantMessage, Message, SystemMessage, ToolCall, ToolResult, ToolSpec, UserMessage, new_result
from .outcome import Asker
from .wrong_attributes import read_often
from .wrong_calls import checked

IMAGE_CHARACTERS = 6000
"""Number of characters that an image counts for: 1500 tokens, about the most that providers charge for one."""
RAN_EARLY = (
    "\n[It ran with the arguments as they stood when they were whole; then more of them came, which makes them "
    "invalid. Call it again if you need it.]"
)
"""Added to the result of a reading call that ran before its arguments turned out to be invalid."""
UNANSWERED = "The user did not answer this and said something else."
"""Content of the result of a question call without an answer, because the user sent a new prompt instead."""
PROCESS_DIED = (
    "The process died while this call was running. Its effect is not known: find out what it is before you call it "
    "again."
)
"""Content of the result of a call whose process died and that was not resumed."""
NOT_APPROVED = (
    "Not run: it waited for the user's approval, or behind a call that did, and the user said something else."
)
"""Content of the result of a call that waited for an approval when the user sent a new prompt instead."""
SUBAGENT_LEFT = "Not finished: its sub-agent had asked the user a question, and the user said something else."
"""Content of the result of a call whose sub-agent had asked a question when the user sent a new prompt instead."""


@checked
@read_often
class Transcript:
    """The messages of a session so far. Feed it every event of the session in order; O(1) per event."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.edition = 0
        """Incremented when existing messages change: anything derived from them is then invalid."""
        self.characters = 0
        """Number of characters of all messages."""
        self.ephemeral: list[Message] = []
        """Messages after all others in the request of the latest step that no later request has."""
        self._next_ephemeral: list[Message] = []
        self._step = 0
        self.prompt: UserMessage | None = None
        """The user's latest prompt, without any text of the loop in the user's role."""
        self.last_count = (0, 0)
        """The provider's latest count of the context's tokens, with the characters of the messages at that time."""
        self._open: dict[str, ToolCall] = {}
        self._results: dict[str, ToolResult] = {}
        self._missing: set[str] = set()
        self._asked: dict[str, bool] = {}
        """Open calls about which the user is asked, by call id; True if the question is whether the call may run."""
        self._begun: set[str] = set()
        """Ids of the calls that began to run after the user was asked."""
        self.approvals: dict[str, ev.QuestionAnswered] = {}
        """The user's answers about calls that waited for approval, by call id, and to questions of sub-agents, by the
        question's id; cleared once all results are there."""
        self.askers: dict[str, Asker] = {}
        """The sub-agent that asked, by the id of its question, until all results are there."""

    @property
    def waiting_calls(self) -> tuple[ToolCall, ...]:
        """The open calls that wait for an approval, or behind such a call. Questions of the model are not included."""
        if not any(self._asked.values()):
            return ()
        return tuple(call for call in self.open_calls if self._asked.get(call.id, True))

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        """Calls of the latest response without a result."""
        return tuple(call for id, call in self._open.items() if id in self._missing)

    def copy(self) -> Transcript:
        """Return an independent copy."""
        other = copy(self)
        other.messages = list(self.messages)
        other.ephemeral, other._next_ephemeral = list(self.ephemeral), list(self._next_ephemeral)
        other._open, other._results, other._missing = dict(self._open), dict(self._results), set(self._missing)
        other._asked, other._begun, other.approvals = dict(self._asked), set(self._begun), dict(self.approvals)
        other.askers = dict(self.askers)
        return other

    def feed(self, event: ev.Event) -> None:
        """Add one event. Stream parts change nothing."""
        if type(event) not in _RELEVANT_EVENTS:
            return
        match event:
            case ev.RunStarted():
                self._begin(event)
            case ev.MessageAdded(ephemeral=True):
                self._next_ephemeral.append(UserMessage(event.text, event.images))
            case ev.MessageAdded():
                self._add(UserMessage(event.text, event.images))
            case ev.StepStarted(step=step):
                again = self.ephemeral if step == self._step else []  # requested again after its process died
                self.ephemeral, self._next_ephemeral, self._step = again + self._next_ephemeral, [], step
                self._results.clear()
                self._missing = set(self._open)  # empty, unless the record is damaged: then their results are lost
            case ev.ResponseFinished(message=message, finish=finish):
                resumes = finish == "pause" and message.has_vendor_items
                if message.text.strip() or message.calls or resumes:  # some providers reject blank messages
                    self._add(message)
                self._open = {call.id: call for call in message.calls}
                self._missing = self._open.keys() - self._results.keys()
                for id in self._open.keys() & self._results.keys():
                    self._mark_early_result(self._open[id], self._results[id])
                if not event.usage.estimated:
                    self.last_count = (event.usage.input_tokens + event.usage.output_tokens, self.characters)
                self._settle()
            case ev.ToolCallResult(call_id=id):
                content = _edited_note(self.approvals.get(id)) + event.content
                self._answer(new_result(id, event.name, content, event.status, event.images))
            case ev.ToolExecutionStarted(call_id=id):
                if self._asked:
                    self._begun.add(id)
            case ev.QuestionAsked(call_id=id, asker=Asker() as asker):
                self.askers.pop(id, None)  # the latest question comes last
                self.askers[id] = asker
                self._asked[asker.call_id] = True
                self._begun.discard(asker.call_id)
                self.approvals.pop(id, None)  # what was said to an earlier question of this id
            case ev.QuestionAsked(call_id=id, tool=tool) if not event.extends:
                self._asked[id] = tool is not None
            case ev.QuestionAnswered(call_id=id, text=text, says=says):
                if id in self.askers and says != "unclear":
                    self.approvals[id] = event
                elif id in self._open and says != "unclear":
                    if self._asked.get(id):
                        self.approvals[id] = event
                    else:
                        self._answer(ToolResult(id, self._open[id].name, text, images=event.images))
            case ev.VerdictGiven(role="system", said="changed", detail=system):
                self._set_system(system)
            case ev.VerdictGiven(role="handler", said="answered", detail=answer):
                self._add(AssistantMessage(answer))
            case ev.ContextCompacted():
                self._compact(event)
            case _:
                pass

    def _add(self, message: Message) -> None:
        self.messages.append(message)
        self.characters += message_size(message)

    def _begin(self, started: ev.RunStarted) -> None:
        self.ephemeral, self._next_ephemeral, self._step = [], [], 0
        if not self.messages:
            if started.system:
                self._add(SystemMessage(started.system))
            for message in started.history:
                if not isinstance(message, SystemMessage):  # `system` holds the system prompt that applies
                    self._add(message)
        if started.prompt is None:
            return
        waiting = {call.id for call in self.waiting_calls}
        asking = {asker.call_id for asker in self.askers.values()}
        for call in self.open_calls:  # what the new prompt leaves open: questions, approvals, calls behind them
            answer = self.approvals.get(call.id)
            if answer is not None and answer.says == "no":
                self._answer(ToolResult(call.id, call.name, denial(answer), "denied"))
            elif call.id in self._begun:
                self._answer(ToolResult(call.id, call.name, PROCESS_DIED, "unknown"))
            elif call.id in asking:
                self._answer(ToolResult(call.id, call.name, SUBAGENT_LEFT, "unanswered"))
            else:
                content = NOT_APPROVED if call.id in waiting else UNANSWERED
                self._answer(ToolResult(call.id, call.name, content, "unanswered"))
        self.prompt = UserMessage(started.prompt, started.images)
        self._add(self.prompt)

    @property
    def system(self) -> str:
        """The system prompt; empty if there is none."""
        first = self.messages[0] if self.messages else None
        return first.text if isinstance(first, SystemMessage) else ""

    def _set_system(self, text: str) -> None:
        """Replace the system prompt."""
        self.edition += 1
        self.characters += len(text) - len(self.system)
        head = 1 if self.messages and isinstance(self.messages[0], SystemMessage) else 0
        self.messages[:head] = [SystemMessage(text)] if text else []

    def _answer(self, result: ToolResult) -> None:
        self._results.setdefault(result.call_id, result)
        self._missing.discard(result.call_id)
        self._settle()

    def _mark_early_result(self, call: ToolCall, result: ToolResult) -> None:
        """Mark the result of a call that ran early, if its arguments turned out to be invalid afterwards."""
        if result.status in ("ok", "error") and call.arguments.strip() and count_members(call.arguments) is None:
            self._results[call.id] = replace(result, content=result.content + RAN_EARLY)

    def _settle(self) -> None:
        """Once every call has a result, add the results in the order of the calls."""
        if self._open and not self._missing:
            for id in self._open:
                self._add(self._results[id])
            self._open = {}
            self._asked.clear()
            self._begun.clear()
            self.approvals.clear()
            self.askers.clear()

    def _compact(self, event: ev.ContextCompacted) -> None:
        self.edition += 1
        if event.strategy == "shorten_results":
            self.messages[:] = shorten_results(self.messages, event.keep_results)
        else:
            head = 1 if self.messages and isinstance(self.messages[0], SystemMessage) else 0
            self.messages[head : head + event.dropped] = event.put_first
        self.characters = sum(message_size(message) for message in self.messages)
        self.last_count = (event.after_tokens, self.characters)


def denial(answer: ev.QuestionAnswered) -> str:
    """Return the result that the model gets for a call that the user did not approve."""
    if answer.expired:
        return f"Not run: it needs the user's approval, and {answer.text}."
    return f"Not run: the user did not approve it and said: {answer.text}"


def _edited_note(answer: ev.QuestionAnswered | None) -> str:
    """Return a note to put before the result of a call that ran with the user's arguments; empty for other calls."""
    if answer is None or answer.arguments is None:
        return ""
    given = msgspec.json.encode(answer.arguments).decode()
    return f"[The user changed the arguments of this call. It ran with {given}]\n"


def shorten_results(messages: list[Message], keep: int, longest: int = 400) -> list[Message]:
    """Return the messages with all but the latest `keep` tool results cut to `longest` characters, without images."""
    results = [i for i, message in enumerate(messages) if isinstance(message, ToolResult)]
    old = set(results[: max(0, len(results) - keep)])
    shortened: list[Message] = []
    for i, message in enumerate(messages):
        if i in old and isinstance(message, ToolResult) and (message.images or len(message.content) > longest):
            content, removed = message.content[:longest], len(message.content) - longest
            if removed > 0:
                content += f"\n[{removed} characters removed]"
            message = ToolResult(message.call_id, message.name, content, message.status)  # drops the images
        shortened.append(message)
    return shortened


def message_size(message: Message) -> int:
    """Return the number of characters of a message that the model reads; an image counts `IMAGE_CHARACTERS`."""
    match message:
        case SystemMessage(text):
            return len(text)
        case UserMessage(text, images):
            return len(text) + IMAGE_CHARACTERS * len(images)
        case AssistantMessage():
            return len(message.text) + sum(len(call.name) + len(call.arguments) for call in message.calls)
        case ToolResult():
            return len(message.content) + IMAGE_CHARACTERS * len(message.images)


def adds_message(event: ev.Event) -> bool:
    """Return whether an event adds a message to the history."""
    match event:
        case ev.RunStarted(prompt=prompt):
            return prompt is not None
        case ev.MessageAdded(ephemeral=ephemeral):
            return not ephemeral
        case ev.ResponseFinished(message=message):
            return bool(message.calls or message.text.strip())
        case _:
            return type(event) is ev.ToolCallResult


def tools_size(tools: Iterable[ToolSpec]) -> int:
    """Return about the number of characters of tools that the model reads: names, descriptions and schemas."""
    return sum(len(spec.name) + len(spec.description) + len(str(spec.parameters)) for spec in tools)


def estimate_tokens(characters: int) -> int:
    """Estimate tokens at 4 characters each. For decisions and estimates, never as a replacement for reported usage."""
    return -(-characters // 4)


_RELEVANT_EVENTS = frozenset(
    {
        ev.RunStarted,
        ev.MessageAdded,
        ev.StepStarted,
        ev.ResponseFinished,
        ev.ToolCallResult,
        ev.ToolExecutionStarted,
        ev.QuestionAsked,
        ev.QuestionAnswered,
        ev.VerdictGiven,
        ev.ContextCompacted,
    }
)

"""What exports share: the messages of a session, and what an export leaves out, counted by kind.

The messages are what the model read and wrote, without any compaction. The losses are counted so that nobody takes an
export for the whole record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

from ..decision import AssistantMessage, Event, Message, ToolResult, Transcript
from ..decision import events as ev

EXPORT_LOSSES: dict[str, str] = {
    "decision": "decision(s) of the loop and (its|their) trace(s)",
    "ending": "stop reason(s) and (policy|policies) of (a run|runs)",
    "verdict": "verdict(s) of evaluations",
    "usage": "token count(s) of responses",
    "time": "time(s) of messages",
    "status": "status(es) of tool results other than `ok` (failed, skipped, rejected, ...)",
    "origin": "message(s) of the loop, exported as the user's",
    "ephemeral": "message(s) that the model was shown only once",
    "image": "image(s)",
    "signature": "signature(s) of reasoning blocks",
    "reasoning": "response(s) of reasoning only",
    "attempt": "failed request(s)",
    "compaction": "compaction(s) of the context: the messages are exported as they were before",
    "arguments": "call(s) whose arguments are not a JSON object: exported as text",
}
"""A description of each kind of loss, for `counted`: "3 messages that the model was shown only once"."""


def count_losses(events: Iterable[ev.Event], kinds: Collection[str]) -> Counter[str]:
    """Return how often each of these kinds of loss occurs in the events. Kinds that do not occur are left out."""
    counts = Counter(kind for event in events for kind in _event_losses(event))
    return Counter({kind: counts[kind] for kind in EXPORT_LOSSES if kind in kinds and counts[kind]})


def _event_losses(event: ev.Event) -> Iterator[str]:
    match event:
        case ev.DecisionMade():
            yield "decision"
        case ev.RunFinished():
            yield "ending"
        case ev.EvaluationFinished():
            yield "verdict"
        case ev.ResponseFinished(message=message):
            yield "usage"
            if event.t:
                yield "time"
            yield from _message_losses(message)
        case ev.ToolCallResult():
            if event.status != "ok":
                yield "status"
            yield from ["image"] * len(event.images)
        case ev.MessageAdded(ephemeral=True):
            yield "ephemeral"
        case ev.MessageAdded(origin=origin):
            if origin != "user":
                yield "origin"
        case ev.AttemptFailed():
            yield "attempt"
        case ev.ContextCompacted():
            yield "compaction"
        case _:
            pass


def _message_losses(message: AssistantMessage) -> Iterator[str]:
    for thought in message.reasoning:
        if thought.signature:
            yield "signature"
    if message.reasoning and not (message.text.strip() or message.calls):
        yield "reasoning"


# ---- the messages


def exported_messages(events: Sequence[Event]) -> list[Message]:
    """Return the messages of all runs of a session, with the results of the step that has a question still open."""
    transcript = Transcript()
    answered: dict[str, ToolResult] = {}
    for event in events:
        if isinstance(event, ev.ToolCallResult):
            answered[event.call_id] = ToolResult(event.call_id, event.name, event.content, event.status, event.images)
        if not isinstance(event, ev.ContextCompacted):
            transcript.feed(event)
    return [*transcript.messages, *_results_beside_question(transcript, answered)]


def _results_beside_question(transcript: Transcript, answered: dict[str, ToolResult]) -> list[Message]:
    """Return the results of a last response with an open question: the transcript holds them back until the answer."""
    if not transcript.open_calls:
        return []
    response = transcript.messages[-1]
    assert isinstance(response, AssistantMessage)
    return [answered[call.id] for call in response.calls if call.id in answered]

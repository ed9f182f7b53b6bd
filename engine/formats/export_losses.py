"""What a record holds and an export does not: counted, so that nobody takes an export for the whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from ..decision import AssistantMessage
from ..decision import events as ev

EXPORT_LOSSES: dict[str, str] = {
    "decision": "decisions of the loop, with what was considered",
    "ending": "runs: why they ended, and under which policy",
    "verdict": "verdicts on the work",
    "usage": "responses with their token counts",
    "time": "times of messages",
    "status": "results of calls that say more than `ok`: failed, skipped, rejected, ...",
    "origin": "words of the loop, which stand there as the user's",
    "ephemeral": "words that the model was shown only once",
    "image": "pictures in results of tools",
    "signature": "blocks of reasoning with their signatures",
    "reasoning": "responses of nothing but reasoning",
    "attempt": "requests that failed",
    "compaction": "compactions of the context: the messages stand there as they were",
    "arguments": "calls whose arguments are no JSON object: they stand beside it as text",
}
"""Each kind of what is left out, in words that follow a number."""


def count_losses(events: Iterable[ev.Event], kinds: Collection[str]) -> Counter[str]:
    """How often these kinds stand in a record."""
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

"""The messages of a session for an export: what the model read and wrote, without any compaction."""

from __future__ import annotations

from collections.abc import Sequence

from ..decision import AssistantMessage, Event, Message, ToolResult, Transcript
from ..decision import events as ev


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

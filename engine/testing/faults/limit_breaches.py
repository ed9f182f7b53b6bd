"""Finds in a record what a run did although a hard limit on time or output was used up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...decision import Event
from ...decision import events as ev
from ...hard_limits import BYTES_PER_TOKEN
from ...tool_execution import UNLIMITED_KINDS

LATE_SECONDS = 1.0
"""Seconds for which a run may continue after its limit: a cancelled function gets less than half a second to end."""
RAN = ("ok", "error", "rejected")
"""Statuses of results that come from a tool, not from the engine."""


def past_limits(events: Sequence[Event]) -> Iterator[str]:
    """Yield what was done past a hard limit of the run, as texts, except in the closing step and for completions."""
    started = events[0]
    if not isinstance(started, ev.RunStarted):
        return
    before_closing = _before_closing(events)
    if started.policy.limits.seconds is not None and "time_limit" in started.policy.guards:
        yield from _past_seconds(before_closing, started, started.policy.limits.seconds)
    if started.policy.limits.output_tokens is not None and "token_limit" in started.policy.guards:
        yield from _past_tokens(before_closing, started, started.policy.limits.output_tokens)


def _before_closing(events: Sequence[Event]) -> Sequence[Event]:
    closing = (place for place, event in enumerate(events) if isinstance(event, ev.StepStarted) and event.closing)
    return events[: next(closing, len(events))]


def _past_seconds(events: Sequence[Event], started: ev.RunStarted, allowed: float) -> Iterator[str]:
    if any(isinstance(event, ev.RunResumed) for event in events):
        return  # its time includes the time between processes
    unlimited = {spec.name for spec in started.tools if spec.kind in UNLIMITED_KINDS}
    before = 0.0 if started.carried is None else started.carried.elapsed_ms / 1000
    ends = allowed - before + LATE_SECONDS
    waits = False
    for event in events:
        match event:
            case ev.StepStarted():
                waits = False
            case ev.ToolExecutionStarted() if event.name in unlimited:
                waits = True  # a complete completion has its own deadlines, and other results come after it
        if event.t > 1000 * ends and not waits and _goes_on(event):
            yield f"{event_tag(event)} {before + event.t / 1000:.1f} s after the start, and the limit is {allowed:g} s"
            return


def _goes_on(event: Event) -> bool:
    """Return whether this event is forbidden in a run that has no time left."""
    if isinstance(event, ev.ToolCallResult):
        return event.status in RAN
    return type(event) in ev.STREAM_PARTS or isinstance(
        event, ev.StepStarted | ev.AttemptStarted | ev.ToolExecutionStarted | ev.ToolProgress
    )


def _past_tokens(events: Sequence[Event], started: ev.RunStarted, allowed: int) -> Iterator[str]:
    """Yield pieces after the one that exceeds the limit, because a response is cut after that piece."""
    used = 0 if started.carried is None else started.carried.usage.output_tokens
    written: dict[str, int] = {}
    for event in events:
        if isinstance(event, ev.TextMessageContent | ev.ReasoningMessageContent | ev.ToolCallArgs):
            so_far = written.get(event.attempt, 0)
            if used + so_far / BYTES_PER_TOKEN > allowed and event.delta:
                tokens = used + so_far // BYTES_PER_TOKEN
                yield f"attempt {event.attempt} went on after about {tokens} tokens, and the limit is {allowed}"
                return
            written[event.attempt] = so_far + len(event.delta.encode("utf-8", "surrogatepass"))
        elif isinstance(event, ev.ResponseFinished | ev.AttemptFailed) and event.usage is not None:
            used += event.usage.output_tokens
            written.pop(event.attempt, None)
        elif isinstance(event, ev.RunResumed):
            written.clear()  # a response that was cut off is requested again


def event_tag(event: Event) -> str:
    """Return the type of an event, as named in records."""
    return str(type(event).__struct_config__.tag)

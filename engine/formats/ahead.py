"""What comes later in a foreign session, seen from each message: found once, so that a session costs one pass."""

from __future__ import annotations

from ..decision import AssistantMessage, ToolResult, UserMessage
from .transcript import Said


def looked_ahead(said: list[Said]) -> tuple[dict[int, dict[str, Said]], list[bool], list[float | None]]:
    """What comes later, by place: the results of a response, whether its run goes on, the first time that is known."""
    results: dict[int, dict[str, Said]] = {}
    goes_on, times = [False] * len(said), [one.t for one in said]
    response = -1
    for place, one in enumerate(said):
        if isinstance(one.message, AssistantMessage):
            response = place
        elif isinstance(one.message, ToolResult):
            results.setdefault(response, {})[one.message.call_id] = one
    on, t = False, None
    for place in range(len(said) - 1, -1, -1):
        one = said[place]
        goes_on[place] = on
        t = times[place] = t if one.t is None else one.t
        if isinstance(one.message, AssistantMessage):
            on = not one.begins
        elif isinstance(one.message, UserMessage) and one.origin == "user":
            on = False
    return results, goes_on, times

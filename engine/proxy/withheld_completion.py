"""Completion calls beside other calls, which an agent whose work is checked does not get with them.

The agent runs the others first. With its next request the work is checked and the completion is answered: the run ends,
or the model reads why it does not, as the result of a call that only the proxy and the model know. It is added to all
later requests, so that the model's history stays the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from ..decision import AssistantMessage, ToolCall
from .wire import ProxyWire, WireRequest


class WithheldCompletion(Struct):
    """The completion calls of one response."""

    calls: tuple[ToolCall, ...]
    at: int
    """Number of items of the conversation before the response."""
    response_id: str
    """Id of the response, where requests name it."""
    result: str = ""
    """What the model is told; empty until the work is checked."""


def with_withheld(
    wire: ProxyWire, request: WireRequest, withheld: Sequence[WithheldCompletion], latest: str
) -> list[Any]:
    """Return the items of a request with the calls that its agent does not know, and their results.

    latest: id of the latest response. If the provider stores the conversation, only the results of its calls are added.
    """
    items = list(request.items)
    if not request.after:
        for one in reversed(withheld):
            items = wire.add_calls(items, one.at, one.calls, one.result)
    elif withheld and withheld[-1].response_id == latest:
        latest_calls, result = withheld[-1].calls, withheld[-1].result
        results = [wire.claim_items(request.model, AssistantMessage(), call, result)[-1] for call in latest_calls]
        items = [*results, *items]
    return items

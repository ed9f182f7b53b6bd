"""Closing words of a model for a run that a limit has ended, which its agent gets in place of an error.

They are requested once, with the request that the limit does not allow: the same tools are offered, because some
providers reject a history with calls without them, but none is to be called. The agent never sees calls that are made
nevertheless. Without such words it gets the error, and so does an agent that does not take them as the end.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from ..formats.parsing import as_list
from .offered_completion import OFFERED
from .wire import ProxyWire, WireRequest

MOST_TIMES = 3
"""Maximum number of times that an agent which goes on without a new prompt gets the words."""


class ClosingWords(Struct):
    """A model's closing words.

    id: id of the response at the provider, if the conversation is stored there and continues after it.
    """

    text: str
    id: str = ""
    times: int = 0
    """Number of times that the agent got them."""

    def take(self) -> bool:
        """Note that the agent gets them once more. Return False if it has got them too often."""
        self.times += 1
        return self.times <= MOST_TIMES


def closing_request(wire: ProxyWire, request: WireRequest, prompt: str, *, offers_completion: bool) -> bytes:
    """Return the body of the request for the closing words. offers_completion: whether the run's requests had it."""
    body = {**request.body, wire.items: wire.add_user_text(request.items, prompt)}
    tools = as_list(request.body.get("tools"))
    if offers_completion:
        tools = wire.with_tool(tools, OFFERED)
    if tools:
        body |= {"tools": tools, **wire.without_calls(request.body)}
    return msgspec.json.encode(body)

"""The words with which a model closes a run that a limit has ended, which its agent gets in place of an error.

They are asked for once, with the request that the limit does not let through: the same tools are offered, since some
providers refuse a history with calls without them, and none is to be called. What calls come nevertheless, the agent
never sees. Without words it gets the error, and so does an agent that does not take them for the end.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from ..formats.parsing import as_list
from .offered_completion import OFFERED
from .wire import ProxyWire, WireRequest

MOST_TIMES = 3
"""How often an agent gets the words that goes on without a new prompt."""


class ClosingWords(Struct):
    """A model's closing words.

    id: of the response at the provider, if the conversation is stored there and goes on after it.
    """

    text: str
    id: str = ""
    times: int = 0
    """How often the agent has got them."""

    def take(self) -> bool:
        """Give them to the agent once more, unless it has got them too often."""
        self.times += 1
        return self.times <= MOST_TIMES


def closing_request(wire: ProxyWire, request: WireRequest, prompt: str, *, offers_completion: bool) -> bytes:
    """The body of the request for the closing words. offers_completion: whether the run's requests had the tool."""
    body = {**request.body, wire.items: wire.add_user_text(request.items, prompt)}
    tools = [*as_list(request.body.get("tools")), *([wire.tool(OFFERED)] if offers_completion else [])]
    if tools:
        body |= {"tools": tools, "tool_choice": msgspec.Raw(wire.no_calls)}
    return msgspec.json.encode(body)

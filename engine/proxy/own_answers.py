"""What the proxy answers by itself once a decision has ended a run, and what it answers if the agent asks again.

A text is given at most once: the closing words of a model, its report of a completed task, or the marked text of
`--on-stop text`. Any further request without a new prompt of a person gets an error, and so does the first one if there
is no text: 400, which nearly all agents take for final, and after it 404, for those that try again after a 400.

Closing words are requested once, with the request that the limit does not allow: the same tools are offered, because
some providers reject a history with calls without them, but none is to be called. The agent never sees calls that are
made nevertheless.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from ..formats.parsing import as_list
from .offered_completion import OFFERED
from .wire import ProxyWire, WireRequest

STATUSES = (400, 404)
"""Statuses of the first error, and of all later ones. Measured with ten agents: one goes on after a 400, and none of
the others sees the second one."""


class OwnAnswers(Struct):
    """Answers that an agent got from the proxy since its request was last passed on."""

    text: bool = False
    """Whether one of them was a text."""
    errors: int = 0

    def next_status(self) -> int:
        """Return the status of one more error."""
        self.errors += 1
        return STATUSES[min(self.errors, len(STATUSES)) - 1]

    def may_be_text(self) -> bool:
        """Return whether the next answer may be a text, and note that it is one."""
        may_be = not self.text and not self.errors
        self.text = self.text or may_be
        return may_be


class ClosingWords(Struct, frozen=True):
    """A model's closing words.

    id: id of the response at the provider, if the conversation is stored there and continues after it.
    """

    text: str
    id: str = ""


def closing_request(wire: ProxyWire, request: WireRequest, prompt: str, *, offers_completion: bool) -> bytes:
    """Return the body of the request for the closing words. offers_completion: whether the run's requests had it."""
    body = {**request.body, wire.items: wire.add_user_text(request.items, prompt)}
    tools = as_list(request.body.get("tools"))
    if offers_completion:
        tools = wire.with_tool(tools, OFFERED)
    if tools:
        body |= {"tools": tools, **wire.without_calls(request.body)}
    return msgspec.json.encode(body)

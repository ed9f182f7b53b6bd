"""Responses that the agent has and the provider does not, because the proxy wrote or cut them.

An agent whose conversation is stored at the provider goes on from the id of the response that it has. If that is one of
these, the provider is asked to go on from the latest one that it has, with all that came since.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from ..formats.parsing import as_text
from .wire import WireRequest, is_from_model

PREVIOUS = "previous_response_id"
"""Field of a request that names the response from which it goes on."""


class UnstoredResponse(Struct, frozen=True):
    """A response that the provider does not have."""

    id: str
    """Id by which the agent names it."""
    after: str
    """The latest response before it that the provider has; empty if there is none."""
    items: tuple[Any, ...]
    """The conversation since then, with this response."""

    def continued(self, body: Mapping[str, Any], items: Sequence[Any]) -> tuple[dict[str, Any], list[Any]]:
        """Return the body and the items of a request that goes on from it, as the provider can read them."""
        rest = {name: value for name, value in body.items() if name != PREVIOUS}
        return {**rest, **({PREVIOUS: self.after} if self.after else {})}, [*self.items, *items]


def unstored_response(request: WireRequest, sent: WireRequest, id: str, text: str) -> UnstoredResponse | None:
    """Return a response with this text to a request; None if no later request can go on from it by its id.

    sent: the request as the provider gets it, or would get it.
    """
    if request.body.get("store") is False or any(map(is_from_model, request.items)):
        return None  # the agent keeps the conversation itself
    answer = {"role": "assistant", "content": text}
    return UnstoredResponse(id, as_text(sent.body.get(PREVIOUS)), (*sent.items, answer))

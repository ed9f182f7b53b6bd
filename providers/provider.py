"""The seam between the engine and a model: one method, from a request to a stream of chunks.

Leaving the stream's context closes the connection, at any point, also when the task is being cancelled. Errors come
out as `ProviderError`, before the stream or in it. A provider that holds connections may also be an async context
manager; the engine then keeps it open while runs are under way. One that finds, on entering, that it can never work
(an unknown model, a missing key) raises `WrongUse`. Two more attributes are optional: `endpoint`, the address if it was
set by hand, and `reports_cost`, False if its usage never names a cost.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, MutableMapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from ..decision import AnyChunk, Message, ToolSpec

ToolChoice = Literal["auto", "required", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """All that a model needs for one response."""

    messages: Sequence[Message]
    ephemeral: Sequence[Message] = ()
    """Shown after `messages`, this once. Kept apart, so that what was encoded before stays valid."""
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: ToolChoice = "auto"
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Passed to the provider by name: `temperature`, `max_tokens`, `seed` and the like."""
    attempt: str = "1.1"
    edition: int = 0
    """Goes up when earlier messages have changed: what a provider made of them is void."""
    memo: MutableMapping[Any, Any] = field(default_factory=dict)
    """A provider's own notes, kept as long as the session: messages that it has already encoded."""


class Provider(Protocol):
    """A model that answers requests with streams of chunks."""

    @property
    def model(self) -> str:
        """The model's name, for records and people."""
        ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[AnyChunk]]:
        """Open one response. Leaving the context closes it. Raises ProviderError.

        It leaves no cancel scope and no task group open in the caller's task: a wrapper may open it inside a scope of
        its own that ends before the stream does.
        """
        ...

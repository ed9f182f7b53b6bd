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

import msgspec

from ..decision import AnyChunk, Message, ToolSpec, WrongUse
from .endpoint_url import mask_url

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


NOT_SETTINGS: dict[str, str] = {
    "model": "name it where the provider is made, as in OpenAICompatible('NAME', URL) or LiteLLM('PROVIDER/NAME')",
    "messages": "the prompt goes to run(...) or start(...), what came before it is the session",
    "tools": "give tools to the engine: Engine(provider, tools=[...])",
    "functions": "give tools to the engine: Engine(provider, tools=[...])",
    "tool_choice": "give it to the engine: Engine(provider, tool_choice=...)",
    "stream": "leave it out: every response is streamed",
    "api_key": "give it where the provider is made, or set the provider's variable: settings stand in records",
    "api_base": "give it where the provider is made: LiteLLM(model, api_base=...)",
    "base_url": "give it where the provider is made: OpenAICompatible(model, URL)",
}
"""What is no setting of a request, and where it is said instead."""


def check_model(model: Any, example: str) -> str:
    """A model's name. Raises WrongUse for what can be none."""
    if not isinstance(model, str) or not model.strip():
        raise WrongUse(f"model is {model!r}: write its name, as in {example}")
    if "://" in model:
        raise WrongUse(f"model {mask_url(model)!r} is a URL: the model's name comes first, as in {example}")
    return model


def check_settings(settings: Any, *, as_json: bool = True) -> dict[str, Any]:
    """Settings for requests, as a dict of their own. Raises WrongUse for what can be none."""
    if settings is None:
        return {}
    if not isinstance(settings, Mapping):
        raise WrongUse(f"settings is {settings!r}: write a mapping, as in settings={{'temperature': 0}}")
    for name, value in settings.items():
        if not isinstance(name, str):
            raise WrongUse(f"settings: {name!r} is no name: write texts, as in {{'temperature': 0}}")
        if name in NOT_SETTINGS:
            raise WrongUse(f"settings: {name!r} is no setting of a request: {NOT_SETTINGS[name]}")
        if not as_json:
            continue
        try:
            msgspec.json.encode(value)
        except (TypeError, ValueError, RecursionError):
            raise WrongUse(
                f"settings: {name!r} is {value!r}, which has no form in JSON: write what the endpoint takes"
            ) from None
    return dict(settings)

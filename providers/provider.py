"""The provider protocol, the interface between the engine and a model: one method turns a request into a stream.

Leaving the stream's context closes the connection at any time, also while the task is being cancelled. Errors are
raised as `ProviderError`, before the stream or in it. A provider that holds connections may also be an async context
manager; the engine then keeps it open while runs are in progress. A provider that can never work (unknown model,
missing key) raises `WrongUse` on entering. Two more attributes are optional: `endpoint`, the URL if it was set
explicitly, and `reports_cost`, False if its usage never includes the cost.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, MutableMapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import msgspec

from ..decision import AnyChunk, Message, ToolSpec, WrongUse
from ..decision.transcript import estimate_tokens, message_size, tools_size
from ..decision.wrong_attributes import explained_attributes
from .endpoint_url import mask_url

ToolChoice = Literal["auto", "required", "none"]
"""Whether the model may call tools, has to call one, or may call none."""


@explained_attributes
@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Everything a model needs for one response."""

    messages: Sequence[Message]
    """The conversation so far, the system prompt first."""
    ephemeral: Sequence[Message] = ()
    """Sent after `messages`, only in this request. Separate so that cached encodings of `messages` stay valid."""
    tools: tuple[ToolSpec, ...] = ()
    """The tools that the model may call."""
    tool_choice: ToolChoice = "auto"
    """`auto`, `required` (the model must call a tool) or `none`."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Request settings such as `temperature`, `max_tokens` and `seed`."""
    attempt: str = "1.1"
    """The attempt that asks: number of the step, a dot, number of the attempt from 1."""
    edition: int = 0
    """Incremented when earlier messages change, which makes cached encodings of them invalid."""
    memo: MutableMapping[Any, Any] = field(default_factory=dict)
    """The provider's cache of messages that it has already encoded, kept as long as the session."""

    @property
    def estimated_tokens(self) -> int:
        """Estimated tokens of the messages and tools, for when the provider does not report them."""
        characters = sum(map(message_size, (*self.messages, *self.ephemeral)))
        return estimate_tokens(characters + tools_size(self.tools))


class Provider(Protocol):
    """A model that answers requests with streams of chunks."""

    @property
    def model(self) -> str:
        """Name of the model, for records and messages."""
        ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[AnyChunk]]:
        """Open one response to this request; leaving the context closes it. Raises ProviderError.

        Must not leave a cancel scope or task group open in the caller's task: a wrapper may open the stream inside its
        own scope, which ends before the stream does.
        """
        ...


NOT_SETTINGS: dict[str, str] = {
    "model": "name it where the provider is made, as in OpenAICompatible('NAME', URL) or LiteLLM('PROVIDER/NAME')",
    "messages": "pass the prompt to run(...) or start(...); the session holds what came before",
    "tools": "give tools to the engine: Engine(provider, tools=[...])",
    "functions": "give tools to the engine: Engine(provider, tools=[...])",
    "tool_choice": "give it to the engine: Engine(provider, tool_choice=...)",
    "stream": "leave it out: every response is streamed",
    "api_key": "give it where the provider is made, or set the provider's variable: settings are stored in records",
    "api_base": "give it where the provider is made: LiteLLM(model, api_base=...)",
    "base_url": "give it where the provider is made: OpenAICompatible(model, api_base)",
}
"""Names that are not request settings, and where each belongs instead."""


def check_model(model: Any, example: str) -> str:
    """Check and return a model's name. Raises WrongUse for a value that cannot be a model's name."""
    if not isinstance(model, str) or not model.strip():
        raise WrongUse(f"model is {model!r}: use the model's name, as in {example}")
    if "://" in model:
        raise WrongUse(f"model {mask_url(model)!r} is a URL: the model's name comes first, as in {example}")
    return model


def check_server_tools(tools: Any, example: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Check the tools that a vendor runs itself, and return them as a list of their fields. Raises WrongUse.

    example: a tool in the vendor's form, shown in messages. If it has a `type`, each tool needs one.
    """
    if isinstance(tools, str | Mapping) or not isinstance(tools, Sequence):
        raise WrongUse(f"server_tools is {tools!r}: use a list, as in [{example}]")
    for tool in tools:
        if not isinstance(tool, Mapping):
            raise WrongUse(f"server_tools: {tool!r} is not a tool: write it as in {example}")
        if "type" in example and not isinstance(tool.get("type"), str):
            raise WrongUse(f"server_tools: {tool!r} has no type: write it as in {example}")
        try:
            msgspec.json.encode(tool)
        except (TypeError, ValueError, RecursionError):
            raise WrongUse(f"server_tools: {tool!r} is not JSON: write it as in {example}") from None
    return [dict(tool) for tool in tools]


def check_settings(settings: Any, *, as_json: bool = True) -> dict[str, Any]:
    """Check request settings and return a copy. Raises WrongUse for names or values that cannot be sent."""
    if settings is None:
        return {}
    if not isinstance(settings, Mapping):
        raise WrongUse(f"settings is {settings!r}: use a mapping, as in settings={{'temperature': 0}}")
    for name, value in settings.items():
        if not isinstance(name, str):
            raise WrongUse(f"settings: {name!r} is not a name: use strings, as in {{'temperature': 0}}")
        if name in NOT_SETTINGS:
            raise WrongUse(f"settings: {name!r} is not a request setting: {NOT_SETTINGS[name]}")
        if not as_json:
            continue
        try:
            msgspec.json.encode(value)
        except (TypeError, ValueError, RecursionError):
            raise WrongUse(
                f"settings: {name!r} is {value!r}, which is not JSON: use a value that the endpoint accepts"
            ) from None
    return dict(settings)

"""Attributes of spans, by OpenTelemetry's conventions: of providers, requests, usage, tool calls and outcomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec

from ...decision import (
    AssistantMessage,
    FinishReason,
    Image,
    Message,
    Outcome,
    SystemMessage,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
)
from ...providers import Provider, Request
from ...providers._wrapper import iter_leaf_providers
from ...providers.prices import VENDORS
from ...records.event_redaction import Redact, TextRedactor
from ...tools.tool import Tool

PROVIDER_NAMES: Mapping[str, str] = {
    "azure": "azure.ai.openai",
    "azure_ai": "azure.ai.inference",
    "bedrock": "aws.bedrock",
    "bedrock_converse": "aws.bedrock",
    "cohere_chat": "cohere",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
    "vertex_ai": "gcp.vertex_ai",
    "watsonx": "ibm.watsonx.ai",
    "xai": "x_ai",
}
"""`gen_ai.provider.name` by litellm's name of the provider, where the two differ."""
MODEL_FAMILIES = {
    "claude": "anthropic",
    "gpt": "openai",
    "chatgpt": "openai",
    "o1": "openai",
    "o3": "openai",
    "o4": "openai",
}
"""`gen_ai.provider.name` by the first part of a model's name, for names without a provider, as `claude-sonnet-4-5`."""
DEFAULT_PORTS = {"http": 80, "https": 443}
REQUEST_SETTINGS: Mapping[str, tuple[str, type]] = {
    "frequency_penalty": ("gen_ai.request.frequency_penalty", float),
    "max_tokens": ("gen_ai.request.max_tokens", int),
    "max_completion_tokens": ("gen_ai.request.max_tokens", int),
    "presence_penalty": ("gen_ai.request.presence_penalty", float),
    "seed": ("gen_ai.request.seed", int),
    "temperature": ("gen_ai.request.temperature", float),
    "top_k": ("gen_ai.request.top_k", int),
    "top_p": ("gen_ai.request.top_p", float),
}
"""The attribute and its type by the setting of a request."""


def provider_name(provider: Provider) -> str:
    """The conventions' name of the provider if it can be determined; else the lower-case name of its class."""
    leaf = next(iter_leaf_providers(provider))
    kind = type(leaf).__name__
    endpoint = str(getattr(leaf, "endpoint", ""))
    vendor, slash, _ = leaf.model.partition("/")
    if kind == "LiteLLM" and slash:
        return PROVIDER_NAMES.get(vendor, vendor)
    if endpoint:
        host = VENDORS.get(urlsplit(endpoint).hostname or "", "openai")  # the provider of the protocol
        return PROVIDER_NAMES.get(host, host)
    if kind == "LiteLLM":
        return MODEL_FAMILIES.get(leaf.model.partition("-")[0], "litellm")
    return kind.lower()


def provider_attributes(provider: Provider) -> dict[str, Any]:
    """Attributes of both runs and requests: provider, model and server."""
    attributes: dict[str, Any] = {
        "gen_ai.provider.name": provider_name(provider),
        "gen_ai.request.model": provider.model,
    }
    address = urlsplit(str(getattr(provider, "endpoint", "")))
    if address.hostname:
        attributes["server.address"] = address.hostname
        attributes["server.port"] = address.port or DEFAULT_PORTS.get(address.scheme)
    return attributes


def request_attributes(request: Request) -> dict[str, Any]:
    """The settings of a request, without its messages."""
    attributes: dict[str, Any] = {"gen_ai.request.stream": True, "endstop.attempt": request.attempt}
    for name, (attribute, kind) in REQUEST_SETTINGS.items():
        value = request.settings.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            attributes[attribute] = kind(value)
    stop = request.settings.get("stop")
    if isinstance(stop, str | list | tuple):
        attributes["gen_ai.request.stop_sequences"] = [stop] if isinstance(stop, str) else [str(word) for word in stop]
    return attributes


def usage_attributes(usage: Usage) -> dict[str, Any]:
    """Tokens and cost. Input tokens include cached tokens, as the conventions say."""
    return {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens or None,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens or None,
        "endstop.cost_usd": usage.cost_usd,
        "endstop.estimated": usage.estimated,
    }


def call_attributes(call: ToolCall, tool: Tool) -> dict[str, Any]:
    """The tool of a call, without its arguments."""
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool.name,
        "gen_ai.tool.call.id": call.id,
        "gen_ai.tool.type": "function",
        "endstop.tool.kind": tool.kind,
    }


def outcome_attributes(outcome: Outcome) -> dict[str, Any]:
    """How a run ended, without its answer."""
    return {
        "endstop.stop_reason": outcome.stop_reason,
        "endstop.status": outcome.status,
        "endstop.steps": outcome.steps,
        "endstop.verdict": outcome.verdict,
        **({"endstop.work": outcome.work} if outcome.work is not None else {}),
        **usage_attributes(outcome.usage),
    }


# ---- contents

FINISH_REASONS = {"tool_calls": "tool_call", "context_full": "length", "retry": "error"}
"""Finish reasons that the conventions' schema of output messages names differently."""


class ContentAttributes:
    """Attributes that hold texts (messages, arguments, results), in the form of the conventions' JSON schemas.

    The engine's redaction applies, as in records. Images are described, never copied.
    """

    def __init__(self, redact: Redact | None) -> None:
        self._texts = TextRedactor(redact or str)

    def prompt(self, prompt: str | None) -> dict[str, Any]:
        """The prompt of a run; nothing for a run that continues after an answer."""
        if prompt is None:
            return {}
        return {"gen_ai.input.messages": _json([self._message(UserMessage(prompt))])}

    def answer(self, answer: str, finish: str) -> dict[str, Any]:
        """The answer of a run."""
        return {"gen_ai.output.messages": _json([{**self._message(AssistantMessage(answer)), "finish_reason": finish}])}

    def request(self, messages: Sequence[Message]) -> dict[str, Any]:
        """The messages of a request."""
        return {"gen_ai.input.messages": _json([self._message(message) for message in messages])}

    def response(self, message: AssistantMessage, finish: FinishReason) -> dict[str, Any]:
        """The message of a response."""
        output = {**self._message(message), "finish_reason": FINISH_REASONS.get(finish, finish)}
        return {"gen_ai.output.messages": _json([output])}

    def arguments(self, call: ToolCall) -> dict[str, Any]:
        """The arguments of a call, as the model wrote them."""
        return {"gen_ai.tool.call.arguments": self._texts.arguments(call.arguments)}

    def result(self, content: str) -> dict[str, Any]:
        """The result of a call, as the model reads it."""
        return {"gen_ai.tool.call.result": self._texts.text(content)}

    def detail(self, text: str) -> str:
        """The text of an error, which may quote contents."""
        return self._texts.text(text)

    def _message(self, message: Message) -> dict[str, Any]:
        match self._texts.struct(message):
            case SystemMessage(text):
                return {"role": "system", "parts": [_text(text)]}
            case UserMessage(text):
                return {"role": "user", "parts": [_text(text)]}
            case AssistantMessage(text, calls, reasoning):
                thoughts = [{"type": "reasoning", "content": part.text} for part in reasoning if part.text]
                texts = [_text(text)] if text else []
                return {"role": "assistant", "parts": [*thoughts, *texts, *map(_call, calls)]}
            case ToolResult() as result:
                part = {"type": "tool_call_response", "id": result.call_id, "response": result.content}
                return {"role": "tool", "parts": [part, *map(_picture, result.images)]}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "content": text}


def _call(call: ToolCall) -> dict[str, Any]:
    try:
        arguments = msgspec.json.decode(call.arguments)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        arguments = call.arguments
    return {"type": "tool_call", "id": call.id, "name": call.name, "arguments": arguments}


def _picture(image: Image) -> dict[str, Any]:
    if image.url:
        return {"type": "uri", "mime_type": image.media_type, "modality": "image", "uri": image.url}
    return _text(f"[image: {image.media_type}, {len(image.data)} bytes]")


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()

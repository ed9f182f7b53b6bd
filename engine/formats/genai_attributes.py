"""Span attributes in OpenTelemetry's conventions for generative AI, as both tracing and exports write them.

Tracing (`observers/otel/`) writes them during a run, an export from its record. Neither needs OpenTelemetry for this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ..decision import (
    AssistantMessage,
    AttemptEnded,
    FinishReason,
    Image,
    Message,
    Outcome,
    SystemMessage,
    ToolCall,
    ToolKind,
    ToolResult,
    Usage,
    UserMessage,
)
from ..decision.events import AttemptFailed
from ..records.event_redaction import Redact, TextRedactor

FAILED_ATTEMPT = "endstop.attempt_failed"
"""Name of the event that a request's span has for each failed attempt."""
SCHEMA_URL = "https://opentelemetry.io/schemas/1.41.1"
"""The latest release of the conventions that includes generative AI; see `tracing.py`."""
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
"""`gen_ai.provider.name` by litellm's name of the provider, if the two differ."""
MODEL_FAMILIES = {
    "claude": "anthropic",
    "gpt": "openai",
    "chatgpt": "openai",
    "o1": "openai",
    "o3": "openai",
    "o4": "openai",
}
"""`gen_ai.provider.name` by the first part of a model's name, for names without a provider like `claude-sonnet-4-5`."""
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
"""Attribute and its type by the setting of a request."""


def provider_of(model: str) -> str | None:
    """Return the conventions' name of a model's provider, by the model's litellm name; None if that does not tell."""
    vendor, slash, _ = model.partition("/")
    return PROVIDER_NAMES.get(vendor, vendor) if slash else MODEL_FAMILIES.get(model.partition("-")[0])


def setting_attributes(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a request's settings."""
    if not settings:
        return {}
    attributes: dict[str, Any] = {}
    for name, (attribute, kind) in REQUEST_SETTINGS.items():
        value = settings.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            attributes[attribute] = kind(value)
    stop = settings.get("stop")
    if isinstance(stop, str | list | tuple):
        attributes["gen_ai.request.stop_sequences"] = [stop] if isinstance(stop, str) else [str(word) for word in stop]
    return attributes


def failed_attempt_attributes(ended: AttemptEnded | AttemptFailed, message: str | None) -> dict[str, Any]:
    """Return the attributes of a failed attempt at a request. message: the error's message, if contents are written."""
    return {
        "gen_ai.request.model": ended.model or None,
        "error.type": ended.kind,
        "http.response.status_code": ended.status,
        "endstop.retry_after": ended.retry_after,
        "endstop.beside": ended.beside,
        "exception.message": message,
    }


def usage_attributes(usage: Usage) -> dict[str, Any]:
    """Return the attributes of tokens and cost. Input tokens include cached tokens, as the conventions require."""
    return {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens or None,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens or None,
        "endstop.cost_usd": usage.cost_usd,
        "endstop.estimated": usage.estimated,
    }


def call_attributes(call: ToolCall, kind: ToolKind) -> dict[str, Any]:
    """Return the attributes of a call's tool, without its arguments."""
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": call.name,
        "gen_ai.tool.call.id": call.id,
        "gen_ai.tool.type": "function",
        "endstop.tool.kind": kind,
    }


AGENT_FINISH_REASONS: Mapping[str, str] = {
    "step_limit": "max_iterations",
    "token_limit": "max_tokens",
    "time_limit": "time_budget",
    "provider_error": "error",
    "internal_error": "error",
}
"""`gen_ai.agent.finish_reason` by stop reason, if the proposal has a different word for it.

No released version of the conventions has this attribute. Its values are those of issue 171 of
open-telemetry/semantic-conventions-genai. Pull request 238 there has since been narrowed to another name, so this one
may be removed; `endstop.stop_reason` stays."""


def agent_finish_reason(outcome: Outcome) -> str:
    """Return why an agent's loop ended, in the words of that proposal, or our stop reason if it has no word for it."""
    if outcome.status == "completed":
        return "completed"
    return AGENT_FINISH_REASONS.get(outcome.stop_reason, outcome.stop_reason)


def outcome_attributes(outcome: Outcome) -> dict[str, Any]:
    """Return the attributes of how a run ended, without its answer."""
    return {
        "gen_ai.agent.finish_reason": agent_finish_reason(outcome),
        "endstop.stop_reason": outcome.stop_reason,
        "endstop.status": outcome.status,
        "endstop.steps": outcome.steps,
        "endstop.verdict": outcome.verdict,
        **({"endstop.work": outcome.work} if outcome.work is not None else {}),
        **usage_attributes(outcome.usage),
    }


# ---- contents

FINISH_REASONS = {"tool_calls": "tool_call", "context_full": "length", "retry": "error"}
"""Finish reasons that have other names in the conventions' schema of output messages."""


class ContentAttributes:
    """Attributes with texts (messages, arguments, results), in the form of the conventions' JSON schemas.

    The engine's redaction applies, as in records. Images are described, never copied.
    """

    def __init__(self, redact: Redact | None) -> None:
        self._texts = TextRedactor(redact or str)

    def prompt(self, prompt: str | None) -> dict[str, Any]:
        """Return the attributes of a run's prompt; empty for a run that continues after an answer."""
        if prompt is None:
            return {}
        return {"gen_ai.input.messages": _json([self.message(UserMessage(prompt))])}

    def answer(self, answer: str, finish: str) -> dict[str, Any]:
        """Return the attributes of a run's answer."""
        return {"gen_ai.output.messages": _json([{**self.message(AssistantMessage(answer)), "finish_reason": finish}])}

    def response(self, message: AssistantMessage, finish: FinishReason) -> dict[str, Any]:
        """Return the attributes of a response's message."""
        output = {**self.message(message), "finish_reason": FINISH_REASONS.get(finish, finish)}
        return {"gen_ai.output.messages": _json([output])}

    def arguments(self, call: ToolCall) -> dict[str, Any]:
        """Return the attributes of a call's arguments, as the model wrote them."""
        return {"gen_ai.tool.call.arguments": self._texts.arguments(call.arguments)}

    def result(self, content: str) -> dict[str, Any]:
        """Return the attributes of a call's result, as the model reads it."""
        return {"gen_ai.tool.call.result": self._texts.text(content)}

    def detail(self, text: str) -> str:
        """Return the text of an error, which may quote contents."""
        return self._texts.text(text)

    def message(self, message: Message) -> dict[str, Any]:
        """Return one message in the conventions' form."""
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


class RequestMessages:
    """Messages of successive requests as an attribute: a message that occurs again is not encoded again.

    Only the messages of the latest request are kept, so messages dropped by a compaction are dropped here, too.
    """

    def __init__(self, content: ContentAttributes) -> None:
        self._content = content
        self._latest: dict[int, tuple[Message, str]] = {}
        """Each message of the latest request with its JSON, by its `id()`, which is unique while it is kept here."""

    def attributes(self, messages: Sequence[Message]) -> dict[str, Any]:
        """Return the attributes of a request's messages."""
        latest = self._latest
        self._latest = {
            id(message): latest.get(id(message)) or (message, _json(self._content.message(message)))
            for message in messages
        }
        encoded = [self._latest[id(message)][1] for message in messages]
        return {"gen_ai.input.messages": f"[{','.join(encoded)}]"}


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

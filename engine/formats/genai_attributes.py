"""Attributes of spans, by OpenTelemetry's conventions for generative AI: what both tracing and an export write.

Tracing (`observers/otel/`) writes them while a run goes on, an export from its record. None of it needs OpenTelemetry.
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
"""The event of a request's span for each attempt at it that came to nothing."""
SCHEMA_URL = "https://opentelemetry.io/schemas/1.41.1"
"""The latest release of the conventions that includes generative AI; see `observers/otel/tracing.py`."""
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


def provider_of(model: str) -> str | None:
    """The conventions' name of a model's provider, by litellm's name of the model; None if that does not say."""
    vendor, slash, _ = model.partition("/")
    return PROVIDER_NAMES.get(vendor, vendor) if slash else MODEL_FAMILIES.get(model.partition("-")[0])


def setting_attributes(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a request."""
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
    """The event of an attempt at a request that came to nothing. message: the error's, if contents are written."""
    return {
        "gen_ai.request.model": ended.model or None,
        "error.type": ended.kind,
        "http.response.status_code": ended.status,
        "endstop.retry_after": ended.retry_after,
        "endstop.beside": ended.beside,
        "exception.message": message,
    }


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


def call_attributes(call: ToolCall, kind: ToolKind) -> dict[str, Any]:
    """The tool of a call, without its arguments."""
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
"""`gen_ai.agent.finish_reason` by stop reason, where the proposal has a word for it and ours differs.

No released version of the conventions has this attribute. Its values are those of issue 171 of
open-telemetry/semantic-conventions-genai. Pull request 238 there has since been narrowed to another name, so this one
may go; `endstop.stop_reason` stays."""


def agent_finish_reason(outcome: Outcome) -> str:
    """Why the loop of an agent ended, in the words of that proposal, or our stop reason where it has none."""
    if outcome.status == "completed":
        return "completed"
    return AGENT_FINISH_REASONS.get(outcome.stop_reason, outcome.stop_reason)


def outcome_attributes(outcome: Outcome) -> dict[str, Any]:
    """How a run ended, without its answer."""
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
        return {"gen_ai.input.messages": _json([self.message(UserMessage(prompt))])}

    def answer(self, answer: str, finish: str) -> dict[str, Any]:
        """The answer of a run."""
        return {"gen_ai.output.messages": _json([{**self.message(AssistantMessage(answer)), "finish_reason": finish}])}

    def response(self, message: AssistantMessage, finish: FinishReason) -> dict[str, Any]:
        """The message of a response."""
        output = {**self.message(message), "finish_reason": FINISH_REASONS.get(finish, finish)}
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

    def message(self, message: Message) -> dict[str, Any]:
        """One message."""
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
    """The messages of one request after another, as an attribute: a message that comes again is not encoded again.

    Only the messages of the latest request are kept, so those that a compaction drops are dropped here, too.
    """

    def __init__(self, content: ContentAttributes) -> None:
        self._content = content
        self._latest: dict[int, tuple[Message, str]] = {}
        """Each message of the latest request with its JSON, by its identity, which it keeps while it is in here."""

    def attributes(self, messages: Sequence[Message]) -> dict[str, Any]:
        """The messages of a request."""
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

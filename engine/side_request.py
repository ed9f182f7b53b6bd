"""Asking a model one thing beside the run: a judgement, a summary. Not a step; its tokens are counted by who asks."""

from __future__ import annotations

from .connections import begin_aside, hear_out
from .decision import (
    AnyChunk,
    AssistantMessage,
    FinishReason,
    FinishReport,
    Message,
    SystemMessage,
    TextDelta,
    ToolResult,
    Usage,
    UsageReport,
    UserMessage,
)
from .decision.cost import with_cost
from .decision.transcript import estimate_tokens
from .providers import Prices, Provider, Request

BROKEN: frozenset[FinishReason] = frozenset({"content_filter", "context_full", "error", "pause", "retry"})
"""Ends after which an answer is none. One that its length cut off may still say what was asked."""


async def answer_of(provider: Provider, question: str, prices: Prices) -> tuple[str, Usage, FinishReason]:
    """The model's text, what it used, and why it ended. Raises ProviderError."""
    request = Request(messages=[UserMessage(question)], attempt="aside")
    parts: list[str] = []
    usage: Usage | None = None
    finish: FinishReason = "other"

    def take(chunk: AnyChunk) -> bool:
        nonlocal usage, finish
        match chunk:
            case TextDelta(text):
                parts.append(text)
            case UsageReport(reported):
                usage = reported
            case FinishReport(reason):
                finish = reason
            case _:
                pass
        return False

    await hear_out(provider, request, take, begin_aside)
    text = "".join(parts)
    if usage is None:
        usage = Usage(
            input_tokens=estimate_tokens(len(question)), output_tokens=estimate_tokens(len(text)), estimated=True
        )
    return text, with_cost(usage, prices.of(provider)), finish


def as_told(message: Message) -> str:
    """One message of a run, told to a model that is not part of it."""
    match message:
        case SystemMessage(text):
            return f"Instructions: {text}"
        case UserMessage(text):
            return f"User: {text}"
        case AssistantMessage():
            calls = "".join(f"\n[calls {call.name} {call.arguments}]" for call in message.calls)
            return f"Agent: {message.text}{calls}"
        case ToolResult():
            return f"Result of {message.name}: {message.content}"

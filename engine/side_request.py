"""A request to a model outside the steps of a run, for a judgement or a summary. The caller counts its tokens."""

from __future__ import annotations

from collections.abc import Sequence

from .connections import read_stream, start_background_task
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

NO_ANSWER: frozenset[FinishReason] = frozenset({"content_filter", "context_full", "error", "pause", "retry"})
"""Finish reasons after which the text is not an answer. One cut off by its length may still hold what was asked for."""


async def complete_text(provider: Provider, question: str, prices: Prices) -> tuple[str, Usage, FinishReason]:
    """Ask a model one question. Return its text, the usage with its cost, and why it ended. Raises ProviderError."""
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
                usage = reported.completed_by(usage)
            case FinishReport(reason):
                finish = reason
            case _:
                pass
        return False

    await read_stream(provider, request, take, start_background_task)
    text = "".join(parts)
    if usage is None or usage.estimated:
        usage = (usage or Usage()).for_cut_response(
            input_tokens=estimate_tokens(len(question)), output_tokens=estimate_tokens(len(text))
        )
    return text, with_cost(usage, prices.of(provider)), finish


async def summarise(
    provider: Provider, messages: Sequence[Message], question: str, prices: Prices
) -> tuple[str, Usage]:
    """Ask a model for a summary of these messages. Raises ValueError if it is empty or was cut off."""
    told = "\n\n".join(render_message(message) for message in messages)
    text, usage, finish = await complete_text(provider, f"{told}\n\n{question}", prices)
    if finish == "length" or finish in NO_ANSWER or not text.strip():
        raise ValueError("the summary is empty or was cut off")
    return text, usage


def render_message(message: Message) -> str:
    """Return one message of a run as text, for a model that is not part of the run."""
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

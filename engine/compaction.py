"""Compacts the context before the next request, as events that the transcript applies.

The policy's strategies are tried in order until the context is below its threshold. The system prompt and the user's
latest message always stay, and a tool call is never separated from its result.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

from msgspec.structs import replace

from .context import Context
from .decision import Message, SystemMessage, ToolResult, UserMessage
from .decision.events import ContextCompacted
from .decision.transcript import estimate_tokens, message_size, shorten_results
from .hook_runner import run_hook
from .hooks import Verdict
from .side_request import NO_ANSWER, complete_text, render_message


async def compact(context: Context) -> None:
    """Compact the context with the policy's strategies, in order. If none is enough, an event says so (`in_vain`)."""
    for strategy in context.policy.compaction.strategies:
        event = await _STRATEGIES[strategy](context)
        if event == "refused":
            return  # the budget will refuse the next step, too
        if event is None:
            continue
        over = _over(context, event.after_tokens)
        context.log.append(replace(event, not_enough=over))
        if not over and event.after_tokens < event.before_tokens:
            return
    size_now = _tokens(context)
    context.log.append(
        ContextCompacted(
            strategy="shorten_results",
            before_tokens=size_now,
            after_tokens=size_now,
            keep_results=context.policy.compaction.keep_results,
            in_vain=True,
        )
    )


async def _shorten(context: Context) -> ContextCompacted | None:
    keep = context.policy.compaction.keep_results
    messages = context.transcript.messages
    saved = context.transcript.characters - sum(message_size(message) for message in shorten_results(messages, keep))
    if saved <= 0:
        return None
    before = _tokens(context)
    after = max(0, before - estimate_tokens(saved))
    return ContextCompacted(strategy="shorten_results", before_tokens=before, after_tokens=after, keep_results=keep)


async def _drop(context: Context) -> ContextCompacted | None:
    old = _old(context)
    return _replaced(context, "drop_oldest", old, _latest_prompt(context, old)) if old else None


async def _summarise(context: Context) -> ContextCompacted | Literal["refused"] | None:
    old = _old(context)
    if not old:
        return None
    tokens = estimate_tokens(sum(message_size(message) for message in old))
    verdict = await run_hook(context, "compactor", _summary_of, (context, old), _read_summary, tokens=tokens)
    if verdict.said != "summarised":
        return "refused" if verdict.said == "refused" else None
    summary = UserMessage(f"Summary of the conversation so far:\n{verdict.detail}")
    return _replaced(context, "summarise", old, (summary, *_latest_prompt(context, old)))


_STRATEGIES: dict[str, Callable[[Context], Awaitable[ContextCompacted | Literal["refused"] | None]]] = {
    "shorten_results": _shorten,
    "drop_oldest": _drop,
    "summarise": _summarise,
}


def _tokens(context: Context) -> int:
    """Tokens of the context; estimated until a response has reported them."""
    return context.log.facts.context_tokens or estimate_tokens(context.transcript.characters)


def _over(context: Context, tokens: int) -> bool:
    settings = context.policy.compaction
    return settings.window is not None and tokens >= settings.window * settings.threshold


def _old(context: Context) -> Sequence[Message]:
    """The oldest messages that may be removed: whole exchanges, without the system prompt and the latest messages."""
    messages = context.transcript.messages
    head = 1 if messages and isinstance(messages[0], SystemMessage) else 0
    end = len(messages) - context.policy.compaction.keep_messages
    while end > head and isinstance(messages[end], ToolResult):
        end -= 1  # never between a call and its result
    return messages[head:end] if end > head else ()


def _latest_prompt(context: Context, old: Sequence[Message]) -> tuple[Message, ...]:
    """The user's latest prompt and the latest message with the user's role, if they are among the old messages."""
    messages = context.transcript.messages
    latest = next((message for message in reversed(messages) if isinstance(message, UserMessage)), None)
    wanted = [message for message in (context.transcript.prompt, latest) if message is not None]
    kept = [message for message in wanted if any(message == one for one in old)]
    return tuple(kept[:1] if len(kept) == 2 and kept[0] == kept[1] else kept)


def _replaced(
    context: Context, strategy: str, old: Sequence[Message], put_first: tuple[Message, ...]
) -> ContextCompacted | None:
    saved = sum(message_size(message) for message in old) - sum(message_size(message) for message in put_first)
    if saved <= 0:
        return None
    before = _tokens(context)
    return ContextCompacted(
        strategy=strategy,  # type: ignore[arg-type]  # one of the keys above
        before_tokens=before,
        after_tokens=max(0, before - estimate_tokens(saved)),
        dropped=len(old),
        put_first=put_first,
    )


async def _summary_of(context: Context, old: Sequence[Message]) -> Verdict:
    """Ask the model for a summary of the messages that are removed."""
    told = "\n\n".join(render_message(message) for message in old)
    question = f"{told}\n\n{context.policy.prompts.summarise}"
    text, usage, finish = await complete_text(context.provider, question, context.price_list)
    if finish == "length" or finish in NO_ANSWER or not text.strip():
        raise ValueError("the summary is empty or was cut off")
    return Verdict("summarised", text, usage)


def _read_summary(said: object) -> Verdict:
    assert isinstance(said, Verdict)
    return said

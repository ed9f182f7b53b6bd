"""Compaction of the context before the next request, recorded as events that the transcript applies.

The user's compactor is asked first, if there is one; then the policy's strategies are tried in order until the context
is below its threshold. The system prompt and the user's latest message always stay, and a tool call is never separated
from its result.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence, Set
from functools import partial
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from .context import Context
from .decision import Message, SystemMessage, ToolResult, UserMessage
from .decision.events import ContextCompacted
from .decision.messages import is_blank
from .decision.transcript import estimate_tokens, message_size, shorten_results
from .hook_runner import progress, run_hook
from .hooks import ModelCompactor, Verdict
from .message_history import call_ids, paired
from .side_request import summarise

_SUMMARY = "Summary of the conversation so far:\n{}"


async def compact(context: Context) -> None:
    """Compact the context with the compactor and the policy's strategies. If that is not enough, log an event."""
    for make_smaller in (_ask_compactor, *(_STRATEGIES[name] for name in context.policy.compaction.strategies)):
        event = await make_smaller(context)
        if event == "refused":
            return  # the budget will also refuse the next step
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
    summary = UserMessage(_SUMMARY.format(verdict.detail))
    return _replaced(context, "summarise", old, (summary, *_latest_prompt(context, old)))


_STRATEGIES: dict[str, Callable[[Context], Awaitable[ContextCompacted | Literal["refused"] | None]]] = {
    "shorten_results": _shorten,
    "drop_oldest": _drop,
    "summarise": _summarise,
}


def _tokens(context: Context) -> int:
    """Return the tokens of the context, estimated until a response has reported them."""
    return context.log.facts.context_tokens or estimate_tokens(context.transcript.characters)


def _over(context: Context, tokens: int) -> bool:
    settings = context.policy.compaction
    return settings.window is not None and tokens >= settings.window * settings.threshold


def _old(context: Context) -> Sequence[Message]:
    """Return the oldest messages that may be removed: whole exchanges, not the system prompt or the latest messages."""
    messages = context.transcript.messages
    head = 1 if messages and isinstance(messages[0], SystemMessage) else 0
    end = len(messages) - context.policy.compaction.keep_messages
    while end > head and isinstance(messages[end], ToolResult):
        end -= 1  # never between a call and its result
    return messages[head:end] if end > head else ()


def _latest_prompt(context: Context, old: Sequence[Message]) -> tuple[Message, ...]:
    """Return the user's latest prompt and the latest message with the user's role, if they are among `old`."""
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
    """Ask the run's own model for a summary of the messages that are removed."""
    question = context.policy.prompts.summarise
    return Verdict("summarised", *await summarise(context.provider, old, question, context.price_list))


def _read_summary(said: object) -> Verdict:
    assert isinstance(said, Verdict)
    return said


# ---- the user's compactor


async def _ask_compactor(context: Context) -> ContextCompacted | Literal["refused"] | None:
    """Ask the user's compactor to replace the oldest messages. None without a compactor or a usable answer."""
    compactor, old = context.hooks.compactor, tuple(_old(context))
    if compactor is None or not old:
        return None
    asks_model = isinstance(compactor, ModelCompactor)
    tokens = estimate_tokens(sum(message_size(message) for message in old)) if asks_model else None
    read = partial(_read_answer, taken=set(call_ids(context.transcript.messages)).difference(call_ids(old)))
    verdict = await run_hook(context, "compactor", compactor, (old, progress(context)), read, tokens=tokens)
    if verdict.said == "refused":
        return "refused"
    put_first = _put_first(verdict)
    if put_first is None:
        return None
    pinned = (message for message in _latest_prompt(context, old) if message not in put_first)
    return _replaced(context, "compactor", old, (*put_first, *pinned))


def _put_first(verdict: Verdict) -> tuple[Message, ...] | None:
    """Return the messages that replace the old ones, from a compactor's recorded answer; None if it has none."""
    if verdict.said == "summarised":
        return (UserMessage(_SUMMARY.format(verdict.detail)),)
    if verdict.said != "replaced":
        return None
    try:
        return msgspec.json.decode(verdict.detail, type=tuple[Message, ...])
    except (msgspec.MsgspecError, ValueError):  # a record whose redaction changed more than texts
        return None


def _read_answer(said: Any, taken: Set[str]) -> Verdict:
    """Return the verdict for a compactor's answer. taken: ids of the calls in the messages that stay.

    Raises TypeError or ValueError for an answer of another type, or one that no provider would take.
    """
    match said:
        case None:
            return Verdict("passed")
        case str() | Verdict(said="summarised"):
            verdict = Verdict("summarised", said) if isinstance(said, str) else said
            if is_blank(verdict.detail):
                raise ValueError("the summary is empty")
            return verdict
        case list() | tuple() if all(isinstance(message, Message) for message in said):
            _check_messages(said, taken)
            written = msgspec.json.encode(said)
            msgspec.json.decode(written, type=tuple[Message, ...])  # fields of wrong types raise here
            return Verdict("replaced", written.decode())
        case _:
            raise TypeError(f"a compactor answers a text, a list of messages or None, not {type(said).__name__}")


def _check_messages(messages: Sequence[Message], taken: Set[str]) -> None:
    """Raise ValueError for a system prompt, or if calls and results are not `paired`."""
    for place, message in paired(((f"message {number}", one) for number, one in enumerate(messages)), taken):
        if isinstance(message, SystemMessage):
            raise ValueError(f"{place} is a system prompt, and the run's own stays")

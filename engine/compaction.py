"""What P0 asks for: make the context smaller before the next request, as an event that the transcript projects."""

from __future__ import annotations

from ..decision.events import ContextCompacted
from ..decision.transcript import rough_tokens, shorten_results, size
from .context import Context


def compact(context: Context) -> None:
    """Shorten old tool results. The system prompt, the user's messages and every call stay whole."""
    keep = context.policy.compaction.keep_results
    messages = context.transcript.messages
    before = context.log.facts.context_tokens
    saved = context.transcript.characters - sum(size(message) for message in shorten_results(messages, keep))
    context.log.append(
        ContextCompacted(
            strategy="shorten_results",
            before_tokens=before,
            after_tokens=max(0, before - rough_tokens(saved)),
            keep_results=keep,
        )
    )

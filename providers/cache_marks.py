"""Marks for a provider's prompt cache: what comes before one is kept there, and read again for a tenth of the price.

Anthropic takes four marks in a request (Anthropic API reference, "Prompt caching"): the last tool, the system prompt
and two messages. A mark stands on the latest message that stays, never on one that is shown only once, and the one
of the request before stays where it was: what was written then is found again, however many blocks have come since.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

MARK = {"cache_control": {"type": "ephemeral"}}
WIRES = ("anthropic", "bedrock", "vertex_ai", "openrouter")
"""litellm's names for the ways to a Claude that know marks; any other might refuse them."""


def knows_marks(model: str) -> bool:
    """Whether this model, by its litellm name, takes marks."""
    wire, _, name = model.partition("/")
    return wire in WIRES and (wire == "anthropic" or "claude" in name)


class CacheMarks:
    """The marks of one session. They go to copies: what was encoded stays as it is."""

    def __init__(self) -> None:
        self._edition = 0
        self._last: tuple[int, ...] = ()
        """Where the messages of the latest request were marked."""

    def on_messages(self, messages: list[dict[str, Any]], stable: int, edition: int) -> list[dict[str, Any]]:
        """The messages with marks; `stable` of them stay in the session, those after it are shown once."""
        if edition != self._edition:
            self._edition, self._last = edition, ()
        latest = next((at for at in reversed(range(stable)) if messages[at]["role"] in ("user", "tool")), None)
        if latest is not None and latest not in self._last:
            self._last = (*self._last[-1:], latest)
        system = (0,) if messages and messages[0]["role"] == "system" else ()
        marked = {*system, *(at for at in self._last if at < stable)}
        return [{**message, **MARK} if at in marked else message for at, message in enumerate(messages)]


def on_tools(tools: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tools with a mark on the last one."""
    return [*tools[:-1], *({**tool, **MARK} for tool in tools[-1:])]

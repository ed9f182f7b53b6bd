"""Choice of the messages that are marked for Anthropic's prompt cache. Cached input costs a tenth of the price."""

from __future__ import annotations

from collections.abc import Callable


class CacheMarks:
    """Choice of the messages to mark in each request.

    Anthropic allows four marks per request (Anthropic API reference, "Prompt caching"): the last tool, the system
    prompt and two messages. One mark is on the latest message that stays in the session, never on an ephemeral one.
    The previous request's mark stays too, so what was cached then is found however many blocks have been added.
    """

    def __init__(self) -> None:
        self._edition = 0
        self._last: tuple[int, ...] = ()
        """Indexes of the messages marked in the latest request."""

    def places(self, role: Callable[[int], str], stable: int, edition: int) -> frozenset[int]:
        """Return the indexes of the messages of a request to mark; the system prompt is marked elsewhere.

        role: function that returns the role of the message at an index. stable: number of messages that stay in the
        session; those after them are ephemeral. edition: the request's edition. A new edition means that earlier
        messages have changed, so the marks of earlier requests are not set again.
        """
        if edition != self._edition:
            self._edition, self._last = edition, ()
        latest = next((at for at in reversed(range(stable)) if role(at) in ("user", "tool")), None)
        if latest is not None and latest not in self._last:
            self._last = (*self._last[-1:], latest)
        return frozenset(at for at in self._last if at < stable)

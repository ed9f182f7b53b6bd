"""Something that others wait for to happen again and again."""

from __future__ import annotations

import asyncio


class News:
    """Who waits is woken at the next `tell`. Telling never waits.

    Read `count` before you look at what the news is about, and wait with it: then nothing told meanwhile is lost.
    """

    def __init__(self) -> None:
        self.count = 0
        """How often it was told."""
        self._waiting: set[asyncio.Future[bool | None]] = set()

    def tell(self) -> None:
        """Let everybody look who waits."""
        self.count += 1
        if self._waiting:
            waiting, self._waiting = self._waiting, set()
            for future in waiting:
                if not future.done():
                    future.set_result(None)

    async def wait(self, seconds: float, since: int) -> bool:
        """Wait until there is news after number `since`, or so many seconds; whether there is."""
        if self.count != since:
            return True
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bool | None] = loop.create_future()
        self._waiting.add(future)
        timer = loop.call_later(seconds, _give_up, future)
        try:
            return await future is None
        finally:
            timer.cancel()
            self._waiting.discard(future)


def _give_up(future: asyncio.Future[bool | None]) -> None:
    if not future.done():
        future.set_result(False)

"""Replay: a provider that plays recorded exchanges in order."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec

from ..decision import AnyChunk, WrongUse
from ..decision.wrong_calls import checked
from .errors import KINDS, Degenerate, Exhausted, ProviderError
from .provider import Request
from .record import Exchange, RecordedError


@checked
class Replay:
    """Provider that plays exchanges from an iterable, or from a file of `Record`. Raises Exhausted after the last one.

    model: the name under which it answers; by default that of the first exchange.

    `pace` keeps the recorded time between chunks by awaiting `sleep(seconds)`. A response that was cancelled is
    played to its last recorded chunk; then `cancelled` is awaited, which by default never returns.
    """

    def __init__(
        self,
        exchanges: str | os.PathLike[str] | Iterable[Exchange],
        *,
        model: str | None = None,
        pace: bool = False,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        cancelled: Callable[[], Awaitable[None]] = anyio.sleep_forever,
    ) -> None:
        given = read_exchanges(exchanges) if isinstance(exchanges, str | os.PathLike) else list(exchanges)
        self.model = model or (given[0].model if given else "replay")
        self._given = len(given)
        self._left = iter(given)
        self._pace = pace
        self._sleep = sleep
        self._cancelled = cancelled

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[AnyChunk]]:
        """Play the next exchange. Raises ProviderError."""
        exchange = next(self._left, None)
        if exchange is None:
            raise Exhausted(f"the record has {self._given} responses, and one more was requested")
        chunks = self._play(exchange)
        try:
            yield chunks
        finally:
            await chunks.aclose()

    async def _play(self, exchange: Exchange) -> Any:
        before = 0
        times = exchange.times if self._pace else ()
        for number, chunk in enumerate((*exchange.chunks, *exchange.after_cut)):
            if number < len(times):
                await self._sleep(max(0, times[number] - before) / 1000)
                before = times[number]
            yield chunk
        if exchange.ended == "cancelled":
            await self._cancelled()
        if exchange.failure is not None:
            raise rebuild_error(exchange.failure)


def rebuild_error(failure: RecordedError) -> ProviderError:
    """Rebuild a recorded error."""
    if failure.kind == Degenerate.kind:
        return Degenerate(failure.message, text=failure.text)
    leaf = KINDS.get(failure.kind, ProviderError)
    return leaf(failure.message, status=failure.status, retry_after=failure.retry_after)


def read_exchanges(path: str | os.PathLike[str]) -> list[Exchange]:
    """Read the exchanges of a file; an incomplete last line is skipped. Raises WrongUse for any other invalid line."""
    lines = Path(path).read_bytes().split(b"\n")
    exchanges: list[Exchange] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            exchanges.append(msgspec.json.decode(line, type=Exchange))
        except (msgspec.DecodeError, RecursionError, ValueError) as error:
            if number == len(lines):
                break
            raise WrongUse(f"{path}, line {number}: not a recorded exchange ({error})") from None
    return exchanges

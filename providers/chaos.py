"""Chaos: a wrapper that injects faults, reproducibly by seed. For testing code that uses providers.

Faults, each with its own probability: an error before the response (`refuse`), an error in mid-stream (`fail`), a
stream that is cut off (`cut`), a wrong finish reason (`lie`), arguments and text in fragments of one character
(`shred`), duplicate call ids (`bad_ids`), an empty response (`empty`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from msgspec.structs import replace

from ..decision import AnyChunk, FinishReport, TextDelta, ToolCallDelta
from ..decision.wrong_calls import checked
from ._wrapper import Wrapper
from .errors import Interrupted, RateLimited, Unavailable
from .provider import Provider, Request


@checked
class Chaos(Wrapper):
    """Wrapper that injects faults. Each keyword is a probability from 0 to 1; the same `seed` gives the same faults.

    provider: the wrapped provider.
    refuse: no response, but `RateLimited`. fail: after 0 to 12 chunks, `Unavailable`. cut: the same with `Interrupted`.
    lie: another finish reason than the true one. shred: texts and arguments in pieces of one character.
    bad_ids: the same id for all calls of a response. empty: neither text nor calls.
    """

    def __init__(
        self,
        provider: Provider,
        *,
        seed: int = 0,
        refuse: float = 0.0,
        fail: float = 0.0,
        cut: float = 0.0,
        lie: float = 0.0,
        shred: float = 0.0,
        bad_ids: float = 0.0,
        empty: float = 0.0,
    ) -> None:
        super().__init__(provider)
        self._random = Random(seed)
        self._faults = {
            "refuse": refuse,
            "fail": fail,
            "cut": cut,
            "lie": lie,
            "shred": shred,
            "bad_ids": bad_ids,
            "empty": empty,
        }

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[AnyChunk]]:
        """Open the wrapped provider's response with the faults drawn for it. Raises ProviderError."""
        faults = {name for name, chance in self._faults.items() if self._random.random() < chance}
        if "refuse" in faults:
            raise RateLimited("chaos: too many requests", status=429, retry_after=1.0)
        async with self.provider.stream(request) as chunks:
            troubled = self._trouble(chunks, faults)
            try:
                yield troubled
            finally:
                await troubled.aclose()

    async def _trouble(self, chunks: AsyncIterator[AnyChunk], faults: set[str]) -> Any:
        left = self._random.randint(0, 12) if faults & {"fail", "cut"} else None
        async for chunk in chunks:
            if left is not None:
                if left == 0:
                    raise (Unavailable("chaos: error in the stream") if "fail" in faults else Interrupted("chaos: cut"))
                left -= 1
            for piece in self._bend(chunk, faults):
                yield piece

    def _bend(self, chunk: AnyChunk, faults: set[str]) -> list[AnyChunk]:
        match chunk:
            case TextDelta() | ToolCallDelta() if "empty" in faults:
                return []
            case FinishReport() if "lie" in faults:
                return [FinishReport("stop" if chunk.reason == "tool_calls" else "tool_calls", "lie")]
            case ToolCallDelta():
                bent = replace(chunk, id="same" if chunk.id and "bad_ids" in faults else chunk.id)
                if "shred" not in faults or not chunk.arguments:
                    return [bent]
                head = replace(bent, arguments=chunk.arguments[0])
                return [head, *(ToolCallDelta(chunk.index, arguments=c) for c in chunk.arguments[1:])]
            case TextDelta(text) if "shred" in faults:
                return [TextDelta(c) for c in text]
            case _:
                return [chunk]

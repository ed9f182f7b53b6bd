"""Record: a wrapper that records a provider's responses, and can read the rest of a cut response.

An exchange is one response as it arrived: its chunks with their times, how it ended and, with `drain`, the chunks
after a cut. The savings of a cut can only be measured by paying for the rest, which is what `drain` does; it is off
by default.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any, Literal

import anyio
import msgspec

from ..decision import AnyChunk
from ..decision.wrong_calls import ExplainedStruct, checked
from ._wrapper import Wrapper
from .errors import ProviderError
from .provider import Provider, Request


class RecordedError(ExplainedStruct, frozen=True, kw_only=True):
    """A ProviderError as data."""

    kind: str
    """A key of `KINDS`."""
    message: str
    """What went wrong, for people, without a key."""
    status: int | None = None
    """HTTP status; None if there was none."""
    retry_after: float | None = None
    """Seconds to wait before a retry; None if the provider did not say."""
    text: str = ""
    """For a response that was cut because it repeated itself, its text before the repetition."""


class Exchange(ExplainedStruct, frozen=True, kw_only=True, omit_defaults=True):
    """One response of a provider, as it arrived."""

    attempt: str
    """The attempt that asked for it: number of the step, a dot, number of the attempt from 1."""
    model: str
    """Name of the model."""
    chunks: tuple[AnyChunk, ...] = ()
    """What arrived, in order, up to the cut if it was cut."""
    times: tuple[int, ...] = ()
    """Milliseconds from the request to each chunk."""
    ended: Literal["finished", "cut", "failed", "cancelled"] = "finished"
    """How it ended. `cut`: its reader left the stream. `cancelled`: its reader was cancelled."""
    failure: RecordedError | None = None
    """The error of a response that failed."""
    after_cut: tuple[AnyChunk, ...] = ()
    """Chunks that arrived after the reader had left the stream; empty without `drain`."""


@checked
class Record(Wrapper):
    """Wrapper that records each exchange, to a JSON Lines file or with a function.

    provider: the wrapped provider.
    keep: the path of a file that exchanges are appended to, or a function that is called with each.
    drain: whether to read the rest of a response that was cut, for at most `deadline` seconds.
    """

    def __init__(
        self,
        provider: Provider,
        keep: str | os.PathLike[str] | Callable[[Exchange], None],
        *,
        drain: bool = False,
        deadline: float = 60.0,
    ) -> None:
        super().__init__(provider)
        self._keep = keep if callable(keep) else _appender(keep)
        self._drain = drain
        self._deadline = deadline

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[AnyChunk]]:
        """Open the wrapped provider's response and record it. Raises ProviderError."""
        recorder = _ExchangeRecorder(request.attempt, self.model)
        try:
            async with self.provider.stream(request) as chunks:
                watched = recorder.watch(chunks)
                yield watched
                await watched.aclose()
                if recorder.ended == "cut" and self._drain:
                    with anyio.move_on_after(self._deadline):
                        await recorder.drain(chunks)
        except ProviderError as error:
            recorder.failed(error)
            raise
        finally:
            self._keep(recorder.exchange())


class _ExchangeRecorder:
    def __init__(self, attempt: str, model: str) -> None:
        self.ended: Literal["finished", "cut", "failed", "cancelled"] = "cut"
        self._attempt, self._model = attempt, model
        self._began = monotonic()
        self._chunks: list[AnyChunk] = []
        self._times: list[int] = []
        self._after: list[AnyChunk] = []
        self._failure: RecordedError | None = None

    async def watch(self, chunks: AsyncIterator[AnyChunk]) -> Any:
        async for chunk in chunks:
            self._chunks.append(chunk)
            self._times.append(round((monotonic() - self._began) * 1000))
            yield chunk
        self.ended = "finished"

    async def drain(self, chunks: AsyncIterator[AnyChunk]) -> None:
        try:
            async for chunk in chunks:
                self._after.append(chunk)
        except ProviderError as error:
            self._failure = record_error(error)  # nobody waits for the rest: record the error, do not raise it

    def failed(self, error: ProviderError) -> None:
        self.ended = "failed"
        self._failure = record_error(error)

    def exchange(self) -> Exchange:
        return Exchange(
            attempt=self._attempt,
            model=self._model,
            chunks=tuple(self._chunks),
            times=tuple(self._times),
            ended=self.ended,
            failure=self._failure,
            after_cut=tuple(self._after),
        )


def record_error(error: ProviderError) -> RecordedError:
    """Return the error as data."""
    return RecordedError(kind=error.kind, message=error.message, status=error.status, retry_after=error.retry_after)


def _appender(path: str | os.PathLike[str]) -> Callable[[Exchange], None]:
    def append(exchange: Exchange) -> None:
        with open(path, "ab") as file:
            file.write(msgspec.json.encode(exchange) + b"\n")

    return append

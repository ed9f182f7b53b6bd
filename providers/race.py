"""Race and Hedge: wrappers that send a request to several providers, use the fastest and cancel the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Literal

from msgspec.structs import replace

from ..decision import (
    AnyChunk,
    AttemptEnded,
    FinishReport,
    ModelSelected,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    Usage,
    UsageReport,
    WrongUse,
)
from ..decision.errors import error_text
from ..decision.transcript import estimate_tokens
from ..decision.wrong_calls import checked
from ._wrapper import Wrapper, wait_shielded
from .clock import Clock, SystemClock
from .errors import Cancelled, ProviderError, attempt_ended
from .provider import Provider, Request

AHEAD = 64
"""Maximum number of chunks that the winner buffers ahead of its reader."""
TIDY_SECONDS = 5.0
"""Maximum seconds for cancelled providers to close."""


@checked
class Race(Wrapper):
    """Wrapper that sends the request to all providers at once and uses one response.

    providers: two or more.
    until: `first_token` picks the provider whose first text, reasoning or call arrives first, and streams it from
    there; `finished` picks the one whose whole response arrives first, and emits nothing until then.
    clock: measures time; by default the system's.

    The others are cancelled. Their cost is estimated and counted, as attempts in addition to the winner's. If one
    fails, the others go on; if all fail, the last error is raised. To race whole runs against each other, see
    `Engine.race`.
    """

    def __init__(
        self,
        *providers: Provider,
        until: Literal["first_token", "finished"] = "first_token",
        clock: Clock | None = None,
    ) -> None:
        super().__init__(*providers)
        self._until: Literal["first_token", "finished"] = until
        self._clock: Clock = clock or SystemClock()
        self._stagger = 0.0

    @property
    def model(self) -> str:
        """Names of all models in the race."""
        return " | ".join(provider.model for provider in self.providers)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[AnyChunk]]:
        """Open a response of each provider and stream the winner's. Raises ProviderError."""
        race = _RaceStream(self.providers, request, self._until, self._stagger, self._clock)
        try:
            yield race
        finally:
            await race.aclose()


@checked
class Hedge(Race):
    """Wrapper that starts the next provider when the ones before it have not responded after `after` seconds.

    providers: in the order in which they are started. after: seconds, above 0.
    clock: measures time; by default the system's.

    The first one to stream wins, as in `Race`. If all started providers fail, the next one starts at once. With `after`
    near a high percentile of the time to the first token, few requests are duplicated and the slowest responses are
    avoided ("The Tail at Scale", Dean and Barroso, 2013).

    Raises WrongUse if `after` is not above 0.
    """

    def __init__(self, *providers: Provider, after: float, clock: Clock | None = None) -> None:
        super().__init__(*providers, clock=clock)
        if not after > 0:
            raise WrongUse(f"Hedge: after is {after}: use seconds above 0 (for 0, use Race)")
        self._stagger = after

    @property
    def model(self) -> str:
        """The first provider's model; each response names the one that was used."""
        return self.provider.model


class _RaceStream:
    """Stream of one race: each provider streams in its own task until one has won.

    It uses plain tasks, not a task group, so that no scope stays open in the reader's task and any wrapper can wrap a
    race. Must be closed: it holds tasks and connections.
    """

    def __init__(
        self,
        providers: Sequence[Provider],
        request: Request,
        until: Literal["first_token", "finished"],
        stagger: float,
        clock: Clock,
    ) -> None:
        self._request = request
        self._until = until
        self._stagger = stagger
        self._clock = clock
        self._queue: asyncio.Queue[AnyChunk | ProviderError | None] = asyncio.Queue()
        self._room = asyncio.Event()
        self._winner: _Runner | None = None
        self._runners = [_Runner(provider) for provider in providers]
        self._failed = 0
        for number, runner in enumerate(self._runners):
            runner.task = asyncio.create_task(self._run(number, runner), name=f"race {runner.provider.model}")

    def __aiter__(self) -> AsyncIterator[AnyChunk]:
        return self

    async def __anext__(self) -> AnyChunk:
        item = await self._queue.get()
        self._room.set()
        if item is None:
            raise StopAsyncIteration
        if isinstance(item, ProviderError):
            raise item
        return item

    async def aclose(self) -> None:
        """Cancel all providers and wait until they are closed. A cancellation meanwhile also cancels the closing."""
        tasks = [runner.task for runner in self._runners if runner.task is not None]
        for task in tasks:
            task.cancel()
        try:
            await asyncio.wait(tasks, timeout=TIDY_SECONDS)
        except asyncio.CancelledError:
            for task in tasks:
                task.cancel()
            await wait_shielded(asyncio.gather(*tasks, return_exceptions=True), TIDY_SECONDS)
            raise
        for task in tasks:
            task.cancel()

    # ---- running

    async def _run(self, number: int, runner: _Runner) -> None:
        try:
            await self._head_start(number)
            runner.begun = True
            async with runner.provider.stream(self._request) as chunks:
                async for chunk in chunks:
                    await self._take(runner, chunk)
            self._win(runner)  # an empty response also wins
            self._queue.put_nowait(None)
        except ProviderError as error:
            self._fail(runner, error)
        except Exception as error:  # a provider that raises another exception must not leave the reader waiting
            self._fail(runner, ProviderError(f"{runner.provider.model}: {error_text(error)}"))
        finally:
            runner.over.set()

    async def _head_start(self, number: int) -> None:
        """Wait `stagger` seconds for each provider before this one, or until all of those have failed."""
        if not self._stagger or not number:
            return
        waiting = [asyncio.ensure_future(self._clock.sleep(self._stagger * number))]
        waiting.append(asyncio.ensure_future(self._all_over(self._runners[:number])))
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waiting:
                one.cancel()

    async def _all_over(self, runners: Sequence[_Runner]) -> None:
        for runner in runners:
            await runner.over.wait()

    async def _take(self, runner: _Runner, chunk: AnyChunk) -> None:
        if self._winner is runner:
            while self._queue.qsize() >= AHEAD:
                self._room.clear()
                await self._room.wait()
            self._queue.put_nowait(chunk)
            return
        runner.buffered.append(chunk)
        if self._until == "first_token" and _is_output(chunk):
            self._win(runner)

    # ---- winning and losing

    def _win(self, runner: _Runner) -> None:
        if self._winner is not None:
            return
        self._winner = runner
        self._queue.put_nowait(ModelSelected(runner.provider.model))
        for other in self._runners:
            if other is runner or other.over.is_set():
                continue
            if other.begun:
                self._report_attempts(other)
                self._queue.put_nowait(self._cancelled_attempt(other, runner))
            if other.task is not None:
                other.task.cancel()
        for chunk in runner.buffered:
            self._queue.put_nowait(chunk)

    def _fail(self, runner: _Runner, error: ProviderError) -> None:
        self._failed += 1
        if self._winner is runner or self._failed == len(self._runners):
            self._queue.put_nowait(error)
        elif self._winner is None:
            self._report_attempts(runner)
            self._queue.put_nowait(attempt_ended(error, runner.provider.model, beside=True))

    def _report_attempts(self, loser: _Runner) -> None:
        """Report the failed attempts of a loser that is itself a wrapper, so that they are counted."""
        for chunk in loser.buffered:
            if isinstance(chunk, AttemptEnded):
                self._queue.put_nowait(replace(chunk, beside=True))

    def _cancelled_attempt(self, loser: _Runner, winner: _Runner) -> AttemptEnded:
        said = sum(len(getattr(chunk, "text", "") or getattr(chunk, "arguments", "")) for chunk in loser.buffered)
        stated = [chunk.usage for chunk in loser.buffered if isinstance(chunk, UsageReport)]
        usage = (stated[-1] if stated else Usage()).for_cut_response(
            input_tokens=self._request.estimated_tokens, output_tokens=estimate_tokens(said)
        )
        faster = Cancelled(f"{winner.provider.model} was faster")
        return attempt_ended(faster, loser.provider.model, beside=True, usage=usage)


class _Runner:
    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self.begun = False
        self.over = asyncio.Event()
        """Set when the provider's task has ended: after the whole response, by an error, or by cancellation."""
        self.buffered: list[AnyChunk] = []
        self.task: asyncio.Task[None] | None = None


def _is_output(chunk: AnyChunk) -> bool:
    """Return whether the chunk is output of the model."""
    match chunk:
        case TextDelta(text):
            return bool(text.strip())
        case ReasoningDelta(text=text):
            return bool(text)
        case ToolCallDelta() | FinishReport():
            return True
        case _:
            return False

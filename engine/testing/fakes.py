"""Helpers for tests of what you build on the engine: a controlled clock, durable steps, a check of transcripts.

Providers that need no model are in `endstop.providers`: `Scripted` and `Chaos`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio

from ..decision import AssistantMessage, Message, SystemMessage, ToolResult
from ..decision.wrong_calls import checked, explained
from ..durability import ResultNotStored, RunLost, StepKey
from ..providers.clock import SystemClock

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


@checked
class FakeClock:
    """A clock that stands still until `advance` is called. It never really waits."""

    def __init__(self) -> None:
        self._now = 0.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []
        self._scopes: list[tuple[float, anyio.CancelScope]] = []

    def now(self) -> float:
        """Return the seconds since the clock was created."""
        return self._now

    def wall(self) -> datetime:
        """Return the time of day: midnight of 1 January 2026 (UTC) plus `now()`."""
        return EPOCH + timedelta(seconds=self._now)

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock has been advanced by this many seconds."""
        future = asyncio.get_running_loop().create_future()
        self._sleepers.append((self._now + seconds, future))
        await future

    def deadline(self, seconds: float | None) -> anyio.CancelScope:
        """Return a cancel scope that `advance` cancels after this many seconds; never if None."""
        scope = anyio.CancelScope()
        if seconds is not None:
            self._scopes.append((self._now + seconds, scope))
        return scope

    async def advance(self, seconds: float) -> None:
        """Advance the clock, and let tasks whose time has come run until they wait again."""
        await settle()
        self._now += seconds
        due = [future for at, future in sorted(self._sleepers, key=lambda s: s[0]) if at <= self._now]
        self._sleepers = [s for s in self._sleepers if s[0] > self._now]
        for future in due:
            if not future.done():
                future.set_result(None)
        for at, scope in self._scopes:
            if at <= self._now:
                scope.cancel()
        self._scopes = [s for s in self._scopes if s[0] > self._now]
        await settle()


@checked
class LoopClock(SystemClock):
    """The time of the running event loop, which is simulated within the checks of `endstop.testing.faults`.

    With `Runtime(clock=LoopClock())` a run's limits, and the times in its record, are simulated, too.
    """

    def now(self) -> float:
        """Return the seconds of the loop's own clock. Raises RuntimeError outside an event loop."""
        return asyncio.get_running_loop().time()

    def wall(self) -> datetime:
        """Return midnight of 1 January 2026 (UTC) plus `now()`."""
        return EPOCH + timedelta(seconds=self.now())


@checked
class MemorySteps:
    """Durable steps, kept in memory as a durable engine would keep them: pass `kept` to the next process's steps.

    largest: maximum characters of JSON that can be kept; more raises ResultNotStored.
    """

    def __init__(self, kept: dict[str, str] | None = None, *, largest: int = 1_000_000) -> None:
        self.kept: dict[str, str] = {} if kept is None else dict(kept)
        """Results as JSON, by key."""
        self.worked: list[str] = []
        """Keys for which work was begun here."""
        self.lose_at: str | None = None
        """Key of the step that raises RunLost, as if another process had the run; "" for any, None for none."""
        self.lose_after = False
        """Whether that step raises RunLost only after its work, instead of before it."""
        self._largest = largest

    async def step(self, key: StepKey, work: Callable[[], Awaitable[Any]]) -> Any:
        """Return the kept result, or the result of `work` if there is none."""
        name = str(key)
        lost = self.lose_at in ("", name)
        if lost and not self.lose_after:
            raise RunLost(name)
        await asyncio.sleep(0)  # a real engine must wait for its storage here
        if name in self.kept:
            return json.loads(self.kept[name])
        self.worked.append(name)
        text = json.dumps(await work(), allow_nan=False)
        if lost:
            raise RunLost(name)
        if len(text) > self._largest:
            raise ResultNotStored(f"{len(text)} characters are more than {self._largest}")
        self.kept[name] = text
        return json.loads(text)


@explained
async def settle(turns: int = 50) -> None:
    """Let all other tasks run for this many turns of the event loop; no clock advances."""
    for _ in range(turns):
        await asyncio.sleep(0)


@explained
def check_transcript(messages: Sequence[Message], open_calls: Sequence[str] = ()) -> None:
    """Raise AssertionError unless every provider would accept these messages.

    The system prompt is first or absent; each call has exactly one result, in the order of the calls and directly after
    their message. `open_calls` are ids of questions that may still be unanswered, only at the end.
    """
    awaited: list[str] = []
    seen: set[str] = set()
    for number, message in enumerate(messages):
        if isinstance(message, SystemMessage):
            assert number == 0, f"message {number}: a system prompt that is not the first"
        elif isinstance(message, ToolResult):
            assert awaited, f"message {number}: an unexpected result for {message.call_id}"
            expected = awaited.pop(0)
            assert message.call_id == expected, f"message {number}: result for {message.call_id}, expected {expected}"
        else:
            assert not awaited, f"message {number} comes before the results of {awaited}"
            if isinstance(message, AssistantMessage):
                awaited = [call.id for call in message.calls]
                doubled = seen.intersection(awaited)
                assert len(set(awaited)) == len(awaited), f"message {number}: a duplicate call id in one response"
                assert not doubled, f"message {number}: call ids used before: {doubled}"
                seen.update(awaited)
    assert not awaited or set(awaited) & set(open_calls), f"calls without a result: {awaited}"

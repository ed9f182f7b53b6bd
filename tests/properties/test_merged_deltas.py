"""Random streams in random reads give the same transcript, the same cut and the same decisions as unmerged ones."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

import msgspec
from endstop.decision import AnyChunk, Policy, TextDelta
from endstop.decision.delta_merger import DeltaMerger
from endstop.decision.events import AttemptFailed, TextMessageContent
from endstop.providers import Chaos, ProviderError, Request, Scripted
from endstop.records.scan import scan
from endstop.replay import replay
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from .scripts import FAULTS, POLICIES, SCRIPTS, World

DELTAS = frozenset({"TEXT_MESSAGE_CONTENT", "REASONING_MESSAGE_CONTENT", "TOOL_CALL_ARGS"})
TIMES = frozenset({"t", "seq", "run_id", "session_id", "started_at", "duration_ms"})


class InReads:
    """A provider whose chunks arrive in reads of these sizes, as a wire of our own hands them over."""

    def __init__(self, provider: Any, sizes: list[int]) -> None:
        self.model = provider.model
        self._provider = provider
        self._sizes = sizes

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[AnyChunk]]:
        """The wrapped provider's response."""
        async with self._provider.stream(request) as chunks:
            yield self._merged(chunks)

    async def _merged(self, chunks: AsyncIterator[AnyChunk]) -> AsyncIterator[AnyChunk]:
        merger, sizes = DeltaMerger(), cycle(self._sizes)
        read: list[AnyChunk] = []
        size, failed = next(sizes), None
        try:
            async for chunk in chunks:
                read.append(chunk)
                if len(read) >= size:
                    for merged in merger.merge(read):
                        yield merged
                    read, size = [], next(sizes)
        except ProviderError as error:
            failed = error
        for merged in merger.merge(read):
            yield merged
        if failed is not None:
            raise failed


def told(events: list[Any]) -> list[Any]:
    """Everything that was decided and that happened, without times and numbers, and with neighbouring deltas joined."""
    result: list[Any] = []
    for event in events:
        plain = timeless(msgspec.to_builtins(event))
        last = result[-1] if result else {"type": ""}
        if plain["type"] in DELTAS and same_part(last, plain):
            result[-1] = {**last, **plain, "delta": last.get("delta", "") + plain.get("delta", "")}
        else:
            result.append(plain)
    return result


def same_part(last: dict[str, Any], next: dict[str, Any]) -> bool:
    if "signature" in last or "redacted" in last or "redacted" in next:
        return False
    return all(last.get(name) == next.get(name) for name in ("type", "attempt", "call_id"))


def timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: timeless(part) for name, part in value.items() if name not in TIMES}
    return [timeless(part) for part in value] if isinstance(value, list | tuple) else value


def played(world: World, provider: Any, record: Path | None) -> tuple[list[Any], Any]:
    async def main() -> tuple[list[Any], Any]:
        session = world.engine.with_provider(provider).session(record=record)
        async with session.start("go") as run:
            events = [event async for event in run]
        return events, session.transcript.messages

    return asyncio.run(main())


@given(
    SCRIPTS,
    POLICIES,
    FAULTS,
    st.lists(st.integers(1, 12), min_size=1, max_size=4),
    st.none() | st.integers(1, 30),
)
def test_a_run_is_the_same_whatever_reads_its_stream_comes_in(
    script: Any, policy: Policy, faults: Any, sizes: list[int], most: int | None
) -> None:
    """Limits of one response and of the run fall anywhere into merged deltas, too."""
    world = World(script, replace(policy, response_tokens=most))
    apart, messages = played(world, Chaos(Scripted(*script), seed=7, **faults), None)
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "r.jsonl"
        provider = InReads(Chaos(Scripted(*script), seed=7, **faults), sizes)
        together, messages_together = played(world, provider, record)
        assert told(together) == told(apart)
        assert messages_together == messages
        report = asyncio.run(replay(str(record)))
        assert report.same, report


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(["again ", "Let me think. ", "ab and "]), st.integers(1, 30), st.integers(1, 400))
def test_a_repetition_is_found_in_merged_deltas_at_the_latest_with_the_read(text: str, size: int, read: int) -> None:
    whole = "I begin. " + text * 1500
    script = [[TextDelta(whole[at : at + size]) for at in range(0, len(whole), size)]] * 5
    world = World(script, Policy())
    with tempfile.TemporaryDirectory() as folder:
        apart, together = Path(folder) / "apart.jsonl", Path(folder) / "together.jsonl"
        played(world, Scripted(*script), apart)
        played(world, InReads(Scripted(*script), [read]), together)
        failed = [(e.kind, e.message, e.text) for e in scan(apart) if isinstance(e, AttemptFailed)]
        assert {kind for kind, *_ in failed} == {"degenerate"}
        found = [(e.kind, e.message, e.text) for e in scan(together) if isinstance(e, AttemptFailed)]
        assert found == failed
        assert shown(apart) <= shown(together) <= shown(apart) + len(failed) * size * read


def shown(record: Path) -> int:
    """Characters of text in a record."""
    return sum(len(event.delta) for event in scan(record, parts=True) if isinstance(event, TextMessageContent))

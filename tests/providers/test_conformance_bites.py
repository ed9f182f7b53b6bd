"""The suite finds what is wrong with an adapter, and says what, and where to look."""

from __future__ import annotations

import asyncio
import unittest
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import pytest
from endstop.decision import FinishReport, TextDelta, ToolCallDelta, WrongUse
from endstop.providers import Interrupted, Provider, ProviderError, Request, Scripted
from endstop.testing.conformance.providers import CASES, Cannot, Endpoint, check

from .voices import direct_to

NAMED = {case.name: case for case in CASES}
Change = Callable[[AsyncIterator[Any]], AsyncIterator[Any]]


class Changed:
    """An adapter that would be right, if it were not for one thing."""

    model = "changed"

    def __init__(self, provider: Provider, change: Change, shown: str = "Changed()") -> None:
        self._provider, self._change, self._shown = provider, change, shown

    def __repr__(self) -> str:
        return self._shown

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[Any]]:
        async with self._provider.stream(request) as chunks:
            yield self._change(chunks)


async def as_dicts(chunks: AsyncIterator[Any]) -> AsyncIterator[Any]:
    async for chunk in chunks:
        yield {"text": str(chunk)}


async def without_ids(chunks: AsyncIterator[Any]) -> AsyncIterator[Any]:
    async for chunk in chunks:
        yield ToolCallDelta(0, "", chunk.name, chunk.arguments) if isinstance(chunk, ToolCallDelta) else chunk


async def stripped(chunks: AsyncIterator[Any]) -> AsyncIterator[Any]:
    async for chunk in chunks:
        yield TextDelta(chunk.text.replace(" ", "")) if isinstance(chunk, TextDelta) else chunk


async def with_a_finish_of_its_own(chunks: AsyncIterator[Any]) -> AsyncIterator[Any]:
    try:
        async for chunk in chunks:
            yield chunk
    except Interrupted:
        yield FinishReport("stop", "stop")


async def finished_twice(chunks: AsyncIterator[Any]) -> AsyncIterator[Any]:
    async for chunk in chunks:
        yield chunk
        if isinstance(chunk, FinishReport):
            yield chunk


async def all_at_the_end(chunks: AsyncIterator[Any]) -> AsyncIterator[Any]:
    for chunk in [chunk async for chunk in chunks]:
        yield chunk


async def failing_otherwise(chunks: AsyncIterator[Any]) -> AsyncIterator[Any]:
    try:
        async for chunk in chunks:
            yield chunk
    except ProviderError as error:
        raise ValueError("what now?") from error


async def uncancellable(chunks: AsyncIterator[Any]) -> AsyncIterator[Any]:
    try:
        async for chunk in chunks:
            yield chunk
    except asyncio.CancelledError:
        return


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("text", as_dicts, "which is not a chunk"),
        ("text", stripped, "not as expected: text"),
        ("text", finished_twice, "2 finish reports"),
        ("calls: parallel", without_ids, "not as expected: calls"),
        ("cut: in the text", with_a_finish_of_its_own, "ended like a complete response"),
        ("cut: in the text", failing_otherwise, "it raised ValueError, and only a ProviderError is allowed"),
        ("task cancelled", uncancellable, "ended as if it had not been cancelled"),
    ],
)
async def test_a_wrong_adapter_is_told_what_it_does_wrong(name: str, change: Change, words: str) -> None:
    with pytest.raises(AssertionError) as raised:
        await check(NAMED[name], lambda endpoint: Changed(direct_to(endpoint), change))
    assert str(raised.value).startswith(f"conformance case {name!r}: ")
    assert words in str(raised.value)


async def test_an_adapter_that_waits_for_the_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("endstop.testing.conformance.providers.cases.PATIENCE", 0.2)
    with pytest.raises(AssertionError, match=r"not finished within 0\.2 s"):
        await check(NAMED["left early"], lambda endpoint: Changed(direct_to(endpoint), all_at_the_end))


async def test_a_connection_that_stays_open_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("endstop.testing.conformance.providers.checks.CLOSE", 0.1)
    kept: list[Any] = []

    class Leaking(Changed):
        @asynccontextmanager
        async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[Any]]:
            kept.append(self._provider.stream(request))
            yield await kept[-1].__aenter__()

    with pytest.raises(AssertionError, match=r"the connection is still open 0\.1 s after"):
        await check(NAMED["left early: the connection closes"], lambda site: Leaking(direct_to(site), as_dicts))
    await kept[-1].__aexit__(None, None, None)


@pytest.mark.parametrize("name", ["refused: 401", "error in the stream"])
async def test_a_key_in_an_error_or_in_what_it_came_from_is_found(name: str) -> None:
    def leaking(endpoint: Endpoint) -> Provider:
        async def change(chunks: AsyncIterator[Any]) -> AsyncIterator[Any]:
            raise ProviderError("hidden") from ValueError(endpoint.key)
            yield

        return Changed(Scripted([]), change)

    with pytest.raises(AssertionError, match="the error's traceback contains the key"):
        await check(NAMED[name], leaking)


async def test_a_key_in_a_repr_is_found() -> None:
    with pytest.raises(AssertionError, match="its repr shows the key"):
        await check(NAMED["no key in its repr"], lambda site: Changed(direct_to(site), lambda chunks: chunks, site.key))


async def test_streams_that_mix_are_found() -> None:
    def one_for_all(endpoint: Endpoint) -> Provider:
        opened: list[AsyncIterator[Any]] = []

        def change(chunks: AsyncIterator[Any]) -> AsyncIterator[Any]:
            opened.append(chunks)
            return opened[0]

        return Changed(direct_to(endpoint), change)

    with pytest.raises(AssertionError, match="not as expected"):
        await check(NAMED["two streams at once"], one_for_all)


async def test_what_cannot_be_done_is_skipped_and_told_and_a_misspelling_is_no_way_out() -> None:
    case = NAMED["reasoning: signed"]
    assert issubclass(Cannot, unittest.SkipTest)
    with pytest.raises(Cannot, match="reasoning: signed: the wire is declared to lack signatures"):
        await check(case, direct_to)
    with pytest.raises(Cannot, match="the adapter is declared to lack reasoning"):
        await check(case, Scripted, serve=nullcontext, cannot={"reasoning"})
    with pytest.raises(WrongUse, match="did you mean 'reasoning'"):
        await check(case, Scripted, serve=nullcontext, cannot={"reasonin"})


def test_each_case_has_a_name_of_its_own() -> None:
    assert len(NAMED) == len(CASES)

"""A response over litellm is closed whole: no generator is left for the event loop to close, also at its end."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from types import AsyncGeneratorType
from typing import Any

import pytest
from endstop.decision import UserMessage
from endstop.providers import Request
from endstop.providers import litellm as provider_module
from endstop.providers.litellm import _close_shielded
from endstop.testing.faults import check_cancel_points

from ..promises.cut_short import AGENTS, LITELLM, STORY, over_http

pytestmark = pytest.mark.filterwarnings("ignore")  # litellm and what it imports warn of themselves


def open_generators() -> list[AsyncGeneratorType[Any, Any]]:
    found = (one for one in gc.get_objects() if isinstance(one, AsyncGeneratorType))
    return [one for one in found if one.ag_frame is not None]


async def left_to_the_loop(wire: str, most: int) -> list[str]:
    """The generators that were left after a response of which so many chunks were read.

    The loop closes them in tasks of its own: once they are garbage, or at its end, where an error's traceback holds
    their frames, as in Python 3.13.
    """
    left: list[str] = []

    def make_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        if type(coroutine).__name__ == "async_generator_athrow":
            left.extend(o.__qualname__ for o in gc.get_referents(coroutine) if isinstance(o, AsyncGeneratorType))
        return asyncio.Task(coroutine, loop=loop, **options)

    async def read(chunks: AsyncIterator[Any]) -> None:
        for _ in range(most):
            await anext(chunks, None)

    asyncio.get_running_loop().set_task_factory(make_task)
    async with LITELLM[wire].endpoint(STORY) as endpoint:
        before = {id(one) for one in open_generators()}
        async with LITELLM[wire].client(endpoint).stream(Request(messages=[UserMessage("go")])) as chunks:
            await read(chunks)
        del chunks
        for _ in range(100):  # each of them takes the loop two turns, one after the other
            await asyncio.sleep(0)
        left.extend(one.__qualname__ for one in open_generators() if id(one) not in before)
    return left


@pytest.mark.parametrize("transport", ["aiohttp", "httpx"], indirect=True)
@pytest.mark.parametrize("wire", LITELLM)
@pytest.mark.parametrize("most", [1, 5, 100])
async def test_no_generator_is_left_for_the_loop_to_close(transport: None, wire: str, most: int) -> None:
    assert await left_to_the_loop(wire, most) == []


async def test_without_the_mend_there_are_generators_left(transport: None, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(reading: Any) -> None:
        """Leave it as it is."""

    monkeypatch.setattr(provider_module, "end_generator", nothing)
    monkeypatch.setattr("endstop.providers.litellm_stream.OneIterator", lambda stream: stream)
    assert "Response.aiter_raw" in await left_to_the_loop("anthropic", 5)
    assert {"AsyncStream._iter_events", "Response.aiter_raw"} <= {*await left_to_the_loop("chat", 100)}
    assert (await left_to_the_loop("chat", 5)).count("AsyncStream.__aiter__") > 3


async def test_a_close_that_the_end_of_the_loop_cancels_is_made_once_more() -> None:
    closes: list[str] = []

    async def close() -> None:
        closes.append("begun")
        if len(closes) == 1:
            await asyncio.Event().wait()
        closes.append("done")

    closing = asyncio.create_task(_close_shielded(close))
    while not closes:
        await asyncio.sleep(0)
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        assert task is not None
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert closes == ["begun", "begun", "done"]


@pytest.mark.parametrize("wire", LITELLM)
def test_the_end_of_the_event_loop_leaves_nothing(transport: None, wire: str) -> None:
    report = check_cancel_points(over_http(LITELLM[wire], AGENTS["talk"]), ways=["shutdown"], points=12)
    print(report)
    assert report.ok, report

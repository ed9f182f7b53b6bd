"""A response that streams lets others have their turn: see `gaps.py`, which measures for how long it does not."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from aiohttp.base_protocol import BaseProtocol
from endstop.decision.call_arguments import has_lone_half, with_whole_escapes
from endstop.decision.degeneration import RepeatedText
from endstop.providers import OpenAICompatible
from endstop.providers.errors import Interrupted
from endstop.providers.http_provider import PART, parts_of
from endstop.providers.timeouts import Watchdog
from endstop.proxy.upstream_connections import blocks_of
from hypothesis import given
from hypothesis import strategies as st

from .measure import exponent, seconds

BODY = b": a comment\n" * 50_000


def has_come() -> aiohttp.StreamReader:
    """A body that is here whole, as one of a fast server is."""
    loop = asyncio.get_running_loop()
    content = aiohttp.StreamReader(BaseProtocol(loop), limit=len(BODY), loop=loop)
    content.feed_data(BODY)
    content.feed_eof()
    return content


async def turns(work: Coroutine[Any, Any, None]) -> int:
    """How often another task has its turn while this is done."""
    task, count = asyncio.ensure_future(work), 0
    while not task.done():
        await asyncio.sleep(0)
        count += 1
    await task
    return count


@pytest.mark.asyncio
async def test_others_have_their_turn_for_each_part_of_what_the_proxy_reads() -> None:
    async def read() -> None:
        assert b"".join([part async for part in blocks_of(has_come())]) == BODY

    assert await turns(read()) >= len(BODY) // 40_000


@pytest.mark.asyncio
async def test_others_have_their_turn_for_each_part_of_what_a_provider_reads() -> None:
    provider = OpenAICompatible("m", "http://127.0.0.1/v1")

    async def read() -> None:
        reply: Any = SimpleNamespace(content=has_come(), headers={}, status=200, content_type="text/event-stream")
        with pytest.raises(Interrupted):
            async for _ in provider._chunks(reply, Watchdog(60, 60)):
                pass

    assert await turns(read()) >= len(BODY) // 40_000


@given(st.binary(max_size=3 * PART))
def test_the_parts_of_a_block_are_the_block(block: bytes) -> None:
    assert b"".join(parts_of(block)) == block
    assert all(0 < len(part) <= PART for part in parts_of(block)) or not block


ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
PIECES = st.sampled_from(
    ["\\", "\\\\", '\\"', "\\ud83d", "\\uDE00", "\\u00e9", "\\ud8", "ud83d", "de00", "a", "\n", "é"]
)


@given(st.lists(PIECES, max_size=12).map("".join))
def test_halves_are_found_in_runs_as_they_are_one_by_one(text: str) -> None:
    one_by_one = ESCAPE.sub(lambda escape: r"\ufffd" if escape[1] else escape[0], text)
    assert with_whole_escapes(text) == one_by_one
    assert has_lone_half(text) == (one_by_one != text)


def test_what_came_before_a_repetition_is_found_in_a_time_that_hardly_grows() -> None:
    def look(length: int) -> None:
        text = "It begins. " + '"' * length
        found = RepeatedText(part="text", how="same", start=11, end=2_000, period='"')
        assert found.before(text).startswith("It begins.")

    took = [seconds(lambda length=length: look(length)) for length in (100_000, 1_600_000)]  # type: ignore[misc]
    assert took[1] < 0.5
    assert exponent(*took, factor=16) < 1.4

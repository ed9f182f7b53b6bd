"""What follows the finish reason of a response, most often its usage, where the agent does not wait for it.

An agent may close its connection as soon as it knows how a response ends, or send its next request. The provider then
gets a moment to send the rest, so that the tokens of the response are counted as reported.
"""

from __future__ import annotations

from contextlib import suppress

import aiohttp

from ..providers.clock import Clock
from .agent_runs import OpenResponse
from .exchange import FollowedExchange
from .upstream_connections import blocks_of

MOMENT = 1.0
"""Maximum seconds for the rest of a response whose finish reason has arrived."""


async def read_rest(reply: aiohttp.ClientResponse, exchange: FollowedExchange, clock: Clock) -> None:
    """Read the rest of a response that its agent has left at its end. Returns at once if it left earlier or later."""
    if not exchange.at_end:
        return
    with suppress(aiohttp.ClientError), clock.deadline(MOMENT):
        async for block in blocks_of(reply.content):
            exchange.take_block(block)
            if not exchange.at_end:
                return


async def wait_for_rest(response: OpenResponse, clock: Clock) -> None:
    """Wait for the rest of a response from whose end its agent already goes on."""
    with clock.deadline(MOMENT):
        await response.complete.wait()
    response.settle()

"""Sends what an agent once sent through the proxy to the scripted provider, without the agent.

All of it is in one process and one event loop: the proxy as its command builds it, the provider, and the taps between
them. On an event loop whose time is simulated, what the provider waits takes no time, and what the proxy computes none
either: only what it holds back shows.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
from endstop.cli.commands import build_parser
from endstop.cli.proxy import build_server
from endstop.proxy.proxy_server import proxy_runner
from endstop.replay import replay
from endstop.testing.faults.simulated_loop import SimulatedLoop

from ..engine.proxy.agents import listening
from .agents import KEY, Agent
from .checks import OWN
from .drive import Observation, serving, settle
from .recordings import RECORDED, Recording, Sent
from .scenarios import Scenario
from .scripted_provider import LATE, ScriptedProvider
from .tap import Tap

_LAST_EVENT = re.compile(rb'(event: (response\.completed|message_stop)\n.*|data: \[DONE\]|"finishReason".*)\s+\Z')
_TAIL = 2**16
"""Bytes in which the last event is looked for."""


def play_in_simulated_time(
    agent: Agent, recording: Recording, scenario: Scenario, place: Path, late: tuple[float, ...] = LATE
) -> Observation:
    """Do what `play` does, on an event loop of its own that skips each wait."""
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        return runner.run(play(agent, recording, scenario, place, late))


async def play(
    agent: Agent, recording: Recording, scenario: Scenario, place: Path, late: tuple[float, ...] = LATE
) -> Observation:
    """Send the requests of a scenario until one of them ends the agent.

    A scenario that is not recorded begins like a, and differs in what the provider does. place: an empty folder for
    the records. late: seconds from the last event of a stream to its end, in turn.
    """
    seen = Observation(scenario, exit_code=0, leaves_session=False)
    provider = ScriptedProvider(scenario, late)
    async with serving(provider) as url, Tap(url) as far:
        async with _proxy(agent.setup.upstream_at(far.url), place, scenario.options) as address, Tap(address) as near:
            await _send_all(near, recording[scenario.name if scenario.name in RECORDED else "a"])
            seen.ended = asyncio.get_running_loop().time()
            await settle(address, seen)
        seen.near, seen.far, seen.answered = near.exchanges(), far.exchanges(), provider.answered
    seen.records = sorted(place.rglob("*.jsonl*"))
    for record in seen.records:
        report = await replay(record)
        seen.replays[record.name] = "" if report.same else str([run.divergence for run in report.runs])
    return seen


@asynccontextmanager
async def _proxy(upstream: str, place: Path, options: tuple[str, ...]) -> AsyncIterator[str]:
    """The proxy that `endstop proxy` serves with these options. Yields its URL."""
    words = ["proxy", "--upstream", upstream, "--record", str(place), *options]
    server, _ = build_server(build_parser(words).parse_args(words))
    proxy = server.new_proxy()
    await proxy.open()
    try:
        async with listening(proxy_runner(proxy)) as url:
            yield url
    finally:
        await proxy.close()


async def _send_all(near: Tap, requests: list[Sent]) -> None:
    """Send one request after the other. One that breaks off, fails there or comes too early is sent once more."""
    async with aiohttp.ClientSession(auto_decompress=False) as client:
        for sent in requests:
            status, ours = await _send(client, near.url, sent)
            if status in (0, 429) or status >= 500:
                status, ours = await _send(client, near.url, sent)
            if status != 200 or ours:
                return


async def _send(client: aiohttp.ClientSession, url: str, sent: Sent) -> tuple[int, bool]:
    """Return the status of the response, or 0 if it broke off, and whether it is the proxy's own."""
    headers = {**dict(sent.headers), "authorization": f"Bearer {KEY}"}
    async with client.request(sent.method, url + sent.path, headers=headers, data=sent.body.encode()) as response:
        ours = response.headers.get("x-endstop") in OWN
        body = b""
        try:
            async for piece in response.content.iter_any():
                body = (body + piece)[-_TAIL:]
                if sent.left and _LAST_EVENT.search(body):
                    response.close()
                    return response.status, ours
        except aiohttp.ClientError:
            return 0, ours
        return response.status, ours

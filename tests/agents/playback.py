"""Sends what an agent once sent through a real proxy to the scripted provider, without the agent."""

from __future__ import annotations

import asyncio
import re
import signal
import time
from pathlib import Path

import aiohttp

from ..console import PATIENCE, ended, endstop, started
from .agents import KEY, Agent
from .checks import own_answers
from .drive import Observation, serving, settle
from .recordings import Recording, Sent
from .scenarios import Scenario
from .scripted_provider import ScriptedProvider
from .tap import Tap

SOURCES = {"c": "c", "d": "d", "i": "i"}
"""The recording of each scenario; the others begin like a, and differ in what the provider does."""
_LAST_EVENT = re.compile(rb'(event: (response\.completed|message_stop)\n.*|data: \[DONE\]|"finishReason".*)\s+\Z')


async def play(agent: Agent, recording: Recording, scenario: Scenario, place: Path) -> Observation:
    """Send the requests of a scenario until one of them ends the agent. place: an empty folder for the records."""
    seen = Observation(scenario, exit_code=0, leaves_session=False)
    provider = ScriptedProvider(scenario)
    async with serving(provider) as url, Tap(url) as far:
        upstream = agent.setup.upstream_at(far.url)
        options = ("--upstream", upstream, "--port", "0", "--record", place, "--grace", "2", *scenario.options)
        async with started("proxy", *options) as process:
            async with asyncio.timeout(PATIENCE):
                line = (await process.stdout.readline()).decode()
            found = re.search(r"http://127\.0\.0\.1:\d+", line)
            assert found, line
            async with Tap(found[0]) as near:
                await _send_all(near, recording[SOURCES.get(scenario.name, "a")])
                seen.ended = time.monotonic()
                await settle(found[0], seen)
            process.send_signal(signal.SIGTERM)
            await ended(process)
        seen.near, seen.far, seen.answered = near.exchanges(), far.exchanges(), provider.answered
    seen.records = sorted(place.glob("*.jsonl*"))
    for record in seen.records:
        done = await endstop("replay", "--quiet", record)
        seen.replays[record.name] = "" if done.code == 0 else done.out
    return seen


async def _send_all(near: Tap, requests: list[Sent]) -> None:
    """Send one request after the other. One that breaks off, fails there or comes too early is sent once more."""
    async with aiohttp.ClientSession(auto_decompress=False) as client:
        for sent in requests:
            status = await _send(client, near.url, sent)
            if status in (0, 429) or status >= 500:
                status = await _send(client, near.url, sent)
            if status != 200 or own_answers(near.exchanges()[-1:]):
                return


async def _send(client: aiohttp.ClientSession, url: str, sent: Sent) -> int:
    """Return the status of the response, or 0 if it broke off."""
    headers = {**dict(sent.headers), "authorization": f"Bearer {KEY}"}
    async with client.request(sent.method, url + sent.path, headers=headers, data=sent.body.encode()) as response:
        body = b""
        try:
            async for piece in response.content.iter_any():
                body += piece
                if sent.left and _LAST_EVENT.search(body):
                    response.close()
                    return response.status
        except aiohttp.ClientError:
            return 0
        return response.status

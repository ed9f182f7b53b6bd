"""Readers of server-sent events, many in one process: steady ones, slow ones, and some that drop and come back.

    python sse_readers.py PLAN.json

The plan holds `url`, `token`, and `readers`: a list of [kind, run_id]. What each has seen is printed as one JSON object
once all streams have ended: who missed or doubled an event, how many markers there were, and how long a chunk took from
the provider to the reader, for the steady ones.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import uvloop

DATED = re.compile(rb'"delta":" (\d+)"')
LONGEST = 300.0
"""Seconds after which a reader gives up."""


@dataclass
class Seen:
    """What all readers have seen."""

    events: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    markers: int = 0
    resumed: int = 0
    latencies: list[float] = field(default_factory=list)


class Reader:
    """One reader of one run."""

    def __init__(self, plan: dict[str, Any], kind: str, run_id: str, seen: Seen) -> None:
        self._url = f"{plan['url']}/runs/{run_id}/events"
        self._kind = kind
        self._seen = seen
        self._last = 0
        self._over = False
        self._dice = random.Random(run_id)
        self._began = 0

    async def read(self, http: aiohttp.ClientSession) -> None:
        """To the terminal event, over as many connections as it takes."""
        while not self._over:
            headers = {"last-event-id": str(self._last)} if self._last else {}
            async with http.get(self._url, headers=headers) as response:
                if response.status != 200:
                    self._seen.wrong.append(f"{self._url}: status {response.status} after {self._last}")
                    return
                self._began = self._began or time.monotonic_ns()
                await self._take(response)
            self._seen.resumed += not self._over

    async def _take(self, response: aiohttp.ClientResponse) -> None:
        unread = b""
        until = self._dice.randrange(20, 80) if self._kind == "dropping" else 1 << 30
        while not self._over:
            if self._kind == "slow":
                await asyncio.sleep(0.25)
                data = await response.content.read(200)
            else:
                data = await response.content.readany()
            if not data:
                return
            now = time.monotonic_ns()
            *frames, unread = (unread + data).split(b"\n\n")
            for frame in frames:
                until -= self._event(frame, now)
                if until == 0:
                    return

    def _event(self, frame: bytes, now: int) -> int:
        lines = dict(line.split(b": ", 1) for line in frame.split(b"\n") if b": " in line and line[:1] != b":")
        if lines.get(b"event") == b"lagged":
            marker = json.loads(lines[b"data"])
            self._seen.markers += 1
            self._last += marker["missed"]
            return 0
        if b"id" not in lines:
            return 0
        seq = int(lines[b"id"])
        if seq != self._last + 1:
            self._seen.wrong.append(f"{self._url} ({self._kind}): event {seq} after {self._last}")
        self._last = seq
        self._seen.events[self._kind] += 1
        data = lines[b"data"]
        dated = DATED.search(data) if self._kind == "steady" else None
        if dated is not None and int(dated[1]) > self._began:  # it was not there before the reader was
            self._seen.latencies.append((now - int(dated[1])) / 1e6)
        self._over = data.startswith(b'{"type":"RUN_FINISHED"')
        return 1


async def main() -> None:
    plan = json.loads(Path(sys.argv[1]).read_text())
    seen = Seen()
    headers = {"authorization": f"Bearer {plan['token']}"} if plan["token"] else {}
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, headers=headers, read_bufsize=4096, timeout=None) as http:
        readers = [Reader(plan, kind, run_id, seen).read(http) for kind, run_id in plan["readers"]]
        print("reading", flush=True)
        async with asyncio.timeout(LONGEST):
            for done in await asyncio.gather(*readers, return_exceptions=True):
                if isinstance(done, BaseException):
                    seen.wrong.append(f"{type(done).__name__}: {done}")
    latencies = sorted(seen.latencies)
    shown = {f"p{p}": latencies[min(len(latencies) - 1, len(latencies) * p // 100)] for p in (50, 95, 99) if latencies}
    said = {"events": seen.events, "wrong": len(seen.wrong), "first_wrong": seen.wrong[:5], "markers": seen.markers}
    print(json.dumps({**said, "resumed": seen.resumed, "latency_ms": shown}), flush=True)


if __name__ == "__main__":
    uvloop.run(main())

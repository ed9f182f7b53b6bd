"""What `endstop proxy` adds to a response: 200 agents at once, beside the same without a proxy.

    python tests/benchmarks/proxy.py [--agents 200] [--requests 3] [--chunks 40] [--seconds 0.1]

A provider in a process of its own streams chunks with the time of sending in each; agents in another process read the
time of arrival. The clock is the machine's (CLOCK_MONOTONIC), so the difference is what the way took. Then the same
with records that cannot be written (a limit on the size of files), and with a provider that dies and comes back: agents
count what they did not get.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import quantiles
from time import monotonic
from typing import Any

import aiohttp
from aiohttp import web

SMALL_FILES = 4096
"""Bytes of the largest file that a proxy may write whose records are to fail."""
TOOL = {"type": "function", "function": {"name": "work", "parameters": {"type": "object"}}}


@dataclass
class Measured:
    """The times and bytes that agents saw."""

    first: list[float] = field(default_factory=list)
    chunks: list[float] = field(default_factory=list)
    whole: int = 0
    retried: int = 0
    lost: int = 0


# ---- the provider


async def provide(port: int, chunks: int, seconds: float) -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        step = len(body["messages"])
        reply = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await reply.prepare(request)
        for number in range(chunks):
            await send(reply, {"content": f"{monotonic():.6f} words of chunk {number} "})
            await asyncio.sleep(seconds)
        function = {"name": "work", "arguments": json.dumps({"step": step})}
        await send(reply, {"tool_calls": [{"index": 0, "id": f"c{step}", "type": "function", "function": function}]})
        await send(reply, {}, "tool_calls")
        await reply.write(b"data: [DONE]\n\n")
        return reply

    async def send(reply: web.StreamResponse, delta: dict[str, Any], finish: str | None = None) -> None:
        chunk = {"id": "x", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
        await reply.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")

    app = web.Application(client_max_size=2**26)
    app.router.add_post("/v1/chat/completions", handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, backlog=1024).start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    await asyncio.Event().wait()


# ---- the agents


async def run_agent(
    client: aiohttp.ClientSession, url: str, name: int, requests: int, apart: float, seen: Measured
) -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"task {name}"}]
    await asyncio.sleep(name * apart)
    for number in range(requests):
        body = {"model": "m", "messages": messages, "stream": True, "tools": [TOOL]}
        for _ in range(20):
            if await one_request(client, url, body, seen):
                break
            seen.retried += 1
            await asyncio.sleep(0.5)
        else:
            seen.lost += 1
            return
        function = {"name": "work", "arguments": json.dumps({"step": len(messages)})}
        call = {"id": f"c{len(messages)}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": "words", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": f"result {name}.{number}"})


async def one_request(client: aiohttp.ClientSession, url: str, body: dict[str, Any], seen: Measured) -> bool:
    first, chunks, done = True, [], False
    began = monotonic()
    try:
        async with client.post(f"{url}/v1/chat/completions", json=body) as reply:
            if reply.status != 200:
                return False
            async for line in reply.content:
                now = monotonic()
                if found := re.match(rb'.*"content": "(\d+\.\d+) ', line):
                    if first:
                        seen.first.append(now - began)
                    else:
                        chunks.append(now - float(found[1]))
                    first = False
                done = done or line.startswith(b"data: [DONE]")
    except aiohttp.ClientError:
        return False
    seen.chunks += chunks
    seen.whole += done
    return done


async def run_agents(url: str, agents: int, requests: int, spread: float = 0.0) -> Measured:
    seen = Measured()
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as client:
        work = [run_agent(client, url, number, requests, spread / agents, seen) for number in range(agents)]
        await asyncio.gather(*work)
    return seen


# ---- processes


def started(*command: str, limit: int | None = None) -> tuple[subprocess.Popen[str], str]:
    """A process, and the URL that its first line names."""

    def bound() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, preexec_fn=bound)
    assert process.stdout is not None
    found = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
    assert found is not None
    return process, found[0]


def started_proxy(upstream: str, records: str, limit: int | None = None) -> tuple[subprocess.Popen[str], str]:
    code = "from endstop.cli.main import main; import sys; sys.exit(main())"
    options = ("proxy", "--upstream", f"{upstream}/v1", "--port", "0", "--record", records, "--idle", "5")
    return started(sys.executable, "-c", code, *options, limit=limit)


def stop(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(60)
    process.kill()
    process.wait()


def cpu_seconds(process: subprocess.Popen[str]) -> float:
    with open(f"/proc/{process.pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(process: subprocess.Popen[str]) -> float:
    with open(f"/proc/{process.pid}/status") as file:
        return int(re.search(r"VmRSS:\s+(\d+)", file.read())[1]) / 1024  # type: ignore[index]


def shown(name: str, seen: Measured) -> str:
    def percent(values: list[float]) -> str:
        cuts = quantiles(values, n=100)
        return f"p50 {cuts[49] * 1000:6.1f} ms  p99 {cuts[98] * 1000:6.1f} ms"

    counted = f"{seen.whole} responses, {seen.retried} tried again, {seen.lost} agents lost"
    return f"{name:24} first byte {percent(seen.first)}   chunk {percent(seen.chunks)}   {counted}"


async def measure(args: argparse.Namespace) -> None:
    def provider(port: int = 0) -> tuple[subprocess.Popen[str], str]:
        own = (sys.executable, __file__, "--provide", str(port))
        return started(*own, "--chunks", str(args.chunks), "--seconds", str(args.seconds))

    upstream, url = provider()
    load = (args.agents, args.requests, args.chunks * args.seconds)
    with tempfile.TemporaryDirectory() as folder:
        await run_agents(url, 20, 1)
        print(shown("without a proxy", await run_agents(url, *load)), flush=True)
        proxy, own = started_proxy(url, f"{folder}/records")
        await run_agents(own, 20, 1)
        before, memory = cpu_seconds(proxy), [memory_mb(proxy)]
        for number in range(args.rounds):
            seen = await run_agents(own, *load)
            memory.append(memory_mb(proxy))
            print(shown(f"proxy, round {number + 1}", seen), flush=True)
        used = (cpu_seconds(proxy) - before) / (args.rounds * args.agents * args.requests) * 1000
        print(f"CPU {used:.1f} ms a request of {args.chunks} chunks; MB: {', '.join(f'{one:.0f}' for one in memory)}")
        print(f"records: {len(os.listdir(f'{folder}/records'))}", flush=True)

        async def die_and_come_back() -> subprocess.Popen[str]:
            await asyncio.sleep(args.chunks * args.seconds * 0.5)
            upstream.kill()
            upstream.wait()
            await asyncio.sleep(2)
            return provider(int(url.rpartition(":")[2]))[0]

        seen, upstream = await asyncio.gather(run_agents(own, *load), die_and_come_back())
        print(shown("provider dies, returns", seen), flush=True)
        stop(proxy)
        proxy, own = started_proxy(url, f"{folder}/small", SMALL_FILES)
        print(shown("records cannot be written", await run_agents(own, *load)), flush=True)
        stop(proxy)
    upstream.kill()
    upstream.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agents", type=int, default=200)
    parser.add_argument("--requests", type=int, default=3)
    parser.add_argument("--chunks", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=0.1)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--provide", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    asyncio.run(measure(args) if args.provide is None else provide(args.provide, args.chunks, args.seconds))


if __name__ == "__main__":
    main()

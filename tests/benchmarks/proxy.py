"""What `endstop proxy` adds to a response, and what agents notice of faults: 200 agents at once.

    python tests/benchmarks/proxy.py [FOLDER] [--rounds 4] [--agents 200] [--requests 3] [--seconds 0.1]

FOLDER holds recorded streams of chat completions (`*/*.chunks.txt`, an event a line; default ../shared/data/streams);
without it the traffic is made. A provider in a process of its own sends the events in turn, each with the time of
sending in a comment before it; agents in another process read the time of arrival. The clock is the machine's
(CLOCK_MONOTONIC), so the difference is what the way took. Each round is run without and with the proxy, in turns, and
what the proxy adds is the median of the rounds' differences, so that a machine that is busy for a while counts on both
sides. Then come the faults: a provider that dies and comes back, a policy that raises, and a disk without room for
records (a tmpfs of 256 KB where one can be mounted, else a limit on the size of files). Agents count what they did not
get. The table for docs/guides/proxy.md is printed at the end.
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
from pathlib import Path
from statistics import median, quantiles
from time import monotonic
from typing import Any

import aiohttp
from aiohttp import web

STREAMS = Path(__file__).resolve().parents[3] / "shared" / "data" / "streams"
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


def made(chunks: int) -> list[bytes]:
    """The events of a made response."""
    deltas: list[dict[str, Any]] = [{"content": f"words of chunk {number} "} for number in range(chunks)]
    function = {"name": "work", "arguments": "{}"}
    deltas.append({"tool_calls": [{"index": 0, "id": "c", "type": "function", "function": function}]})
    ends = [{"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}]
    chunked = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    return [json.dumps({"id": "x", "model": "m", **one}).encode() for one in [*chunked, *ends]]


def recorded(folder: Path | None, chunks: int) -> list[list[bytes]]:
    """The streams of chat completions in a folder, each up to this many events; a made one if there are none."""
    found = []
    for path in sorted(folder.glob("*/*.chunks.txt")) if folder is not None else []:
        events = [line.strip().encode() for line in path.read_text().splitlines() if line.strip()]
        try:
            decoded = [json.loads(event) for event in events]
        except ValueError:
            continue
        whole = all(isinstance(one, dict) and isinstance(one.get("choices"), list) for one in decoded)
        if whole and any(choice.get("finish_reason") for one in decoded for choice in one["choices"]):
            found.append([*events[: chunks - 5], *events[-5:]] if len(events) > chunks else events)
    return found or [made(chunks)]


async def provide(port: int, folder: Path | None, chunks: int, seconds: float) -> None:
    streams = recorded(folder, chunks)

    async def handle(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        reply = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await reply.prepare(request)
        for event in streams[(len(body["messages"]) + len(body["messages"][0]["content"])) % len(streams)]:
            await reply.write(b": %.6f\ndata: %s\n\n" % (monotonic(), event))
            await asyncio.sleep(seconds)
        await reply.write(b"data: [DONE]\n\n")
        return reply

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
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"task {name} " + "." * (name % 17)}]
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
                if found := re.match(rb": (\d+\.\d+)$", line.rstrip()):
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


FAILING_POLICY = (
    "import endstop.follow.follower as f\ndef fail(*_, **__): raise RuntimeError('broken')\nf.decide = fail\n"
)
FULL_DISK = 'mount -t tmpfs -o size=256k tmpfs "$0" && exec "$@"'
"""Run in a namespace of mounts of its own: a disk of 256 KB at a folder, and a command with it."""


def started_proxy(
    upstream: str, records: str, *, before: str = "", full: bool = False
) -> tuple[subprocess.Popen[str], str]:
    """before: code that runs first. full: whether the disk for the records has no room."""
    os.makedirs(records, exist_ok=True)
    code = f"{before}from endstop.cli.main import main; import sys; sys.exit(main())"
    options = ("proxy", "--upstream", f"{upstream}/v1", "--port", "0", "--record", records, "--idle", "5")
    command = (sys.executable, "-c", code, *options)
    space = ("unshare", "--map-root-user", "--mount", "sh", "-c", FULL_DISK, records)
    if full and _can_mount(space):
        return started(*space, *command)
    return started(*command, limit=SMALL_FILES if full else None)


def _can_mount(space: tuple[str, ...]) -> bool:
    try:
        return subprocess.run([*space, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


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


Figures = dict[str, float]


def figures(seen: Measured) -> Figures:
    """Percentiles in milliseconds."""
    found = {}
    for name, values in (("first byte", seen.first), ("chunk", seen.chunks)):
        cuts = quantiles(values, n=100)
        found |= {f"{name} p50": cuts[49] * 1000, f"{name} p99": cuts[98] * 1000}
    return found


def table(without: list[Figures], with_proxy: list[Figures]) -> str:
    """The medians over all rounds, and of the difference within a round."""
    lines = ["| ms | without | with the proxy | added | added, each round |", "| --- | ---: | ---: | ---: | --- |"]
    for name in without[0]:
        before, after = [one[name] for one in without], [one[name] for one in with_proxy]
        added = [b - a for a, b in zip(before, after, strict=True)]
        each = ", ".join(f"{one:.1f}" for one in added)
        lines.append(f"| {name} | {median(before):.1f} | {median(after):.1f} | {median(added):.1f} | {each} |")
    return "\n".join(lines)


async def measure(args: argparse.Namespace) -> None:
    def provider(port: int = 0) -> tuple[subprocess.Popen[str], str]:
        folder = [str(args.folder)] if args.folder is not None and args.folder.is_dir() else []
        own = (sys.executable, __file__, *folder, "--provide", str(port))
        return started(*own, "--chunks", str(args.chunks), "--seconds", str(args.seconds))

    print(f"traffic: {len(recorded(args.folder, args.chunks))} streams; load {os.getloadavg()[0]:.1f}", flush=True)
    upstream, url = provider()
    load = (args.agents, args.requests, args.chunks * args.seconds)
    with tempfile.TemporaryDirectory() as folder:
        proxy, own = started_proxy(url, f"{folder}/records")
        await run_agents(url, 20, 1)
        await run_agents(own, 20, 1)
        before, memory = cpu_seconds(proxy), [memory_mb(proxy)]
        found: dict[str, list[Figures]] = {url: [], own: []}
        for number in range(args.rounds):
            for where in (url, own) if number % 2 else (own, url):
                seen = await run_agents(where, *load)
                found[where].append(figures(seen))
                print(shown(f"round {number + 1}, {'proxy' if where == own else 'without'}", seen), flush=True)
            memory.append(memory_mb(proxy))
        used = (cpu_seconds(proxy) - before) / (args.rounds * args.agents * args.requests) * 1000
        print(f"CPU {used:.1f} ms a request; MB: {', '.join(f'{one:.0f}' for one in memory)}")
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
        for name, fault in (("policy raises", {"before": FAILING_POLICY}), ("disk full", {"full": True})):
            proxy, own = started_proxy(url, f"{folder}/{name}", **fault)  # type: ignore[arg-type]
            print(shown(name, await run_agents(own, *load)), flush=True)
            stop(proxy)
        print(table(found[url], next(one for where, one in found.items() if where != url)))
    upstream.kill()
    upstream.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=STREAMS)
    parser.add_argument("--agents", type=int, default=200)
    parser.add_argument("--requests", type=int, default=3)
    parser.add_argument("--chunks", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=0.1)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--provide", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    asyncio.run(
        measure(args) if args.provide is None else provide(args.provide, args.folder, args.chunks, args.seconds)
    )


if __name__ == "__main__":
    main()

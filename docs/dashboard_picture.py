"""Draws the panels of `docs/operations/dashboard.json` from a real scrape: `docs/pictures/dashboard.svg`.

    python docs/dashboard_picture.py postgresql://postgres@127.0.0.1:5432/scratch      # an empty database; 2 minutes

A Prometheus server (Debian's package `prometheus`) scrapes, on loopback, an `endstop serve` that only takes requests,
two workers, and a proxy. The provider is a small server here that is away for a while; one worker is killed, and comes
back. The picture shows what the panels look like, and nothing about speed. `make docs` does not run this.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from html import escape
from pathlib import Path
from socket import socket
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import aiohttp
from aiohttp import web

DOCS = Path(__file__).parent
PICTURE = DOCS / "pictures" / "dashboard.svg"
SECONDS = 120
INTERVAL = "20s"
"""Window of rates, in place of Grafana's `$__rate_interval`."""
AWAY = (70, 90)
"""The seconds in which the provider is away."""
KILLED, BACK = 35, 55
"""The seconds at which a worker is killed, and another one started."""

WORKER = """
import asyncio, sys, uvicorn
from endstop import Engine, tool
from endstop.durable.dbos import Dbos
from endstop.providers import OpenAICompatible, Retry
from endstop.service.service import Service
from endstop.web import web
url, base, port = sys.argv[1:]

@tool
async def add(a: int, b: int) -> int:
    "Add two numbers."
    await asyncio.sleep(0.05 * a)
    return a + b

model = Retry(OpenAICompatible("mock", api_base=base), times=2)
service = Service(Engine(model, tools=[add]), store=url, queue=Dbos(url), max_running=4, kind="worker")
uvicorn.run(web(service), port=int(port), log_level="warning")
"""


class Provider:
    """A provider that streams a few calls of `add`, and then ends the task."""

    def __init__(self) -> None:
        self.away = False

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer a request."""
        body = await request.json()
        if self.away or random.random() < 0.03:
            return web.json_response({"error": {"message": "overloaded"}}, status=503)
        steps = sum(message["role"] == "tool" for message in body["messages"])
        name, arguments = ("add", {"a": steps, "b": 1}) if steps < 4 else ("finish_task", {"summary": "It is done."})
        reply = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await reply.prepare(request)
        await asyncio.sleep(random.lognormvariate(-2, 0.7))
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"index": 0, "id": f"call_{steps}", "type": "function", "function": function}
        usage = {"prompt_tokens": 400 + 60 * steps, "completion_tokens": 40, "total_tokens": 440 + 60 * steps}
        for choice, more in (
            ({"delta": {"role": "assistant", "content": "I add. "}, "finish_reason": None}, {}),
            ({"delta": {"tool_calls": [call]}, "finish_reason": None}, {}),
            ({"delta": {}, "finish_reason": "tool_calls"}, {"usage": usage}),
        ):
            chunk = {"id": "x", "object": "chat.completion.chunk", "model": "mock", "choices": [{"index": 0, **choice}]}
            with suppress(ConnectionError):  # the response is cut
                await reply.write(b"data: " + json.dumps({**chunk, **more}).encode() + b"\n\n")
            await asyncio.sleep(random.uniform(0, 0.1))
        return reply


def free_ports(count: int) -> list[int]:
    """Return ports that nothing listens on."""
    sockets = [socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


@asynccontextmanager
async def process(*command: str, log: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Have a process running, and end it after the block."""
    with log.open("ab") as out:
        started = await asyncio.create_subprocess_exec(*command, stdout=out, stderr=out)
    try:
        yield started
    finally:
        if started.returncode is None:
            started.terminate()
            try:
                await asyncio.wait_for(started.wait(), 20)
            except TimeoutError:
                started.kill()


async def agent(client: aiohttp.ClientSession, proxy: str) -> None:
    """Be an agent behind the proxy: a session every second."""
    while True:
        messages: list[dict[str, Any]] = [{"role": "user", "content": f"Add numbers, {random.random()}"}]
        tools = [{"type": "function", "function": {"name": name}} for name in ("add", "finish_task")]
        for number in range(6):
            body = {"model": "mock", "stream": True, "messages": messages, "tools": tools}
            async with client.post(f"{proxy}/chat/completions", json=body) as reply:
                await reply.read()
                if reply.status != 200:
                    break
            function = {"name": "add", "arguments": json.dumps({"a": number, "b": 1})}
            call = {"id": f"call_{number}", "type": "function", "function": function}
            messages += [{"role": "assistant", "content": "I add. ", "tool_calls": [call]}]
            messages += [{"role": "tool", "tool_call_id": f"call_{number}", "content": str(number + 1)}]
        await asyncio.sleep(1)


async def customers(client: aiohttp.ClientSession, server: str) -> None:
    """Start sessions: two a second, for a while ten."""
    began = time.monotonic()
    while True:
        async with client.post(f"{server}/sessions", json={"prompt": "Add some numbers"}) as reply:
            await reply.read()
        flood = 20 < time.monotonic() - began < 32
        await asyncio.sleep(random.expovariate(10 if flood else 2))


async def scrape(database: str, folder: Path) -> dict[str, Any]:
    """Run everything for `SECONDS`, and return the answers to the queries of each panel, by query."""
    upstream, server, first, second, proxy, prometheus = free_ports(6)
    provider = Provider()
    app = web.Application()
    app.router.add_post("/v1/chat/completions", provider.handle)
    base, log = f"http://127.0.0.1:{upstream}/v1", folder / "log"
    targets = [f"127.0.0.1:{port}" for port in (server, first, second)]
    jobs = [
        {"job_name": "endstop", "static_configs": [{"targets": targets}]},
        {"job_name": "proxy", "metrics_path": "/endstop/metrics",
         "static_configs": [{"targets": [f"127.0.0.1:{proxy}"]}]},
    ]  # fmt: skip
    config = {"global": {"scrape_interval": "2s", "scrape_timeout": "2s"}, "scrape_configs": jobs}
    (folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML

    def worker(port: int) -> Any:
        return process(sys.executable, "-c", WORKER, database, base, str(port), log=log)

    endstop = (sys.executable, "-c", "from endstop.cli.console_script import main; raise SystemExit(main())")
    async with AsyncExitStack() as stack:
        runner = web.AppRunner(app)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, "127.0.0.1", upstream).start()
        serve = (
            "serve",
            "--port",
            str(server),
            "--store",
            database,
            "--rate",
            "0",
            "--workers",
            "0",
            "--model",
            "mock",
        )
        await stack.enter_async_context(process(*endstop, *serve, "--api-base", base, log=log))
        limits = ("--budget", "input_tokens=200000", "--key-budget", "output_tokens=20000")
        served = ("proxy", "--port", str(proxy), "--upstream", base, "--record", str(folder / "records"), *limits)
        await stack.enter_async_context(process(*endstop, *served, log=log))
        client = await stack.enter_async_context(aiohttp.ClientSession())
        await _answers(client, f"http://127.0.0.1:{server}/health")
        await _answers(client, f"http://127.0.0.1:{proxy}/endstop/health")
        await stack.enter_async_context(worker(first))
        dying = await stack.enter_async_context(worker(second))
        for port in (first, second):
            await _answers(client, f"http://127.0.0.1:{port}/health")
        options = (f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{prometheus}")
        config_file = f"--config.file={folder}/prometheus.yml"
        await stack.enter_async_context(process("prometheus", config_file, *options, log=log))
        await _answers(client, f"http://127.0.0.1:{prometheus}/-/ready")
        at = f"http://127.0.0.1:{proxy}"
        tasks = [
            asyncio.create_task(work) for work in (customers(client, f"http://127.0.0.1:{server}"), agent(client, at))
        ]
        began = time.time()
        for second_of, act in (
            (KILLED, dying.kill),
            (BACK, None),
            (AWAY[0], lambda: setattr(provider, "away", True)),
            (AWAY[1], lambda: setattr(provider, "away", False)),
            (SECONDS, lambda: None),
        ):
            await asyncio.sleep(max(0.0, began + second_of - time.time()))
            if act is None:
                await stack.enter_async_context(worker(second))
            else:
                act()
        for task in tasks:
            task.cancel()
        found = {}
        for query in {query for panel in panels() for query, _ in panel.queries}:
            asked = query.replace("$__rate_interval", INTERVAL)
            span = {"query": asked, "start": str(began), "end": str(began + SECONDS), "step": "3"}
            async with client.get(f"http://127.0.0.1:{prometheus}/api/v1/query_range", params=span) as reply:
                found[query] = (await reply.json())["data"]["result"]
        return found


async def _answers(client: aiohttp.ClientSession, url: str) -> None:
    async with asyncio.timeout(90):
        while True:
            try:
                async with client.get(url) as reply:
                    if reply.status == 200:
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.2)


class Panel(NamedTuple):
    """A panel of the dashboard."""

    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    """Each query with the legend of its series."""


def panels() -> list[Panel]:
    """Return the panels of the dashboard, without its headings."""
    dashboard = json.loads((DOCS / "operations" / "dashboard.json").read_text(encoding="utf-8"))
    return [
        Panel(
            panel["title"],
            panel["fieldConfig"]["defaults"]["unit"],
            tuple((target["expr"], target["legendFormat"]) for target in panel["targets"]),
        )
        for panel in dashboard["panels"]
        if panel["type"] != "row"
    ]


# ---- the picture

WIDE, HIGH, ACROSS, GAP, HEAD, LEGEND = 300, 150, 4, 12, 24, 34
COLOURS = ("#3565b0", "#c0392b", "#2e8b57", "#b8860b", "#7d3c98", "#5a6478", "#008b8b", "#d2691e")
SIGNS = {"s": " s", "reqps": "/s", "ops": "/s", "currencyUSD": " $", "percentunit": ""}


def drawn(found: dict[str, Any]) -> str:
    """Return the picture of the answers."""
    shown = panels()
    rows = -(-len(shown) // ACROSS)
    width, height = ACROSS * (WIDE + GAP) + GAP, rows * (HIGH + GAP) + GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">',
        "<style>text{fill:#1c2330;font-size:11px}.t{font-weight:600;font-size:12px}.s{fill:#5a6478;font-size:9px}</style>",
        f'<rect width="{width}" height="{height}" fill="#eef1f6"/>',
    ]
    for number, panel in enumerate(shown):
        x, y = GAP + number % ACROSS * (WIDE + GAP), GAP + number // ACROSS * (HIGH + GAP)
        parts += [f'<g transform="translate({x},{y})">', *_panel(panel, found), "</g>"]
    return "\n".join([*parts, "</svg>", ""])


def _panel(panel: Panel, found: dict[str, Any]) -> Iterator[str]:
    yield f'<rect width="{WIDE}" height="{HIGH}" rx="4" fill="#fff"/>'
    yield f'<text class="t" x="8" y="16">{escape(panel.title)}</text>'
    series = [
        (_legend(legend, one["metric"]), [(float(t), float(v)) for t, v in one["values"] if v not in ("NaN", "+Inf")])
        for query, legend in panel.queries
        for one in found[query]
    ]
    series = [one for one in series if one[1]]
    if not series:
        yield f'<text class="s" x="8" y="{HIGH / 2}">none</text>'
        return
    top = max(value for _, values in series for _, value in values) or 1.0
    began = min(one["values"][0][0] for answers in found.values() for one in answers)
    bottom, left = HIGH - LEGEND, 8
    yield f'<text class="s" x="{WIDE - 8}" y="16" text-anchor="end">up to {top:.3g}{SIGNS.get(panel.unit, "")}</text>'
    yield f'<path d="M{left} {bottom}H{WIDE - 8}" stroke="#d5dce8"/>'
    for number, (_, values) in enumerate(series):
        points = " ".join(
            f"{left + (t - began) / SECONDS * (WIDE - 16):.0f},{bottom - v / top * (bottom - HEAD - 4):.0f}"
            for t, v in values
        )
        colour = COLOURS[number % len(COLOURS)]
        yield f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
    x, y = left, bottom + 13
    for number, (name, _) in enumerate(series):
        taken = 16 + 5 * len(name)
        if x + taken > WIDE and x > left:
            x, y = left, y + 12
        if y > HIGH:
            break
        yield f'<circle cx="{x + 3}" cy="{y - 3}" r="3" fill="{COLOURS[number % len(COLOURS)]}"/>'
        yield f'<text class="s" x="{x + 9}" y="{y}">{escape(name)}</text>'
        x += taken


def _legend(legend: str, labels: dict[str, str]) -> str:
    for name, value in labels.items():
        legend = legend.replace(f"{{{{{name}}}}}", value)
    return legend


async def main() -> None:
    """Scrape, and draw."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with TemporaryDirectory() as folder:
        try:
            found = await scrape(sys.argv[1], Path(folder))
        except BaseException:
            print(Path(folder, "log").read_text(errors="replace")[-3000:], file=sys.stderr)
            raise
    PICTURE.write_text(drawn(found), encoding="utf-8")
    print(f"wrote {PICTURE}")


if __name__ == "__main__":
    asyncio.run(main())

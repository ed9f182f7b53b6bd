"""Providers that never stop, agents that resend their history, and a proxy between them, over HTTP on loopback."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from endstop.decision import POLICIES, Policy
from endstop.process.tokens import Tokens
from endstop.providers.clock import Clock
from endstop.providers.prices import Prices
from endstop.proxy import Proxy, ProxyOptions
from endstop.proxy.day_budgets import DayBudgets
from endstop.proxy.proxy_server import RunFollowers, proxy_runner
from endstop.proxy.proxy_tracer import ProxyTracer
from endstop.proxy.statistics_page import Statistics
from endstop.until import Until

AFTER = 50
"""Chunks that the provider sends after a completion call."""


class Provider:
    """Calls `work`, and after two results `finish_task` if it is offered, and then goes on.

    same: always the same call.
    """

    def __init__(self, *, same: bool = False) -> None:
        self.same = same
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.sent_after = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.headers.append(dict(request.headers))
        if not request.path.endswith("/chat/completions"):
            return web.Response(body=await request.read() or b"{}", headers={"x-seen": request.path_qs})
        body = await request.json()
        self.requests.append(body)
        results = [message for message in body["messages"] if message["role"] == "tool"]
        offered = [tool["function"]["name"] for tool in body.get("tools", [])]
        done = len(results) >= 2 and "finish_task" in offered and not self.same
        name, arguments = ("finish_task", {"summary": "port is 8080"}) if done else ("work", {"n": len(results)})
        if self.same:
            arguments = {"n": 1}
        call = {"index": 0, "id": f"c{len(self.requests)}", "type": "function"}
        function = {"name": name, "arguments": json.dumps(arguments)}
        if not body.get("stream"):
            message = {"role": "assistant", "content": None, "tool_calls": [{**call, "function": function}]}
            choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
            return web.json_response({"id": "x", "model": "m", "choices": [choice]})
        reply = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await reply.prepare(request)

        async def send(delta: dict[str, Any], finish: str | None = None) -> None:
            chunk = {"id": "x", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
            await reply.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")

        await send({"role": "assistant", "tool_calls": [{**call, "function": {"name": name, "arguments": ""}}]})
        for piece in (function["arguments"][:7], function["arguments"][7:]):
            await send({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
        for _ in range(AFTER if done else 0):
            await send({"content": "and now I check again "})
            self.sent_after += 1
        await send({}, "tool_calls")
        await reply.write(b"data: [DONE]\n\n")
        return reply


@asynccontextmanager
async def serving(handler: Callable[[web.Request], Any]) -> AsyncIterator[str]:
    """A server on loopback. Yields its URL."""
    app = web.Application(client_max_size=2**28)
    app.router.add_route("*", "/{path:.*}", handler)
    async with listening(web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)) as url:
        yield url


@asynccontextmanager
async def listening(runner: web.AppRunner) -> AsyncIterator[str]:
    """What a runner serves, on loopback. Yields its URL."""
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def proxied(
    provider: Any,
    folder: Path,
    *,
    policy: Policy = POLICIES["agent"],
    until: Until | None = None,
    workspace: str = ".",
    **options: Any,
) -> AsyncIterator[tuple[str, aiohttp.ClientSession, Proxy]]:
    """The URL of a proxy before the provider, and a client."""

    statistics = Statistics()
    followers = RunFollowers(
        policy=policy,
        prices=Prices(),
        completion=("finish_task",),
        folder=folder,
        on_event=statistics.take,
        until=until,
        workspace=workspace,
    )
    async with (
        serving(provider.handle) as upstream,
        aiohttp.ClientSession() as client,
        proxy_before(upstream, followers, statistics=statistics, **options) as (url, proxy),
    ):
        yield url, client, proxy


@asynccontextmanager
async def proxy_before(
    upstream: str,
    followers: RunFollowers,
    *,
    tokens: Tokens | None = None,
    statistics: Statistics | None = None,
    budgets: DayBudgets | None = None,
    tracer_provider: Any = None,
    clock: Clock | None = None,
    **options: Any,
) -> AsyncIterator[tuple[str, Proxy]]:
    """A proxy before this URL, and its own."""
    proxy = Proxy(
        ProxyOptions(upstream=upstream, **options),
        followers.open,
        tokens=tokens,
        statistics=statistics,
        budgets=budgets,
        tracer=None if tracer_provider is None else ProxyTracer(upstream, tracer_provider),
        clock=clock,
        open_check=None if getattr(followers, "until", None) is None else followers.open_check,
    )
    await proxy.open()
    try:
        async with listening(proxy_runner(proxy)) as url:
            yield url, proxy
    finally:
        await proxy.close()


def tool(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}


async def said(reply: aiohttp.ClientResponse, streams: bool) -> dict[str, Any]:
    """The assistant's message of a reply."""
    if not streams:
        return (await reply.json())["choices"][0]["message"]
    text, calls = "", {}
    finish = None
    async for line in reply.content:
        if not line.startswith(b"data: {"):
            continue
        choice = json.loads(line[6:])["choices"][0]
        finish = choice["finish_reason"] or finish
        text += choice["delta"].get("content") or ""
        for piece in choice["delta"].get("tool_calls", []):
            empty = {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
            call = calls.setdefault(piece["index"], empty)
            call["id"] = piece.get("id", call["id"])
            for part in ("name", "arguments"):
                call["function"][part] += piece["function"].get(part, "")
    assert finish is not None
    return {"role": "assistant", "content": text, **({"tool_calls": list(calls.values())} if calls else {})}


async def run_agent(
    url: str, client: aiohttp.ClientSession, *, streams: bool, prompt: str = "go", most: int = 12
) -> tuple[int, int, str, str | None]:
    """An agent whose rule is "no calls: end". Returns requests, status, what it ended with, and the proxy's mark."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": prompt}]
    for number in range(1, most + 1):
        body = {"model": "m", "messages": messages, "stream": streams, "tools": [tool("work"), tool("finish_task")]}
        key = {"authorization": "Bearer sk-1"}
        async with client.post(f"{url}/v1/chat/completions", json=body, headers=key) as reply:
            if reply.status != 200:
                return number, reply.status, (await reply.json())["error"]["code"], reply.headers.get("x-endstop")
            message = await said(reply, streams)
            mark = reply.headers.get("x-endstop")
        messages.append(message)
        if "tool_calls" not in message:
            return number, 200, message["content"], mark
        messages += [{"role": "tool", "tool_call_id": call["id"], "content": "ok"} for call in message["tool_calls"]]
    return most, 200, "went on", None

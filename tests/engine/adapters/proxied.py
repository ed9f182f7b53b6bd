"""The proxy in front of a model on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

from aiohttp import web
from endstop.decision import Policy
from endstop.follow import Follower
from endstop.proxy import Proxy, ProxyOptions


@contextmanager
def proxied(upstream: str, completion: tuple[str, ...], policy: Policy | str = "agent") -> Iterator[str]:
    """The URL of a proxy in front of a model, in a thread of its own. completion: names of the tools that complete."""
    address, opened, leave = [0], Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        options = ProxyOptions(upstream=upstream.removesuffix("/v1"))
        proxy = Proxy(options, lambda agent: Follower(policy, completion=completion, speaks=False, closes=True))
        await proxy.open()
        app = web.Application(client_max_size=2**28)
        app.router.add_route("*", "/{path:.*}", proxy.handle)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        address[0] = runner.addresses[0][1]
        opened.set()
        await leave.wait()
        await runner.cleanup()
        await proxy.close()

    thread = Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    opened.wait(10)
    try:
        yield f"http://127.0.0.1:{address[0]}/v1"
    finally:
        loop.call_soon_threadsafe(leave.set)
        thread.join(10)
        loop.close()

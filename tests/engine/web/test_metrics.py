"""`GET /metrics` of a server: the queue of the whole store, and requests by route."""

from __future__ import annotations

import asyncio

from endstop import Engine
from endstop.providers import Scripted
from endstop.service.service import Service

from ...prometheus_format import Exposition, read
from ..service.kept_jobs import Queue
from ..temporary_store import TemporaryStore
from .site import Site, site

WAITING = 260


async def shown(at: Site) -> Exposition:
    reply = await at.client.get("/metrics")
    assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return read(reply.text)


async def test_260_waiting_sessions_are_260() -> None:
    desk = Service(Engine(Scripted()), store=TemporaryStore(), queue=Queue(), works=False, grace=0, kind="serve")
    async with site(desk) as at:
        await asyncio.gather(*(desk.start(f"Wait {number}") for number in range(WAITING)))
        seen = await shown(at)
    assert seen.by("endstop_sessions", "status") == {
        "queued": WAITING, "running": 0, "awaiting_input": 0, "interrupted": 0,
    }  # fmt: skip
    assert seen.value("endstop_oldest_queued_seconds") < 60
    assert seen.value("endstop_running_sessions") == 0
    assert seen.by("endstop_processes", "kind") == {"serve": 1}
    assert seen.by("endstop_lease_age_seconds", "kind")["serve"] < 60


async def test_requests_are_counted_by_route_and_status_never_by_path() -> None:
    async with site() as at:
        session = await at.start()
        await at.outcome(session["run_id"])
        async with at.stream(f"/runs/{session['run_id']}/events") as events:
            await events.all()
        for path in ("/sessions/nobody", "/sessions/somebody", "/no/such/path", "/page/no.js"):
            assert (await at.client.get(path)).status_code == 404
        assert (await at.client.request("TRACE", "/sessions")).status_code == 405
        await at.client.get("/")
        seen = await shown(at)

    def count(method: str, route: str, status: int) -> float:
        return seen.value("endstop_http_requests_total", method=method, route=route, status=str(status))

    assert count("POST", "/sessions", 201) == 1
    assert count("GET", "/sessions/{session_id}", 404) == 2
    assert count("GET", "/runs/{run_id}/events", 200) == 1
    assert count("GET", "other", 404) == 1
    assert count("GET", "/", 404) == count("GET", "/", 200) == 1  # the page's files count with it
    assert count("other", "/sessions", 405) == 1
    assert seen.value("endstop_http_response_seconds_count", route="/sessions/{session_id}") == 2
    assert seen.value("endstop_runs_ended_total", status="completed", reason="completed") == 1
    text = " ".join(str(labels) for _, labels in seen.samples)
    assert session["id"] not in text
    assert session["run_id"] not in text

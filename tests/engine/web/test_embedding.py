"""Inside another app: mounted anywhere, one lifespan for both, and the engine for endpoints of the app's own."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Annotated, Any

import httpx
import pytest
from endstop import Engine
from endstop.decision import WrongUse
from endstop.providers import Scripted
from endstop.service import Service, ServiceUnavailable
from endstop.testing import settle
from endstop.web import WebLimits, engine_of, service_of, web
from endstop.web.app import stop_on_signals
from fastapi import Depends, FastAPI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount

from ...captured_logs import capture_logs
from ..temporary_store import TemporaryStore
from .site import by_prompt, client_at, done, service_with, serving

FREE = WebLimits(requests_per_second=None)


def client_of(app: Any, **state: Any) -> httpx.AsyncClient:
    """A client that asks the app without a network. `state`: what its lifespan would yield."""

    async def with_state(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "state": dict(state)}, receive, send)

    return client_at("http://localhost", transport=httpx.ASGITransport(with_state))


@pytest.mark.parametrize("prefix", ["/agent", "/a/b/c", ""])
@pytest.mark.parametrize("outer", [Starlette, FastAPI])
async def test_it_is_mounted_anywhere_in_three_lines(prefix: str, outer: type[Starlette]) -> None:
    service = service_with(by_prompt({}))
    app = outer(
        lifespan=service.lifespan, **({"openapi_url": None} if outer is FastAPI else {})
    )  # its own is elsewhere
    app.mount(prefix, web(service, limits=FREE))
    async with app.router.lifespan_context(app), serving(app) as (port, _):
        base = f"http://127.0.0.1:{port}{prefix}"
        async with client_at(base) as client:
            started = await client.post("/sessions", json={"prompt": "Hi"})
            assert started.status_code == 201
            at = httpx.URL(f"{base}/sessions").join(started.headers["location"])
            assert (await client.get(at)).json()["id"] == started.json()["id"]
            assert (await client.get("/openapi.json")).json()["servers"] == [{"url": prefix or "/"}]
            events = await client.get(f"/runs/{started.json()['run_id']}/events")
            assert '"type":"RUN_FINISHED"' in events.text
            page = await client.get("/")
            assert page.headers["content-type"].startswith("text/html")
            assert 'src="/' not in page.text
            assert 'href="/' not in page.text


async def test_served_by_itself_it_opens_the_service() -> None:
    service = service_with(Scripted())
    app = web(service)
    async with app.router.lifespan_context(app):
        assert service.is_open
    assert not service.is_open


async def test_if_nobody_opened_the_service_that_is_told() -> None:
    service = service_with(Scripted())
    app = Starlette(routes=[Mount("/agent", web(service))])
    async with client_of(app) as client:
        read = await client.get("/agent/sessions")
        started = await client.post("/agent/sessions", json={"prompt": "x"})
        for response in (read, started):
            assert (response.status_code, response.json()["code"]) == (503, "not_open")
            assert "lifespan=service.lifespan" in response.json()["detail"]
        assert (await client.get("/agent/health")).status_code == 503


async def test_after_it_has_closed_it_says_that_it_has_stopped() -> None:
    service = service_with(Scripted())
    async with service, client_of(web(service, signals=False)) as client:
        assert (await client.get("/sessions")).status_code == 200
    async with client_of(web(service, signals=False)) as client:
        response = await client.get("/sessions")
        assert (response.status_code, response.json()["code"]) == (503, "stopping")


async def test_endpoints_of_the_apps_own_get_engine_and_service() -> None:
    service = service_with(Scripted([done("One.")], [done("Two.")]))
    app = FastAPI()

    @app.get("/ask")
    async def ask(engine: Annotated[Engine, Depends(engine_of)]) -> str:
        return (await engine.run("Hi")).answer

    @app.get("/start")
    async def start(inner: Annotated[Service, Depends(service_of)]) -> str:
        session = await inner.start("Hi")
        outcome = await inner.outcome(session.run_id or "", wait=20)
        return outcome.answer if outcome else ""

    async with service.lifespan(app) as state, client_of(app, **state) as client:
        assert (await client.get("/ask")).json() == "One."
        assert (await client.get("/start")).json() == "Two."


def test_without_the_lifespan_or_an_engine_they_get_an_error_that_says_so() -> None:
    with pytest.raises(WrongUse, match="lifespan"):
        service_of(Request({"type": "http", "state": {}}))
    with pytest.raises(ServiceUnavailable):
        engine_of(Request({"type": "http", "state": {"endstop": Service({}, store=TemporaryStore())}}))


async def test_each_request_is_a_line_in_the_log_without_its_query() -> None:
    service = service_with(Scripted())
    app = web(service, access_log=True, limits=FREE, signals=False)
    async with service, client_of(app) as client:
        with capture_logs() as logged:
            await client.get("/sessions?before=secret")
            await client.get("/x%1b%5b31m%0a")
    for line, path, status in zip(logged, ("/sessions", "/x"), (422, 404), strict=True):
        assert (line["method"], line["path"].strip(), line["status"]) == ("GET", path, status)
        assert line["ms"] >= 0
    assert "secret" not in str(logged)


# ---- signals


@pytest.fixture
def heard() -> Iterator[list[int]]:
    """A handler that was there before, as a server has one."""
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    yield heard
    signal.signal(signal.SIGTERM, before)


async def test_a_signal_reaches_the_service_and_whoever_wanted_it_before(heard: list[int]) -> None:
    service = service_with(Scripted())
    theirs = signal.getsignal(signal.SIGTERM)
    web(service)
    async with service:
        assert not service.stopping
        signal.raise_signal(signal.SIGTERM)
        assert heard == [signal.SIGTERM]
        await settle()
        assert service.stopping
    assert signal.getsignal(signal.SIGTERM) is theirs


async def test_a_signal_that_nobody_handles_is_left_alone() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        with stop_on_signals(service_with(Scripted())):
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)


async def test_a_handler_that_came_later_stays(heard: list[int]) -> None:
    def later(number: int, frame: FrameType | None) -> None: ...

    with stop_on_signals(service_with(Scripted())):
        signal.signal(signal.SIGTERM, later)
    assert signal.getsignal(signal.SIGTERM) is later


def test_in_another_thread_no_handler_is_touched(heard: list[int]) -> None:
    seen: list[object] = []

    async def inside() -> None:
        with stop_on_signals(service_with(Scripted())):
            seen.append(signal.getsignal(signal.SIGTERM))

    before: Callable[..., Any] | int | None = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=lambda: asyncio.run(inside()))
    thread.start()
    thread.join()
    assert seen == [before]

"""Row F9: a run of an endpoint of the user's own ends with the client that waits for it, on a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from endstop import Engine
from endstop.decision import Outcome
from endstop.providers import Request as ModelRequest
from endstop.providers import Scripted
from endstop.web import Disconnected, until_disconnect
from fastapi import FastAPI, Request
from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route

from ...console import PATIENCE
from .site import client_at, serving


class Paid:
    """A model that never answers, and knows whether anybody still waits for it."""

    model = "paid"

    def __init__(self) -> None:
        self.asked, self.left = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[Any]]:
        self.asked.set()
        try:
            yield self._chunks()
        finally:
            self.left.set()

    async def _chunks(self) -> AsyncIterator[Any]:
        await asyncio.Event().wait()
        yield None


Make = Callable[[Engine, list[Any]], Any]


def starlette(engine: Engine, ended: list[Any]) -> Any:
    async def ask(request: Any) -> JSONResponse:
        outcome = await until_disconnect(request, engine.start("Which port?"))
        ended.append(outcome)
        return JSONResponse({"answer": outcome.answer})

    return Starlette(routes=[Route("/ask", ask)])


def fastapi(engine: Engine, ended: list[Any]) -> Any:
    app = FastAPI()

    async def ask(request: Request) -> dict[str, str]:
        outcome = await until_disconnect(request, engine.start("Which port?"))
        ended.append(outcome)
        return {"answer": outcome.answer}

    app.get("/ask")(ask)
    return app


def any_asgi(engine: Engine, ended: list[Any]) -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        outcome = await until_disconnect(receive, engine.start("Which port?"))
        ended.append(outcome)
        await JSONResponse({"answer": outcome.answer})(scope, receive, send)

    return app


def a_task(engine: Engine, ended: list[Any]) -> Any:
    async def ask(request: Any) -> JSONResponse:
        try:
            outcome = await until_disconnect(request, engine.run("Which port?"))
        except Disconnected as gone:
            ended.append(gone)
            raise
        return JSONResponse({"answer": outcome.answer})

    return Starlette(routes=[Route("/ask", ask)])


APPS = [starlette, fastapi, any_asgi, a_task]


@pytest.mark.parametrize("make", APPS)
async def test_F9_the_run_is_cancelled_with_its_client(make: Make) -> None:
    model, ended = Paid(), list[Any]()
    async with serving(make(Engine(model), ended)) as (port, state), asyncio.timeout(PATIENCE):
        async with client_at(f"http://127.0.0.1:{port}", timeout=None) as client:
            asking = asyncio.create_task(client.get("/ask"))
            await model.asked.wait()
            asking.cancel()
            await asyncio.wait({asking})
        await model.left.wait()
        while state.tasks:
            await asyncio.wait(list(state.tasks))
    (end,) = ended
    if isinstance(end, Outcome):
        assert (end.status, end.stop_reason) == ("cancelled", "cancelled")
        assert "disconnect" in end.detail
    else:
        assert end.status_code == 499


@pytest.mark.parametrize("make", APPS)
async def test_F9_a_client_that_stays_gets_the_answer(make: Make) -> None:
    app = make(Engine(Scripted("Port 80.")), [])
    async with (
        serving(app) as (port, _),
        asyncio.timeout(PATIENCE),
        client_at(f"http://127.0.0.1:{port}") as client,
    ):
        assert (await client.get("/ask")).json() == {"answer": "Port 80."}


async def test_F9_without_it_the_run_goes_on_after_its_client_has_left() -> None:
    """What the example taught before: the model is still asked when nobody waits any more."""
    model = Paid()

    async def ask(request: Any) -> PlainTextResponse:
        return PlainTextResponse((await Engine(model).run("Which port?")).answer)

    app = Starlette(routes=[Route("/ask", ask)])
    async with asyncio.timeout(PATIENCE), serving(app) as (port, state):
        async with client_at(f"http://127.0.0.1:{port}", timeout=None) as client:
            asking = asyncio.create_task(client.get("/ask"))
            await model.asked.wait()
            asking.cancel()
            await asyncio.wait({asking})
        while state.connections:
            await asyncio.sleep(0)
        assert not model.left.is_set()
        for task in list(state.tasks):
            task.cancel()


async def test_F9_what_cancels_the_endpoint_cancels_the_work_and_what_it_raises_comes_out() -> None:
    model = Paid()

    async def receive() -> Any:
        await asyncio.Event().wait()

    waiting = asyncio.create_task(until_disconnect(receive, Engine(model).start("go")))
    async with asyncio.timeout(PATIENCE):
        await model.asked.wait()
        waiting.cancel()
        await asyncio.wait({waiting})
        await model.left.wait()
    assert waiting.cancelled()

    async def broken() -> None:
        raise LookupError("no such thing")

    with pytest.raises(LookupError, match="no such thing"):
        await until_disconnect(receive, broken())

"""Helpers for your own endpoints: the service and its engine, and runs that end when their client disconnects.

`service_of` and `engine_of` are dependencies (FastAPI's `Depends`), or called with a request of Starlette.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.types import Receive

from ..decision import Outcome, WrongUse
from ..decision.wrong_attributes import explained_attributes
from ..decision.wrong_calls import explained
from ..engine import Engine
from ..run import Run
from ..service.errors import ServiceUnavailable
from ..service.service import Service

T = TypeVar("T")


@explained
def service_of(request: Request) -> Service:
    """Return the service of the app. Raises WrongUse if the app's lifespan is not the service's."""
    service = getattr(request.state, "endstop", None)
    if not isinstance(service, Service):
        raise WrongUse(
            "the app has no service: give the app the lifespan of the service, as in FastAPI(lifespan=service.lifespan)"
        )
    return service


@explained
def engine_of(request: Request) -> Engine:
    """Return the engine of the app's service, or the first of several. Raises ServiceUnavailable if there is none."""
    for engine in service_of(request).agents.values():
        return engine
    raise ServiceUnavailable("no_model", "the service has no engine")


@explained_attributes
class Disconnected(HTTPException):
    """The client disconnected, and the work for it was cancelled. Starlette and FastAPI end such a request quietly."""

    def __init__(self) -> None:
        super().__init__(499, "the client disconnected before the response")


@overload
async def until_disconnect(request: HTTPConnection | Receive, work: Run) -> Outcome: ...
@overload
async def until_disconnect(request: HTTPConnection | Receive, work: Awaitable[T]) -> T: ...
@explained
async def until_disconnect(request: Any, work: Any) -> Any:
    """Await `work` for a client, and cancel it when the client disconnects, so that nobody pays for an unread answer.

        outcome = await until_disconnect(request, engine.start(question))

    request: a request of Starlette or FastAPI, or the `receive` of any ASGI app. The part of its body that has not been
        read is lost.
    work: a run that has not been entered, whose outcome is then `cancelled` by `disconnect`; or anything else to await,
        such as `engine.run(question)`, which is cancelled like a task.

    Raises Disconnected if the cancelled work gave no result. If the caller is cancelled, the work is, too.
    """
    receive: Receive = request if callable(request) and not isinstance(request, HTTPConnection) else request.receive
    if not isinstance(work, Run):
        task = asyncio.ensure_future(work)
        return await _until_disconnect(receive, task, task.cancel)
    async with work as run:
        waiting = asyncio.ensure_future(run.wait())
        return await _until_disconnect(receive, waiting, lambda: run.cancel("disconnect"))


async def _until_disconnect(receive: Receive, task: asyncio.Future[T], cancel: Callable[[], Any]) -> T:
    disconnect = asyncio.ensure_future(_wait_for_disconnect(receive))
    both: set[asyncio.Future[Any]] = {task, disconnect}
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            cancel()
            await asyncio.wait({task})
            if task.cancelled():
                raise Disconnected
        return task.result()
    finally:
        for one in both:
            one.cancel()
        await asyncio.wait(both)
        if not disconnect.cancelled():
            disconnect.exception()  # a failure of receive has already ended the work


async def _wait_for_disconnect(receive: Receive) -> None:
    """Wait until the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass

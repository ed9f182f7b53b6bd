"""Subscribers and middleware: functions that observe or surround a run.

A subscriber is called with every event, in a separate task, so that it cannot affect a run:

    def on_event(event: Event | Lagged, run: Run) -> None: ...      # or async

If it raises, that is logged (`user_errors.py`), and it gets the next event. If it is slow, it gets a `Lagged` in place
of the events that it missed. If it never returns, it is left behind when the run ends.

Middleware surrounds a whole run, in the run's own task: tracing, a logging context, a transaction.

    @asynccontextmanager
    async def tenant(run: Run) -> AsyncIterator[None]:
        token = TENANT.set("a")          # seen by tools, provider, hooks and subscribers of this run
        yield
        TENANT.reset(token)

    engine = Engine(provider, observers=Observers(middleware=[tenant]))

The same task enters and leaves it, so a context variable or a span that it sets belongs to this run only. On entering,
`run.context` exists; on leaving, the run has its outcome. If it raises on entering, the run does not begin, and the
caller that starts the run gets the error.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from inspect import isawaitable
from typing import Any

from .run import Run
from .user_errors import log_user_error

Subscriber = Callable[[Any, Run], Awaitable[None] | None]
"""Function called with each event of a run, or a `Lagged` in place of events that it missed, and with the run."""

Middleware = Callable[[Run], AbstractAsyncContextManager[None]]
"""Function that makes the context manager that surrounds one run."""

CATCH_UP_SECONDS = 1.0
"""Seconds that the end of a run waits for its subscribers to process its last events before they are cancelled."""


@asynccontextmanager
async def notify_subscribers(subscribers: Sequence[Subscriber], run: Run) -> AsyncIterator[None]:
    """Call the subscribers with the run's events inside the block, and up to `CATCH_UP_SECONDS` after it."""
    tasks = [
        asyncio.create_task(deliver(subscriber, run), name=f"endstop subscriber {_name_of(subscriber)} of run {run.id}")
        for subscriber in subscribers
    ]
    try:
        yield
    finally:
        if tasks:
            await _let_catch_up(tasks)


async def _let_catch_up(tasks: Sequence[asyncio.Task[None]]) -> None:
    try:
        await asyncio.sleep(0)  # enough for those that do not wait: the last event has woken up all
        if not all(task.done() for task in tasks):
            await asyncio.wait(tasks, timeout=CATCH_UP_SECONDS)
    finally:
        for task in tasks:
            task.cancel()


async def deliver(subscriber: Subscriber, run: Run) -> None:
    """Call a subscriber with every event of a run, one after another. What it raises is only logged."""
    async for event in run:
        try:
            returned = subscriber(event, run)
            if returned is not None and isawaitable(returned):
                await returned
        except Exception as error:
            log_user_error("subscriber", subscriber, error, event_type=type(event).__name__)


def _name_of(subscriber: Subscriber) -> str:
    """Return the qualified name of the subscriber, or of its class if it is an object."""
    return str(getattr(subscriber, "__qualname__", type(subscriber).__qualname__))


@asynccontextmanager
async def enter_middleware(each: Sequence[Middleware], run: Run) -> AsyncIterator[None]:
    """Enter all middleware, the first outermost."""
    async with AsyncExitStack() as stack:
        for middleware in each:
            await stack.enter_async_context(_entered(middleware, run))
        yield


@asynccontextmanager
async def _entered(middleware: Middleware, run: Run) -> AsyncIterator[None]:
    """Enter a middleware, and log what it raises itself; an error of the run only passes through it."""
    passed: BaseException | None = None
    try:
        async with middleware(run):
            try:
                yield
            except BaseException as error:
                passed = error
                raise
    except Exception as error:
        if error is not passed:
            log_user_error("middleware", middleware, error)
        raise

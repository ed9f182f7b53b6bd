"""Calling functions that are not ours: tools, gates, judges, rules, evaluators, handlers.

An async one is awaited. A sync one runs in a thread, because it may block: only then can a deadline or a cancellation
end the waiting for it. Its thread goes on until the function returns; what it returns late is dropped.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import anyio.to_thread


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives something to await; also for an object with an async `__call__`."""
    return inspect.iscoroutinefunction(inspect.unwrap(function)) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004  an object with an async __call__ is a function too
    )


async def call(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """What the function returns, or raises."""
    if is_async(function):
        return await function(*arguments, **named)
    return await in_a_thread(function, *arguments, **named)


async def in_a_thread(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """What a sync function returns; if that is something to await, what comes of it."""
    work = functools.partial(function, *arguments, **named)
    value = await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
    return await value if inspect.isawaitable(value) else value

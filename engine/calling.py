"""Calling functions that are not ours: tools, gates, judges, rules, evaluators, handlers.

An async one is awaited. A sync one runs in a thread, because it may block: only then can a deadline or a cancellation
end the waiting for it. Its thread goes on until the function returns; what it returns late is dropped.
"""

from __future__ import annotations

import asyncio
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


async def call(function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
    """What the function returns, or raises. Whatever it raises is an Exception, but for our own cancellation.

    A function that leaves with `sys.exit`, or lets out the cancellation of something that it waited for, has failed
    like any other; neither may end the run around it.
    """
    try:
        if is_async(function):
            return await function(*arguments, **named)
        return await _in_a_thread(function, *arguments, **named)
    except SystemExit as error:
        raise Failed(f"it wanted to end the process: SystemExit: {error}") from error
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise Failed("something that it waited for was cancelled") from error


def in_words(error: BaseException) -> str:
    """An error for models, records and people."""
    return str(error) if isinstance(error, Failed) else f"{type(error).__name__}: {error}"


class Failed(RuntimeError):
    """A user's function ended in a way that must not end the run."""


async def _in_a_thread(function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
    work = functools.partial(function, *arguments, **named)
    value = await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
    return await value if inspect.isawaitable(value) else value

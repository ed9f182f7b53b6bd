"""Calls functions that users supply: tools, gates, judges, rules, evaluators and handlers.

An async function is awaited. A sync one runs in a thread, because it may block: otherwise no deadline or cancellation
could end the wait for it. The thread runs on until the function returns, and a late result is dropped.

Each call has its own task (`run_in_own_task`), so that the caller can stop waiting. A function that keeps running
after it was cancelled is abandoned, and a warning names it.
"""

from __future__ import annotations

import asyncio
import dis
import functools
import inspect
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, TypeVar

import anyio.to_thread

from ..decision.errors import error_text
from ..providers._logging import log_warning
from ..providers._wrapper import wait_shielded
from .loop_watchdog import watch
from .schema import InvalidArguments

T = TypeVar("T")
GRACE_SECONDS = 0.4
"""Maximum seconds for a cancelled function to end before it is abandoned."""
_abandoned_threads: ContextVar[list[str]] = ContextVar("endstop_threads")
"""Names of functions whose threads run on although nobody waits for them."""
_abandoned_tasks: set[asyncio.Task[Any]] = set()
"""Strong references to abandoned tasks, because the event loop holds only weak ones."""


class UserFunctionError(RuntimeError):
    """A user's function raised something that must not end the run, such as SystemExit. The message says what."""


async def call_user_function(function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
    """Call the function and return its result. Anything raised is an Exception, except our own cancellation.

    SystemExit, a KeyboardInterrupt that the function raises, or the cancellation of something that it awaited becomes a
    UserFunctionError, because none of them may end the run. A KeyboardInterrupt from Ctrl-C propagates.
    """
    try:
        if is_async(function):
            return await function(*arguments, **named)
        return await _call_in_thread(function, *arguments, **named)
    except SystemExit as error:
        raise UserFunctionError(f"it wanted to end the process: {error_text(error)}") from error
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise UserFunctionError("something that it waited for was cancelled") from error
    except (KeyboardInterrupt, GeneratorExit, BaseExceptionGroup) as error:
        if isinstance(error, Exception) or not (_is_only_exits(error) and raised_by_code(error)):
            raise
        raise UserFunctionError(f"it raised {error_text(error)}, which would end the process") from error


async def _call_in_thread(function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
    running = False

    def work() -> Any:
        nonlocal running
        running = True
        try:
            return function(*arguments, **named)
        except (KeyboardInterrupt, GeneratorExit) as error:  # the function's own: signals do not interrupt a thread
            raise UserFunctionError(f"it raised {error_text(error)}, which would end the process") from error
        finally:
            running = False

    try:
        value = await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
    except asyncio.CancelledError:
        if running and (threads := _abandoned_threads.get(None)) is not None:
            threads.append(getattr(function, "__qualname__", repr(function)))
        raise
    return await value if inspect.isawaitable(value) else value


def raised_by_code(error: BaseException) -> bool:
    """Return whether a `raise` statement caused the error, rather than a signal or the closing of a coroutine."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None:
        return False
    code = traceback.tb_frame.f_code.co_code
    return dis.opname[code[traceback.tb_lasti]] in ("RAISE_VARARGS", "RERAISE")


def _is_only_exits(error: BaseException) -> bool:
    """Return whether this is only exceptions that a user's code may raise itself, without a cancellation."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_only_exits, error.exceptions))
    return isinstance(error, KeyboardInterrupt | GeneratorExit | SystemExit | Exception)


async def run_in_own_task(
    work: Coroutine[Any, Any, T], name: str, left: Callable[[], None] | None = None, /, **about: object
) -> T:
    """Run the work in its own task, called `name`, and return its result.

    If the caller is cancelled, so is the work. If it has not ended after `GRACE_SECONDS`, it is abandoned: a warning
    with `about` as its fields names it, and `left` is called. A thread is abandoned at once, because nothing can end
    it.
    """
    threads: list[str] = []
    token = _abandoned_threads.set(threads)
    task = asyncio.create_task(work, name=name)
    _abandoned_threads.reset(token)
    watch(task, about)
    try:
        await asyncio.sleep(0)  # by then a function that does not wait has ended; a callback would come two turns later
        if not task.done():
            ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            task.add_done_callback(functools.partial(_wake, ended))
            await ended
    except asyncio.CancelledError:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await wait_shielded(task, GRACE_SECONDS)
        if threads or not task.done():
            log_warning(f"{name} goes on although it was cancelled, and is left behind", **about)
            if left is not None:
                left()
        if not task.done():
            _abandoned_tasks.add(task)
        task.add_done_callback(_retrieve_exception)
        raise
    if task.cancelled():
        raise UserFunctionError("it was cancelled by itself, or by something that is not this run")
    return task.result()


def _wake(ended: asyncio.Future[None], task: asyncio.Task[Any]) -> None:
    if not ended.done():
        ended.set_result(None)


def _retrieve_exception(task: asyncio.Task[Any]) -> None:
    _abandoned_tasks.discard(task)
    if not task.cancelled():
        task.exception()  # nobody else will retrieve it


def describe_error(error: BaseException) -> str:
    """Return the text of an error, for models, records and people.

    `InvalidArguments` is raised for its text, so its type is not in it.
    """
    own = isinstance(error, UserFunctionError | InvalidArguments)
    return (str(error) if own else "") or error_text(error)


def is_async(function: Callable[..., Any]) -> bool:
    """Return whether a call returns an awaitable, also for an object with an async `__call__`."""
    return inspect.iscoroutinefunction(inspect.unwrap(function)) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004  an object with an async __call__ is a function too
    )

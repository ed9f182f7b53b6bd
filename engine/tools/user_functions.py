"""Calling functions that are not ours: tools, gates, judges, rules, evaluators, handlers.

An async one is awaited. A sync one runs in a thread, because it may block: only then can a deadline or a cancellation
end the waiting for it. Its thread goes on until the function returns; what it returns late is dropped.

Each runs in a task of its own (`run_in_own_task`), so that whoever waits for it can stop waiting: a function that goes
on after it was cancelled is left behind, and named in the log.
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

from .._logging import log_warning
from ..decision import WrongUse
from ..decision.errors import error_text
from ..providers._wrapper import wait_shielded
from .loop_watchdog import watch

T = TypeVar("T")
GRACE_SECONDS = 0.4
"""How long a function may take to end once it is cancelled, before it is left behind."""
_abandoned_threads: ContextVar[list[str]] = ContextVar("endstop_threads")
"""Where the functions note themselves whose threads go on although nobody waits for them any more."""
_abandoned_tasks: set[asyncio.Task[Any]] = set()
"""What was left behind and has not ended: the event loop itself keeps no task."""


class UserFunctionError(RuntimeError):
    """A user's function ended in a way that must not end the run."""


async def call_user_function(function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
    """What the function returns, or raises. Whatever it raises is an Exception, but for our own cancellation.

    A function that leaves with `sys.exit`, raises KeyboardInterrupt or the like, or lets out the cancellation of
    something that it waited for, has failed like any other; none of them may end the run around it. A KeyboardInterrupt
    that is the user's own, whom Python has let interrupt us here, is passed on.
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
        if isinstance(error, Exception) or not (_is_only_exits(error) and _raised_by_code(error)):
            raise
        raise UserFunctionError(f"it raised {error_text(error)}, which would end the process") from error


async def _call_in_thread(function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
    running = False

    def work() -> Any:
        nonlocal running
        running = True
        try:
            return function(*arguments, **named)
        except (KeyboardInterrupt, GeneratorExit) as error:  # its own: no signal interrupts a thread
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


def _raised_by_code(error: BaseException) -> bool:
    """Whether a `raise` brought it about: not a signal, nor the end of a coroutine that is thrown away."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None:
        return False
    code = traceback.tb_frame.f_code.co_code
    return dis.opname[code[traceback.tb_lasti]] in ("RAISE_VARARGS", "RERAISE")


def _is_only_exits(error: BaseException) -> bool:
    """Whether it is nothing but what ends a process, also several of it at once."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_only_exits, error.exceptions))
    return isinstance(error, KeyboardInterrupt | GeneratorExit | SystemExit | Exception)


async def run_in_own_task(
    work: Coroutine[Any, Any, T], name: str, left: Callable[[], None] | None = None, /, **about: object
) -> T:
    """What the work gives, or raises; it runs in a task of its own, called `name`.

    If the waiting is cancelled (a deadline, the caller), so is the work. It has `GRACE_SECONDS` to end; then it is
    left behind, a warning with `about` names it, and `left` is called. A thread has no such time, as nothing can end
    it.
    """
    threads: list[str] = []
    token = _abandoned_threads.set(threads)
    task = asyncio.create_task(work, name=name)
    _abandoned_threads.reset(token)
    watch(task, about)
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    task.add_done_callback(functools.partial(_wake, ended))
    try:
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
        task.exception()  # nobody else will ask


def describe_error(error: BaseException) -> str:
    """An error for models, records and people."""
    return str(error) if isinstance(error, UserFunctionError) else error_text(error)


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives something to await; also for an object with an async `__call__`."""
    return inspect.iscoroutinefunction(inspect.unwrap(function)) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004  an object with an async __call__ is a function too
    )


def check_functions(**roles: Any) -> None:
    """Refuse what cannot be called. A role's value is a function, a sequence of functions, or None."""
    for role, value in roles.items():
        for function in value if isinstance(value, tuple) else (value,):
            if function is None:
                continue
            if not callable(function):
                raise WrongUse(f"{role}: {function!r} is no function and cannot be called")
            if is_generator(function):
                hint = "put @asynccontextmanager on it" if role == "middleware" else "write `return` instead of `yield`"
                raise WrongUse(f"{role}: {function!r} yields, so calling it would run nothing of it: {hint}")


def is_generator(function: Any) -> bool:
    """Whether it is a generator, of which a call runs nothing."""
    call = function if inspect.isroutine(function) else getattr(function, "__call__", None)  # noqa: B004
    return any(inspect.isgeneratorfunction(one) or inspect.isasyncgenfunction(one) for one in (function, call))

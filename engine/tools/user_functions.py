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
import reprlib
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar

import anyio.to_thread

from ..decision import WrongUse
from ..decision.errors import error_text, function_name
from ..providers._logging import log_warning
from ..providers._wrapper import wait_shielded
from .loop_watchdog import watch
from .run_context import context_parameter
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


class Role(NamedTuple):
    """What a function that is handed in is for."""

    name: str
    """Its name in messages, with an article."""
    call: str
    """How it is called: its name and its positional arguments."""
    hint: str = ""
    """What to write in place of something that is no such function."""
    takes_context: bool = False
    """Whether one more parameter, if it is annotated as `RunContext`, gets the run's context."""

    @property
    def arguments(self) -> list[str]:
        """The names of its arguments."""
        return [name for name in self.call.partition("(")[2].rstrip(")").split(", ") if name]


ROLES = {
    "gates": Role("a gate", "gate(completion, run)"),
    "text_rule": Role("a text rule", "text_rule(text, calls)", takes_context=True),
    "judge": Role("a judge", "judge(run)"),
    "compactor": Role("a compactor", "compactor(messages, run)"),
    "evaluate": Role("an evaluator", "evaluate(input)"),
    "prompt_handlers": Role("a prompt handler", "handler(prompt, run)"),
    "rules": Role("the `judge` of a rule", "judge(facts, policy)"),
    "subscribers": Role("a subscriber", "subscriber(event, run)"),
    "on_completed": Role("the function for completed runs", "on_completed(outcome)"),
    "middleware": Role("a middleware", "middleware(run)"),
    "redact": Role("a redaction", "redact(text)"),
    "system": Role(
        "the function for the system prompt",
        "system(run)",
        "write one text, a function of the run that returns one, or None for the general prompt",
    ),
    "deps": Role(
        "the function that makes them",
        "deps(ctx)",
        "Engine(deps=...) takes a function that makes them for each run. Pass existing ones to the run: "
        "engine.run(prompt, deps=...)",
    ),
    "until": Role("a check", "check(run)", "a check is a command or a function: write it as in 'pytest -q'"),
    "approval": Role("an approval function", "approval(arguments)"),
    "server_approval": Role("an approval function of a server's tools", "approval(tool, arguments)"),
    "final": Role("the function that tells a final completion", "final(arguments)"),
    "decide": Role("a decision function", "decide(facts, policy)"),
    "decide_untraced": Role("a decision function", "decide(facts, policy)"),
    "execute": Role("a tool executor", "execute(call, tool, arguments)"),
    "auth": Role("an authentication function", "auth(request)"),
    "on_event": Role("the function for events", "on_event(event)"),
}
"""Every function that users hand in and that is called with arguments of ours, by the parameter that takes it.

A tool and its check are called with the arguments of the model; `tool.py` checks them.
"""


def check_functions(**given: Any) -> None:
    """Check functions by their role (`ROLES`): each value is a function, a tuple of functions, or None.

    Raises WrongUse for what is not a function, or could not be called as the role is.
    """
    for role, value in given.items():
        for function in value if isinstance(value, tuple) else (value,):
            if function is not None:
                check_function(role, function, ROLES[role])


def check_function(where: str, function: Any, role: Role) -> None:
    """Check one function. where: what it was given as. Raises WrongUse as `check_functions` does."""
    check_callable(where, function, role.hint)
    if inspect.isclass(function) and where != "middleware" and any("__call__" in vars(one) for one in function.__mro__):
        name = function.__name__
        raise WrongUse(f"{where}: {name} is a class: create an instance, as in {name}(...)")
    arguments, context = role.arguments, None
    signature = signature_of(function)
    if signature is None:
        return
    first = next(iter(signature.parameters.values()), None)
    if first is not None and arguments[:1] == ["completion"] and "RunContext" in str(first.annotation):
        raise WrongUse(
            f"{where}: {function_name(function)} takes a RunContext first; {role.name} is called as {role.call}"
        )
    if role.takes_context and (context := context_parameter(function)) is not None:
        arguments.append(context)
    try:
        bound = signature.bind(*arguments).arguments
        if context is None or bound.get(context) == context:
            return
        takes = f"{context!r} at another place"
    except TypeError:
        takes = _count_of(signature)
    more = ", and with the context third if that is annotated, as in `ctx: RunContext`" if role.takes_context else ""
    written = f"{function_name(function)}{without_types(signature)}"
    raise WrongUse(f"{where}: {written} takes {takes}; {role.name} is called as {role.call}{more}")


def check_callable(where: str, function: Any, hint: str = "") -> None:
    """Raise WrongUse unless this is a function whose call runs its body, which that of a generator does not."""
    if not callable(function):
        instead = hint and f", but of type {type(function).__name__}: {hint}"
        raise WrongUse(f"{where}: {reprlib.repr(function)} is not a function{instead}")
    if is_generator(function) and where != "deps":
        todo = "put @asynccontextmanager on it" if where == "middleware" else "write `return` instead of `yield`"
        raise WrongUse(f"{where}: {function!r} is a generator, so a call would run none of its body: {todo}")


def signature_of(function: Any) -> inspect.Signature | None:
    """Return how a function can be called; None if it does not say so, as some builtins.

    A decorated function has the parameters of its wrapper, which may give the function more; but those of the function
    itself if the wrapper takes anything and passes it on.
    """
    try:
        own = inspect.signature(function, follow_wrapped=False)
        passes_on = any(parameter.kind is parameter.VAR_POSITIONAL for parameter in own.parameters.values())
        return inspect.signature(function) if passes_on else own
    except (TypeError, ValueError):
        return None


def without_types(signature: inspect.Signature) -> inspect.Signature:
    """Return a signature as short as a message needs it."""
    plain = [one.replace(annotation=one.empty) for one in signature.parameters.values()]
    return signature.replace(parameters=plain, return_annotation=signature.empty)


def _count_of(signature: inspect.Signature) -> str:
    """Return how many arguments a function takes, in words, or which ones only by their name."""
    parameters = signature.parameters.values()
    named = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY and one.default is one.empty]
    if named:
        return f"{', '.join(named)} only by name"
    count = sum(one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) for one in parameters)
    return f"{count or 'no'} argument{'s' * (count != 1)}"


def is_generator(function: Any) -> bool:
    """Return whether it is a generator function, so that a call would execute none of its body."""
    call = function if inspect.isroutine(function) else getattr(function, "__call__", None)  # noqa: B004
    return any(inspect.isgeneratorfunction(one) or inspect.isasyncgenfunction(one) for one in (function, call))

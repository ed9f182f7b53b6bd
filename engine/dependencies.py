"""Dependencies of a run, such as a connection or the user's account: given with the run, or made by a factory.

    @asynccontextmanager
    async def deps(ctx: RunContext[None]) -> AsyncIterator[Deps]:
        async with pool.connection() as connection:
            yield Deps(connection, user=ctx.owner)

    engine = Engine(provider, tools=[...], deps=deps)

A run that is started without dependencies gets them from the factory, in whichever process it runs, because in a worker
nobody can pass any. A factory is a function, plain or async, or an async generator that yields once and cleans up after
its `yield`, when the run has ended. It is called again when a run is resumed. Dependencies are never recorded.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from .decision import WrongUse
from .decision.errors import error_text
from .providers._logging import log_warning
from .tools.function_roles import check_functions
from .tools.run_context import DepsT, RunContext
from .tools.user_functions import call_user_function
from .user_errors import log_unusable_answer, log_user_error

DepsFactory = Callable[
    [RunContext[None]],
    AbstractAsyncContextManager[DepsT] | AsyncIterator[DepsT] | Awaitable[DepsT],
]
"""Factory of a run's dependencies. `Engine` also takes a plain function, with an overload: mypy infers nothing from a
type that allows both."""


class DepsFailed(RuntimeError):
    """Raised when the factory failed before the run began, so that nothing of the run is recorded."""


def check_deps(factory: Any) -> None:
    """Raise WrongUse unless the factory can be called with a `RunContext` as its one argument."""
    if inspect.isclass(factory):  # its first argument would silently be the context
        raise WrongUse(f"deps: {factory.__name__} is a class: write a function of the RunContext that makes one")
    check_functions(deps=factory)


def check_given(factory: Any, given: Any, tools: Mapping[str, type]) -> None:
    """Raise WrongUse for a run without dependencies whose tools take some. tools: their classes, by the tool's name."""
    if given is None and factory is None and tools:
        name, kind = next(iter(tools.items()))
        raise WrongUse(
            f"tool {name!r} takes a RunContext[{kind.__name__}], and this run has no dependencies: pass them to the "
            "run (deps=...), or give the engine a function that makes them (Engine(deps=...))"
        )


def warn_of_others(made: Any, tools: Mapping[str, type], run_id: str) -> None:
    """Log a warning for tools that take dependencies of another class than the run has."""
    others = [name for name, kind in tools.items() if not _may_be(made, kind)]
    if others:
        kinds = ", ".join(sorted({tools[name].__name__ for name in others}))
        what = f"the dependencies of a run are of type {type(made).__name__}, and tools take a RunContext[{kinds}]"
        log_warning(what, run_id=run_id, tools=", ".join(others))


def _may_be(made: Any, kind: type) -> bool:
    try:
        return isinstance(made, kind)
    except TypeError:  # a protocol that is not for `isinstance`, or a TypedDict
        return True


@asynccontextmanager
async def dependencies(factory: Any, given: Any, about: RunContext) -> AsyncIterator[Any]:
    """Provide the dependencies of a run inside the block: the given ones, or those that the factory makes.

    Raises DepsFailed if the factory fails. An error after its `yield` is only logged.
    """
    if given is not None or factory is None:
        yield given
        return
    opened: AbstractAsyncContextManager[Any] | None = None
    try:
        if inspect.isasyncgenfunction(inspect.unwrap(factory)):
            made = factory(about)
            opened = asynccontextmanager(lambda: made)() if inspect.isasyncgen(made) else made
            made = await opened.__aenter__()
        else:
            made = await call_user_function(factory, about)
            if made is None:
                log_unusable_answer("deps", factory, "it returned None, so the run has no dependencies")
    except Exception as error:
        log_user_error("deps", factory, error)
        why = f"deps: the factory failed, so run {about.run_id} cannot begin: {error_text(error)}"
        raise DepsFailed(why) from error
    try:
        yield made
    finally:
        await _close(opened, factory, about)


async def _close(opened: AbstractAsyncContextManager[Any] | None, factory: Any, about: RunContext) -> None:
    try:
        if opened is not None:
            await opened.__aexit__(None, None, None)
    except Exception as error:
        log_user_error("deps", factory, error)

"""`RunContext`: what a function of yours is told about the run that it works for, beside its arguments.

    @dataclass
    class Deps:
        database: Pool

    @tool
    async def balance(ctx: RunContext[Deps], account: str) -> str:
        "The balance of an account."
        return await ctx.deps.database.fetchval(BALANCE, account, ctx.owner)

    await engine.run("What is left on my account?", deps=Deps(pool))

The parameter is known by its annotation, and no part of the schema that the model sees. `this_call()` gives the same
object anywhere below a tool's function.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Generic, get_origin

from msgspec import Struct

from ..decision import WrongUse

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    DepsT = TypeVar("DepsT", default=Any)
    """The type of what belongs to one run; a bare `RunContext` in an annotation stands for any."""
else:
    from typing import TypeVar

    DepsT = TypeVar("DepsT")

_current_call: ContextVar[RunContext] = ContextVar("endstop_call")
"""The running call. Tasks and threads that its function starts inherit it."""
_WRITTEN = re.compile(r"(\w+\.)*RunContext(\[.*\])?", re.DOTALL)


class RunContext(Struct, Generic[DepsT], frozen=True):
    """A run, and in a tool one call of it, as a function of yours sees it.

    @tool
    async def pay(ctx: RunContext, invoice: str) -> str:
        "Pay an invoice."
        return await bank.pay(invoice, idempotency_key=ctx.key)
    """

    session_id: str = ""
    run_id: str = ""
    step: int = 0
    """Number of the step in its run, from 1; 0 before the first."""
    call_id: str = ""
    """Id of the call; for a gate that of the completion; otherwise empty."""
    again: bool = False
    """Whether the call was already running in a process that died: it may have taken effect."""
    deps: DepsT = None  # type: ignore[assignment]  # whoever names a type hands one in
    """What was handed in for this run, or made by `Engine(deps=...)`. No record holds it."""
    owner: str | None = None
    """Whose session it is, as the server's tokens or `engine.session(owner=...)` say; None: not known."""
    metadata: Mapping[str, Any] = {}
    """What was stored with the session."""

    @property
    def key(self) -> str:
        """Idempotency key: globally unique, and the same in whichever process the call runs.

        A durable engine keeps the call's result under the same key (`StepKey`).
        """
        return f"{self.run_id}/{self.step}/{self.call_id}"


ThisCall = RunContext
"""The name that `this_call()` gave it before it had `deps`."""


def this_call() -> RunContext:
    """The call for which this function runs, also in the thread of a sync function. Raises WrongUse outside a call.

    It may be called in a tool's function, its check and its approval function, and in all that they call.
    """
    try:
        return _current_call.get()
    except LookupError:
        raise WrongUse("this_call() is for a tool's function, check and approval, while a call of it runs") from None


@contextmanager
def running_call(call: RunContext) -> Iterator[None]:
    """Let `this_call()` give this call inside the block."""
    token = _current_call.set(call)
    try:
        yield
    finally:
        _current_call.reset(token)


def context_parameter(function: Callable[..., Any]) -> str | None:
    """The name of the parameter that is annotated as a `RunContext`; None if there is none."""
    try:
        parameters = inspect.signature(function, eval_str=True).parameters
    except Exception:  # an annotation that cannot be evaluated; whether that matters, the schema says
        parameters = inspect.signature(function).parameters
    return next((name for name, one in parameters.items() if _is_context(one.annotation)), None)


def _is_context(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return _WRITTEN.fullmatch(annotation.strip()) is not None
    return (get_origin(annotation) or annotation) is RunContext


def model_parameters(function: Callable[..., Any], *, evaluated: bool = False) -> dict[str, inspect.Parameter]:
    """The parameters that a model fills: all but the context."""
    context = context_parameter(function)
    parameters = inspect.signature(function, eval_str=evaluated).parameters
    return {name: parameter for name, parameter in parameters.items() if name != context}


def with_context(name: str | None, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments of a function, with the running call under this name if there is one. Raises WrongUse outside."""
    return arguments if name is None else {**arguments, name: this_call()}

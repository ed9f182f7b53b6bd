"""What the user's functions are told about the run that calls them: `RunContext`, and `Progress` for hooks.

    @dataclass
    class Deps:
        database: Pool

    @tool
    async def balance(ctx: RunContext[Deps], account: str) -> str:
        "The balance of an account."
        return await ctx.deps.database.fetchval(BALANCE, account, ctx.owner)

    await engine.run("What is left on my account?", deps=Deps(pool))

The parameter is recognised by its annotation, and the schema for the model leaves it out. `this_call()` returns the
same object, in a tool's function and in everything that it calls.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from types import UnionType
from typing import TYPE_CHECKING, Any, Generic, get_args, get_origin

from msgspec import Struct

from ..decision import Facts, Message, WrongUse
from ..decision.wrong_attributes import explained_attributes
from ..decision.wrong_calls import checked, explained
from ..providers import Prices

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    DepsT = TypeVar("DepsT", default=Any)
    """Type of `RunContext.deps`. A plain `RunContext` annotation allows any type."""
else:
    from typing import TypeVar

    DepsT = TypeVar("DepsT")

_current_call: ContextVar[RunContext] = ContextVar("endstop_call")
"""The running call. Tasks that a tool's function starts see the same call, and so does the thread of a sync function,
because they run in a copy of its context."""
_WRITTEN = re.compile(r"(\w+\.)*RunContext(\[.*\])?", re.DOTALL)


@explained_attributes
class RunContext(Struct, Generic[DepsT], frozen=True):
    """A run, and in a tool also the call, as the user's function sees it.

    @tool
    async def pay(ctx: RunContext, invoice: str) -> str:
        "Pay an invoice."
        return await bank.pay(invoice, idempotency_key=ctx.key)
    """

    session_id: str = ""
    """Id of the session, the conversation."""
    run_id: str = ""
    """Id of the run, unique everywhere."""
    step: int = 0
    """Number of the step in its run, from 1; 0 before the first."""
    call_id: str = ""
    """Id of the call, or for a gate the id of the completion's call; otherwise empty."""
    again: bool = False
    """Whether the call was already running in a process that died, so that it may have taken effect."""
    deps: DepsT = None  # type: ignore[assignment]  # None only if no dependencies are given
    """The object that the run was started with (`deps=`), or that `Engine(deps=...)` made for it. Never recorded."""
    owner: str | None = None
    """Owner of the session, from the token at the server or from `engine.session(owner=...)`; None if unknown."""
    metadata: Mapping[str, Any] = {}
    """Metadata that was stored with the session."""

    @property
    def key(self) -> str:
        """Idempotency key: globally unique, and the same in every process that runs the call.

        A durable engine keeps the call's result under the same key (`StepKey`).
        """
        return f"{self.run_id}/{self.step}/{self.call_id}"


@explained
def this_call() -> RunContext:
    """Return the running call, also in the thread of a sync function. Raises WrongUse outside a call.

    It works in a tool's function, its check and its approval function, and in everything that they call.
    """
    try:
        return _current_call.get()
    except LookupError:
        raise WrongUse("this_call() is for a tool's function, check and approval, while a call of it runs") from None


@contextmanager
def running_call(call: RunContext) -> Iterator[None]:
    """Make `this_call()` return this call inside the block."""
    token = _current_call.set(call)
    try:
        yield
    finally:
        _current_call.reset(token)


def context_parameter(function: Callable[..., Any]) -> str | None:
    """Return the name of the parameter annotated as a `RunContext`; None if there is none."""
    try:
        parameters = inspect.signature(function, eval_str=True).parameters
    except Exception:  # an annotation that cannot be evaluated; the schema tells whether that matters
        parameters = inspect.signature(function).parameters
    return next((name for name, one in parameters.items() if _is_context(one.annotation)), None)


def _is_context(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return _WRITTEN.fullmatch(annotation.strip()) is not None
    return (get_origin(annotation) or annotation) is RunContext


def deps_type(function: Callable[..., Any]) -> type | None:
    """Return the class that the dependencies must have for this function; None if it takes any, or none."""
    name = context_parameter(function)
    if name is None:
        return None
    try:
        hint = inspect.signature(function, eval_str=True).parameters[name].annotation
    except Exception:  # an annotation that cannot be evaluated says nothing
        return None
    wanted = next(iter(get_args(hint)), None)
    wanted = get_origin(wanted) or wanted
    if not isinstance(wanted, type) or wanted in (Any, object, type(None), UnionType):
        return None
    return wanted


_CONTEXT_NAMES = ("ctx", "context", "run_context", "run_ctx", "wrapper", "runtime", "tool_context")
"""Names of the first parameter of a tool that is meant to be the run's context, here and in other libraries."""
_OTHER_CONTEXTS = ("RunContext", "RunContextWrapper", "ToolContext", "ToolRuntime", "RunnableConfig", "CallbackManager")
"""Names of classes for which another library fills a parameter of a tool."""


def check_context(function: Callable[..., Any], tool: str) -> None:
    """Raise WrongUse for a parameter that seems to be meant for the run's context, and would be asked of the model."""
    for number, (name, parameter) in enumerate(model_parameters(function, evaluated=_can_evaluate(function)).items()):
        hint = parameter.annotation
        bare = number == 0 and name in _CONTEXT_NAMES and hint is parameter.empty
        if bare or _is_other_context(hint):
            what = "has no type" if bare else f"is {_described(hint)}, which endstop does not fill"
            raise WrongUse(
                f"tool {tool!r}: its parameter {name!r} {what}, so a model would be asked for it: write "
                f"`{name}: RunContext` (from endstop) for the run's context, or the type of an argument"
            )


def _can_evaluate(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function, eval_str=True)
    except Exception:  # the schema tells whether that matters
        return False
    return True


def _is_other_context(hint: Any) -> bool:
    injected = [*getattr(hint, "__metadata__", ()), hint]
    names = [getattr(one, "__name__", type(one).__name__) for one in map(_bare, injected)]
    return any(name in _OTHER_CONTEXTS or name.startswith("Injected") for name in names)


def _bare(hint: Any) -> Any:
    return get_origin(hint) or hint


def _described(hint: Any) -> str:
    return getattr(hint, "__name__", None) or str(hint)


def model_parameters(function: Callable[..., Any], *, evaluated: bool = False) -> dict[str, inspect.Parameter]:
    """Return the parameters for which the model writes arguments: all but the `RunContext` and what a partial gives.

    evaluated: whether to evaluate annotations written as text.
    """
    context = context_parameter(function)
    parameters = inspect.signature(function, eval_str=evaluated).parameters
    given = function.keywords if isinstance(function, partial) else {}
    return {name: one for name, one in parameters.items() if name != context and name not in given}


def with_context(name: str | None, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments with the running call added under this name, unless the name is None.

    Raises WrongUse outside a call.
    """
    return arguments if name is None else {**arguments, name: this_call()}


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class Progress(Generic[DepsT]):
    """State of the run so far, as a gate, a judge, a check, a prompt handler or a compactor sees it."""

    facts: Facts
    """What has happened so far, as numbers: everything that a policy decides on."""
    messages: Sequence[Message]
    """The conversation so far, the system prompt first."""
    record: str | None = None
    """Path of the record so far, if one is kept."""
    prices: Prices = field(default_factory=Prices)
    """Prices of all known models, for a judge or a compactor that asks another model."""
    context: RunContext[DepsT] = field(default_factory=RunContext)
    """Ids and dependencies of the run, and the owner and metadata of its session."""

"""What functions that users hand in are for, and whether one can be called as its role is."""

from __future__ import annotations

import inspect
import reprlib
from typing import Any, NamedTuple

from ..decision import WrongUse
from ..decision.errors import function_name


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
    "on_record_loss": Role("the function for lost records", "on_record_loss(error)"),
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
    if role.takes_context:
        from .run_context import context_parameter

        if (context := context_parameter(function)) is not None:
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

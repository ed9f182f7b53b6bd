"""Copies for the functions of users that look at the work: a change of one reaches nobody, and is logged.

A gate that corrects the output in place would see its change lost: the output is what the model wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

from msgspec import Struct, structs

from .decision import Outcome, WrongUse
from .user_errors import log_change_in_place


@contextmanager
def own_copy(role: str, function: Callable[..., Any], what: str, value: Any, instead: str) -> Iterator[Any]:
    """Yield a copy of a value for a function, and log if the function has changed it.

    role: what the function is, in words. what: what the value is. instead: what to write for a change that counts.
    A value that cannot be copied is yielded itself.
    """
    try:
        given = deepcopy(value)
    except Exception:  # of the user's type
        yield value
        return
    yield given
    if not _is_same(given, value):
        log_change_in_place(role, function, f"{what} is a copy, so that a change of it is lost: {instead}")


@contextmanager
def own_outcome(role: str, function: Callable[..., Any], outcome: Outcome) -> Iterator[Outcome]:
    """Yield the outcome with a copy of its output, and log if the function has changed that."""
    try:
        output = outcome.output
    except WrongUse:  # there is none, or the answer cannot be read
        yield outcome
        return
    instead = "correct it in a validator of the output's type, or let a gate return Reject(reason)"
    with own_copy(role, function, "outcome.output", output, instead) as given:
        yield outcome.reading_output(lambda answer: given)


def _is_same(one: Any, other: Any) -> bool:
    """Return whether two values are equal, or hold the same data if their type does not define what is equal."""
    try:
        return bool(one == other) or _as_json(one) == _as_json(other)
    except Exception:  # of the user's type
        return True


def _as_json(value: Any) -> bytes:
    from pydantic_core import to_json

    return to_json(value, fallback=_fields_of, inf_nan_mode="strings")


def _fields_of(value: Any) -> Any:
    """Return what a value that is no JSON holds, with its type."""
    held = structs.asdict(value) if isinstance(value, Struct) else getattr(value, "__dict__", None)
    return [type(value).__name__, held]

"""Wrong attributes and uses of objects: each is told with the class and the right one, once it has failed.

`__getattr__` is called for attributes that are missing, but a class that has it reads each of its attributes about
20 ns more slowly in CPython. So classes that are read many times in each step or chunk have none.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NoReturn, TypeVar

from .errors import WrongAttribute, WrongCall, WrongUse, wrong_name
from .other_names import other_name

Class = TypeVar("Class", bound=type)

_TELLING: dict[str, type] = {}
"""Classes whose objects tell wrong attributes, by name."""


def read_often(target: Class) -> Class:
    """Mark a class whose objects are read many times in each step, so that `explained` and `checked` do not slow it."""
    target._read_often = True  # type: ignore[attr-defined]
    return target


def explained_attributes(target: Class) -> Class:
    """Let the objects of a class tell the right name of an attribute that they do not have."""
    if not hasattr(target, "_read_often") and not any("__getattr__" in vars(base) for base in target.__mro__):
        target.__getattr__ = refuse_attribute  # type: ignore[attr-defined]
    _TELLING[target.__name__] = target
    return target


def refuse_attribute(self: object, name: str) -> Any:
    """Raise WrongAttribute, with the right name."""
    # The text is made when it is read: `hasattr` and `getattr` with a default need none.
    if name.startswith("_") or hasattr(type(self), name):
        return object.__getattribute__(self, name)  # Python's own error, or the one that a property raised
    raise WrongAttribute(partial(_told, self, name), name)


refuse_attribute.__name__ = "__getattr__"  # for `help`


def _told(owner: object, name: str) -> str:
    named = [base.__name__ for base in type(owner).__mro__[:-1]]
    hint = next(filter(None, (other_name(f"{one}.", name) or _elsewhere(one, name) for one in named)), "")
    known = [known for known in dir(owner) if not known.startswith("_")]
    return f"{named[0]} has no attribute {name!r}{hint or wrong_name(named[0], name, known)}"


def _elsewhere(owner: str, name: str) -> str:
    """Return how to reach an attribute that another class has: `run.outcome.answer` for `answer` of a run."""
    for other, target in _TELLING.items():
        if (place := other_name(f"{owner} to {other}", "place")) and name in dir(target):
            return place.replace("NAME", name)
    return ""


class Refused:
    """A special method that refuses a use of an object, such as `await`. It is no function: `help` lists it last."""

    def __init__(self, owner: str, use: str) -> None:
        self._owner, self._use = owner, use

    def __call__(self, *_: object) -> NoReturn:
        """Raise WrongCall, with what to write instead."""
        hint = other_name(f"use of {self._owner}", self._use)
        raise WrongCall(f"{self._owner} cannot be used with `{self._use}`{hint}")

    def __repr__(self) -> str:
        return f"<refused: {self._use}>"


explained_attributes(WrongUse)

"""Wrong calls of public classes and functions: each is told with its class or function, and the right name.

`explained` and `checked` are decorators, `ExplainedStruct` and `CheckedStruct` bases of structs. Those called checked
also look at the types of the values that a constructor is given; all else is done after a call has failed. Signatures,
types, pickling and decoding are those of the class or function itself.

Structs that are made for each chunk, event or decision have neither base: a constructor in Python takes several times
as long as one in C.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_args

from msgspec import Struct, StructMeta

from .argument_types import annotations_of, describe_type, fits
from .errors import WrongCall, WrongUse, wrong_name
from .other_names import other_name
from .signatures import ShortSignatureMeta
from .wrong_attributes import explained_attributes, refuse_attribute

Target = TypeVar("Target", bound=Callable[..., Any])
Class = TypeVar("Class", bound=type)
Made = TypeVar("Made")

LONGEST_VALUE = 80
"""Characters of a wrong value in a message."""


FROM_INSIDE = (TypeError, AttributeError, ValueError, LookupError)
"""Exceptions that code raises when it is given a value of the wrong type. Any other is not explained."""


if TYPE_CHECKING:
    ExplainedStruct = Struct  # whether it is frozen is said by each struct
    CheckedStruct = Struct
else:
    _make = StructMeta.__call__

    class _ExplainedMeta(ShortSignatureMeta):
        def __call__(cls, *args: Any, **keywords: Any) -> Any:  # noqa: N805  a metaclass
            try:
                return _make(cls, *args, **keywords)
            except FROM_INSIDE as error:
                _raise_explanation(error, cls.__name__, cls, args, keywords)
                raise

    class _CheckedMeta(_ExplainedMeta):
        def __call__(cls, *args: Any, **keywords: Any) -> Any:  # noqa: N805  a metaclass
            made = super().__call__(*args, **keywords)
            if (wrong := _wrong_type(cls.__name__, cls, args, keywords)) is not None:
                raise wrong
            return made

    class ExplainedStruct(Struct, metaclass=_ExplainedMeta):
        """Base of structs whose constructors tell the right name of an argument, and objects that of an attribute."""

        __getattr__ = refuse_attribute

    class CheckedStruct(ExplainedStruct, metaclass=_CheckedMeta):
        """Base of structs whose constructors also raise WrongUse for a value of a wrong type."""


def unexplained(struct: type[Made]) -> type[Made]:
    """Return the constructor of a struct without the explanation, which is quicker, for what is made in each step."""
    return cast("type[Made]", partial(StructMeta.__call__, struct))


def explained(target: Target) -> Target:
    """Let a function, or the constructor and methods of a class, tell the right name of an argument.

    An error from inside that a value of a wrong type explains is told as WrongUse, which names the parameter.
    """
    if isinstance(target, type):
        _explain_class(target, checks=False)
        return target
    function: Target = _explained_function(target, target.__qualname__.rpartition("<locals>.")[2])
    return function


def checked(target: Class) -> Class:
    """Let a class tell what `explained` tells, and refuse any value of a wrong type that its constructor is given.

    What the constructor says of a value itself comes first.
    """
    _explain_class(target, checks=True)
    return target


def _explain_class(target: Any, checks: bool) -> None:
    for name, method in vars(target).copy().items():
        if not name.startswith("_") and _takes_keywords(method):
            setattr(target, name, _explained_function(method, f"{target.__name__}.{name}"))
    init = _constructor(target)

    @wraps(init)
    def construct(self: Any, *args: Any, **keywords: Any) -> None:
        try:
            init(self, *args, **keywords)
        except FROM_INSIDE as error:
            owner = _owner(self, target, construct)
            _raise_explanation(error, owner, init, (self, *args), keywords)
            raise
        if checks:
            wrong = _wrong_type(_owner(self, target, construct), init, (self, *args), keywords)
            if wrong is not None:
                raise wrong

    target.__init__ = construct
    explained_attributes(target)


def _constructor(target: type) -> Callable[..., None]:
    """Return the constructor of a class, without what a base adds to it."""
    for base in target.__mro__[:-1]:
        if "__init__" in vars(base) and not getattr(base, "_is_protocol", False):
            init: Callable[..., None] = vars(base)["__init__"]
            return init if base is target else inspect.unwrap(init)
    return _no_arguments


def _no_arguments(self: object) -> None:
    """Stand for the constructor of a class without one: that of `object` says that it takes any argument."""


def _owner(self: object, target: type, constructor: Callable[..., None]) -> str:
    """Return the name to tell: that of a subclass, too, unless it has its own constructor."""
    return type(self).__name__ if type(self).__init__ is constructor else target.__name__


def _takes_keywords(method: Any) -> bool:
    """Return whether a method is called with keywords: it has a default, or a parameter for keywords alone."""
    if not inspect.isfunction(method) or inspect.isasyncgenfunction(method):
        return False
    return bool(method.__kwdefaults__ or method.__defaults__)


def _explained_function(function: Any, owner: str) -> Any:
    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def wait(*args: Any, **keywords: Any) -> Any:
            try:
                coroutine = function(*args, **keywords)
            except TypeError as error:
                _raise_explanation(error, owner, function, args, keywords)
                raise
            return await coroutine

        return wait

    @wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        try:
            return function(*args, **keywords)
        except FROM_INSIDE as error:
            _raise_explanation(error, owner, function, args, keywords)
            raise

    return call


def _raise_explanation(
    error: Exception, owner: str, called: Any, args: tuple[Any, ...], keywords: Mapping[str, Any]
) -> None:
    """Raise what `_explanation` says of a failed call; return if it says nothing, and the error is to be raised."""
    if (told := _explanation(error, owner, called, args, keywords)) is not None:
        raise told from told.__cause__


def _explanation(
    error: Exception, owner: str, called: Any, args: tuple[Any, ...], keywords: Mapping[str, Any]
) -> WrongUse | None:
    """Return what to say of a failed call; None if its arguments fit, and the error is not theirs."""
    if isinstance(error, WrongUse):
        return None
    signature = inspect.signature(called)
    try:
        _bind(signature, args, keywords)
    except TypeError as mismatch:
        return WrongCall(_told(owner, called, signature, keywords, str(mismatch)))
    wrong = _wrong_type(owner, called, args, keywords)
    if wrong is not None:
        wrong.__cause__ = error
    return wrong


def _bind(signature: inspect.Signature, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> None:
    """Raise TypeError if arguments do not fit a signature.

    Python 3.13.0 also binds keywords to parameters that are only positional, which no call does.
    """
    for one in list(signature.parameters.values())[len(args) :]:
        if one.kind is one.POSITIONAL_ONLY and one.default is one.empty:
            raise TypeError(f"missing a required argument: {one.name!r}")
    signature.bind(*args, **keywords)


def _told(owner: str, called: Any, signature: inspect.Signature, keywords: Mapping[str, Any], mismatch: str) -> str:
    parameters = {name: one for name, one in signature.parameters.items() if name != "self"}
    by_name = [name for name, one in parameters.items() if one.kind in (one.KEYWORD_ONLY, one.POSITIONAL_OR_KEYWORD)]
    for given in keywords:
        if given not in by_name:
            if not by_name:
                return f"{owner} takes no arguments by name, and is given {given!r}{other_name(owner, given)}"
            hint = other_name(owner, given) or _own_name(called, given, by_name) or wrong_name(owner, given, by_name)
            return f"{owner} has no parameter {given!r}{hint}"
    if mismatch.startswith("too many positional"):
        named = ", ".join(f"{name}=..." for name in by_name[:3])
        return (
            f"{owner} is given too many values without a name: write {owner}({named})"
            if by_name
            else (f"{owner} takes no arguments: write {owner}()")
        )
    twice = re.fullmatch(r"multiple values for argument '(\w+)'", mismatch)
    if twice is not None:
        return f"{owner} is given {twice[1]!r} twice, once without its name: write {owner}({twice[1]}=...)"
    return f"{owner}: {mismatch}"


def _own_name(called: Any, given: str, by_name: list[str]) -> str:
    """Return where a setting stands if it is one of a group that is a parameter: `policy=Policy(text=...)`."""
    annotations = annotations_of(inspect.unwrap(called))
    found = _within({name: annotations.get(name, Any) for name in by_name}, given, depth=2)
    return f": write `{found}`" if found else ""


def _within(parameters: Mapping[str, Any], given: str, depth: int) -> str:
    groups = [(name, group) for name, kind in parameters.items() for group in _groups(kind)]
    for name, group in groups:
        if given in _settings(group):
            return f"{name}={group.__name__}({given}=...)"
    if depth > 1:
        for name, group in groups:
            if inner := _within(_settings(group), given, depth - 1):
                return f"{name}={group.__name__}({inner})"
    return ""


def _groups(kind: Any) -> Iterator[type]:
    """Yield the classes of an annotation that are groups of settings: structs and dataclasses with keywords alone."""
    for part in get_args(kind) or (kind,):
        is_group = hasattr(part, "__struct_fields__") or hasattr(part, "__dataclass_fields__")
        if is_group and all(one.kind is one.KEYWORD_ONLY for one in inspect.signature(part).parameters.values()):
            yield part


def _settings(group: type) -> Mapping[str, Any]:
    if hasattr(group, "__struct_fields__"):
        return annotations_of(group)
    return annotations_of(inspect.unwrap(group.__init__))  # type: ignore[misc]


def _wrong_type(owner: str, called: Any, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> WrongUse | None:
    """Return the error for the first value of a wrong type; None if there is none."""
    annotations = annotations_of(called if isinstance(called, type) else inspect.unwrap(called))
    for name, value in (*_by_position(called, args), *keywords.items()):
        kind = annotations.get(name, Any)
        if not fits(value, kind):
            return WrongUse(f"{owner}.{name} is {_shown(value)}: use {describe_type(kind)}")
    return None


def _by_position(called: Any, args: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    if hasattr(called, "__struct_fields__"):
        yield from zip(called.__struct_fields__, args, strict=False)
        return
    code = getattr(inspect.unwrap(called), "__code__", None)
    if code is not None:
        yield from zip(code.co_varnames[: code.co_argcount], args, strict=False)
        if code.co_flags & inspect.CO_VARARGS:
            name = code.co_varnames[code.co_argcount + code.co_kwonlyargcount]
            yield from ((name, value) for value in args[code.co_argcount :])


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:
        text = f"a {type(value).__name__}"
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 3] + "..."

"""The two kinds of errors: those that the caller caused and those of the provider.

A run that ends because of a limit, a refusal or a provider's error has an outcome that says so, and raises nothing.

Exception
├── WrongUse(ValueError)      the caller's: a setting, a name or a file that cannot work; exit code 2
│   ├── MissingExtra          a package that is not installed, and the line that installs it; also an ImportError
│   ├── WrongName             a public name that a package does not have; also an ImportError
│   ├── WrongCall             arguments that a class or function does not take; also a TypeError
│   └── WrongAttribute        an attribute that an object does not have; also an AttributeError
└── ProviderError             the provider's (`providers/errors.py`); the loop turns it into an outcome
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .other_names import other_name

LIKENESS = 0.7
"""Least likeness (`difflib`) of a name that is suggested. Measured on parameters and attributes of all public names: of
2,731 misspellings by one letter, 98.7 % are told with the right name (at 0.6: 99.8 %); of words of this repository's
prose, 1.1 % bring a suggestion, which can only be chance (at 0.6: 4.8 %)."""


class WrongUse(ValueError):
    """The caller passed something that cannot work. The message says what is wrong, where, and what to do."""


class MissingExtra(WrongUse, ImportError):
    """A package that comes with an extra of endstop is needed and not installed.

    The message has the line that installs it. `import endstop.web` may raise it, so it is also an ImportError.
    """


class WrongName(WrongUse, ImportError):
    """A public name that a package does not have, with the right one."""


class WrongCall(WrongUse, TypeError):
    """Arguments that a class or function does not take, or a use that its objects do not have, with the right one."""


class WrongAttribute(WrongUse, AttributeError):
    """An attribute that an object does not have, with the right one.

    message: the text, or a function that makes it. It is called once, when the text is read.
    """

    def __init__(self, message: str | Callable[[], str], name: str) -> None:
        super().__init__(message, name)
        self.name, self.obj = name, None  # no object: Python would look for a similar name in it, and add its guess

    def __str__(self) -> str:
        message, name = self.args
        if callable(message):
            message = message()
            self.args = (message, name)
        return str(message)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.name)


def missing_extra(needed: str, extra: str, error: Exception | None = None) -> MissingExtra:
    """Return the error for a missing package.

    needed: what needs which package, for people. error: why the package could not be imported, if that was tried.
    """
    why = f" ({error})" if error else ""
    return MissingExtra(f'{needed}{why}: pip install "endstop[{extra}]"')


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a hint for a misspelt name: `" (did you mean 'steps'?)"`, or the known names if none is close."""
    names = sorted(name for name in known if not name.startswith("_"))
    return similar(word, names) or f" (known: {', '.join(names)})"


def wrong_name(owner: str, given: str, known: Iterable[str]) -> str:
    """Return what to write instead of a name that `owner` does not have.

    owner: a class, a function, a method such as `Engine.run`, a package, or `command line`. known: the names it has.
    """
    return other_name(owner, given) or did_you_mean(given, known)


def similar(word: str, known: Iterable[str]) -> str:
    """Return a hint for a misspelt name, `" (did you mean '--model'?)"`; empty if no known name is close."""
    names = [name for name in known if not name.startswith("_")]
    import difflib

    close = difflib.get_close_matches(word, names, n=1, cutoff=LIKENESS) or [
        name for name in names if sorted(name) == sorted(word) or (len(word) > 2 and name.startswith(word))
    ]
    return f" (did you mean {close[0]!r}?)" if close else ""


def function_name(function: object) -> str:
    """Return the name of a function or class for a message; for another object, that of its class."""
    return str(getattr(function, "__name__", None) or type(function).__name__)


def error_text(error: BaseException) -> str:
    """Return an error's type and message, even if its `__str__` raises."""
    try:
        text = str(error)
    except Exception as inner:
        text = f"(its text cannot be had: {type(inner).__name__})"
    return f"{type(error).__name__}: {text}"

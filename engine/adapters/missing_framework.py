"""Placeholders for the names of a framework that is not installed.

With them each module of this package can be imported, and creating an adapter says what to install.
"""

from __future__ import annotations

from typing import Any

from ..decision import WrongUse


class MissingFramework:
    """Placeholder for a framework's classes and decorators, for a class that is built on them.

    extra: our extra that installs the framework.
    """

    def __init__(self, extra: str, error: ModuleNotFoundError) -> None:
        self._told = (
            f"endstop.adapters needs a framework that is not installed ({error}): pip install 'endstop[{extra}]'"
        )

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        told = self._told

        class Refusing:
            def __new__(cls, *_: Any, **__: Any) -> Any:
                raise WrongUse(told)

        return (Refusing,)

    def __call__(self, *_: Any, **__: Any) -> Any:
        """Return a decorator that returns its argument unchanged."""
        return lambda decorated: decorated

    def __getitem__(self, _: Any) -> Any:
        return self

"""Views that, once they fail, are off: a terminal that is gone, or a fault of ours, must not hurt what they show."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, Protocol, TypeVar


class Closable(Protocol):
    """What all views have."""

    @property
    def tells_answer(self) -> bool:
        """Whether the answer was shown, so that nobody else has to."""
        ...

    def stopping(self) -> None:
        """The user has asked to stop."""
        ...

    def abandon(self) -> None:
        """Leave the terminal usable at once."""
        ...

    def close(self) -> None:
        """Leave the terminal as it was found."""
        ...


V = TypeVar("V", bound=Closable)


class Careful(Generic[V]):
    """Stands for a view, and switches it off at its first failure."""

    def __init__(self, view: V) -> None:
        self._view = view
        self._works = True

    @property
    def tells_answer(self) -> bool:
        """False if it did not get that far."""
        return self._works and self._view.tells_answer

    def stopping(self) -> None:
        """The user has asked to stop."""
        self._view.stopping()

    def abandon(self) -> None:
        """Leave the terminal usable at once."""
        with suppress(OSError):
            self._view.abandon()

    def close(self) -> None:
        """Leave the terminal as it was found."""
        try:
            self._view.close()
        except Exception as error:
            self._fail(error)

    def _if_it_works(self, show: Callable[[], None]) -> None:
        if self._works:
            try:
                show()
            except Exception as error:
                self._fail(error)

    def _fail(self, error: Exception) -> None:
        if self._works:
            self._works = False
            self.close()
            if not isinstance(error, OSError):  # if it is one, there is nobody to tell
                print(f"endstop: the view failed and is off ({type(error).__name__}: {error})", file=sys.stderr)

"""How the queue under trial is made, in this process and in others."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ....decision import WrongUse
from ....durability import Queue


@dataclass(frozen=True, kw_only=True)
class Adapter:
    """A durable engine for one case: nothing of other cases may be in it.

    It is made in several processes, so all that it is made of goes through pickle.
    """

    make: str
    """What gives a Queue, as `package.module:name`, importable in a fresh process with this one's `sys.path`."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """The keyword arguments that it is called with."""
    limited: Mapping[str, Any] | None = None
    """What to add to them so that two jobs are in work at the most, in all processes together."""
    away: Mapping[str, Any] | None = None
    """What to change in them so that nobody answers, with `secret` as the password if there is one."""
    secret: str = ""
    """What must be in no text."""

    def queue(self, more: Mapping[str, Any] | None = None) -> Queue:
        """A new Queue on this engine."""
        module, _, name = self.make.partition(":")
        made: Queue = getattr(importlib.import_module(module), name)(**{**self.arguments, **(more or {})})
        return made

    def check(self) -> None:
        """Raises WrongUse if `make` names nothing."""
        module, colon, name = self.make.partition(":")
        if not (module and colon and name):
            raise WrongUse(f"make={self.make!r} must be written as package.module:name")

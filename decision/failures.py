"""Calls that failed, with nothing after them that could have made up for it.

A run that reports its work as done right after such a failure deserves a second look: its only edit may have been
refused. A failure is made up for by a success of a later step, since only that was made with the failure known. For a
call that may write it takes the success of another call that may write; for any other call any success will do.
Completions, questions and thoughts are neither. What parallel calls of one step add does not depend on their order.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from .messages import ResultStatus, ToolSpec

MAX_NAMES = 8
"""Names that are kept of each kind: the first in the alphabet."""
FAILED_STATUSES: frozenset[ResultStatus] = frozenset({"error", "invalid", "truncated", "unknown"})


class Failures(Struct, frozen=True, kw_only=True):
    """The failures that nothing has made up for, by the names of their tools."""

    writes: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    new_writes: tuple[str, ...] = ()
    """Of the latest step."""
    new_others: tuple[str, ...] = ()
    writing: frozenset[str] = frozenset()
    """Tools that may write."""
    control: frozenset[str] = frozenset()
    """Tools that steer the run and do no work."""

    @classmethod
    def of(cls, tools: Iterable[ToolSpec]) -> Failures:
        """None yet, with these tools."""
        tools = tuple(tools)
        return cls(
            writing=frozenset(tool.name for tool in tools if tool.kind == "ordinary" and not tool.reads),
            control=frozenset(tool.name for tool in tools if tool.kind != "ordinary"),
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The tools, each once."""
        return tuple(sorted({*self.writes, *self.others, *self.new_writes, *self.new_others}))

    def step_started(self) -> Failures:
        """A step begins: what failed in the one before is known to the model."""
        if not self.new_writes and not self.new_others:
            return self
        return replace(
            self,
            writes=_add_names(self.writes, *self.new_writes),
            others=_add_names(self.others, *self.new_others),
            new_writes=(),
            new_others=(),
        )

    def with_result(self, name: str, status: ResultStatus) -> Failures:
        """A call of the step was answered."""
        if name in self.control:
            return self
        if status in FAILED_STATUSES:
            if name in self.writing:
                return replace(self, new_writes=_add_names(self.new_writes, name))
            return replace(self, new_others=_add_names(self.new_others, name))
        if status != "ok" or not (self.writes or self.others):
            return self
        return replace(self, writes=() if name in self.writing else self.writes, others=())


def _add_names(names: tuple[str, ...], *more: str) -> tuple[str, ...]:
    return tuple(sorted({*names, *more})[:MAX_NAMES])

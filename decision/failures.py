"""Failed tool calls that no later success made up for.

A run that reports its work as done right after such a failure deserves a second look: its only edit may have been
refused. A failure is cleared by a success in a *later* step, because only then did the model know of the failure. A
failed write is cleared only by a successful write, any other failure by any success. Completion, question and think
calls do not clear or add failures. The result does not depend on the order in which parallel calls of one step end.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from .messages import ResultStatus, ToolSpec

MAX_NAMES = 8
"""Number of tool names kept of each kind, the first in alphabetical order: facts must not grow with the run."""
FAILED_STATUSES: frozenset[ResultStatus] = frozenset({"error", "invalid", "truncated", "unknown"})


class Failures(Struct, frozen=True, kw_only=True):
    """Names of the tools whose failures have not been cleared."""

    writes: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    new_writes: tuple[str, ...] = ()
    """Failures of the latest step, which only a later step can clear."""
    new_others: tuple[str, ...] = ()
    writing: frozenset[str] = frozenset()
    """Tools that may write."""
    control: frozenset[str] = frozenset()
    """Tools that control the run and do no work: completions, questions and think tools."""

    @classmethod
    def of(cls, tools: Iterable[ToolSpec]) -> Failures:
        """Return the state at the beginning of a run with these tools, without failures."""
        tools = tuple(tools)
        return cls(
            writing=frozenset(tool.name for tool in tools if tool.kind == "ordinary" and not tool.reads),
            control=frozenset(tool.name for tool in tools if tool.kind != "ordinary"),
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all tools with a failure that was not cleared, sorted."""
        return tuple(sorted({*self.writes, *self.others, *self.new_writes, *self.new_others}))

    def step_started(self) -> Failures:
        """Start a new step: the model now knows of the failures of the previous one."""
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
        """Add a call's result to the step."""
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

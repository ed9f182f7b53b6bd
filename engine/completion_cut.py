"""Finds the completion call at which a streaming response is cut."""

from __future__ import annotations

from .decision import Assembler, ToolCall


class CompletionCut:
    """The completions of one response that may end the run, in the order in which they became complete."""

    __slots__ = ("_assembler", "_waiting")

    def __init__(self, assembler: Assembler) -> None:
        self._assembler = assembler
        self._waiting: list[ToolCall] = []

    def __bool__(self) -> bool:
        """Whether there is such a completion."""
        return bool(self._waiting)

    def add(self, call: ToolCall) -> None:
        """Add a completion that has just become complete."""
        self._waiting.append(call)

    def call_id(self) -> str | None:
        """The id of the first completion before which all calls are complete; None while there is none.

        A completion that got more arguments after it was complete is left out: these made it invalid.
        """
        while self._waiting and self._assembler.all_complete_before(self._waiting[0].id):
            if self._assembler.call(self._waiting[0].id) == self._waiting[0]:
                return self._waiting[0].id
            self._waiting.pop(0)
        return None

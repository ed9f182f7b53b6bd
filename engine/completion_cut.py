"""The completion call at which a streaming response is cut."""

from __future__ import annotations

from .decision import Assembler, ToolCall


class CompletionCut:
    """Completions of one response that may end the run, in the order in which they became complete."""

    __slots__ = ("_assembler", "waiting")

    def __init__(self, assembler: Assembler) -> None:
        self._assembler = assembler
        self.waiting: list[ToolCall] = []
        """Those that may still be found."""

    def add(self, call: ToolCall) -> None:
        """Add a completion that has just become complete."""
        self.waiting.append(call)

    def call_id(self) -> str | None:
        """Return the id of the first completion before which all calls are complete; None if there is none yet.

        A completion that got more arguments after it was complete is left out, because they made it invalid.
        """
        while self.waiting and self._assembler.all_complete_before(self.waiting[0].id):
            if self._assembler.call(self.waiting[0].id) == self.waiting[0]:
                return self.waiting[0].id
            self.waiting.pop(0)
        return None

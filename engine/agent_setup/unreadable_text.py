"""The error for a configuration that cannot be read or changed, with the place."""

from __future__ import annotations


class UnreadableText(ValueError):
    """A text that breaks the rules of its syntax, or has another shape than what is added to it.

    line, column: where, from 1.
    """

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(message)
        self.line, self.column = line, column


def unreadable_at(text: str, position: int, message: str) -> UnreadableText:
    """Return the error for a position of the text, in characters from 0."""
    before = text[:position]
    return UnreadableText(message, before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1)

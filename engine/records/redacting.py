"""Redaction of what goes into a record: each text of a user, a model or a tool, by a function from text to text.

What the model sees is never changed, only what is written. The deltas of a response are held back until it is whole,
because a secret may be cut anywhere: then each text is redacted as a whole and dealt out over its deltas again, so
that a record has the same events at the same times. A process that is killed in the middle of a response therefore
loses the events of that response, which is asked for again anyway.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..decision import Event
from ..decision.events import STREAM_PARTS, AttemptFailed, ResponseFinished, RunFinished, StepFinished
from .deltas import Deltas
from .format import AfterCut
from .texts import Redact, Texts

_CLOSING = (ResponseFinished, AttemptFailed, StepFinished, RunFinished)


class Redactor:
    """Takes the lines of a record in order, and gives those that may be written, redacted."""

    def __init__(self, redact: Redact) -> None:
        self._texts = Texts(redact)
        self._held: list[Event | AfterCut] = []
        """A response that is not whole yet, with all that has happened meanwhile."""

    def take(self, line: Event | AfterCut) -> Sequence[Event | AfterCut]:
        """What may be written now: this line, nothing yet, or a whole response."""
        if not self._held and type(line) not in STREAM_PARTS and type(line) is not AfterCut:
            return (self._texts.struct(line),)
        self._held.append(line)
        closes = isinstance(line, _CLOSING) and not (isinstance(line, AttemptFailed) and line.beside)
        return self.rest() if closes else ()

    def rest(self) -> Sequence[Event | AfterCut]:
        """What is still held back; nothing can be added to it any more."""
        held, self._held = self._held, []
        if not held:
            return ()
        dealt = Deltas(self._texts).dealt(held)
        return [dealt[number] if number in dealt else self._texts.struct(line) for number, line in enumerate(held)]

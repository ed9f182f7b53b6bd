"""A teller that tells nobody: for events that were shown elsewhere, or are passed over. It knows where they end."""

from __future__ import annotations

from collections.abc import Sequence

from ...decision import Decision, Outcome
from ...decision.events import RunStarted
from .base import Call, Kind, Shade, Teller
from .clean import clean
from .rounds import Round
from .text import Ending


class Unheard:
    """Remembers how the run began, the step that is under way, and the text that is being written."""

    def __init__(self) -> None:
        self._started: RunStarted | None = None
        self._step: tuple[int, bool] | None = None
        self._kind: Kind = "text"
        self._written: list[str] = []

    def tell(self, teller: Teller, inside: bool) -> None:
        """Hand on to another teller what it needs to go on from here."""
        if self._started is not None:
            teller.begin(self._started)
        if inside and self._step is not None:
            teller.step(*self._step)
            written = clean("".join(self._written))
            before, _, row = written.rpartition("\n")
            if written.strip():
                teller.write(self._kind, f"… {row}" if before.strip() else row)

    def leave_step(self) -> None:
        """The step is over."""
        self._step = None
        self._written = []

    # ---- telling

    def begin(self, started: RunStarted) -> None:
        """A run begins."""
        self._started = started
        self.leave_step()

    def step(self, number: int, closing: bool) -> None:
        """A step begins."""
        self._step = (number, closing)
        self._written = []

    def write(self, kind: Kind, delta: str) -> None:
        """The model writes."""
        if kind != self._kind:
            self._kind, self._written = kind, []
        self._written.append(delta)

    def end_writing(self) -> None:
        """What was written would have been shown."""
        self._written = []

    def call(self, call: Call) -> None:
        """Nothing."""

    def thought(self, text: str) -> None:
        """Nothing."""

    def round(self, round: Round) -> None:
        """Nothing."""

    def phase(self, percentage: int, summary: str, next_phase: str | None) -> None:
        """Nothing."""

    def note(self, text: str, shade: Shade, body: Sequence[str] = ()) -> None:
        """Nothing."""

    def decided(self, round: int, decision: Decision) -> None:
        """Nothing."""

    def end(self, ending: Ending, outcome: Outcome) -> None:
        """The run is over."""
        self.leave_step()

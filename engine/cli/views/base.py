"""The ways in which a run is told: what each view brings, and what the story hands to it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Generic, Literal, Protocol, TypeVar

from ..._sanitize import clean
from ...decision import Decision, Outcome
from ...decision import events as ev
from ...decision.events import RunStarted
from ...decision.messages import ResultStatus, ToolKind
from .rounds import Round
from .styled_lines import Shade
from .text import Ending

Kind = Literal["text", "reasoning"]


@dataclass(slots=True)
class Call:
    """A call and what became of it."""

    name: str
    kind: ToolKind = "ordinary"
    written: list[str] = field(default_factory=list)
    running: bool = False
    began: int = 0
    ended: int = 0
    result: str = ""
    status: ResultStatus = "ok"
    word: str = ""
    """What became of it, where its status does not say so: `accepted`."""

    @property
    def arguments(self) -> str:
        """What the model wrote so far."""
        return "".join(self.written)


class Teller(Protocol):
    """The ways in which a view tells things."""

    def begin(self, started: ev.RunStarted) -> None:
        """A run begins."""
        ...

    def step(self, number: int, closing: bool) -> None:
        """A step begins."""
        ...

    def write(self, kind: Kind, delta: str) -> None:
        """The model writes."""
        ...

    def end_writing(self) -> None:
        """What the model wrote is whole, or will never be."""
        ...

    def call(self, call: Call) -> None:
        """An ordinary call, or one that went wrong, has its result."""
        ...

    def round(self, round: Round) -> None:
        """The model has planned, the plan was executed, and the model has thought about the results."""
        ...

    def thought(self, text: str) -> None:
        """The model called a tool to think."""
        ...

    def phase(self, percentage: int, summary: str, next_phase: str | None) -> None:
        """A part of the work is done."""
        ...

    def note(self, text: str, shade: Shade, body: Sequence[str] = ()) -> None:
        """Something in a line, and a few lines more where there is more to say."""
        ...

    def decided(self, round: int, decision: Decision) -> None:
        """The loop's decision, for those who want it explained."""
        ...

    def end(self, ending: Ending, outcome: Outcome) -> None:
        """The run is over."""
        ...


# Views that, once they fail, are off: a terminal that is gone, or a fault of ours, must not hurt what they show.


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


# A teller that tells nobody: for events that were shown elsewhere, or are passed over. It knows where they end.


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

"""The ways in which a run is told: what each view brings, and what the story hands to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from ...decision import Decision, Outcome
from ...decision import events as ev
from ...decision.messages import ResultStatus, ToolKind
from .rounds import Round
from .text import Ending

Kind = Literal["text", "reasoning"]
Shade = Literal["quiet", "loop", "good", "warning", "bad", "user", "strong"]


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

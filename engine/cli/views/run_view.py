"""Base classes of the views of a run.

A view derives from `RunView` and overrides what it shows. `show` gives it one event of the run; a view passes it to an
`EventNarrator` (`narrator.py`), which calls the methods from `begin` to `end`. A `RunView` itself shows nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, cast

from ...base.sanitize import sanitize
from ...decision import Decision, Event, Outcome
from ...decision import events as ev
from ...decision.call_results import CallEnd
from ...decision.messages import ResultStatus, ToolKind
from ...event_bus import Lagged
from .rounds import Round
from .styled_lines import Line, Shade
from .text import EndingText

Kind = Literal["text", "reasoning"]


@dataclass(slots=True)
class Call:
    """A tool call and its result."""

    name: str
    kind: ToolKind = "ordinary"
    written: list[str] = field(default_factory=list)
    running: bool = False
    began: int = 0
    ended: int = 0
    result: str = ""
    status: ResultStatus = "ok"
    end: CallEnd = "succeeded"
    """How it ended, as far as that is known."""
    word: str = ""
    """The result in a word, if the status does not say it: `accepted`."""

    @property
    def shown_status(self) -> ResultStatus | Literal["returned"]:
        """The status shown to people: for a result with the status `ok`, only what is known about its call."""
        if self.status != "ok" or self.end == "succeeded":
            return self.status
        return "returned" if self.end == "unknown" else "error"

    @property
    def arguments(self) -> str:
        """The arguments as far as the model has written them."""
        return "".join(self.written)


class View:
    """The base of all views of a run."""

    shows_answer: bool = False
    """Whether the view showed the answer, so that the command need not print it."""

    def show_stopping(self) -> None:
        """Show that the run is being stopped. May be called from a signal handler."""

    def restore_terminal(self) -> None:
        """Make the terminal usable at once, without waiting for anything: the process is about to end."""

    def close(self) -> None:
        """Leave the terminal as it was found."""


class RunView(View):
    """A view of one run. Every method does nothing here."""

    # Called by the command that runs or replays.

    def show(self, event: Event | Lagged) -> None:
        """Show one more event."""

    def skip(self, events: Sequence[Event], *, inside: bool = False) -> None:
        """Process events without showing them. `inside`: show the step in which they end, as far as it got."""

    def set_explain(self, on: bool) -> None:
        """Set whether decisions are shown from now on, each with every rule that was considered."""

    def print_lines(self, draw: Callable[[int], Iterable[Line]]) -> None:
        """Show lines that belong to no event. `draw` gets the width in columns."""

    def show_prompt(self, lines: Sequence[str]) -> None:
        """Show what the user is asked for instead of the status line; no lines remove it."""

    # Called by the view's EventNarrator.

    def begin(self, started: ev.RunStarted) -> None:
        """Show that a run begins."""

    def step(self, number: int, closing: bool) -> None:
        """Show that a step begins."""

    def write(self, kind: Kind, delta: str) -> None:
        """Show more text of the model, as it streams in."""

    def end_writing(self) -> None:
        """Show what is left of the text; what `write` gets next is a new text."""

    def call(self, call: Call) -> None:
        """Show a tool call with its result, or a completion call that waits for the user."""

    def round(self, round: Round) -> None:
        """Show a plan with its results, and what the model thought about them."""

    def thought(self, text: str) -> None:
        """Show what the model wrote with the tool for thinking."""

    def phase(self, percentage: int, summary: str, next_phase: str | None) -> None:
        """Show how much of the work the model has reported as done."""

    def note(self, text: str, shade: Shade, body: Sequence[str] = ()) -> None:
        """Show anything else that is worth a line; `body` has more lines about it."""

    def cut(self, words: str) -> None:
        """Show that a response was cut at its completion call, which was shown just before, and what that saved."""

    def decided(self, round: int, decision: Decision) -> None:
        """Show a decision of the loop; called only if decisions are to be explained."""

    def end(self, ending: EndingText, outcome: Outcome) -> None:
        """Show how the run ended."""


class ViewSnapshot(RunView):
    """The state that another view needs to continue after events that were not shown: run, open step, its text."""

    def __init__(self) -> None:
        self._started: ev.RunStarted | None = None
        self._step: tuple[int, bool] | None = None
        self._kind: Kind = "text"
        self._written: list[str] = []

    def show_in(self, view: RunView, inside: bool) -> None:
        """Show in `view` how the run began and, if `inside`, the open step as far as it got."""
        if self._started is not None:
            view.begin(self._started)
        if inside and self._step is not None:
            view.step(*self._step)
            written = sanitize("".join(self._written))
            before, _, row = written.rpartition("\n")
            if written.strip():
                view.write(self._kind, f"… {row}" if before.strip() else row)

    def leave_step(self) -> None:
        """Forget the open step and its text."""
        self._step = None
        self._written = []

    def begin(self, started: ev.RunStarted) -> None:
        """Keep how the run began."""
        self._started = started
        self.leave_step()

    def step(self, number: int, closing: bool) -> None:
        """Keep the step."""
        self._step = (number, closing)
        self._written = []

    def write(self, kind: Kind, delta: str) -> None:
        """Keep the text."""
        if kind != self._kind:
            self._kind, self._written = kind, []
        self._written.append(delta)

    def end_writing(self) -> None:
        """Drop the text: a view would have shown all of it."""
        self._written = []

    def end(self, ending: EndingText, outcome: Outcome) -> None:
        """Forget the open step."""
        self.leave_step()


V = TypeVar("V", bound=View)


def fault_tolerant(view: V) -> V:
    """Wrap the view so that its first error switches it off.

    Neither a lost terminal nor a bug in a view may end a run.
    """
    return cast(V, _FaultTolerant(view))


class _FaultTolerant:
    def __init__(self, view: View) -> None:
        self._view = view
        self._works = True

    def __getattr__(self, name: str) -> Callable[..., None]:
        method = getattr(self._view, name)

        def call_while_it_works(*args: Any, **options: Any) -> None:
            if self._works:
                try:
                    method(*args, **options)
                except Exception as error:
                    self._switch_off(error)

        return call_while_it_works

    @property
    def shows_answer(self) -> bool:
        return self._works and self._view.shows_answer

    def show_stopping(self) -> None:
        self._view.show_stopping()

    def restore_terminal(self) -> None:
        with suppress(OSError):
            self._view.restore_terminal()

    def close(self) -> None:
        try:
            self._view.close()
        except Exception as error:
            self._switch_off(error)

    def _switch_off(self, error: Exception) -> None:
        if self._works:
            self._works = False
            self.close()
            if not isinstance(error, OSError):  # the terminal is gone: nobody would read this
                print(f"endstop: the view failed and is off ({type(error).__name__}: {error})", file=sys.stderr)

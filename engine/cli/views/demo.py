"""The view of `endstop demo`: two recorded runs side by side, played back faster than recorded, on one clock.

Each side folds the events of its record as they become due. In a narrow terminal, one side is above the other; where
nothing can be drawn, only the last state is printed.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ...base.sanitize import one_line
from ...decision import Event, Facts, fold
from ...decision import events as ev
from .styled_lines import Shade, display_width
from .terminal import REFRESHES, SHADES, Terminal
from .text import call_summary, counted, duration, ending_of, tokens

BESIDE = 90
"""The width in columns from which the two sides are next to each other."""
WIDEST = 150
CUT = "cut here: the call is whole, the connection is closed"
TALLEST = 16
"""Rows of a side, without its frame."""


@dataclass(slots=True)
class DemoRow:
    """A row of a side: a step, or an event in it."""

    text: str
    shade: Shade | None = None
    mark: str = ""
    """The remark on the step, after it."""
    mark_shade: Shade | None = None

    def cut_to(self, width: int) -> str:
        """Return the part of the text that fits into this many columns together with the mark that follows it."""
        room = width - (display_width(self.mark) + 2 if self.mark else 0)
        return self.text if display_width(self.text) <= room else f"{self.text[: max(1, room - 1)]}…"


class DemoSide:
    """One recorded run, as far as it has been played: a row for each step, and the usage so far."""

    def __init__(self, name: str, explained: str, events: Sequence[Event]) -> None:
        self.name = name
        self.explained = explained
        self.lasts = max(event.t for event in events)
        """How long the run took, in milliseconds."""
        self.rows: list[DemoRow] = []
        self._facts = Facts()
        self._waiting = list(reversed(events))
        self._step = DemoRow("")
        """The row of the latest step."""
        self._call = ""
        self._written = ""
        self._reported = False

    def play(self, until: float) -> None:
        """Take in all events up to this time of the run, in milliseconds."""
        while self._waiting and self._waiting[-1].t <= until:
            event = self._waiting.pop()
            self._facts = fold(self._facts, event)
            self._show(event)

    def used(self, t: float) -> str:
        """Return what the run has used at this time, in milliseconds."""
        now = min(t, self.lasts)
        parts = (counted(self._facts.steps, "step"), tokens(self._facts.usage), duration(now // 100 * 100))
        return " · ".join(part for part in parts if part)

    def _show(self, event: Event) -> None:
        match event:
            case ev.StepStarted():
                self._step = DemoRow(f"{event.step:>3}  …", "quiet")
                self.rows.append(self._step)
            case ev.ToolCallStart():
                self._call, self._written = event.name, ""
                self._show_call()
            case ev.ToolCallArgs():
                self._written += event.delta
                self._show_call()
            case ev.CompletionAccepted():
                self._step.mark, self._step.mark_shade = (
                    ("← says done again", "warning") if self._reported else ("← says done", "good")
                )
                self._reported = True
            case ev.ResponseFinished(cut_at=str()):
                self.rows.append(DemoRow("     ── cut here: the call is whole, the stream is closed", "good"))
            case ev.RunFinished():
                ending = ending_of(event.outcome)
                shade: Shade = "good" if event.outcome.status == "completed" else "bad"
                self.rows += [DemoRow(f"     {text}", shade) for text in (ending.title, ending.work) if text]
            case _:
                pass

    def _show_call(self) -> None:
        self._step.text = f"{self._facts.steps:>3}  {one_line(call_summary(self._call, self._written), 200)}"
        self._step.shade = None


def play(descriptor: int, sides: Sequence[DemoSide], speed: float) -> None:
    """Play the sides this many times as fast as recorded, in the terminal at this descriptor.

    The last picture stays.
    """
    console = Terminal(descriptor)
    began, lasts = time.monotonic(), max(side.lasts for side in sides)
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        t = 0.0
        while t < lasts:
            t = min(lasts, (time.monotonic() - began) * 1000 * speed)
            live.update(draw(sides, t, speed, *console.size), refresh=True)
            time.sleep(1 / REFRESHES)


def draw(sides: Sequence[DemoSide], t: float, speed: float, width: int, height: int) -> RenderableType:
    """Draw the sides at this time of the recording, in milliseconds, in a terminal of this many columns and lines."""
    lasts = max(side.lasts for side in sides)
    clock = _one_row(clock_text(t, lasts, speed), "quiet")
    beside = width >= BESIDE
    room = (height - 6) if beside else (height - 2) // len(sides) - 4
    width = min(width - 1, WIDEST) // (len(sides) if beside else 1)
    rows = max(3, min(TALLEST, room))
    panels = [_panel(side, t, width, rows) for side in sides]
    if not beside:
        return Group(*panels, clock)
    grid = Table.grid()
    grid.add_row(*panels)
    return Group(grid, clock)


def _panel(side: DemoSide, t: float, width: int, rows: int) -> Panel:
    side.play(t)
    shown = [_drawn(row, width - 4) for row in side.rows[-rows:]]
    return Panel(
        Group(
            _one_row(side.explained, "quiet"),
            *shown,
            *[Text("")] * (rows - len(shown)),
            _one_row(side.used(t), "strong"),
        ),
        title=Text(side.name, style="bold"),
        title_align="left",
        box=box.ROUNDED,
        border_style="dim",
        padding=(0, 1),
        width=width,
    )


def as_text(sides: Sequence[DemoSide]) -> str:
    """Return the ended sides one after the other, without colours."""
    lines: list[str] = []
    for side in sides:
        side.play(side.lasts)
        lines += [
            f"{side.name}: {side.explained}",
            *(f"{row.text}  {row.mark}".rstrip() for row in side.rows),
            side.used(side.lasts),
            "",
        ]
    return "\n".join(lines)


def clock_text(t: float, lasts: float, speed: float) -> str:
    """Return the line below both sides: that they are recordings, the speed of playback and the position."""
    return f"recorded; played {speed:g} times as fast: {duration(t // 1000 * 1000)} of {duration(lasts)}"


def _drawn(row: DemoRow, width: int) -> Text:
    drawn = _one_row(row.cut_to(width), row.shade)
    if row.mark:
        drawn.append(f"  {row.mark}", SHADES[row.mark_shade] if row.mark_shade else "")
    return drawn


def _one_row(text: str, shade: Shade | None) -> Text:
    return Text(text, style=SHADES[shade] if shade else "", no_wrap=True, overflow="ellipsis")

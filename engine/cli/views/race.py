"""What shows a race to people: side by side in a terminal, in plain lines elsewhere, or not at all."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from time import monotonic
from typing import Protocol

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ...batch import aligned
from ...decision import Event, Outcome, Usage
from ...event_bus import Lagged
from ...process.streams import Channels
from ...race import RaceResult
from ...tasks import TaskResult
from .base import Careful
from .clean import clean, one_line
from .lane import Lane
from .plain import Plain
from .select import can_draw
from .terminal import OnScreen
from .text import cost, duration, tokens

NAME = 40
"""Characters of a model's name."""


class RaceView(Protocol):
    """Shows what happens to each racer. `notes` are lines for the end: where things lie."""

    @property
    def tells_answer(self) -> bool:
        """True if who looks at it has read the winner's answer."""
        ...

    def show(self, number: int, event: Event | Lagged) -> None:
        """Show one more event of a racer."""
        ...

    def finish(self, race: RaceResult, notes: Sequence[str]) -> None:
        """Show how the race ended."""
        ...

    def stopping(self) -> None:
        """The user has asked to stop. May be called from a signal handler."""
        ...

    def abandon(self) -> None:
        """Leave the terminal usable at once, whatever else is lost."""
        ...

    def close(self) -> None:
        """Leave the terminal as it was found."""
        ...


class SilentRace:
    """Shows nothing."""

    tells_answer = False

    def show(self, number: int, event: Event | Lagged) -> None:
        """Nothing."""

    def finish(self, race: RaceResult, notes: Sequence[str]) -> None:
        """Nothing."""

    def stopping(self) -> None:
        """Nothing."""

    def abandon(self) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


class PlainRace(SilentRace):
    """One line or a few for each thing that happens, with the racer's name before it."""

    def __init__(self, names: Sequence[str]) -> None:
        width = max(len(one_line(name, NAME)) for name in names)
        self._lanes = [_Lane(one_line(name, NAME).ljust(width)) for name in names]

    def show(self, number: int, event: Event | Lagged) -> None:
        """Show one more event of a racer."""
        self._lanes[number].show(event)

    def finish(self, race: RaceResult, notes: Sequence[str]) -> None:
        """The table, and who won."""
        for lane in self._lanes:
            lane.close()
        for line in (*aligned(table_of(race)), verdict_on(race), *notes):
            print(line, file=sys.stderr, flush=True)


class _Lane(Plain):
    def __init__(self, name: str) -> None:
        super().__init__(explain=False, saved=lambda: None)
        self._name = name

    def _line(self, text: str) -> None:
        super()._line(f"{self._name} | {text}")


class CarefulRace(Careful[RaceView]):
    """The view of a race, off once it fails."""

    def show(self, number: int, event: Event | Lagged) -> None:
        """Show one more event."""
        self._if_it_works(lambda: self._view.show(number, event))

    def finish(self, race: RaceResult, notes: Sequence[str]) -> None:
        """Show how the race ended."""
        self._if_it_works(lambda: self._view.finish(race, notes))


def choose_race_view(channels: Channels, names: Sequence[str], prompt: str, *, quiet: bool) -> RaceView:
    """The view that fits where stderr goes."""
    if quiet:
        return SilentRace()
    if can_draw(channels.stderr):
        from .race_live import LiveRace

        return CarefulRace(LiveRace(channels, names, prompt))
    return CarefulRace(PlainRace(names))


# ---- how it ended, in words

HEAD = ("  model", "ended", "steps", "in", "out", "cost", "time", "work")


def table_of(race: RaceResult, mark: str = ">") -> list[tuple[str, ...]]:
    """A row for each racer, under a head; the winner is marked."""
    return [HEAD, *(_row(result, result is race.winner, mark) for result in race.results)]


def verdict_on(race: RaceResult) -> str:
    """Who won, and what all of it took."""
    used = " · ".join(part for part in (tokens(race.usage), cost(race.usage)) if part)
    together = f"; together {used}" if used else ""
    if race.winner is None:
        return f"nobody won: no run completed{together}"
    bad = ", though its evaluation failed" if race.winner.outcome.verdict == "failed" else ""
    return f"the winner is {one_line(race.winner.id, NAME)}{bad}{together}"


def ended(outcome: Outcome) -> str:
    """The status, and the stop reason where it says more."""
    reason = outcome.stop_reason.removeprefix("custom:")
    return outcome.status if reason == outcome.status else f"{outcome.status} ({reason})"


def _row(result: TaskResult, won: bool, mark: str) -> tuple[str, ...]:
    outcome = result.outcome
    return (
        f"{mark if won else ' '} {one_line(result.id, NAME)}",
        ended(outcome).replace("_", " "),
        str(outcome.steps),
        _tokens(outcome.usage, outcome.usage.input_tokens),
        _tokens(outcome.usage, outcome.usage.output_tokens),
        cost(outcome.usage) or "-",
        duration(outcome.duration_ms),
        outcome.work or "-",
    )


def _tokens(usage: Usage, many: int) -> str:
    return f"{'~' if usage.estimated else ''}{many:,}"


# The live view of a race: the racers side by side, each with the last lines of what it does.
#
# All of it is one region that is drawn anew. At the end its last state is printed for good, with the table under it.

NARROWEST = 38
"""Columns that a racer needs; with more racers than fit beside one another, some stand below."""
WIDEST = 76
TALLEST = 18
"""Lines of a racer, its frame included."""


class LiveRace(OnScreen):
    """Shows a race in the terminal that `channels.stderr` is."""

    def __init__(self, channels: Channels, names: Sequence[str], prompt: str) -> None:
        super().__init__(channels, self._side_by_side, self._printed)
        self._prompt = prompt
        self._lanes = [Lane(name) for name in names]
        self._console = self._screen.console

    def show(self, number: int, event: Event | Lagged) -> None:
        """Show one more event of a racer."""
        if not self._screen.is_open:
            self._console.print(Text(one_line(self._prompt, self._console.width - 1), style="bold"))
            self._screen.open()
        with self._screen.drawing:
            self._lanes[number].take(event)

    def finish(self, race: RaceResult, notes: Sequence[str]) -> None:
        """Leave the racers as they stand, with the table under them and the winner's answer."""
        self._screen.close()
        for lane, result in zip(self._lanes, race.results, strict=True):
            lane.settle(result.outcome, won=result is race.winner)
        self._console.print(self._side_by_side(whole=True))
        self._console.print(_table(race, self._console.width))
        self._console.print(Text(verdict_on(race), style="bold green" if race.winner else "bold red"))
        for note in notes:
            self._console.print(Text(note, style="dim"), soft_wrap=True)
        if race.winner is not None and self.tells_answer and race.winner.outcome.answer.strip():
            good = race.winner.outcome.verdict != "failed"
            panel = Panel(
                Text(clean(race.winner.outcome.answer).strip()),
                title=Text(f"{'✔' if good else '✘'} {one_line(race.winner.id, NAME)}"),
                title_align="left",
                box=box.HEAVY if good else box.ROUNDED,
                border_style="green" if good else "red",
                padding=(0, 2),
                width=min(self._console.width, 100),
            )
            self._console.print(panel)

    def _printed(self, line: str) -> None:
        self._console.print(Text(f"¦ {clean(line)}", style="dim", no_wrap=True, overflow="ellipsis"))

    def _side_by_side(self, whole: bool = False) -> RenderableType:
        """All racers; `whole`: each as tall as it needs to be, for good."""
        size = self._console.size
        room = size.width - 2  # for the terminal's own ^C, which may come in the middle of any line
        beside = max(1, min(len(self._lanes), room // NARROWEST))
        below = -(-len(self._lanes) // beside)
        width = min(WIDEST, room // beside)
        height = max(4, min(TALLEST, (size.height - 4) // below))
        now = monotonic()
        if whole:
            height = min(height, 2 + max(lane.needs(width - 4) for lane in self._lanes))
        drawn = [lane.panel(width, height, now) for lane in self._lanes]
        grid = Table.grid()
        for _ in range(beside):
            grid.add_column(width=width)
        for first in range(0, len(drawn), beside):
            row = drawn[first : first + beside]
            grid.add_row(*row, *[""] * (beside - len(row)))
        if whole:
            return grid
        last = "stopping · Ctrl-C again to leave at once" if self._stopping else ""
        return Group(grid, Text(last, style="magenta"))


def _table(race: RaceResult, width: int) -> Table:
    head, *rows = table_of(race, "▸")
    gap = 2 if width > 100 else 1
    table = Table(box=box.SIMPLE_HEAD, padding=(0, gap, 0, 0), pad_edge=False, header_style="dim", show_edge=False)
    for name in head:
        right = name in _NUMBERS
        table.add_column(name, justify="right" if right else "left", no_wrap=name != "ended", overflow="ellipsis")
    for row, result in zip(rows, race.results, strict=True):
        table.add_row(*map(Text, row), style="bold green" if result is race.winner else "")
    return table


_NUMBERS = ("steps", "in", "out", "cost", "time")

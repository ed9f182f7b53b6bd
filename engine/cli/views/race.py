"""Views of a race: the base class, the plain view, and the race's end in words."""

from __future__ import annotations

from collections.abc import Sequence

from ...analysis.endings import short_ending
from ...base.sanitize import one_line
from ...batch import aligned
from ...decision import Event, Usage
from ...event_bus import Lagged
from ...race import RaceResult
from ...tasks import TaskResult
from .plain import PlainView, print_plain
from .run_view import View
from .text import cost, duration, tokens

NAME = 40
"""The most characters that are shown of a model's name."""


class RaceView(View):
    """A view of a race. Every method does nothing here."""

    def show(self, number: int, event: Event | Lagged) -> None:
        """Show one more event of a racer; `number` is its place in the order of the models, from 0."""

    def finish(self, race: RaceResult, notes: Sequence[str]) -> None:
        """Show how the race ended. `notes`: lines about what it left, such as records and workspaces."""


class PlainRaceView(RaceView):
    """View that prints a few lines for each event that matters, each preceded by the racer's name."""

    def __init__(self, names: Sequence[str]) -> None:
        width = max(len(one_line(name, NAME)) for name in names)
        self._columns = [_PlainColumn(one_line(name, NAME).ljust(width)) for name in names]

    def show(self, number: int, event: Event | Lagged) -> None:
        """Show one more event of a racer."""
        self._columns[number].show(event)

    def finish(self, race: RaceResult, notes: Sequence[str]) -> None:
        """Print a table of the racers, and who won."""
        for column in self._columns:
            column.close()
        for line in (*aligned(race_table(race)), race_verdict(race), *notes):
            print_plain(line, whole=True)


class _PlainColumn(PlainView):
    def __init__(self, name: str) -> None:
        super().__init__(explain=False, saved=lambda: None)
        self._name = name

    def _line(self, text: str, *, whole: bool = False) -> None:
        super()._line(f"{self._name} | {text}", whole=whole)


# ---- how the race ended

HEAD = ("  model", "ended", "steps", "in", "out", "cost", "time", "work")


def race_table(race: RaceResult, mark: str = ">") -> list[tuple[str, ...]]:
    """Return a header row and a row for each racer; the winner is marked."""
    return [HEAD, *(_row(result, result is race.winner, mark) for result in race.results)]


def race_verdict(race: RaceResult) -> str:
    """Return who won, and what all racers used together."""
    used = " · ".join(part for part in (tokens(race.usage), cost(race.usage)) if part)
    together = f"; total {used}" if used else ""
    if race.winner is None:
        return f"nobody won: no run completed{together}"
    bad = ", though its evaluation failed" if race.winner.outcome.verdict == "failed" else ""
    return f"the winner is {one_line(race.winner.id, NAME)}{bad}{together}"


def _row(result: TaskResult, won: bool, mark: str) -> tuple[str, ...]:
    outcome = result.outcome
    return (
        f"{mark if won else ' '} {one_line(result.id, NAME)}",
        short_ending(outcome.stop_reason),
        str(outcome.steps),
        _tokens(outcome.usage, outcome.usage.input_tokens),
        _tokens(outcome.usage, outcome.usage.output_tokens),
        cost(outcome.usage) or "-",
        duration(outcome.duration_ms),
        outcome.work or "-",
    )


def _tokens(usage: Usage, many: int) -> str:
    return f"{'~' if usage.estimated else ''}{many:,}"

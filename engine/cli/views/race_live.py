"""The live view of a race: the racers side by side, each with its last lines of output.

The whole view is one region that is redrawn. At the end its last state is printed, with a table of the racers below.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from time import monotonic

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ...base.sanitize import one_line, sanitize
from ...decision import Event, Outcome
from ...event_bus import Lagged
from ...process.streams import StdStreams
from ...race import RaceResult
from .narrator import EventNarrator
from .race import NAME, RaceView, race_table, race_verdict
from .rounds import Round
from .run_view import Call, Kind, RunView
from .styled_lines import Shade
from .terminal import SHADES, ScreenView, spinner, wrap_text
from .text import EndingText, Tone, arguments, counted, duration, first_lines

NARROWEST = 38
"""Columns that a racer needs. Racers that do not fit side by side are shown in further rows."""
WIDEST = 100
"""Columns of a racer at most: longer lines are hard to read."""
TALLEST = 18
"""Lines of a racer, including its frame."""
KEPT = 60
"""How many entries (lines or texts) of a racer are kept, the latest."""
LONGEST = 2000
"""How many characters of a text are kept, the last ones."""
ROOMY = 50
"""Columns from which a racer's state is shown with all its numbers."""

_TONES: dict[Tone, tuple[str, str]] = {
    "success": ("green", "✔"),
    "doubt": ("yellow", "!"),
    "limit": ("yellow", "■"),
    "failure": ("red", "✘"),
    "cancelled": ("magenta", "■"),
    "question": ("blue", "?"),
}


class LiveRaceView(ScreenView, RaceView):
    """View of a race in the terminal at `std_streams.stderr`."""

    def __init__(self, std_streams: StdStreams, names: Sequence[str], prompt: str) -> None:
        super().__init__(std_streams, self._side_by_side, self._printed)
        self._prompt = prompt
        self._columns = [RaceColumn(name) for name in names]
        self._console = self._screen.console

    def show(self, number: int, event: Event | Lagged) -> None:
        """Show one more event of a racer."""
        if not self._screen.is_open:
            prompt = Text(one_line(self._prompt, self._console.width), style="bold", no_wrap=True, overflow="ellipsis")
            self._console.print(prompt)
            self._screen.open()
        with self._screen.drawing:
            self._columns[number].show(event)

    def finish(self, race: RaceResult, notes: Sequence[str]) -> None:
        """Print the final state of the racers, the table and the winner's answer."""
        self._screen.close()
        for column, result in zip(self._columns, race.results, strict=True):
            column.set_outcome(result.outcome, won=result is race.winner)
        self._console.print(self._side_by_side(whole=True))
        self._console.print(_table(race, self._console.width))
        self._console.print(Text(race_verdict(race), style="bold green" if race.winner else "bold red"))
        for note in notes:
            self._console.print(Text(note, style="dim"), soft_wrap=True)
        if race.winner is not None and self.shows_answer and race.winner.outcome.answer.strip():
            good = race.winner.outcome.verdict != "failed"
            panel = Panel(
                Text(sanitize(race.winner.outcome.answer).strip()),
                title=Text(f"{'✔' if good else '✘'} {one_line(race.winner.id, NAME)}"),
                title_align="left",
                box=box.HEAVY if good else box.ROUNDED,
                border_style="green" if good else "red",
                padding=(0, 2),
                width=min(self._console.width, 100),
            )
            self._console.print(panel)

    def _printed(self, line: str) -> None:
        self._console.print(Text(f"¦ {sanitize(line)}", style="dim", no_wrap=True, overflow="ellipsis"))

    def _side_by_side(self, whole: bool = False) -> RenderableType:
        """Return all racers side by side; `whole`: each as tall as it needs to be."""
        size = self._console.size
        room = size.width - 2  # leaves room for the ^C that the terminal prints into a line
        beside = max(1, min(len(self._columns), room // NARROWEST))
        below = -(-len(self._columns) // beside)
        width = min(WIDEST, room // beside)
        height = max(4, min(TALLEST, (size.height - 4) // below))
        now = monotonic()
        if whole:
            height = min(height, 2 + max(column.needs(width - 4) for column in self._columns))
        drawn = [column.panel(width, height, now) for column in self._columns]
        grid = Table.grid()
        for _ in range(beside):
            grid.add_column(width=width)
        for first in range(0, len(drawn), beside):
            row = drawn[first : first + beside]
            grid.add_row(*row, *[""] * (beside - len(row)))
        if whole:
            return grid
        last = "stopping · press Ctrl-C again to exit at once" if self._stopping else ""
        return Group(grid, Text(last, style="magenta"))


def _table(race: RaceResult, width: int) -> Table:
    head, *rows = race_table(race, "▸")
    gap = 2 if width > 100 else 1
    table = Table(box=box.SIMPLE_HEAD, padding=(0, gap, 0, 0), pad_edge=False, header_style="dim", show_edge=False)
    for name in head:
        right = name in _NUMBERS
        table.add_column(name, justify="right" if right else "left", no_wrap=name != "ended", overflow="ellipsis")
    for row, result in zip(rows, race.results, strict=True):
        table.add_row(*map(Text, row), style="bold green" if result is race.winner else "")
    return table


_NUMBERS = ("steps", "in", "out", "cost", "time")


class RaceColumn(RunView):
    """One racer: the last lines of its output in a frame, with its state below."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._narrator = EventNarrator(self, explain=False)
        self._entries: deque[_Entry] = deque(maxlen=KEPT)
        self._writing: _Entry | None = None
        self._kind: Kind | None = None
        self._heard = monotonic()
        self._ending: EndingText | None = None
        self._outcome: Outcome | None = None
        self._won = False

    def show(self, event: Event | Lagged) -> None:
        """Show one more event."""
        self._heard = monotonic()
        self._narrator.feed(event)

    def set_outcome(self, outcome: Outcome, *, won: bool) -> None:
        """Set how the run ended; its last events may not have been seen."""
        self._outcome, self._won = outcome, won

    def needs(self, width: int) -> int:
        """Return how many lines the racer's entries and state take at this width, in columns."""
        return 1 + sum(1 for entry in self._entries for _ in entry.rows(width))

    def panel(self, width: int, height: int, now: float) -> Panel:
        """Render the racer in this many columns and lines; `now` is `time.monotonic()`."""
        inner, lines = width - 4, max(1, height - 3)
        shown = list(self._last(lines, inner))
        blank = [Text("")] * (lines - len(shown))
        colour = "dim" if self._ending is None else _TONES[self._ending.tone][0]
        won = "green" if self._ending is None else colour  # the winner's work may still be wrong
        title = Text(one_line(self._name, inner - 8), style=f"bold {won}" if self._won else "bold")
        return Panel(
            Group(*shown, *blank, self._state(now, inner)),
            title=title if not self._won else Text.assemble(title, (" · won", won)),
            title_align="left",
            box=box.HEAVY if self._won else box.ROUNDED,
            border_style=won if self._won else colour,
            padding=(0, 1),
            width=width,
            height=height,
        )

    def _last(self, lines: int, width: int) -> Iterator[Text]:
        found: list[Text] = []
        for entry in reversed(self._entries):
            found[:0] = entry.rows(width)
            if len(found) >= lines:
                break
        yield from found[-lines:]

    def _state(self, now: float, width: int) -> Text:
        line = Text(no_wrap=True, overflow="ellipsis")
        narrator, outcome = self._narrator, self._outcome
        if outcome is not None:
            tone = self._ending.tone if self._ending is not None else "failure"
            line.append(f"{_TONES[tone][1]} {outcome.status.replace('_', ' ')}", style=f"bold {_TONES[tone][0]}")
            line.append(f" · {counted(outcome.steps, 'step')} · {duration(outcome.duration_ms)}", style="dim")
        else:
            t = narrator.t + round((now - self._heard) * 1000)
            line.append(f"{spinner(now)} {narrator.activity}")
            allowed = narrator.of_allowed if width > ROOMY else ""
            shown = (f"step {narrator.facts.steps}{allowed}", duration(t // 1000 * 1000 or t), *narrator.usage_parts(t))
            for part in shown[: None if width > ROOMY else 2]:
                line.append(f" · {part}", style="dim")
        line.truncate(width, overflow="ellipsis")
        return line

    def _add(self, text: str, style: str = "", *, cut: bool = False, indent: str = "") -> None:
        self._entries.append(_Entry(text, style, cut, indent))

    # ---- called by the narrator

    def step(self, number: int, closing: bool) -> None:
        """Add a line for the step."""
        self._add("── closing step" if closing else f"── step {number}", "dim", cut=True)

    def write(self, kind: Kind, delta: str) -> None:
        """Append to the entry of the text."""
        if self._writing is None or kind != self._kind:
            self._writing, self._kind = _Entry("", "dim italic" if kind == "reasoning" else "", False, ""), kind
            self._entries.append(self._writing)
        self._writing.text = (self._writing.text + sanitize(delta)).lstrip()[-LONGEST:]

    def end_writing(self) -> None:
        """Begin another entry with the next text."""
        self._writing = None

    def call(self, call: Call) -> None:
        """Add the call, and the first line of its result."""
        shown = "  ".join(f"{name}={value}" if name else value for name, value in arguments(call.arguments, 40))
        good = call.status == "ok"
        style = "dim" if call.kind == "completion" and good else "green" if good else "red"
        self._add(f"● {one_line(call.name, 40)}  {shown}".rstrip(), style, cut=True)
        lines, _ = first_lines(call.result, 1)
        if lines[0].strip():
            self._add(lines[0].strip(), "dim" if good else "red", cut=True, indent="  ")

    def thought(self, text: str) -> None:
        """Add the thought."""
        self._add(f"◇ {sanitize(text).strip()}", "blue")

    def round(self, round: Round) -> None:
        """Add the planned calls, and the thought about them."""
        for step in round.steps:
            self._add(f"○ {step.call}", "dim", cut=True, indent="  ")
        self._add(f"◇ {sanitize(round.thought).strip()}", "blue")

    def phase(self, percentage: int, summary: str, next_phase: str | None) -> None:
        """Add the reported percentage."""
        done = f": {one_line(summary, 200)}" if summary.strip() else ""
        self._add(f"◔ {percentage} % reported as done{done}", "blue")

    def note(self, text: str, shade: Shade, body: Sequence[str] = ()) -> None:
        """Add the note in its colour, and the last line of its body."""
        self._add(text, SHADES[shade])
        for line in body[-1:]:
            self._add(line, "dim", cut=True, indent="  ")

    def cut(self, words: str) -> None:
        """Add the cut."""
        self._add(f"✂ {words}", SHADES["loop"])

    def end(self, ending: EndingText, outcome: Outcome) -> None:
        """Add how the run ended, and its answer."""
        self._ending, self._outcome = ending, outcome
        colour, glyph = _TONES[ending.tone]
        self._add(f"{glyph} {ending.title}", f"bold {colour}")
        if ending.work:
            self._add(ending.work, _TONES[ending.work_tone][0])
        if ending.text.strip() and not ending.answered_above:
            self._add(sanitize(ending.text).strip())


class _Entry:
    """A line, or a text of several lines."""

    def __init__(self, text: str, style: str, cut: bool, indent: str) -> None:
        self.text = text
        self._style, self._cut, self._indent = style, cut, indent

    def rows(self, width: int) -> list[Text]:
        """Return the entry's rows at this width, without blank ones; a line is cut to one row."""
        text = f"{self._indent}{self.text}"
        if self._cut:
            row = Text(one_line(text, 400) if not self._indent else text, style=self._style, no_wrap=True)
            row.truncate(width, overflow="ellipsis")
            return [row]
        return [Text(row, style=self._style, no_wrap=True) for row in wrap_text(text, width) if row.strip()]

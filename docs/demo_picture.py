"""Draws `endstop demo` as a picture that moves: `docs/pictures/demo.svg`, the first thing in README.

    python docs/demo_picture.py         # writes the picture; `make docs` runs it

It plays the records of the command through the command's own view, notes when a line changes, and shows each state of
the line for as long. Where motion is not wanted (`prefers-reduced-motion`), the last state stands still.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import NamedTuple

from endstop.cli.demo import SPEED, read_sides
from endstop.cli.views.demo import DemoRow, DemoSide, clock_text

PICTURE = Path(__file__).parent / "pictures" / "demo.svg"
EVERY = 1_000
"""Milliseconds of the recording between two looks at it."""
HOLD = 5_000
"""Milliseconds for which the last state is shown before the picture begins again."""
ROW, WIDE, GAP, EDGE = 18, 520, 16, 14
"""Pixels: height of a line, width of a side, space between the sides, and within their frames."""
COLUMNS = 67
"""Letters of a line, of 7.25 pixels each."""
ROWS = 14
"""Lines for the rows of a side: the latest ones."""
NOTHING = DemoRow("")
COLOURS = {None: "#e6edf3", "quiet": "#8b949e", "warning": "#d29922", "good": "#3fb950", "bad": "#f85149"}
BACKGROUND, FRAME = "#0d1117", "#30363d"


class Shown(NamedTuple):
    """A text at a place in pixels, from one time of the recording to another (milliseconds); None: to the end."""

    x: float
    y: float
    row: DemoRow
    since: int
    until: int | None = None


def picture() -> str:
    """The picture, as SVG."""
    sides = read_sides()
    lasts = max(side.lasts for side in sides)
    times = [*range(0, lasts, EVERY), lasts]
    shown = [text for number, side in enumerate(sides) for text in _side(side, number * (WIDE + GAP), times)]
    height = round(max(text.y for text in shown)) + EDGE
    clock = [(t, DemoRow(clock_text(t, lasts, SPEED), "quiet")) for t in times]
    shown += _line(EDGE, height + ROW, clock)
    width = len(sides) * (WIDE + GAP) - GAP + 1
    frames = "".join(
        f'<rect x="{n * (WIDE + GAP) + 0.5}" y="0.5" width="{WIDE}" height="{height}" rx="8" stroke="{FRAME}" '
        f'fill="{BACKGROUND}"/>\n'
        for n in range(len(sides))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height + 2 * ROW}" width="{width}" role="img"'
        ' font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="12">\n'
        "<title>endstop demo: the usual loop goes on after the task was reported as done; endstop stops there</title>\n"
        f"<style>\n{_style(shown, lasts / SPEED, lasts / SPEED + HOLD)}</style>\n"
        f'<rect width="{width}" height="{height + 2 * ROW}" rx="8" fill="{BACKGROUND}"/>\n'
        f"{frames}{''.join(map(_element, shown))}</svg>\n"
    )


def _side(side: DemoSide, x: float, times: Sequence[int]) -> Iterator[Shown]:
    """The texts of a side: its name, its latest rows, and below them what was used."""
    head = ([(0, DemoRow(text, shade))] for text, shade in ((side.name, "strong"), (side.explained, "quiet")))
    rows: list[list[tuple[int, DemoRow]]] = [[] for _ in range(ROWS)]
    used: list[tuple[int, DemoRow]] = []
    for t in times:
        side.play(t)
        latest = side.rows[-ROWS:]
        for number, states in enumerate(rows):
            states.append((t, replace(latest[number]) if number < len(latest) else NOTHING))
        used.append((t, DemoRow(side.used(t), "strong")))
    nothing = [(0, NOTHING)]
    for number, states in enumerate((*head, nothing, *rows, nothing, used), start=1):
        yield from _line(x + EDGE, number * ROW + 4, states)


def _line(x: float, y: float, states: Iterable[tuple[int, DemoRow]]) -> Iterator[Shown]:
    """The states of a line, each until the next one that differs."""
    latest: Shown | None = None
    for t, row in states:
        if latest is None or row != latest.row:
            if latest is not None:
                yield latest._replace(until=t)
            latest = Shown(x, y, row, t)
    if latest is not None:
        yield latest


def _style(shown: Iterable[Shown], plays: float, whole: float) -> str:
    """An animation for each span of time in which a text is shown; `plays` and `whole` are milliseconds."""
    rules = [f"text {{ white-space: pre }}\n[class] {{ animation: {whole / 1000:.2f}s step-end infinite }}\n"]
    for since, until in sorted({(text.since, text.until or 0) for text in shown}):
        begins, ends = (t / SPEED / whole * 100 for t in (since, until))
        frames = f"0% {{ opacity: {int(not since)} }} " + (f"{begins:.2f}% {{ opacity: 1 }} " if since else "")
        frames += f"{ends:.2f}% {{ opacity: 0 }} " if until else ""
        name = _name(since, until)
        rules.append(f"@keyframes {name} {{ {frames}}}\n.{name} {{ animation-name: {name} }}\n")
    hidden = "[class*=to] { display: none }"
    rules.append(f"@media (prefers-reduced-motion: reduce) {{ [class] {{ animation: none }} {hidden} }}\n")
    return "".join(rules)


def _element(text: Shown) -> str:
    row = text.row
    if not row.text:
        return ""
    weight = ' font-weight="bold"' if row.shade == "strong" else ""
    colour = COLOURS.get(row.shade, COLOURS[None])
    mark = (
        f'<tspan fill="{COLOURS.get(row.mark_shade, COLOURS[None])}">  {escape(row.mark)}</tspan>' if row.mark else ""
    )
    shown = "" if not text.since and text.until is None else f' class="{_name(text.since, text.until)}"'
    return (
        f'<text x="{text.x}" y="{text.y}" fill="{colour}"{weight}{shown}>{escape(row.cut_to(COLUMNS))}{mark}</text>\n'
    )


def _name(since: int, until: int | None) -> str:
    return f"f{since}" + (f"to{until}" if until else "")


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")

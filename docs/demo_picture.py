"""Draws `endstop demo` as a picture that moves: `docs/pictures/demo.svg`, the first thing in README.

    python docs/demo_picture.py         # writes the picture; `make docs` runs it

It lets both sides read without pauses, draws the lines of the command's own view as they are at the pace of the stream,
and shows each state of a line for as long. Where motion is not wanted (`prefers-reduced-motion`), the last one stands
still.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from html import escape
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from endstop.cli.demo import READER, explained, head, recorded_runs
from endstop.cli.demo_sides import DemoSides
from endstop.cli.demo_stream import PACE
from endstop.cli.views.demo import DemoSide, side_lines
from endstop.cli.views.styled_lines import Line

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "pictures" / "demo.svg"
EVERY = 12
"""Chunks between two looks at the sides."""
HOLD = 8_000
"""Milliseconds for which the last state is shown before the picture begins again."""
COLUMNS, LETTER, ROW, EDGE = 100, 7.25, 18, 14
"""Letters of a line; pixels: width of a letter, height of a line, within the frame."""
COLOURS = {None: "#e6edf3", "quiet": "#8b949e", "good": "#3fb950", "bad": "#f85149"}
BACKGROUND = "#0d1117"


class Shown(NamedTuple):
    """A line of the picture, from one time to another (milliseconds); None: to the end."""

    number: int
    line: Line
    since: int
    until: int | None = None


def picture() -> str:
    """The picture, as SVG."""
    with tempfile.TemporaryDirectory() as folder:
        sides = DemoSides(Path(folder), lambda: asyncio.sleep(0))
        outcome = asyncio.run(sides.read())
        begun = list(head(sides.stream, PACE, COLUMNS, Path("endstop", *READER.parts[-2:])))
        ended = list(explained(sides, outcome, *recorded_runs(), COLUMNS))
    states = [(_ms(sent), [*begun, *_sides_at(sides.progress(), sent)]) for sent in _looks(sides)]
    plays = states[-1][0]
    states[-1] = plays, [*begun, *side_lines(sides.progress(), COLUMNS), *ended]
    shown = list(_shown(states))
    width, height = round(COLUMNS * LETTER) + 2 * EDGE, len(states[-1][1]) * ROW + 2 * EDGE
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img"'
        ' font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="12">\n'
        "<title>endstop demo: the usual reader reads on and runs ten calls after finish_task; endstop closes the "
        "stream there</title>\n"
        f"<style>\n{_style(shown, plays + HOLD)}</style>\n"
        f'<rect width="{width}" height="{height}" rx="8" fill="{BACKGROUND}"/>\n'
        f"{''.join(map(_element, shown))}</svg>\n"
    )


def _looks(sides: DemoSides) -> list[int]:
    """The chunks after which the sides are looked at; one more, when the calls have run."""
    chunks = len(sides.stream.events)
    return [*range(0, chunks, EVERY), chunks]


def _ms(sent: int) -> int:
    return round(sent * PACE * 1000)


def _sides_at(sides: Sequence[DemoSide], sent: int) -> list[Line]:
    return side_lines([replace(side, sent=min(side.sent, sent), calls=0) for side in sides], COLUMNS)


def _shown(states: Sequence[tuple[int, Sequence[Line]]]) -> Iterator[Shown]:
    """Yield what each line shows, one text after another, with the time at which the next one takes its place."""
    times = [t for t, _ in states]
    for number, lines in enumerate(zip_longest(*(lines for _, lines in states), fillvalue=())):
        latest = Shown(number, lines[0], times[0])
        for t, line in zip(times, lines, strict=True):
            if list(line) != list(latest.line):
                yield latest._replace(until=t)
                latest = Shown(number, line, t)
        yield latest


def _style(shown: Iterable[Shown], whole: float) -> str:
    """An animation for each span of time in which a line is shown; `whole` is milliseconds."""
    rules = [f"text {{ white-space: pre }}\n[class] {{ animation: {whole / 1000:.2f}s step-end infinite }}\n"]
    for since, until in sorted({(text.since, text.until or 0) for text in shown}):
        begins, ends = (t / whole * 100 for t in (since, until))
        frames = f"0% {{ opacity: {int(not since)} }} " + (f"{begins:.2f}% {{ opacity: 1 }} " if since else "")
        frames += f"{ends:.2f}% {{ opacity: 0 }} " if until else ""
        name = _name(since, until)
        rules.append(f"@keyframes {name} {{ {frames}}}\n.{name} {{ animation-name: {name} }}\n")
    hidden = "[class*=to] { display: none }"
    rules.append(f"@media (prefers-reduced-motion: reduce) {{ [class] {{ animation: none }} {hidden} }}\n")
    return "".join(rules)


def _element(shown: Shown) -> str:
    pieces = "".join(
        f'<tspan fill="{COLOURS.get(shade, COLOURS[None])}"{_weight(shade)}>{escape(text)}</tspan>'
        for text, shade in shown.line
        if text
    )
    still = not shown.since and shown.until is None
    moves = "" if still else f' class="{_name(shown.since, shown.until)}"'
    y = EDGE + shown.number * ROW + 12
    return f'<text x="{EDGE}" y="{y}"{moves}>{pieces}</text>\n' if pieces else ""


def _weight(shade: str | None) -> str:
    return ' font-weight="bold"' if shade == "strong" else ""


def _name(since: int, until: int | None) -> str:
    return f"f{since}" + (f"to{until}" if until else "")


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")

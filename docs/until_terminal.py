"""Draws a run that its check ends as a terminal shows it: `docs/pictures/until_terminal.svg`, a picture that moves.

    python docs/until_terminal.py         # writes the picture; `make docs` runs it

It gives the recorded run (`until_picture.py`) to the command's own view, notes when a line comes, and
scrolls as it did.
Where motion is not wanted (`prefers-reduced-motion`), the end stands still.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr
from html import escape
from io import BytesIO, TextIOWrapper
from pathlib import Path
from textwrap import wrap
from typing import NamedTuple

from endstop import read_record
from endstop.cli.views.plain import PlainView
from endstop.decision import Event
from endstop.decision import events as ev

PICTURES = Path(__file__).parent / "pictures"
RECORD, PICTURE = PICTURES / "until.jsonl", PICTURES / "until_terminal.svg"
ROWS, COLUMNS = 25, 108
ROW, LETTER, EDGE = 18, 7.25, 14
"""Pixels: a line, a letter, and the edges."""
HOLD = 6_000
"""Milliseconds for which the end is shown before the picture begins again."""
BACKGROUND, COLOUR, QUIET, LINE, GOOD, BAD = "#0d1117", "#e6edf3", "#8b949e", "#58a6ff", "#3fb950", "#f85149"
COLOURS = {
    "✂": GOOD,
    "cut": GOOD,
    "the response is cut": GOOD,
    "Task complete": GOOD,
    "checked by": GOOD,
    "not accepted": BAD,
    "step ": QUIET,
    "    ": QUIET,
    "◔ check": LINE,
    "score of": LINE,
}
"""Colours of lines by how they begin, without the indentation of a note."""


class Line(NamedTuple):
    """A line of the terminal: its number from the top, and the milliseconds from when and up to when it is there."""

    number: int
    text: str
    since: int
    until: int | None = None


def lines() -> list[Line]:
    """All lines of the run. A text that streams has a line for each state of its last row."""
    shown: list[Line] = []
    printed, streamed = 0, ""
    for event, news in _views():
        if isinstance(event, ev.TextMessageContent):
            streamed += event.delta
            rows = wrap(streamed, COLUMNS - 2) or [""]
            row = Line(printed + len(rows) - 1, f"  {rows[-1]}", event.t)
            if shown and shown[-1].number == row.number:
                shown[-1] = shown[-1]._replace(until=event.t)
            elif len(rows) > 1:  # the word that did not fit any more has left the row before
                shown[-1] = shown[-1]._replace(text=f"  {rows[-2]}")
            shown.append(row)
        for text in news:
            if streamed and text.split() == streamed.split():
                printed += len(wrap(streamed, COLUMNS - 2))  # it is there already
                streamed = ""
                continue
            shown.append(Line(printed, text if len(text) <= COLUMNS else f"{text[: COLUMNS - 1]}…", event.t))
            printed += 1
    return shown


def _views() -> Iterator[tuple[Event, list[str]]]:
    """Each event of the run with the lines that the view prints for it."""
    view = PlainView(explain=False, saved=lambda: None)
    for run in read_record(RECORD).runs:
        for event in run.events:
            with redirect_stderr(TextIOWrapper(BytesIO(), encoding="utf-8")) as printed:
                view.show(event)
            printed.seek(0)
            yield event, printed.read().splitlines()


def picture() -> str:
    """The picture, as SVG."""
    shown = lines()
    lasts = shown[-1].since
    whole = lasts + HOLD
    width, height = round(COLUMNS * LETTER + 2 * EDGE), ROWS * ROW + 2 * EDGE
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img"'
        ' font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="12">\n'
        "<title>A run in a terminal: its last response is cut as soon as the tests pass</title>\n"
        f"<style>\n{''.join(_style(shown, whole))}</style>\n"
        f'<rect width="{width}" height="{height}" rx="8" fill="{BACKGROUND}"/>\n'
        f'<clipPath id="screen"><rect x="0" y="{EDGE}" width="{width}" height="{ROWS * ROW}"/></clipPath>\n'
        f'<g clip-path="url(#screen)"><g class="scroll">\n{"".join(map(_element, shown))}</g></g></svg>\n'
    )


def _style(shown: Sequence[Line], whole: int) -> Iterator[str]:
    """The animations: when each line is there, and how far the screen has scrolled; `whole` is in milliseconds."""
    yield f"text {{ white-space: pre }}\n[class] {{ animation: {whole / 1000:.2f}s step-end infinite }}\n"
    for since, until in sorted({(line.since, line.until or 0) for line in shown}):
        frames = f"0% {{ opacity: {int(not since)} }} {since / whole * 100:.3f}% {{ opacity: 1 }} "
        frames += f"{until / whole * 100:.3f}% {{ opacity: 0 }} " if until else ""
        yield f"@keyframes {_name(since, until)} {{ {frames}}}\n"
        yield f".{_name(since, until)} {{ animation-name: {_name(since, until)} }}\n"
    scrolls = {0: 0}
    for line in shown:
        scrolls[line.since] = max(max(scrolls.values()), line.number + 1 - ROWS)
    frames = "".join(
        f"{at / whole * 100:.3f}% {{ transform: translateY({-by * ROW}px) }} "
        for (at, by), before in zip(scrolls.items(), [None, *scrolls.values()], strict=False)
        if by != before
    )
    end = f"transform: translateY({-max(scrolls.values()) * ROW}px)"
    yield f"@keyframes scroll {{ {frames}}}\n.scroll {{ animation-name: scroll; {end} }}\n"
    yield "@media (prefers-reduced-motion: reduce) { [class] { animation: none } [class*=to] { display: none } }\n"


def _element(line: Line) -> str:
    if not line.text.strip():
        return ""
    begins = line.text if line.text.startswith("    ") else line.text.strip()
    colour = next((colour for begin, colour in COLOURS.items() if begins.startswith(begin)), COLOUR)
    colour = GOOD if begins.startswith("check ") else colour
    name, y = _name(line.since, line.until or 0), EDGE + (line.number + 0.75) * ROW
    return f'<text x="{EDGE}" y="{y}" fill="{colour}" class="{name}">{escape(line.text)}</text>\n'


def _name(since: int, until: int) -> str:
    return f"f{since}" + (f"to{until}" if until else "")


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")

"""Lines of text whose pieces have shades such as `bad`, for views with and without colours; wrapping and columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal
from unicodedata import category, east_asian_width

Shade = Literal["quiet", "loop", "good", "warning", "bad", "user", "strong"]
Piece = tuple[str, Shade | None]
Line = Sequence[Piece]


def display_width(text: str) -> int:
    """Return the columns that the text takes in a terminal."""
    if text.isascii():
        return len(text)
    return sum(map(_cells, text))


def _cells(character: str) -> int:
    if category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if east_asian_width(character) in "WF" else 1


def plain_text(line: Line) -> str:
    """Return the line without its shades."""
    return "".join(text for text, _ in line).rstrip()


def fit(text: str, width: int) -> str:
    """Cut the text to at most `width` columns; an ellipsis ends it if it was cut."""
    if display_width(text) <= width:
        return text
    return text[: _beginning(text, width - 1)].rstrip() + "…"


def wrap(text: str, width: int) -> list[str]:
    """Break the text into rows of at most `width` columns, at spaces if possible; at least one row."""
    rows: list[str] = []
    for line in text.split("\n"):
        rows += _fold(line, max(2, width))
    return rows


def _beginning(line: str, width: int) -> int:
    """Return how many leading characters of the line fit into `width` columns."""
    end = used = 0
    while end < len(line) and used + display_width(line[end]) <= width:
        used += display_width(line[end])
        end += 1
    return end


def _fold(line: str, width: int) -> Iterator[str]:
    while display_width(line) > width:
        end = _beginning(line, width)
        space = line.rfind(" ", 1, end + 1)
        cut = space if space > 0 and line[:space].strip() else end
        yield line[:cut].rstrip(" ")
        line = line[cut:].lstrip(" ")
    yield line


def side_by_side(columns: Sequence[Sequence[Piece]], widths: Sequence[int], gap: int = 2) -> Iterator[Line]:
    """Yield lines with the columns side by side, each padded to its width except the last."""
    for number in range(max(map(len, columns), default=0)):
        line: list[Piece] = []
        for column, width in zip(columns, widths, strict=True):
            text, shade = column[number] if number < len(column) else ("", None)
            line += [(text, shade), (" " * (width + gap - display_width(text)), None)]
        yield line[:-1]

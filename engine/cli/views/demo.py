"""The view of `endstop demo`: for each side a bar of the chunks it was sent, beside it what came after the end.

It is drawn again and again while both sides read, and printed once when both have ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Group
from rich.live import Live

from .styled_lines import Line, Piece, Shade, wrap
from .terminal import REFRESHES, Terminal, styled
from .text import counted

LONGEST_BAR, SHORTEST_BAR = 60, 8
UNICODE, ASCII = "█▒·", "#+."
"""Signs of a bar: chunks up to the end of `finish_task`, chunks after it, and chunks that were never sent."""
_SHADES: tuple[Shade | None, ...] = (None, "bad", "quiet")
_ROOM = len("192 chunks and 10 calls after finish_task")
"""Columns for the counts: as many as they may need at the end, so that a bar keeps its length."""


@dataclass(frozen=True, slots=True)
class DemoSide:
    """How far a side has come. `sent` of `chunks` in all; `finish_task` is whole after `done_at` of them.

    calls: how many calls it has run that stand after `finish_task` in the stream.
    """

    name: str
    sent: int
    done_at: int
    chunks: int
    calls: int

    @property
    def counts(self) -> str:
        """What came after `finish_task`; before it, how many chunks there were so far."""
        if self.sent < self.done_at:
            return f"{counted(self.sent, 'chunk')}, no finish_task yet"
        chunks, calls = counted(self.sent - self.done_at, "chunk"), counted(self.calls, "call")
        return f"{chunks} and {calls} after finish_task"


def side_lines(sides: Sequence[DemoSide], width: int, signs: str = UNICODE) -> list[Line]:
    """Return the lines of all sides: a name, then a bar, and the counts beside it or, without room, below it."""
    room = width - 1 - max(_ROOM, *(len(side.counts) for side in sides))
    length = min(LONGEST_BAR, room) if room >= SHORTEST_BAR else min(LONGEST_BAR, width)
    lines: list[Line] = []
    for side in sides:
        lines += ([(row, None)] for row in wrap(side.name, width))
        bar, counts = _bar(side, length, signs), (side.counts, _shade(side))
        if room >= SHORTEST_BAR:
            lines.append([*bar, (" ", None), counts])
        else:
            lines += (bar, *([(row, counts[1])] for row in wrap(side.counts, width)))
    return lines


async def watch(descriptor: int, look: Callable[[], Sequence[DemoSide]]) -> None:
    """Draw the sides in the terminal at this descriptor until cancelled; then remove what was drawn."""
    console = Terminal(descriptor)
    with Live(console=console, auto_refresh=False, transient=True, vertical_overflow="crop") as live:
        while True:
            lines = side_lines(look(), console.size.width - 1)
            live.update(Group(*map(styled, lines)), refresh=True)
            await asyncio.sleep(1 / REFRESHES)


def _bar(side: DemoSide, length: int, signs: str) -> list[Piece]:
    """Return the three parts of a bar of this length. A single chunk after `finish_task` is seen in it, too."""
    before = length * min(side.sent, side.done_at) // side.chunks
    after = -(-length * max(0, side.sent - side.done_at) // side.chunks)
    widths = before, min(after, length - before), max(0, length - before - after)
    return [(sign * width, shade) for sign, width, shade in zip(signs, widths, _SHADES, strict=True)]


def _shade(side: DemoSide) -> Shade:
    if side.sent < side.done_at:
        return "quiet"
    return "strong" if side.sent == side.done_at and not side.calls else "bad"

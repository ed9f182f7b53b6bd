"""Tables and text as the answer on stdout: in colour for a terminal, plain for a pipe."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO
from typing import TYPE_CHECKING

from ...analysis.sampling import BadRecord
from ...process.streams import Channels
from .clean import one_line
from .text import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

WIDE = 120
"""Columns for whoever is no terminal."""
NARROWEST = 50
BAD_SHOWN = 10
"""Files that are named."""


def show(channels: Channels, parts: Iterable[RenderableType]) -> None:
    """Print each part on a line of its own."""
    from rich.console import Console

    terminal = channels.answers_to_terminal
    text = StringIO()
    console = Console(
        file=text,
        width=max(NARROWEST, _columns(channels)) if terminal else WIDE,
        force_terminal=terminal,
        highlight=False,
        markup=False,
        emoji=False,
    )
    for part in parts:
        console.print(part)
    lines = text.getvalue().split("\n")
    channels.answer("\n".join(line if terminal else line.rstrip() for line in lines))


def files_told(what: str, files: Sequence[BadRecord]) -> Iterator[RenderableType]:
    """The first of these files and what is wrong with each, under what they have in common."""
    from rich.padding import Padding
    from rich.text import Text

    if not files:
        return
    yield Text(f"\n{counted(len(files), 'file')} {what}", style="red")
    for file in files[:BAD_SHOWN]:
        yield Padding(Text(one_line(f"{file.record}: {file.why}", 400)), (0, 0, 0, 2))
    if len(files) > BAD_SHOWN:
        yield Padding(Text(f"and {len(files) - BAD_SHOWN:,} more; --json lists them all", style="dim"), (0, 0, 0, 2))


def _columns(channels: Channels) -> int:
    try:
        return os.get_terminal_size(channels.stdout).columns
    except OSError:
        return WIDE

"""A page of help as text for the terminal: in colour if the terminal shows colours, and as wide as it is."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console
from rich.text import Text

Block = tuple[str, str | Mapping[str, str] | Sequence[str]]
"""A heading, perhaps empty, and its content: a paragraph, terms with their meanings, or lines to be kept."""

NARROWEST_MEANING = 40
"""Columns; a meaning that would have fewer next to its term is put below it."""
WIDEST_TERM = 26
"""Columns; the meaning of a longer term begins on the next line."""
HEADING, TERM, VALUE, CODE = "bold green", "bold cyan", "cyan", "bold"
"""Styles from the terminal's own palette, so that they can be read on light and on dark."""
_OPTION = re.compile(r"(?<![\w-])--?[a-z][\w-]*")
_QUOTED = re.compile(r"`[^`]*`")
_SHELL_WORD = re.compile(r"""(?:"[^"]*"|'[^']*'|\S)+""")
"""Words as a shell reads them; what is in quotes belongs to one."""
_VALUE = re.compile(r"(?<=[ ,])[A-Z{][^ ]*")


def help_page(usage: str, description: str, blocks: Sequence[Block], *, stderr: bool = False) -> str:
    """Render the page for the terminal of stdout or stderr; it ends with a line break. NO_COLOR: no colour, no bold."""
    console = Console(color_system=None if os.environ.get("NO_COLOR") else "auto", stderr=stderr)
    with console.capture() as captured:
        for line in _lines(console, usage, description, blocks):
            line.rstrip()
            console.print(line, soft_wrap=True, highlight=False)
    return captured.get()


def _lines(console: Console, usage: str, description: str, blocks: Sequence[Block]) -> Iterator[Text]:
    terms = [len(term) for _, rows in blocks if isinstance(rows, Mapping) for term in rows]
    column = max((length for length in terms if length <= WIDEST_TERM), default=0)
    yield from Text.assemble(("Usage: ", HEADING), (usage, TERM)).wrap(console, console.width)
    for title, content in (("", description), *blocks):
        yield Text()
        if title:
            yield Text(f"{title[:1].upper()}{title[1:]}:", style=HEADING)
        if isinstance(content, str):
            yield from _prose(content).wrap(console, console.width)
        elif isinstance(content, Mapping):
            yield from _rows(console, content, column)
        else:
            for line in content:
                if line.startswith("# "):
                    yield from (Text("  # ") + part for part in Text(line[2:]).wrap(console, console.width - 4))
                else:
                    yield from _kept(line, console.width - 2)


def _rows(console: Console, rows: Mapping[str, str], widest: int) -> Iterator[Text]:
    """Yield terms and meanings in two columns, or below each other in a narrow terminal.

    widest: the first column's width.

    Numbers, which are exit codes, have a narrow column.
    """
    numbers = all(term.isdecimal() for term in rows)
    column = (max(map(len, rows)) if numbers else widest) + 4
    beside = numbers or console.width - column >= NARROWEST_MEANING
    column = column if beside else 6
    for term, meaning in rows.items():
        head = Text(f"  {term}")
        if term.startswith("-"):
            head.highlight_regex(_OPTION, TERM)
            head.highlight_regex(_VALUE, VALUE)
        else:
            head.stylize(TERM)
        first, *others = _prose(meaning).wrap(console, max(console.width - column, 10)) or [Text()]
        if beside and len(head) <= column - 2:
            head.pad_right(column - len(head))
            yield head + first
        else:
            yield from head.wrap(console, console.width)
            others.insert(0, first)
        yield from (Text(" " * column) + line for line in others)


def _kept(line: str, width: int) -> Iterator[Text]:
    """Yield a line unwrapped.

    A command line that is too long is continued after a backslash, so that it can be copied.
    """
    if not line.startswith("endstop "):
        yield Text(f"  {line}")
        return
    begun = ""
    for word in _with_values(_SHELL_WORD.findall(line), width - 6):
        if begun and len(begun) + len(word) + 3 > width:
            yield Text(f"  {begun} \\", style=VALUE)
            begun = f"    {word}"
        else:
            begun = f"{begun} {word}" if begun else word
    yield Text(f"  {begun}", style=VALUE)


def _with_values(words: Sequence[str], width: int) -> Iterator[str]:
    """Yield the words of a command line, an option together with its value if both fit into `width` columns."""
    left = list(words)
    while left:
        word = left.pop(0)
        if word.startswith("-") and left and not left[0].startswith("-") and len(word) + len(left[0]) < width:
            word = f"{word} {left.pop(0)}"
        yield word


def _prose(text: str) -> Text:
    """Return a paragraph on one line, with options and quoted text emphasised."""
    prose = Text(" ".join(text.split()))
    prose.highlight_regex(_OPTION, VALUE)
    prose.highlight_regex(_QUOTED, CODE)
    return prose

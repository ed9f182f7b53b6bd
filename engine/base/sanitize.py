"""Remove control characters from the text of models and tools before a person reads it in a terminal or a page.

Escape sequences could rewrite the screen or set the clipboard, and bidirectional marks could show text in a different
order than it is stored ("Trojan Source", CVE-2021-42574).
"""

from __future__ import annotations

import re

from ..decision.deferred_patterns import deferred

_SEQUENCES = deferred(
    r"""\x1b \[ [0-?]* [ -/]* [@-~]                 # CSI: colours, cursor
      | \x1b [\]P_^X] [^\x07\x1b]* (?:\x07|\x1b\\)? # OSC and its like: titles, links
      | \x1b [ -/]* [0-~]                           # the rest
    """,
    re.VERBOSE,
)
_HARMLESS: dict[int, str | None] = {
    **dict.fromkeys((*range(0x20), *range(0x7F, 0xA0))),  # C0, DEL, C1
    **dict.fromkeys((0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xFEFF)),  # direction of writing
    **dict.fromkeys(range(0xD800, 0xE000), "\N{REPLACEMENT CHARACTER}"),
    ord("\n"): "\n",
    ord("\t"): "    ",
    0x2028: "\n",
    0x2029: "\n",
}


def sanitize(text: str) -> str:
    """Return the text without control sequences. Line feeds are kept, tabs become four spaces."""
    if "\x1b" in text:
        text = _SEQUENCES.sub("", text)
    return text.replace("\r\n", "\n").translate(_HARMLESS)


def one_line(text: str, longest: int) -> str:
    """Return the sanitized text as one line of at most `longest` characters, with an ellipsis where it was cut."""
    line = " ".join(sanitize(text).split())
    return line if len(line) <= longest else line[: max(0, longest - 1)].rstrip() + "…"

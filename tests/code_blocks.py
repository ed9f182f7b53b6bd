"""The code blocks of README and the documents, and the lines of those that are for a shell."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
KINDS = {
    "python": "runs as a script, or its table in test_code_blocks.py says why not",
    "sh": "runs line by line, or NOT_RUN says why not",
    "console": "commands after `$`, with what they print",
    "toml": "is read as a policy",
    "json": "is read by the code that takes it",
    "jsonl": "is read as lines of a record",
    "csv": "is read as ratings",
    "yaml": "is the configuration of another program, which the page's own test reads",
    "sql": "runs on a store in PostgreSQL",
    "js": "is compiled by a browser",
    "text": "is a picture or an output: nothing runs",
}
"""What can follow the backquotes that begin a block, and what becomes of it."""


class Block(NamedTuple):
    """A block of code on a page."""

    page: str
    line: int
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


class Line(NamedTuple):
    """A line for a shell, with those that continue it."""

    text: str
    words: list[str]
    """Its words without the comment; operators of the shell are words of their own."""

    @property
    def is_plain(self) -> bool:
        """Whether it is one command, without operators and variables of the shell."""
        return not any(set(word) <= set("();<>|&") for word in self.words) and "$" not in self.text


def pages() -> list[str]:
    """README, CONTRIBUTING and every document, from the top of the project."""
    docs = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))
    return ["README.md", "CONTRIBUTING.md", *docs]


def blocks() -> list[Block]:
    """Every fenced block of these pages, in their order."""
    found = []
    for page in pages():
        text = (ROOT / page).read_text(encoding="utf-8")
        for block in re.finditer(r"^( *)```(\w*)\n(.*?)^ *```$", text, re.DOTALL | re.MULTILINE):
            found.append(Block(page, text.count("\n", 0, block.start()) + 1, block[2], block[3]))
    return found


def shell_lines(text: str) -> list[Line]:
    """The lines of a block for a shell. A line that ends in a backslash goes on in the next one."""
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.shlex(line, posix=True, punctuation_chars=True)
        words.whitespace_split = True
        if split := list(words):
            found.append(Line(line, split))
    return found

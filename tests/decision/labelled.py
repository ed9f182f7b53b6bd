"""Labelled texts, one a line: language, label and text with tabs between; lines that begin with # say where from.

Where several people wrote a file, or a part of it was held out by hand, each line begins with the name of its part.
"""

from pathlib import Path
from typing import NamedTuple


class Labelled(NamedTuple):
    """One line."""

    language: str
    label: str
    text: str


def labelled(name: str) -> list[Labelled]:
    """All lines of a file beside this one."""
    lines = Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines()
    return [Labelled(*line.split("\t")) for line in lines if not line.startswith("#")]


def labelled_parts(name: str) -> dict[str, list[Labelled]]:
    """The lines of a file beside this one, by their part."""
    parts: dict[str, list[Labelled]] = {}
    for line in Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            part, *rest = line.split("\t")
            parts.setdefault(part, []).append(Labelled(*rest))
    return parts

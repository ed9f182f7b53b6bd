"""Labelled texts, one a line: language, label and text with tabs between; lines that begin with # say where from."""

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

"""A decision's trace as lines for people: each rule considered, what it saw, what it said."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...decision import Decision
from .clean import one_line


def trace_lines(decision: Decision) -> Iterator[tuple[str, str, str]]:
    """For each rule that was asked: its name, what it saw, what it said ("" if nothing)."""
    for considered in decision.trace:
        saw = " ".join(f"{name}={value_of(value)}" for name, value in considered.saw.items())
        yield considered.rule, saw, considered.said


def value_of(value: Any) -> str:
    """A fact in a few words."""
    match value:
        case None:
            return "none"
        case str():
            return one_line(value, 40) or '""'
        case list() | tuple():
            return str(len(value)) if value else "none"
        case _:
            return one_line(str(value), 40)

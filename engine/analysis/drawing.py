"""What plots are drawn with: scales, ticks, lines, words, and the picture around them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import ceil, floor, log10

from .html import Markup, join, tag

TOP, BOTTOM = 46.0, 40.0
"""Pixels above and below the area in which things are drawn."""
LEFT, RIGHT = 11.0, 98.0
"""Percent of the width between which things are drawn."""
HEIGHT = 230
TICKS = 5


def scale_ticks(low: float, high: float, most: int = TICKS) -> list[float]:
    """Round numbers that reach from `low` or below to `high` or above, in even steps of 1, 2, 2.5 or 5."""
    if high <= low:
        high = low + 1
    raw = (high - low) / most
    power = 10.0 ** floor(log10(raw))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= raw * 0.999)
    if isinstance(low, int) and isinstance(high, int):
        step = max(1, ceil(step))
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    return [round(number * step, 10) for number in range(first, last + 1)]


def grid_of(
    ticks: Sequence[float], rise: Callable[[float], float], up: str, shown: Callable[[float], str] | None = None
) -> Markup:
    """Lines across at these places on the axis up, with their figures at the left."""
    parts = []
    for tick in ticks:
        y = rise(tick)
        parts.append(tag("line", x1=f"{LEFT}%", x2="100%", y1=f"{y:.1f}", y2=f"{y:.1f}", class_="grid"))
        parts.append(tag("line", x1=f"{LEFT - 0.8}%", x2=f"{LEFT}%", y1=f"{y:.1f}", y2=f"{y:.1f}", class_="tick"))
        parts.append(words_at(LEFT - 1.4, y + 4, (shown or figure_of)(tick), "end"))
    parts.append(words_at(0, 12, up, "start"))
    return join(*parts)


def axis_across() -> Markup:
    """The axis across, and the one up."""
    foot = f"{HEIGHT - BOTTOM:.1f}"
    return join(
        tag("line", x1=f"{LEFT}%", x2="100%", y1=foot, y2=foot, class_="tick"),
        tag("line", x1=f"{LEFT}%", x2=f"{LEFT}%", y1=f"{TOP - 10:.1f}", y2=foot, class_="tick"),
    )


def tick_across(x: float) -> Markup:
    """A tick of the axis across, at this percent of the width."""
    foot = HEIGHT - BOTTOM
    return tag("line", x1=f"{x:.2f}%", x2=f"{x:.2f}%", y1=f"{foot:.1f}", y2=f"{foot + 5:.1f}", class_="tick")


def words_at(x: float, y: float, words: str, anchor: str, tone: str = "") -> Markup:
    """Words at a place: percent across, pixels down."""
    return tag("text", words, x=f"{x:.2f}%", y=f"{y:.1f}", text_anchor=anchor, class_=tone or None)


def picture_of(title: str, says: str, across: str, parts: Sequence[Markup]) -> Markup:
    """The parts as one picture, with what it says to whoever cannot see it."""
    id = f"plot-{re.sub('[^a-z0-9]+', '-', title.lower())}"
    name = words_at((LEFT + RIGHT) / 2, HEIGHT - 6, across, "middle")
    return tag(
        "svg",
        tag("title", title, id=id),
        tag("desc", says, id=f"{id}-d"),
        *parts,
        name,
        class_="plot",
        height=str(HEIGHT),
        role="img",
        aria_labelledby=f"{id} {id}-d",
    )


def rise_to(high: float, low: float = 0.0) -> Callable[[float], float]:
    """From a value to its place in pixels from above."""
    return scale_of(low, high, HEIGHT - BOTTOM, TOP)


def scale_of(low: float, high: float, first: float, last: float) -> Callable[[float], float]:
    """From a value between `low` and `high` to its place between `first` and `last`."""
    span = high - low or 1.0
    return lambda value: first + (value - low) / span * (last - first)


def figure_of(value: float) -> str:
    """A figure of an axis in a few characters."""
    if abs(value) >= 10_000:
        size, letter = (1e6, "M") if abs(value) >= 1e6 else (1e3, "k")
        return f"{value / size:.3g}{letter}"
    return f"{value:,.0f}" if value == round(value) else f"{value:g}"

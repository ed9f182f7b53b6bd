"""Plots as inline SVG that fits any width: places across are in percent, so text keeps its size on a phone.

Colours are classes (`style.py` has them for light and dark). A plot is one picture to a screen reader, with a title and
a description, so titles differ within a page; whoever draws one puts its figures into a table beside it. Bars stand in
tables and need neither.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import ceil, floor, log10

from msgspec import Struct

from .html import Markup, join, tag

NEAR = 20.0
"""Pixels between lines from which on the name of one of them is not taken for that of the other."""
CHARACTER = 2.1
"""Percent of the width of a phone that a character of a name takes."""
MOST_TICKS = 13
"""Ticks of an axis across that there is room for on a phone."""
FEWEST = 8
"""Columns that there is room for at least: one alone is no wall."""


class Point(Struct, frozen=True):
    """One point of a line, with what it is in words; `low` and `high` are its confidence interval."""

    x: float
    y: float
    says: str = ""
    low: float | None = None
    high: float | None = None
    bound: bool = False
    """True of a lower bound: it may be more. Drawn as an open triangle that points up, and no dot."""


class Line(Struct, frozen=True):
    """A line of a plot. Its name stands beside it."""

    name: str
    points: Sequence[Point]
    tone: str = "main"
    """A class: main, good, warn, bad, loop or quiet."""


class Column(Struct, frozen=True):
    """One bar of a histogram, from `low` to `high`, both included; `high` is None for all that is more."""

    low: float
    high: float | None
    height: float
    label: str = ""
    """What stands below it, where that is not its beginning."""


class Flag(Struct, frozen=True):
    """A value that is marked on the axis across."""

    value: float
    label: str


# ---- in the cells of tables


def bar(share: float, tone: str = "main") -> Markup:
    """A bar of this share of the cell's width. The figure stands beside it."""
    width = max(0.0, min(1.0, share)) * 100
    drawn = tag("rect", width=f"{width:.2f}%", height="100%", class_=tone) if width else Markup()
    return tag("svg", drawn, class_="bar", aria_hidden="true")


def interval(low: float, value: float, high: float, first: float, last: float, tone: str = "main") -> Markup:
    """A value with its confidence interval on a scale from `first` to `last`; a line marks zero."""
    scale = scale_of(first, last, 2.0, 98.0)
    ends = [min(98.0, max(2.0, scale(end))) for end in (low, value, high)]
    zero = scale(0.0)
    parts = [
        tag("line", x1=f"{zero:.2f}%", x2=f"{zero:.2f}%", y1="0", y2="100%", class_="zero")
        if 2 <= zero <= 98
        else Markup(),
        tag("line", x1=f"{ends[0]:.2f}%", x2=f"{ends[2]:.2f}%", y1="50%", y2="50%", class_=f"whisker {tone}"),
        tag("circle", cx=f"{ends[1]:.2f}%", cy="50%", r="4", class_=tone),
    ]
    return tag("svg", *parts, class_="bar tall", aria_hidden="true")


# ---- pictures of their own


def histogram(
    columns: Sequence[Column], *, title: str, across: str, up: str, flags: Sequence[Flag] = (), tone: str = "main"
) -> Markup:
    """How values are spread: `across` and `up` name the axes with their units. Columns are of one width."""
    if not columns:
        return Markup()
    highest = max(column.height for column in columns)
    ticks = scale_ticks(0, highest)
    rise = rise_to(ticks[-1])
    width = (RIGHT - LEFT) / max(FEWEST, len(columns))
    first = (LEFT + RIGHT - len(columns) * width) / 2
    parts = [grid_of(ticks, rise, up)]
    for number, column in enumerate(columns):
        if column.height:
            says = f"{range_of(column)} {across}: {figure_of(column.height)} {up}"
            y = rise(column.height)
            parts.append(
                tag(
                    "rect",
                    tag("title", says),
                    x=f"{first + number * width + width * 0.06:.3f}%",
                    width=f"{width * 0.88:.3f}%",
                    y=f"{y:.1f}",
                    height=f"{HEIGHT - BOTTOM - y:.1f}",
                    class_=tone,
                )
            )
    parts.append(_column_labels(columns, first, width))
    parts += [_flag(flag, columns, first, width, number) for number, flag in enumerate(flags)]
    says = "; ".join(f"{range_of(column)}: {figure_of(column.height)}" for column in columns if column.height)
    return picture_of(title, f"{across} across, {up} up. {says}", across, parts)


def curve(
    lines: Sequence[Line],
    *,
    title: str,
    across: str,
    up: str,
    shown: Callable[[float], str] | None = None,
    from_zero: bool = True,
    names: Sequence[str] = (),
) -> Markup:
    """Lines through points, with their names beside them: what changes as something is changed.

    shown: how a value of the axis up is written. from_zero: whether that axis begins at zero. names: what stands at
    0, 1, 2, ... on the axis across, where its values are no numbers; the points are then not joined by lines.
    """
    points = [point for line in lines for point in line.points]
    if not points:
        return Markup()
    ys = [value for point in points for value in (point.y, point.low, point.high) if value is not None]
    ticks = scale_ticks(min(0.0, *ys) if from_zero else min(ys), max(ys))
    rise = rise_to(ticks[-1], ticks[0])
    first, last = min(point.x for point in points), max(point.x for point in points)
    place = scale_of(first, last, LEFT + 2, RIGHT - 2)
    written = shown or figure_of
    parts = [grid_of(ticks, rise, up, written), axis_across()]
    for line in lines:
        parts += _drawn(line, place, rise, written, joined=not names)
    for x in _places(points):
        label = names[int(x)] if names else figure_of(x)
        parts.append(tick_across(place(x)))
        parts.append(words_at(place(x), HEIGHT - BOTTOM + 18, label, "middle"))
    parts.append(_names(lines, place, rise))
    says = "; ".join(
        f"{line.name}: {written(line.points[0].y)} to {written(line.points[-1].y)}" for line in lines if line.points
    )
    return picture_of(title, f"{across} across, {up} up. {says}", across, parts)


def _places(points: Sequence[Point]) -> list[float]:
    """Where the axis across has ticks: at the points themselves if there is room, else at round numbers."""
    own = sorted({point.x for point in points})
    if len(own) <= MOST_TICKS:
        return own
    return [x for x in scale_ticks(own[0], own[-1]) if own[0] <= x <= own[-1]]


def range_of(column: Column) -> str:
    """`3`, `3 to 5`, `6 or more`."""
    if column.high is None:
        return f"{figure_of(column.low)} or more"
    if column.low == column.high:
        return figure_of(column.low)
    return f"{figure_of(column.low)} to {figure_of(column.high)}"


def _column_labels(columns: Sequence[Column], first: float, width: float) -> Markup:
    """Where every so many columns begin; of a few wide ones, from where to where they go."""
    every = max(1, ceil(len(columns) / 6))
    wide = width > 9 and any(column.low != column.high for column in columns)
    labels: dict[int, str] = {}
    for number, column in enumerate(columns):
        if column.high is None:
            labels = {at: label for at, label in labels.items() if number - at >= every / 2}
            labels[number] = column.label or f"{figure_of(column.low)}+"
        elif column.label:
            labels[number] = column.label
        elif number % every == 0:
            labels[number] = range_of(column).replace(" to ", "\N{EN DASH}") if wide else figure_of(column.low)
    return join(
        *(
            words_at(first + (number + 0.5) * width, HEIGHT - BOTTOM + 16, label, "middle")
            for number, label in labels.items()
        )
    )


def _flag(flag: Flag, columns: Sequence[Column], first: float, width: float, number: int) -> Markup:
    """A value's line through the columns, and its label in a row of its own above them."""
    place = 0.0
    for column in columns:
        if column.high is None or flag.value <= column.high:
            span = 1.0 if column.high is None else column.high - column.low + 1
            place += min(1.0, max(0.0, (flag.value - column.low + 0.5) / span))
            break
        place += 1
    x = first + place * width
    y = 26 + number * 14
    anchor, side = ("end", -0.8) if x > 60 else ("start", 0.8)
    return join(
        tag("line", x1=f"{x:.2f}%", x2=f"{x:.2f}%", y1=f"{y - 8:.0f}", y2=f"{HEIGHT - BOTTOM:.0f}", class_="flag"),
        words_at(x + side, y, flag.label, anchor, "strong"),
    )


def _drawn(
    line: Line,
    place: Callable[[float], float],
    rise: Callable[[float], float],
    written: Callable[[float], str],
    *,
    joined: bool = True,
) -> list[Markup]:
    """A line with its band and its dots. The stretched picture inside has corners in percent, which lines may not."""
    inside = []
    if (
        joined
        and all(point.low is not None and point.high is not None for point in line.points)
        and len(line.points) > 1
    ):
        upper = [(place(point.x), rise(point.high or 0.0)) for point in line.points]
        lower = [(place(point.x), rise(point.low or 0.0)) for point in reversed(line.points)]
        inside.append(tag("polygon", points=_corners([*upper, *lower]), class_=f"band {line.tone}"))
    corners = _corners([(place(point.x), rise(point.y)) for point in line.points])
    if joined:
        dashed = " bound" if any(point.bound for point in line.points) else ""
        inside.append(tag("polyline", points=corners, class_=f"curve {line.tone}{dashed}"))
    stretched = tag(
        "svg", *inside, viewBox=f"0 0 100 {HEIGHT}", preserveAspectRatio="none", width="100%", height=str(HEIGHT)
    )
    dots = [_dot(point, line, place(point.x), rise(point.y), written) for point in line.points]
    return [stretched, *dots]


def _dot(point: Point, line: Line, x: float, y: float, written: Callable[[float], str]) -> Markup:
    """A point: a dot, or for a lower bound an open triangle that points to where the value may be."""
    least = "at least " if point.bound else ""
    says = tag("title", point.says or f"{line.name}: {figure_of(point.x)}, {least}{written(point.y)}")
    if not point.bound:
        return tag("circle", says, cx=f"{x:.2f}%", cy=f"{y:.1f}", r="3.5", class_=line.tone)
    triangle = tag("path", says, d="M-5 3.5L5 3.5L0 -6Z", class_=f"open {line.tone}")
    return tag("svg", triangle, x=f"{x:.2f}%", y=f"{y:.1f}", class_="at")


def _names(lines: Sequence[Line], place: Callable[[float], float], rise: Callable[[float], float]) -> Markup:
    """Each line's name where it is furthest from the others, on the side that is free."""
    labels, taken = [], list[tuple[float, float]]()
    for line in (line for line in lines if line.points):
        others = [other for other in lines if other.points and not _together(line, other, rise)]
        inner = [point for point in line.points if 30 <= place(point.x) <= 75]
        point = max(reversed(inner or line.points), key=lambda one: _distance(one, others, rise))
        far = max(reversed(line.points), key=lambda one: _distance(one, others, rise))
        if _distance(point, others, rise) < NEAR <= _distance(far, others, rise):
            point = far  # rather where they part, though it is at an end
        y, x = rise(point.y), place(point.x)
        above = all(y <= rise(_height(other, point.x)) for other in others) or y + 18 > HEIGHT - BOTTOM
        falls = _height(line, point.x + 1e-9) > line.points[-1].y
        fits = x + CHARACTER * len(line.name) < RIGHT  # also on a phone
        anchor = "start" if x < 24 or (above == falls and x < 76 and fits) else "end"
        y += -10 if above else 18
        while any(abs(y - other) < 14 and abs(x - beside) < 40 for other, beside in taken):
            y += -14 if above else 14
        taken.append((y, x))
        labels.append(words_at(x, y, line.name, anchor, f"name {line.tone}"))
    return join(*labels)


def _together(line: Line, other: Line, rise: Callable[[float], float]) -> bool:
    """Whether they can hardly be told apart."""
    return all(abs(rise(point.y) - rise(_height(other, point.x))) < 3 for point in line.points)


def _distance(point: Point, others: Sequence[Line], rise: Callable[[float], float]) -> float:
    """Pixels between a point and the nearest of the other lines."""
    return min((abs(rise(point.y) - rise(_height(other, point.x))) for other in others), default=0.0)


def _height(line: Line, x: float) -> float:
    """Where a line is at this place: between the two points beside it."""
    points = sorted(line.points, key=lambda point: point.x)
    after = next((number for number, point in enumerate(points) if point.x >= x), len(points) - 1)
    left, right = points[max(0, after - 1)], points[after]
    if right.x <= left.x or x >= right.x:
        return right.y
    return left.y + (right.y - left.y) * max(0.0, x - left.x) / (right.x - left.x)


def _corners(places: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.2f},{y:.1f}" for x, y in places)


# What plots are drawn with: scales, ticks, lines, words, and the picture around them.

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

"""Charts as inline SVG: histograms and curves, and small bars and confidence intervals for the cells of a table.

A chart is as wide as its container. Horizontal positions are percentages of that width and vertical ones are pixels, so
that text keeps its size on a phone; an SVG `viewBox` would scale the text as well.

Colours are CSS classes, defined for light and dark in the style sheet of the pages. A screen reader announces a chart
as one image with a title and a description, so titles must be unique within a page, and the code that draws a chart
also shows its values as text or in a table. Bars and intervals are hidden from it, because the next cell has their
value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import ceil, floor, log10
from typing import LiteralString

from markupsafe import Markup
from msgspec import Struct

from ..base.sanitize import sanitize

HEIGHT = 230
"""Height of a chart in pixels."""
TOP, BOTTOM = 46.0, 40.0
"""Margins above and below the plot area, in pixels."""
LEFT, RIGHT = 11.0, 98.0
"""Left and right edge of the plot area, in percent of the width."""
TICKS = 5
"""Approximate number of intervals into which the ticks divide an axis."""
MAX_TICKS = 13
"""Number of values on the horizontal axis above which only round numbers have ticks, because a phone has no room for
more."""
MIN_COLUMNS = 8
"""Minimum number of columns for which a histogram has room: a single column would fill the whole plot."""
LABEL_DISTANCE = 20.0
"""Minimum distance in pixels from all other lines at which the label of a line cannot be taken for theirs."""
CHARACTER_WIDTH = 2.1
"""Width of a character of a label on a phone, in percent of the chart."""


class DataPoint(Struct, frozen=True):
    """A point of a series, with the ends of its confidence interval."""

    x: float
    y: float
    tooltip: str = ""
    """Text shown when the pointer is on the point. If empty, it consists of the series' name and the point's values."""
    low: float | None = None
    high: float | None = None
    bound: bool = False
    """True if `y` is a lower bound: an open triangle is drawn instead of a dot."""


class Series(Struct, frozen=True):
    """A line of a chart, labelled with its name."""

    name: str
    points: Sequence[DataPoint]
    tone: str = "main"
    """A CSS class: main, good, warn, bad, loop or quiet."""


class HistogramColumn(Struct, frozen=True):
    """A column of a histogram, for the values from `low` to `high`, both included."""

    low: float
    high: float | None
    """The upper end; None if there is none."""
    height: float
    label: str = ""
    """The text below the column; its first value if empty."""


class ReferenceLine(Struct, frozen=True):
    """A vertical line that marks a value of the horizontal axis."""

    value: float
    label: str


# ---- for the cells of tables


def bar(share: float, tone: str = "main") -> Markup:
    """Return a bar as long as this share (0 to 1) of the cell's width."""
    width = max(0.0, min(1.0, share)) * 100
    drawn = _svg('<rect width="{width:.2f}%" height="100%" class="{tone}"/>', width=width, tone=tone) if width else ""
    return _svg('<svg class="bar" aria-hidden="true">{drawn}</svg>', drawn=drawn)


def interval(low: float, value: float, high: float, first: float, last: float, tone: str = "main") -> Markup:
    """Return a drawing of a value with its interval on a scale from `first` to `last`, and a line at zero."""
    scale = _scale(first, last, 2.0, 98.0)
    left, middle, right = (min(98.0, max(2.0, scale(end))) for end in (low, value, high))
    zero = scale(0.0)
    axis = _svg('<line x1="{x:.2f}%" x2="{x:.2f}%" y1="0" y2="100%" class="zero"/>', x=zero) if 2 <= zero <= 98 else ""
    return _svg(
        '<svg class="bar tall" aria-hidden="true">{axis}'
        '<line x1="{left:.2f}%" x2="{right:.2f}%" y1="50%" y2="50%" class="whisker {tone}"/>'
        '<circle cx="{middle:.2f}%" cy="50%" r="4" class="{tone}"/></svg>',
        axis=axis,
        left=left,
        middle=middle,
        right=right,
        tone=tone,
    )


# ---- histograms


def histogram(
    columns: Sequence[HistogramColumn],
    *,
    title: str,
    x_label: str,
    y_label: str,
    lines: Sequence[ReferenceLine] = (),
    tone: str = "main",
) -> Markup:
    """Return a chart of the distribution of a value, in columns of equal width. Labels of axes include the unit."""
    if not columns:
        return Markup()
    ticks = scale_ticks(0, max(column.height for column in columns))
    y_scale = _y_scale(ticks)
    width = (RIGHT - LEFT) / max(MIN_COLUMNS, len(columns))
    first = (LEFT + RIGHT - len(columns) * width) / 2
    parts = [_grid(ticks, y_scale, y_label, _number)]
    parts += [
        _svg(
            '<rect x="{x:.3f}%" width="{width:.3f}%" y="{y:.1f}" height="{height:.1f}" class="{tone}">'
            "<title>{tooltip}</title></rect>",
            x=first + number * width + width * 0.06,
            width=width * 0.88,
            y=y_scale(column.height),
            height=HEIGHT - BOTTOM - y_scale(column.height),
            tone=tone,
            tooltip=f"{range_of(column)} {x_label}: {_number(column.height)} {y_label}",
        )
        for number, column in enumerate(columns)
        if column.height
    ]
    parts += [
        _text(first + (number + 0.5) * width, HEIGHT - BOTTOM + 16, label, "middle")
        for number, label in _column_labels(columns, width).items()
    ]
    parts += [_reference_line(line, columns, first, width, row) for row, line in enumerate(lines)]
    values = "; ".join(f"{range_of(column)}: {_number(column.height)}" for column in columns if column.height)
    return _chart(title, f"{x_label} across, {y_label} up. {values}", x_label, parts)


def range_of(column: HistogramColumn) -> str:
    """Return the values that a column covers, as text: `3`, `3 to 5`, `6 or more`."""
    if column.high is None:
        return f"{_number(column.low)} or more"
    if column.low == column.high:
        return _number(column.low)
    return f"{_number(column.low)} to {_number(column.high)}"


def _column_labels(columns: Sequence[HistogramColumn], width: float) -> dict[int, str]:
    """Return the labels below the columns, by the column's number. If the columns have no labels, about six get one."""
    every = max(1, ceil(len(columns) / 6))
    with_end = width > 9 and any(column.low != column.high for column in columns)
    labels: dict[int, str] = {}
    for number, column in enumerate(columns):
        if column.high is None:
            labels = {at: label for at, label in labels.items() if number - at >= every / 2}
            labels[number] = column.label or f"{_number(column.low)}+"
        elif column.label:
            labels[number] = column.label
        elif number % every == 0:
            labels[number] = range_of(column).replace(" to ", "\N{EN DASH}") if with_end else _number(column.low)
    return labels


def _reference_line(
    line: ReferenceLine, columns: Sequence[HistogramColumn], first: float, width: float, row: int
) -> Markup:
    """Return the line at its position within the column of its value."""
    place = 0.0
    for column in columns:
        if column.high is None or line.value <= column.high:
            span = 1.0 if column.high is None else column.high - column.low + 1
            place += min(1.0, max(0.0, (line.value - column.low + 0.5) / span))
            break
        place += 1
    return _upright(line.label, first + place * width, row)


def _upright(label: str, x: float, row: int) -> Markup:
    """Return a vertical line at `x` percent of the width, with its label in a separate row above the plot."""
    y = 26 + row * 14
    drawn = _svg(
        '<line x1="{x:.2f}%" x2="{x:.2f}%" y1="{top:.0f}" y2="{foot:.0f}" class="flag"/>',
        x=x,
        top=y - 8,
        foot=HEIGHT - BOTTOM,
    )
    anchor, side = ("end", -0.8) if x > 60 else ("start", 0.8)
    return drawn + _text(x + side, y, label, anchor, "strong")


# ---- curves


def curve(
    lines: Sequence[Series],
    *,
    title: str,
    x_label: str,
    y_label: str,
    format_y: Callable[[float], str] | None = None,
    from_zero: bool = True,
    categories: Sequence[str] = (),
    marks: Sequence[ReferenceLine] = (),
) -> Markup:
    """Return a chart of lines through points, which shows what changes as a setting is changed.

    format_y: writes a value of the vertical axis. from_zero: whether that axis includes zero. categories: the labels of
    x = 0, 1, 2, ... if the setting is not numeric; the points are then not joined. marks: values of x to mark.
    """
    points = [point for line in lines for point in line.points]
    if not points:
        return Markup()
    write = format_y or _number
    ys = [value for point in points for value in (point.y, point.low, point.high) if value is not None]
    ticks = scale_ticks(min(0.0, *ys) if from_zero else min(ys), max(ys))
    xs = sorted({point.x for point in points})
    x_scale, y_scale = _scale(xs[0], xs[-1], LEFT + 2, RIGHT - 2), _y_scale(ticks)
    parts = [_grid(ticks, y_scale, y_label, write), _AXES]
    for line in lines:
        parts += _series(line, x_scale, y_scale, write, joined=not categories)
    for x in _x_ticks(xs):
        label = categories[int(x)] if categories else _number(x)
        parts += [_x_tick(x_scale(x)), _text(x_scale(x), HEIGHT - BOTTOM + 18, label, "middle")]
    parts += [_upright(mark.label, x_scale(mark.value), row) for row, mark in enumerate(marks)]
    parts += _series_labels(lines, x_scale, y_scale)
    values = "; ".join(
        f"{line.name}: {write(line.points[0].y)} to {write(line.points[-1].y)}" for line in lines if line.points
    )
    return _chart(title, f"{x_label} across, {y_label} up. {values}", x_label, parts)


def _series(
    line: Series,
    x_scale: Callable[[float], float],
    y_scale: Callable[[float], float],
    write: Callable[[float], str],
    *,
    joined: bool,
) -> list[Markup]:
    """Return the parts of a line: its confidence band, the line and its dots.

    The corners of a line cannot be percentages, so it is drawn in a separate SVG that is stretched to the width.
    """

    def corners(places: Sequence[tuple[float, float]]) -> str:
        return " ".join(f"{x_scale(x):.2f},{y_scale(y):.1f}" for x, y in places)

    shapes = []
    upper = [(point.x, point.high) for point in line.points if point.high is not None]
    lower = [(point.x, point.low) for point in reversed(line.points) if point.low is not None]
    if joined and len(upper) == len(lower) == len(line.points) > 1:
        band = '<polygon points="{points}" class="band {tone}"/>'
        shapes.append(_svg(band, points=corners([*upper, *lower]), tone=line.tone))
    if joined:
        curve = '<polyline points="{points}" class="curve {tone}{dashed}"/>'
        dashed = " bound" if any(point.bound for point in line.points) else ""
        points = corners([(point.x, point.y) for point in line.points])
        shapes.append(_svg(curve, points=points, tone=line.tone, dashed=dashed))
    stretched = _svg(
        '<svg viewBox="0 0 100 {height}" preserveAspectRatio="none" width="100%" height="{height}">{shapes}</svg>',
        height=HEIGHT,
        shapes=Markup().join(shapes),
    )
    return [stretched, *(_dot(point, line, x_scale(point.x), y_scale(point.y), write) for point in line.points)]


def _dot(point: DataPoint, line: Series, x: float, y: float, write: Callable[[float], str]) -> Markup:
    """Return a dot; for a lower bound, an open triangle that points to where the value may be."""
    least = "at least " if point.bound else ""
    tooltip = point.tooltip or f"{line.name}: {_number(point.x)}, {least}{write(point.y)}"
    shape: LiteralString = (
        '<svg x="{x:.2f}%" y="{y:.1f}" class="at">'
        '<path d="M-5 3.5L5 3.5L0 -6Z" class="open {tone}"><title>{tooltip}</title></path></svg>'
        if point.bound
        else '<circle cx="{x:.2f}%" cy="{y:.1f}" r="3.5" class="{tone}"><title>{tooltip}</title></circle>'
    )
    return _svg(shape, x=x, y=y, tone=line.tone, tooltip=tooltip)


def _x_ticks(xs: Sequence[float]) -> Sequence[float]:
    """Return the values themselves if there is room for all of them, else round numbers."""
    if len(xs) <= MAX_TICKS:
        return xs
    return [x for x in scale_ticks(xs[0], xs[-1]) if xs[0] <= x <= xs[-1]]


def _x_tick(x: float) -> Markup:
    """Return a tick of the horizontal axis, at this percentage of the width."""
    tick = '<line x1="{x:.2f}%" x2="{x:.2f}%" y1="{y:.1f}" y2="{end:.1f}" class="tick"/>'
    return _svg(tick, x=x, y=HEIGHT - BOTTOM, end=HEIGHT - BOTTOM + 5)


def _series_labels(
    lines: Sequence[Series], x_scale: Callable[[float], float], y_scale: Callable[[float], float]
) -> list[Markup]:
    """Return each line's name at the point furthest from the other lines, above or below, without overlaps."""
    labels, taken = [], list[tuple[float, float]]()
    for line in (line for line in lines if line.points):
        others = [other for other in lines if other.points and not _coincide(line, other, y_scale)]
        inner = [point for point in line.points if 30 <= x_scale(point.x) <= 75]
        point = max(reversed(inner or line.points), key=lambda one: _distance(one, others, y_scale))
        far = max(reversed(line.points), key=lambda one: _distance(one, others, y_scale))
        if _distance(point, others, y_scale) < LABEL_DISTANCE <= _distance(far, others, y_scale):
            point = far  # near the edge, but unmistakable there
        y, x = y_scale(point.y), x_scale(point.x)
        above = all(y <= y_scale(_height(other, point.x)) for other in others) or y + 18 > HEIGHT - BOTTOM
        falls = _height(line, point.x + 1e-9) > line.points[-1].y
        fits = x + CHARACTER_WIDTH * len(line.name) < RIGHT
        anchor = "start" if x < 24 or (above == falls and x < 76 and fits) else "end"
        y += -10 if above else 18
        while any(abs(y - other) < 14 and abs(x - beside) < 40 for other, beside in taken):
            y += -14 if above else 14
        taken.append((y, x))
        labels.append(_text(x, y, line.name, anchor, f"name {line.tone}"))
    return labels


def _coincide(line: Series, other: Series, y_scale: Callable[[float], float]) -> bool:
    """Return whether the two lines coincide: less than three pixels apart everywhere."""
    return all(abs(y_scale(point.y) - y_scale(_height(other, point.x))) < 3 for point in line.points)


def _distance(point: DataPoint, others: Sequence[Series], y_scale: Callable[[float], float]) -> float:
    """Return the pixels between a point and the nearest of the other lines; 0 if there are none."""
    return min((abs(y_scale(point.y) - y_scale(_height(other, point.x))) for other in others), default=0.0)


def _height(line: Series, x: float) -> float:
    """Return the value of a line at `x`, interpolated between the neighbouring points."""
    points = sorted(line.points, key=lambda point: point.x)
    after = next((number for number, point in enumerate(points) if point.x >= x), len(points) - 1)
    left, right = points[max(0, after - 1)], points[after]
    if right.x <= left.x or x >= right.x:
        return right.y
    return left.y + (right.y - left.y) * max(0.0, x - left.x) / (right.x - left.x)


# ---- what both are drawn with


def scale_ticks(low: float, high: float, most: int = TICKS) -> list[float]:
    """Return round numbers in even steps of 1, 2, 2.5 or 5 times a power of ten, covering `low` to `high`."""
    if high <= low:
        high = low + 1
    raw = (high - low) / most
    power = 10.0 ** floor(log10(raw))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= raw * 0.999)
    if isinstance(low, int) and isinstance(high, int):
        step = max(1, ceil(step))
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    return [round(number * step, 10) for number in range(first, last + 1)]


def _scale(low: float, high: float, first: float, last: float) -> Callable[[float], float]:
    """Return a linear scale: a function that maps `low` to the position `first`, and `high` to `last`."""
    span = high - low or 1.0
    return lambda value: first + (value - low) / span * (last - first)


def _y_scale(ticks: Sequence[float]) -> Callable[[float], float]:
    """Return a function that maps values of the vertical axis to pixels from the top."""
    return _scale(ticks[0], ticks[-1], HEIGHT - BOTTOM, TOP)


def _svg(shape: LiteralString, **values: object) -> Markup:
    """Return the shape with these values filled in. Text is escaped, and its control characters are removed."""
    safe = {
        name: sanitize(value) if isinstance(value, str) and not isinstance(value, Markup) else value
        for name, value in values.items()
    }
    return Markup(shape).format(**safe)


def _text(x: float, y: float, text: str, anchor: str, look: str = "") -> Markup:
    """Return text at a position: percent across, pixels down. look: CSS classes."""
    classes = _svg(' class="{look}"', look=look) if look else ""
    shape = '<text x="{x:.2f}%" y="{y:.1f}" text-anchor="{anchor}"{classes}>{text}</text>'
    return _svg(shape, x=x, y=y, anchor=anchor, classes=classes, text=text)


def _grid(
    ticks: Sequence[float], y_scale: Callable[[float], float], label: str, write: Callable[[float], str]
) -> Markup:
    """Return horizontal lines at the ticks of the vertical axis, with their values on the left and its label above."""
    parts = []
    for tick in ticks:
        y = y_scale(tick)
        lines = _svg(
            '<line x1="{left}%" x2="100%" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>'
            '<line x1="{outside}%" x2="{left}%" y1="{y:.1f}" y2="{y:.1f}" class="tick"/>',
            left=LEFT,
            outside=LEFT - 0.8,
            y=y,
        )
        parts += [lines, _text(LEFT - 1.4, y + 4, write(tick), "end")]
    return Markup().join([*parts, _text(0, 12, label, "start")])


_AXES = _svg(
    '<line x1="{left}%" x2="100%" y1="{foot:.1f}" y2="{foot:.1f}" class="tick"/>'
    '<line x1="{left}%" x2="{left}%" y1="{top:.1f}" y2="{foot:.1f}" class="tick"/>',
    left=LEFT,
    top=TOP - 10,
    foot=HEIGHT - BOTTOM,
)


def _chart(title: str, description: str, x_label: str, parts: Sequence[Markup]) -> Markup:
    """Combine the parts into one SVG image, with the title and the description that a screen reader announces."""
    return _svg(
        '<svg class="plot" height="{height}" role="img" aria-labelledby="{id} {id}-d">'
        '<title id="{id}">{title}</title><desc id="{id}-d">{description}</desc>{parts}</svg>',
        height=HEIGHT,
        id=f"plot-{re.sub('[^a-z0-9]+', '-', title.lower())}",
        title=title,
        description=description,
        parts=Markup().join([*parts, _text((LEFT + RIGHT) / 2, HEIGHT - 6, x_label, "middle")]),
    )


def _number(value: float) -> str:
    """Return a number of an axis in a few characters: `1,234`, `12.3k`, `4.5M`."""
    if abs(value) >= 10_000:
        size, letter = (1e6, "M") if abs(value) >= 1e6 else (1e3, "k")
        return f"{value / size:.3g}{letter}"
    return f"{value:,.0f}" if value == round(value) else f"{value:g}"

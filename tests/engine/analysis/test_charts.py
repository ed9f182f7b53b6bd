"""Charts: their shapes are where the values are, everything has a name, and text cannot become markup."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from endstop.analysis import charts
from endstop.analysis.charts import scale_ticks
from hypothesis import given
from hypothesis import strategies as st

from ..cli.pages import Parsed


def drawn(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


COLUMNS = [
    charts.HistogramColumn(1, 5, 3),
    charts.HistogramColumn(6, 10, 12),
    charts.HistogramColumn(11, 15, 0),
    charts.HistogramColumn(16, None, 1),
]


def test_a_histogram_has_a_bar_for_each_column_with_something_in_it_and_says_so_in_words() -> None:
    lines = [charts.ReferenceLine(7, "median 7")]
    svg = drawn(charts.histogram(COLUMNS, title="Steps", x_label="steps", y_label="runs", lines=lines))
    bars = svg.findall("rect")
    assert [bar.findtext("title") for bar in bars] == [
        "1 to 5 steps: 3 runs",
        "6 to 10 steps: 12 runs",
        "16 or more steps: 1 runs",
    ]
    heights = [float(bar.attrib["height"]) for bar in bars]
    assert heights[0] / heights[1] == pytest.approx(3 / 12, rel=0.01)
    assert svg.attrib["role"] == "img"
    names = svg.attrib["aria-labelledby"].split()
    assert [svg.find(f"*[@id='{name}']") is not None for name in names] == [True, True]
    words = [one.text for one in svg.findall("text")]
    assert {"steps", "runs", "median 7", "16+"} <= set(words)


def test_a_flag_stands_in_the_column_that_holds_its_value() -> None:
    svg = drawn(charts.histogram(COLUMNS, title="t", x_label="a", y_label="u", lines=[charts.ReferenceLine(8, "8")]))
    flag = next(line for line in svg.findall("line") if line.get("class") == "flag")
    bar = svg.findall("rect")[1]
    left = float(bar.attrib["x"].rstrip("%"))
    assert left < float(flag.attrib["x1"].rstrip("%")) < left + float(bar.attrib["width"].rstrip("%"))


def test_a_curve_has_a_dot_for_each_point_and_its_name_where_there_is_room() -> None:
    points = [charts.DataPoint(5, 0.4, low=0.3, high=0.5), charts.DataPoint(10, 0.8, "half", 0.7, 0.9)]
    other = [charts.DataPoint(5, 0.2), charts.DataPoint(10, 0.82)]
    lines = [charts.Series("saved", points), charts.Series("cut", other, "bad")]
    svg = drawn(
        charts.curve(lines, title="Sweep", x_label="steps", y_label="share", format_y=lambda share: f"{share:.0%}")
    )
    assert [dot.findtext("title") for dot in svg.findall("circle")] == [
        "saved: 5, 40%",
        "half",
        "cut: 5, 20%",
        "cut: 10, 82%",
    ]
    heights = [float(dot.attrib["cy"]) for dot in svg.findall("circle")]
    assert heights[1] < heights[0], "more is higher up"
    names = {one.text: one for one in svg.findall("text") if (one.get("class") or "").startswith("name")}
    assert float(names["saved"].attrib["y"]) < heights[0], "above, where they are furthest from each other"
    assert float(names["cut"].attrib["y"]) > heights[2], "below"
    assert {one.attrib["x"] for one in names.values()} == {svg.findall("circle")[0].attrib["cx"]}
    assert svg.find("svg/polygon") is not None
    assert len(svg.findall("svg/polyline")) == 2


def test_names_of_lines_that_lie_together_do_not_lie_on_each_other() -> None:
    lines = [charts.Series(name, [charts.DataPoint(1, 0.5), charts.DataPoint(2, 0.6)]) for name in "abc"]
    svg = drawn(charts.curve(lines, title="t", x_label="a", y_label="u"))
    places = sorted(float(one.attrib["y"]) for one in svg.findall("text") if one.get("class") == "name main")
    assert places[1] - places[0] >= 14
    assert places[2] - places[1] >= 14


def test_bars_and_intervals_stay_within_their_cell() -> None:
    assert drawn(charts.bar(0.25)).find("rect").attrib["width"] == "25.00%"  # type: ignore[union-attr]
    assert drawn(charts.bar(7.0)).find("rect").attrib["width"] == "100.00%"  # type: ignore[union-attr]
    assert drawn(charts.bar(0)).find("rect") is None
    svg = drawn(charts.interval(-5.0, 0.5, 3.0, -1.0, 1.0))
    places = [float(line.attrib[end].rstrip("%")) for line in svg.findall("line") for end in ("x1", "x2")]
    assert min(places) >= 2
    assert max(places) <= 98
    assert svg.findall("line")[0].attrib["x1"] == "50.00%", "zero"


def test_of_nothing_nothing_is_drawn() -> None:
    assert charts.histogram([], title="t", x_label="a", y_label="u") == ""
    assert charts.curve([], title="t", x_label="a", y_label="u") == ""
    assert (
        drawn(charts.curve([charts.Series("one", [charts.DataPoint(1, 1)])], title="t", x_label="a", y_label="u"))
        is not None
    )


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_ticks_are_few_even_and_reach_round_all_values(low: int, high: int) -> None:
    low, high = min(low, high), max(low, high)
    ticks = scale_ticks(low, high)
    assert ticks[0] <= low
    assert ticks[-1] >= high
    assert 2 <= len(ticks) <= 8
    assert len({round(b - a, 6) for a, b in zip(ticks, ticks[1:])}) == 1  # noqa: B905, RUF007


def attributes(svg: str) -> list[tuple[str, list[str]]]:
    return [(name, list(given)) for name, given in Parsed(svg).tags]


@given(st.text())
def test_whatever_labels_say_is_text_and_never_markup(words: str) -> None:
    def histogram(text: str) -> str:
        line = charts.ReferenceLine(1, text)
        columns = [charts.HistogramColumn(1, 2, 1, text)]
        return charts.histogram(columns, title=text, x_label=text, y_label=text, lines=[line], tone=text)

    def curve(text: str) -> str:
        points = [charts.DataPoint(0, 1), charts.DataPoint(1, 2, text, bound=True), charts.DataPoint(2, 1, text)]
        line = charts.Series(text, points, text)
        return charts.curve([line], title=text, x_label=text, y_label=text, categories=[text] * 3)

    for draw in (histogram, curve):
        assert attributes(draw(words)) == attributes(draw("plain"))
        assert not {"\x00", "\x1b", "\u202e"} & set(draw(words))


def test_a_curve_marks_values_of_its_axis_with_their_labels() -> None:
    line = charts.Series("steps", [charts.DataPoint(1, 2.0), charts.DataPoint(3, 4.0)])
    drawn = charts.curve([line], title="t", x_label="x", y_label="y", marks=[charts.ReferenceLine(2, "<chosen>")])
    middle = (charts.LEFT + 2 + charts.RIGHT - 2) / 2
    assert f'<line x1="{middle:.2f}%" x2="{middle:.2f}%"' in drawn
    assert "&lt;chosen&gt;" in drawn

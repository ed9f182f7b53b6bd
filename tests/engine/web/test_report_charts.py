"""The charts of reports in Chromium: shapes are where the values are, and all values are in a table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from endstop.http.document_page import (
    Cell,
    Head,
    HistogramColumn,
    HistogramPart,
    Line,
    LinesPart,
    Mark,
    Point,
    TablePart,
)

from ..cli.pages import HOSTILE
from .drawn import show_parts

HISTOGRAM = HistogramPart(
    title="Steps",
    caption="Steps: 16 runs",
    x="steps",
    y="runs",
    columns=[
        HistogramColumn("1 to 5", 3, "1"),
        HistogramColumn("6 to 10", 12, "6"),
        HistogramColumn("11 to 15", 0, "11"),
        HistogramColumn("16 or more", 1, "more"),
    ],
    marks=[Mark(1.4, "median 7")],
)
BOXES = """(all) => all.map((one) => {
    const { x, y, width, height } = one.getBoundingClientRect();
    return [x, y, width, height];
})"""
TEXTS = "(all) => all.map((one) => one.textContent)"


@pytest.fixture
def page(open_page: Callable[..., Any]) -> Any:
    return open_page()


def test_a_histogram_has_a_bar_for_each_column_and_says_its_values_in_a_table(page: Any, tmp_path: Path) -> None:
    show_parts(page, tmp_path, HISTOGRAM)
    bars = page.locator(".plot rect").evaluate_all(BOXES)
    assert [round(height / bars[1][3], 2) for *_, height in bars] == [0.25, 1.0, 0.0, 0.08]
    assert page.locator(".plot rect title").evaluate_all(TEXTS)[0] == "1 to 5 steps: 3 runs"
    assert {"steps", "runs", "median 7", "more", "1", "0", "12"} <= set(page.locator(".plot text").evaluate_all(TEXTS))
    (flag,) = page.locator(".plot .flag").evaluate_all(BOXES)
    assert bars[1][0] < flag[0] < bars[1][0] + bars[1][2], "the mark stands in the column that holds its value"
    assert page.get_attribute(".plot", "role") == "img"
    assert page.get_attribute(".plot", "aria-label").startswith("Steps.")
    page.click("figure summary")
    assert page.locator("figure tbody tr").all_inner_texts()[1].split("\t") == ["6 to 10", "12"]


def lines(**given: Any) -> LinesPart:
    saved = Line(name="saved", points=[Point(5, 40.0, 30.0, 50.0), Point(10, 80.0, 70.0, 90.0)], meaning="of all steps")
    cut = Line(name="cut", points=[Point(5, 20.0, is_bound=True), Point(10, 82.0, words="half")], tone="bad")
    return LinesPart(**{"title": "Sweep", "caption": "c", "x": "limit", "unit": "%", "lines": [saved, cut], **given})


def test_a_chart_of_lines_has_a_mark_for_each_point_a_band_and_a_key(page: Any, tmp_path: Path) -> None:
    show_parts(page, tmp_path, lines())
    assert page.locator(".plot > .at title").evaluate_all(TEXTS) == [
        "saved: 5, 40",
        "saved: 10, 80",
        "cut: 5, at least 20",
        "half",
    ]
    dots = page.locator(".plot > .at path").evaluate_all(BOXES)
    assert dots[1][1] < dots[0][1], "more is higher up"
    assert dots[0][0] < dots[1][0]
    assert page.locator(".plot .open").count() == 1, "a lower bound is an open mark"
    assert page.locator(".plot polygon.band").count() == 1
    assert page.locator(".plot polyline").count() == 2
    assert page.locator(".key li").all_inner_texts() == ["saved: of all steps", "cut"]
    dashes = page.locator(".plot polyline").evaluate_all(
        "(all) => all.map((one) => one.getAttribute('stroke-dasharray'))"
    )
    assert len(set(dashes)) == 2, "lines are told apart without colours"
    page.click("figure summary")
    assert page.locator("figure tbody tr").all_inner_texts() == [
        "5\t40 % (30 to 50)\t≥ 20 %",
        "10\t80 % (70 to 90)\t82 %",
    ]


def test_settings_without_numbers_have_names_and_no_lines_between_them(page: Any, tmp_path: Path) -> None:
    points = [Point(0, 1.0), Point(1, 2.0)]
    show_parts(page, tmp_path, lines(lines=[Line(name="a", points=points)], categories=["final", "nudge"]))
    assert page.locator(".plot polyline").count() == 0
    assert {"final", "nudge"} <= set(page.locator(".plot text").evaluate_all(TEXTS))


def test_many_values_have_round_ticks_and_half_percents_stay(page: Any, tmp_path: Path) -> None:
    many = Line(name="saved", points=[Point(x, x / 4) for x in range(40)])
    show_parts(page, tmp_path, lines(lines=[many]))
    seen = set(page.locator(".plot text").evaluate_all(TEXTS))
    assert {"0", "10", "20", "30", "0 %", "2 %"} <= seen or {"0", "10", "20", "30", "2.5 %"} <= seen
    assert page.locator(".plot > .at").count() == 40
    few = Line(name="saved", points=[Point(1, 0.0), Point(2, 10.9)])
    show_parts(page, tmp_path, lines(lines=[few]))
    assert "2.5 %" in page.locator(".plot text").evaluate_all(TEXTS)


def test_a_mark_stands_at_its_value_and_one_point_is_enough(page: Any, tmp_path: Path) -> None:
    show_parts(page, tmp_path, lines(marks=[Mark(7.5, "chosen")]))
    (flag,) = page.locator(".plot .flag").evaluate_all(BOXES)
    left, right = (box[0] + box[2] / 2 for box in page.locator(".plot > .at path").evaluate_all(BOXES)[:2])
    assert flag[0] == pytest.approx((left + right) / 2, abs=1.5)
    show_parts(page, tmp_path, lines(lines=[Line(name="one", points=[Point(1, 1.0)])]))
    assert page.locator(".plot > .at").count() == 1
    show_parts(page, tmp_path, lines(lines=[]))
    assert page.locator(".plot").count() == 0, "of nothing nothing is drawn"


def test_whatever_labels_say_is_text(page: Any, tmp_path: Path) -> None:
    text = HOSTILE
    chart = HistogramPart(
        title=text, caption=text, x=text, y=text, columns=[HistogramColumn(text, 1, text)], marks=[Mark(0, text)]
    )
    line = Line(name=text, points=[Point(0, 1.0, words=text), Point(1, 2.0)], meaning=text)
    show_parts(page, tmp_path, chart, LinesPart(title=text, caption=text, x=text, unit=text, lines=[line]))
    assert page.locator("img, script:not([type])").count() == 0
    assert "alert(1)" in page.inner_text("figcaption >> nth=0")


def test_bars_and_intervals_stay_within_their_cell(page: Any, tmp_path: Path) -> None:
    cells = [Cell(bar=0.25), Cell(interval=(-5.0, 0.5, 3.0, -1.0, 1.0), tone="quiet")]
    heads = [Head("name"), Head(""), Head("")]
    show_parts(page, tmp_path, TablePart(caption="t", heads=heads, rows=[["a", *cells]]))
    bar, whole = (
        page.locator(f"tbody td >> nth={n}").locator(what).bounding_box() for n, what in ((0, "rect"), (0, "svg"))
    )
    assert bar["width"] == pytest.approx(whole["width"] / 4, abs=1)
    cell = page.locator(".bar.tall").bounding_box()
    for shape in page.locator(".bar.tall > *").all():
        box = shape.bounding_box()
        assert cell["x"] - 4 <= box["x"] <= box["x"] + box["width"] <= cell["x"] + cell["width"] + 4
    assert page.locator("svg[aria-hidden]").count() == 2

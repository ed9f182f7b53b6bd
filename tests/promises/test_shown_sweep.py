"""Row A7: a sweep's picture has savings and sessions cut short, bounds look like bounds, and axes have ticks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from endstop.analysis import charts

from ..console import endstop

RECORDS = Path(__file__).parents[1] / "records"


async def picture_of(tmp_path: Path, *arguments: object) -> Any:
    page = tmp_path / "sweep.html"
    records = [RECORDS / f"{name}.jsonl" for name in ("add", "author", "both", "changelog", "port", "loop")]
    done = await endstop("backtest", *records, "--html", page, *arguments)
    assert done.code == 0, done.err
    found = re.search(r'<svg[^>]*class="plot".*</svg>(?=</figure>)', page.read_text())
    assert found is not None
    return ElementTree.fromstring(found[0])


def names_in(svg: Any) -> dict[str, str]:
    words = [one for one in svg.findall("text") if (one.get("class") or "").startswith("name")]
    return {one.text: one.get("class").split()[1] for one in words}


def told(svg: Any) -> list[str]:
    return [one.text for one in svg.iter("title")]


@pytest.mark.parametrize(
    "arguments", [("--sweep", "limits.steps=1:6:1"), ("--sweep", "text=final,nudge")], ids=["numbers", "words"]
)
async def test_A7_savings_and_sessions_cut_short_are_in_one_picture_though_nobody_evaluated(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    names = names_in(await picture_of(tmp_path, *arguments))
    assert {name.removesuffix(" ≥") for name in names} == {"steps saved", "supposed", "cut short"}
    assert len(set(names.values())) == 3, "each of its own colour"


async def test_A7_the_lowest_limit_is_seen_to_cut_most_sessions_short(tmp_path: Path) -> None:
    svg = await picture_of(tmp_path, "--sweep", "limits.steps=1:6:1")
    shares = {}
    for words in told(svg):
        if found := re.fullmatch(r"cut short.*?: (\d+), (?:at least )?([\d.]+) %", words or ""):
            shares[int(found[1])] = float(found[2])
    assert shares[1] > 80
    assert shares[1] >= shares[2] >= shares[6]


async def test_A7_lower_bounds_are_open_triangles_and_say_at_least(tmp_path: Path) -> None:
    svg = await picture_of(tmp_path, "--sweep", "limits.steps=1:6:1")
    assert "steps saved ≥" in names_in(svg)
    bounds, exact = svg.findall("svg/path[@class='open main']"), svg.findall("circle[@class='main']")
    assert (len(bounds), len(exact)) == (3, 3), "from some limit on not all is known of the session that was reminded"
    assert len(svg.findall("circle[@class='quiet']")) == 6, "a supposition is no bound"
    assert svg.find("svg/polyline[@class='curve main bound']") is not None
    assert sum("at least" in words for words in told(svg) if words.startswith("steps saved ≥: ")) == 3


async def test_A7_both_axes_have_ticks_with_their_values(tmp_path: Path) -> None:
    svg = await picture_of(tmp_path, "--sweep", "limits.steps=1:6:1")
    ticks = [line for line in svg.findall("line") if line.get("class") == "tick"]
    across = [line for line in ticks if line.get("x1") == line.get("x2") and line.get("x1") != "11.0%"]
    words = {one.text for one in svg.findall("text")}
    assert len(across) == 6
    assert {"1", "2", "3", "4", "5", "6", "0 %", "20 %"} <= words
    assert len([line for line in ticks if line.get("x2") == "11.0%" and line.get("x1") != "11.0%"]) >= 3


def test_A7_many_values_have_round_ticks_and_what_is_exact_has_dots() -> None:
    points = [charts.DataPoint(x, x / 10) for x in range(40)]
    svg = ElementTree.fromstring(charts.curve([charts.Series("saved", points)], title="t", x_label="a", y_label="u"))
    words = [one.text for one in svg.findall("text")]
    assert {"0", "10", "20", "30"} <= set(words)
    assert len(svg.findall("circle")) == 40
    assert svg.find("svg/path") is None


def test_A7_half_percents_on_the_axis_are_not_rounded_away() -> None:
    svg = charts.curve(
        [charts.Series("saved", [charts.DataPoint(1, 0.0), charts.DataPoint(2, 10.9)])],
        title="t",
        x_label="a",
        y_label="percent",
        format_y=lambda value: f"{round(value, 1):g} %",
    )
    assert "2.5 %" in svg

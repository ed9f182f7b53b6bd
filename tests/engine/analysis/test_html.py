"""Markup, plots and pages: nothing that a model wrote does anything, and everybody can read them."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from endstop.analysis import charts as plots
from endstop.analysis.charts import scale_ticks
from endstop.analysis.html import (
    DARK,
    LIGHT,
    TONES,
    VOID,
    Markup,
    figure,
    foreign,
    join,
    page,
    section,
    table,
    tag,
    text,
    tiles,
)
from hypothesis import given
from hypothesis import strategies as st

HOSTILE = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(1)>\u202e\x00\x1b[31m&amp;\ud800"


class Parsed(HTMLParser):
    """The elements and the words of a page; it fails where they do not nest."""

    def __init__(self, markup: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self._open: list[str] = []
        self.feed(markup)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


# ---- markup


@given(st.text())
def test_whatever_is_written_is_words_and_never_markup(words: str) -> None:
    parsed = Parsed(tag("p", words, title=words))
    assert [name for name, _ in parsed.tags] == ["p"]
    assert list(parsed.tags[0][1]) == ["title"]
    assert Parsed(foreign(words)).tags == [("bdi", {})]


def test_hostile_text_loses_what_controls_and_keeps_what_can_be_read() -> None:
    shown = text(HOSTILE)
    assert not set("\u202e\x00\x1b\ud800<>\"'") & set(shown)
    assert Parsed(tag("b", shown)).words.startswith("</script><script>alert(1)")
    assert text("\u05e9\u05dc\u05d5\u05dd") == "\u05e9\u05dc\u05d5\u05dd", "words from right to left stay"


def test_attributes_are_named_as_in_html_and_left_out_where_there_is_nothing() -> None:
    assert tag("td", "1", class_="n", aria_label="x", hidden=True, id=None) == (
        '<td class="n" aria-label="x" hidden>1</td>'
    )
    assert tag("circle", r="4") == '<circle r="4"></circle>'
    assert join(Markup("<b>"), "<b>") == "<b>&lt;b&gt;"


# ---- plots


def drawn(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


COLUMNS = [plots.Column(1, 5, 3), plots.Column(6, 10, 12), plots.Column(11, 15, 0), plots.Column(16, None, 1)]


def test_a_histogram_has_a_bar_for_each_column_with_something_in_it_and_says_so_in_words() -> None:
    flags = [plots.Flag(7, "median 7")]
    svg = drawn(plots.histogram(COLUMNS, title="Steps", across="steps", up="runs", flags=flags))
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
    svg = drawn(plots.histogram(COLUMNS, title="t", across="a", up="u", flags=[plots.Flag(8, "8")]))
    flag = next(line for line in svg.findall("line") if line.get("class") == "flag")
    bar = svg.findall("rect")[1]
    left = float(bar.attrib["x"].rstrip("%"))
    assert left < float(flag.attrib["x1"].rstrip("%")) < left + float(bar.attrib["width"].rstrip("%"))


def test_a_curve_has_a_dot_for_each_point_and_its_name_where_there_is_room() -> None:
    points = [plots.Point(5, 0.4, low=0.3, high=0.5), plots.Point(10, 0.8, "half", 0.7, 0.9)]
    other = [plots.Point(5, 0.2), plots.Point(10, 0.82)]
    lines = [plots.Line("saved", points), plots.Line("cut", other, "bad")]
    svg = drawn(plots.curve(lines, title="Sweep", across="steps", up="share", shown=lambda share: f"{share:.0%}"))
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
    lines = [plots.Line(name, [plots.Point(1, 0.5), plots.Point(2, 0.6)]) for name in "abc"]
    svg = drawn(plots.curve(lines, title="t", across="a", up="u"))
    places = sorted(float(one.attrib["y"]) for one in svg.findall("text") if one.get("class") == "name main")
    assert places[1] - places[0] >= 14
    assert places[2] - places[1] >= 14


def test_bars_and_intervals_stay_within_their_cell() -> None:
    assert drawn(plots.bar(0.25)).find("rect").attrib["width"] == "25.00%"  # type: ignore[union-attr]
    assert drawn(plots.bar(7.0)).find("rect").attrib["width"] == "100.00%"  # type: ignore[union-attr]
    assert drawn(plots.bar(0)).find("rect") is None
    svg = drawn(plots.interval(-5.0, 0.5, 3.0, -1.0, 1.0))
    places = [float(line.attrib[end].rstrip("%")) for line in svg.findall("line") for end in ("x1", "x2")]
    assert min(places) >= 2
    assert max(places) <= 98
    assert svg.findall("line")[0].attrib["x1"] == "50.00%", "zero"


def test_of_nothing_nothing_is_drawn() -> None:
    assert plots.histogram([], title="t", across="a", up="u") == ""
    assert plots.curve([], title="t", across="a", up="u") == ""
    assert drawn(plots.curve([plots.Line("one", [plots.Point(1, 1)])], title="t", across="a", up="u")) is not None


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_ticks_are_few_even_and_reach_round_all_values(low: int, high: int) -> None:
    low, high = min(low, high), max(low, high)
    ticks = scale_ticks(low, high)
    assert ticks[0] <= low
    assert ticks[-1] >= high
    assert 2 <= len(ticks) <= 8
    assert len({round(b - a, 6) for a, b in zip(ticks, ticks[1:])}) == 1  # noqa: B905, RUF007


# ---- pages


def test_a_page_loads_nothing_and_runs_only_its_own_script() -> None:
    whole = page("A page", HOSTILE, section("a", "Part", tag("p", HOSTILE)), script="let a = 1;")
    parsed = Parsed(whole)
    policy = next(
        given["content"] for name, given in parsed.tags if given.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None
    assert "default-src 'none'" in policy
    assert f"script-src 'sha256-{b64encode(sha256(b'let a = 1;').digest()).decode()}'" in policy
    assert sum(name == "script" for name, _ in parsed.tags) == 1
    assert not [given for _, given in parsed.tags if {"src", "href"} & set(given)]
    assert not re.search(r"url\(|@import|https?:", whole)
    assert any("script-src 'none'" in (given.get("content") or "") for _, given in Parsed(page("A page", "x")).tags)


def test_sections_tables_and_figures_have_names_that_a_screen_reader_finds() -> None:
    part = section("a", "Part", table("Runs", ("name", "n"), [("x", "1")], figures=(1,)), tiles([("Cost", "$1", "")]))
    parsed = Parsed(part)
    names = [name for name, _ in parsed.tags]
    assert ("section", {"id": "a", "aria-labelledby": "a-h"}) in parsed.tags
    assert {"h2", "caption", "thead", "tbody", "dl", "dt", "dd"} <= set(names)
    assert ("th", {"scope": "row"}) in parsed.tags
    assert ("th", {"class": "n", "scope": "col"}) in parsed.tags
    region = next(given for name, given in parsed.tags if given.get("role") == "group")
    assert (region["tabindex"], region["aria-label"]) == ("0", "Runs")
    assert ("th", {"scope": "col"}) not in Parsed(table("Runs", ("", ""), [("x", "1")])).tags, "nothing is no head"
    assert section("b", "Empty", Markup(), "") == ""
    assert table("Empty", ("a",), []) == ""
    assert figure(Markup(), "nothing") == ""


# ---- colours


def luminance(colour: str) -> float:
    """Relative luminance (WCAG 2.2)."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("colours", [LIGHT, DARK])
def test_words_and_marks_stand_out_in_light_and_in_dark(colours: dict[str, str]) -> None:
    for behind in ("page", "raised"):
        for words in ("ink", "faint", "main", "bad", "loop"):
            assert contrast(colours[words], colours[behind]) >= 4.5, (words, behind)
    for tone in TONES:
        assert contrast(colours[tone], colours["page"]) >= 3, tone
        assert contrast(colours["on"], colours[tone]) >= 4.5, tone
    assert set(LIGHT) == set(DARK)

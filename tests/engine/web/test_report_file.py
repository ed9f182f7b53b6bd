"""A report as a file: nothing that a model wrote does anything, and it loads nothing."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256

import pytest
from endstop.http.document_page import Item, ListPart, NotePart, ReportPage, Section, report_html
from endstop.http.single_file import data_element, single_file
from hypothesis import given
from hypothesis import strategies as st

from ..cli.pages import DARK, HOSTILE, LIGHT, STYLE, Parsed, held, words

TONES = ("main", "good", "warn", "bad", "loop", "quiet")


def page(text: str) -> ReportPage:
    return ReportPage(
        title="A page",
        lead=text,
        sections=[
            Section("a", text, [NotePart(text), ListPart(title=text, items=[Item(text=text)])]),
            Section("b", "Empty", []),
        ],
        foot=text,
    )


@given(st.text())
def test_whatever_is_written_stays_in_the_data(text: str) -> None:
    made = report_html(page(text)).html
    data = made.partition('id="held-report">')[2]
    assert data.count("<") == 1, "only the end of the element"
    found = held(made)
    assert found["lead"] == text.encode("utf-8", "replace").decode()
    assert [one["id"] for one in found["sections"]] == ["a"], "what has no content is left out"


def test_a_hostile_text_adds_no_element() -> None:
    hostile, plain = Parsed(report_html(page(HOSTILE)).html), Parsed(report_html(page("plain")).html)
    assert hostile.tags == plain.tags
    assert "alert(1)" in words(held(report_html(page(HOSTILE)).html))


def test_a_page_loads_nothing_and_runs_only_its_own_script() -> None:
    made = report_html(page("plain"))
    parsed = Parsed(made.html)
    policy = next(
        given["content"] for name, given in parsed.tags if given.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None
    assert policy.startswith(f"{made.policy};")
    assert "default-src 'none'" in policy
    assert "require-trusted-types-for 'script'" in policy
    for element, directive in (("style", "style-src"), ("script", "script-src")):
        (content,) = re.findall(rf"<{element}(?: type=\"module\")?>(.*?)</{element}>", made.html, re.DOTALL)
        assert f"{directive} 'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'" in policy
    assert not [given for _, given in parsed.tags if "src" in given]
    assert [given["href"][:5] for name, given in parsed.tags if name == "link"] == ["data:"]  # type: ignore[index]
    assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org/2000/svg)", made.html)
    assert "innerHTML" not in made.html


def test_without_javascript_the_file_says_what_it_needs_and_where_else_the_figures_are() -> None:
    without = re.findall(r"<noscript>(.*?)(?=<script)", report_html(page("plain")).html, re.DOTALL)
    assert "It needs JavaScript" in without[0]
    assert "--json" in without[0]


def test_a_page_that_does_not_fit_into_a_file_is_an_error() -> None:
    index = (
        "<meta charset=utf-8><title>x</title><link rel=stylesheet href=page/a.css>"
        "<script type=module src=page/a.js></script>"
    )
    files = {"a.css": "a{}", "a.js": "export const a = 1;"}
    assert "<title>t · endstop</title>" in single_file(index, "a.js", files, title="t").html
    with pytest.raises(ValueError, match="style sheet"):
        single_file(index, "a.js", {**files, "a.css": "</style>"}, title="t")
    with pytest.raises(ValueError, match="not one"):
        single_file(index.replace("<title>x</title>", ""), "a.js", files, title="t")


def test_only_what_a_page_needs_is_in_it() -> None:
    made = report_html(page("plain")).html
    assert "report/charts.js" in made
    assert "composer.js" not in made
    assert len(made) < 60_000


def test_no_data_ends_its_element() -> None:
    (data,) = re.findall(rb">(.*)</script>\n", b"".join(data_element("x", [b'"</script><!--"'])), re.DOTALL)
    assert b"<" not in data


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
        for name in ("ink", "faint", "main", "bad", "loop"):
            assert contrast(colours[name], colours[behind]) >= 4.5, (name, behind)
    for tone in TONES:
        assert re.search(rf"\.{tone}\b[^{{}}]*\{{--tone:var\(--{tone}\)\}}", STYLE), tone
        assert contrast(colours[tone], colours["page"]) >= 3, tone
        assert contrast(colours["on"], colours[tone]) >= 4.5, tone
    assert set(LIGHT) == set(DARK)

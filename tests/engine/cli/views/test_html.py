"""Pages: nothing that a model wrote does anything, and everybody can read them."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from typing import Any

import pytest
from endstop.base.sanitize import sanitize
from endstop.cli.views.html import TEMPLATES, environment, isolated, render
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError
from markupsafe import Markup

from ..pages import DARK, HOSTILE, LIGHT, STYLE, Parsed

TONES = re.findall(r"^\.(\w+)\{--tone:", STYLE, re.MULTILINE)


def rendered(source: str, **values: object) -> str:
    return environment().from_string(source).render(values)


def part(source: str, **values: Any) -> str:
    """What the macros that pages share make of something."""
    return rendered('{% from "parts.html.j2" import note, row, section, table %}' + source, **values).strip()


# ---- values


@given(st.text())
def test_whatever_is_written_is_words_and_never_markup(words: str) -> None:
    parsed = Parsed(rendered('<p title="{{ words }}">{{ words }}</p>', words=words))
    assert [name for name, _ in parsed.tags] == ["p"]
    assert list(parsed.tags[0][1]) == ["title"]
    assert Parsed(isolated(words)).tags == [("bdi", {})] * bool(sanitize(words))


def test_hostile_text_loses_what_controls_and_keeps_what_can_be_read() -> None:
    shown = rendered("{{ words }}", words=HOSTILE)
    assert not set("\u202e\x00\x1b\ud800<>\"'") & set(shown)
    assert Parsed(f"<b>{shown}</b>").words.startswith("</script><script>alert(1)")
    assert rendered("{{ words }}", words="\u05e9\u05dc\u05d5\u05dd") == "\u05e9\u05dc\u05d5\u05dd", (
        "words from right to left stay"
    )


def test_what_is_markup_stays_and_all_else_is_escaped_by_every_template_and_macro() -> None:
    assert rendered("{{ a }}{{ b }}", a=Markup("<b>"), b="<b>") == "<b>&lt;b&gt;"
    assert rendered("{{ '<' ~ a }}{{ ['<', a]|join }}", a="<b>") == "&lt;&lt;b&gt;" * 2
    assert isolated("<b>") == "<bdi>&lt;b&gt;</bdi>"
    assert isolated("a\nbc", 3) == "<bdi>a…</bdi>"
    assert isolated("") == ""
    every = part(
        "{% call section(x, x) %}{{ note(x) }}{% call table(x, (x,)) %}{{ row((x, x)) }}{% endcall %}{% endcall %}",
        x=HOSTILE,
    )
    known = {"section", "h2", "p", "div", "table", "caption", "thead", "tbody", "tr", "th", "td"}
    assert {name for name, _ in Parsed(every).tags} == known


def test_no_template_turns_escaping_off() -> None:
    for template in TEMPLATES.glob("*.j2"):
        assert not re.search(r"\bsafe\b|autoescape", template.read_text(encoding="utf-8")), template.name


def test_a_value_that_is_missing_is_an_error_and_no_gap() -> None:
    with pytest.raises(UndefinedError, match="nothing"):
        rendered("{{ nothing }}")
    with pytest.raises(UndefinedError):
        render("report.html.j2")


# ---- pages


def page(script: str = "") -> str:
    source = (
        '{% extends "page.html.j2" %}{% from "parts.html.j2" import section %}'
        "{% set title, lead, guide, script = 'A page', words, 'docs/a.md', code %}"
        "{% block main %}{% call section('a', 'Part') %}<p>{{ words }}</p>{% endcall %}{% endblock %}"
    )
    return rendered(source, words=HOSTILE, code=Markup(script))


def test_a_page_loads_nothing_and_runs_only_its_own_script() -> None:
    whole = page("let a = 1;")
    parsed = Parsed(whole)
    policy = next(
        given["content"] for name, given in parsed.tags if given.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None
    assert "default-src 'none'" in policy
    assert f"script-src 'sha256-{b64encode(sha256(b'let a = 1;').digest()).decode()}'" in policy
    assert whole.count("<script>let a = 1;</script>") == 1
    assert sum(name == "script" for name, _ in parsed.tags) == 1
    assert not [given for _, given in parsed.tags if {"src", "href"} & set(given)]
    assert not re.search(r"url\(|@import|https?:", whole)
    assert any("script-src 'none'" in (given.get("content") or "") for _, given in Parsed(page()).tags)


def test_sections_and_tables_have_names_that_a_screen_reader_finds() -> None:
    table = "{% call table('Runs', head, (1,)) %}{{ row(('x', '1'), (1,)) }}{% endcall %}"
    parsed = Parsed(part("{% call section('a', 'Part') %}" + table + "{% endcall %}", head=("name", "n")))
    names = [name for name, _ in parsed.tags]
    assert ("section", {"id": "a", "aria-labelledby": "a-h"}) in parsed.tags
    assert {"h2", "caption", "thead", "tbody"} <= set(names)
    assert ("th", {"scope": "row"}) in parsed.tags
    assert ("th", {"class": "n", "scope": "col"}) in parsed.tags
    assert ("td", {"class": "n"}) in parsed.tags
    region = next(given for name, given in parsed.tags if given.get("role") == "group")
    assert (region["tabindex"], region["aria-label"]) == ("0", "Runs")
    assert ("th", {"scope": "col"}) not in Parsed(part(table, head=("", ""))).tags, "nothing is no head"


def test_what_has_no_content_is_left_out() -> None:
    assert part("{% call section('b', 'Empty') %} \n {% endcall %}") == ""
    assert part("{% call table('Empty', ('a',)) %}{% endcall %}") == ""
    assert part("{{ note('') }}") == ""


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
    assert len(TONES) == 6
    for tone in TONES:
        assert contrast(colours[tone], colours["page"]) >= 3, tone
        assert contrast(colours["on"], colours[tone]) >= 4.5, tone
    assert set(LIGHT) == set(DARK)

"""How reports are made: for a phone, for a screen reader, in light and in dark, and nothing in them does anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from endstop.analysis.backtest import NamedPolicy, backtest_records, parse_sweep
from endstop.analysis.fit import fit_records
from endstop.analysis.fit_report import FitOptions
from endstop.analysis.labels import Labels
from endstop.analysis.report import report_records
from endstop.analysis.scoring import Ratings
from endstop.cli.views.backtest_page import backtest_page
from endstop.cli.views.counted_sessions import CountedSessions
from endstop.cli.views.fit_page import fit_page
from endstop.cli.views.report_page import SESSIONS_LISTED, SessionSection, read_section, report_page
from endstop.decision import POLICIES, Usage
from endstop.http.document_page import ReportPage, report_html
from endstop.proxy.statistics_page import Statistics, statistics_page

from ..cli.pages import DARK, HOSTILE, LIGHT
from .drawn import show
from .made_session import run_of_steps
from .shown import RECORDS
from .test_exported_page import written
from .test_page_form import DOUBLED, HEADINGS, NAMELESS

CUT_OFF = "() => [...document.querySelectorAll('.wide')].filter((one) => one.scrollWidth > one.clientWidth + 1).length"
RAW = ("text_final", "custom:", "control flow", "finish_reason", "exhausted", "awaiting_input", "step_limit", "stop(")
"""Names of the code that no page may show; names of tools and settings are the user's."""


def report(paths: Sequence[Path]) -> ReportPage:
    made = report_records(paths, processes=1)
    sections = [SessionSection(chosen, *read_section(Path(chosen.record))) for chosen in made.telling]
    return report_page(made, sections, Ratings())


def backtest(paths: Sequence[Path], *, sweep: bool = False) -> ReportPage:
    agent, counted = POLICIES["agent"], CountedSessions()
    swept, policies = parse_sweep(agent, "limits.steps=1:6:1") if sweep else (None, [NamedPolicy("agent", agent)])
    made = backtest_records(paths, policies, swept=swept, processes=1, on_case=counted.add)
    return backtest_page(made, counted)


def fit(folder: Path) -> ReportPage:
    paths = []
    for number in range(12):
        events = run_of_steps(f"run_fit_{number}", 4 + number % 3, prompt=f"Task {number}")
        paths.append(written(folder / f"{number}.jsonl", events))
    (folder / "labels.csv").write_text(
        "session,correct\n" + "".join(f"{number},{int(number < 9)}\n" for number in range(12))
    )
    labels = Labels.read(folder / "labels.csv")
    options = FitOptions(bound=0.4, confidence=0.9)
    made = fit_records(paths, POLICIES["agent"], options, labels=labels, date=str(date(2026, 11, 30)), processes=1)
    return fit_page(made.report)


def proxy() -> ReportPage:
    statistics = Statistics()
    statistics.count_request("followed")
    statistics.count_request("answered", 4000)
    statistics.count_cut("completion")
    statistics.count_usage(Usage(input_tokens=1000, output_tokens=200, estimated=True, cost_usd=0.1))
    return statistics_page(statistics, 1, "http://x", dry_run=True, problem="the store is locked")


@pytest.fixture(scope="module")
def records() -> list[Path]:
    return sorted(RECORDS.glob("*.jsonl"))


KINDS = ["report", "backtest", "sweep", "fit", "proxy"]


@pytest.fixture(params=KINDS)
def document(request: pytest.FixtureRequest, records: list[Path], tmp_path: Path) -> ReportPage:
    match request.param:
        case "report":
            return report(records)
        case "backtest":
            return backtest(records)
        case "sweep":
            return backtest(records, sweep=True)
        case "fit":
            return fit(tmp_path)
        case _:
            return proxy()


def test_it_fits_phone_and_desktop_and_everything_has_a_name(
    open_page: Callable[..., Any], document: ReportPage, tmp_path: Path
) -> None:
    page = show(open_page(), document, tmp_path)
    page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    for width in (1440, 390):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(NAMELESS) == []
        assert page.evaluate(DOUBLED) == []
        levels = page.evaluate(HEADINGS)
        assert levels.count(1) == 1
        assert [(one, next) for one, next in pairwise(levels) if next > one + 1] == []
        if width == 1440:
            assert page.evaluate(CUT_OFF) == 0, "no table is cut off"
    for scheme, table in (("light", LIGHT), ("dark", DARK)):
        page.emulate_media(color_scheme=scheme)
        red, green, blue = (int(table["page"][at : at + 2], 16) for at in (1, 3, 5))
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == f"rgb({red}, {green}, {blue})"
    text = page.inner_text("body")
    assert [raw for raw in RAW if raw in text] == []
    assert page.title() == f"{document.title} · endstop"


def test_heads_are_buttons_that_sort_and_say_so(
    open_page: Callable[..., Any], records: list[Path], tmp_path: Path
) -> None:
    page = show(open_page(), report(records), tmp_path)
    heads = page.locator("table.sessions thead th")
    assert [one.split()[0] for one in heads.all_inner_texts()] == [
        "Task",
        "Ended",
        "Work",
        "Steps",
        "Cost",
        "Why",
        "Strip",
    ]
    steps = page.locator("table.sessions thead button", has_text="Steps")
    cells = "(all) => all.map((one) => Number(one.textContent))"
    for way, ordered in (("descending", True), ("ascending", False)):
        steps.press("Enter")
        assert heads.nth(3).get_attribute("aria-sort") == way
        assert heads.nth(0).get_attribute("aria-sort") is None
        found = page.locator("table.sessions td:nth-child(4)").evaluate_all(cells)
        assert found == sorted(found, reverse=ordered)
    page.locator("table.sessions thead button", has_text="Cost").click()
    costs = page.locator("table.sessions td:nth-child(5)").all_inner_texts()
    assert costs[-1] == "unknown" or "unknown" not in costs, "what is not known stands last"


def test_twenty_sessions_are_shown_and_more_on_request_and_filters_find_one(
    open_page: Callable[..., Any], tmp_path: Path
) -> None:
    paths = []
    for number in range(SESSIONS_LISTED + 3):
        failed = {2} if number == 5 else set[int]()
        events = run_of_steps(f"run_{number}", 3 + number, failed=failed, prompt=f"Work on part {number}")
        paths.append(written(tmp_path / f"{number}.jsonl", events))
    page = show(open_page(), report(paths), tmp_path)
    rows = page.locator("table.sessions tbody tr")
    assert rows.count() == SESSIONS_LISTED
    assert page.locator("table.sessions tbody th a[href*='#s/']").count() == SESSIONS_LISTED
    page.click("#sessions button:has-text('Show all 23 sessions')")
    assert rows.count() == SESSIONS_LISTED + 3
    page.fill(".find input", "PART 5")
    assert page.inner_text(".find [role=status]") == "1 of 23 sessions"
    assert rows.count() == 1
    page.fill(".find input", "")
    reasons = page.locator(".find option").all_inner_texts()
    if len(reasons) > 1:
        page.select_option(".find select", reasons[1])
        assert all(reasons[1] in one for one in page.locator("table.sessions td:nth-child(6)").all_inner_texts())


def test_what_others_wrote_is_text_and_cannot_hide(open_page: Callable[..., Any], tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", run_of_steps("run_h", 3, prompt=HOSTILE.encode("utf-8", "replace").decode()))
    page = show(open_page(), report([path]), tmp_path)
    assert page.locator("img").count() == 0
    text = page.inner_text("body")
    assert "alert(1)" in text
    assert not {"\u202e", "\x00", "\x1b"} & set(text)


def test_without_javascript_it_says_what_it_needs(browser: Any, tmp_path: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    file = tmp_path / "shown.html"
    file.write_text(report_html(proxy()).html, encoding="utf-8")
    page.goto(file.as_uri())
    assert "It needs JavaScript" in page.inner_text("noscript")
    context.close()

"""Row A7: a sweep's picture has savings and sessions cut short, bounds look like bounds, and axes have ticks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from endstop.analysis.backtest import backtest_records, parse_sweep
from endstop.cli.views.backtest_page import backtest_page
from endstop.cli.views.counted_sessions import CountedSessions
from endstop.decision import POLICIES

from ..console import endstop
from ..engine.cli.pages import held, section
from ..engine.web.conftest import open_page
from ..engine.web.drawn import show

__all__ = ["open_page"]
RECORDS = Path(__file__).parents[1] / "records"
RECORDED = [RECORDS / f"{name}.jsonl" for name in ("add", "author", "both", "changelog", "port", "loop")]


async def page_of(tmp_path: Path, *arguments: object) -> Path:
    page = tmp_path / "sweep.html"
    done = await endstop("backtest", *RECORDED, "--html", page, *arguments)
    assert done.code == 0, done.err
    return page


async def chart_of(tmp_path: Path, *arguments: object) -> dict[str, Any]:
    """The lines of the chart by their names, without the sign of a lower bound."""
    (chart,) = section(held((await page_of(tmp_path, *arguments)).read_text()), "sweep")
    return {line["name"]: line for line in chart["lines"]}


@pytest.mark.parametrize(
    "arguments", [("--sweep", "limits.steps=1:6:1"), ("--sweep", "text=final,nudge")], ids=["numbers", "words"]
)
async def test_A7_savings_and_sessions_cut_short_are_in_one_picture_though_nobody_evaluated(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    lines = await chart_of(tmp_path, *arguments)
    assert {name.removesuffix(" ≥") for name in lines} == {"steps saved", "supposed", "cut short"}
    assert len({line["tone"] for line in lines.values()}) == 3, "each of its own colour"


async def test_A7_the_lowest_limit_is_seen_to_cut_most_sessions_short(tmp_path: Path) -> None:
    lines = await chart_of(tmp_path, "--sweep", "limits.steps=1:6:1")
    (cut,) = (line for name, line in lines.items() if name.startswith("cut short"))
    shares = {point[0]: point[1] for point in cut["points"]}
    assert shares[1] > 80
    assert shares[1] >= shares[2] >= shares[6]


def shown(page: Any, folder: Path) -> Any:
    """The page of a sweep in a browser."""
    setting, policies = parse_sweep(POLICIES["agent"], "limits.steps=1:6:1")
    counted = CountedSessions()
    report = backtest_records(RECORDED, policies, swept=setting, processes=1, on_case=counted.add)
    return show(page, backtest_page(report, counted), folder)


def test_A7_lower_bounds_are_open_triangles_and_say_at_least(tmp_path: Path, open_page: Any) -> None:
    page = shown(open_page(), tmp_path)
    assert page.locator(".key li").first.inner_text().startswith("steps saved ≥")
    bounds, exact = page.locator(".plot .at.main .open"), page.locator(".plot .at.main .dot")
    assert (bounds.count(), exact.count()) == (3, 3), "from some limit on not all is known of one session"
    assert page.locator(".plot .at.quiet .dot").count() == 6, "a supposition is no bound"
    said = bounds.locator("title").all_text_contents()
    assert all(one.startswith("steps saved ≥: ") and "at least" in one for one in said)


def test_A7_both_axes_have_ticks_with_their_values(tmp_path: Path, open_page: Any) -> None:
    words = set(shown(open_page(), tmp_path).locator(".plot text").all_text_contents())
    assert {"1", "2", "3", "4", "5", "6", "0 %", "20 %", "limits.steps", "%"} <= words

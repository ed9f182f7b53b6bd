"""Row E8, the monitoring figures: used / allowed steps, runs over the limit that passed, mean steps, and what fits."""

from __future__ import annotations

from pathlib import Path

import pytest
from endstop.analysis.report import Report, report_records
from endstop.decision import RECOMMENDED, Limits, Policy
from endstop.records.files import find_records

from ..engine.analysis import scenes


def report_of(folder: Path) -> Report:
    return report_records(find_records([folder]))


async def test_E8_used_and_allowed_steps_and_the_mean(tmp_path: Path) -> None:
    for number, (steps, allowed) in enumerate(((2, 20), (5, 20), (10, 20), (20, 20))):
        policy = Policy(limits=Limits(steps=allowed), reminder=None)
        script = [*scenes.work(steps - 1), scenes.FINISH] if steps < allowed else scenes.work(steps)
        await scenes.play(tmp_path / f"{number}.jsonl", script, policy=policy)
    found = report_of(tmp_path).overall
    assert found.limits.used_share == pytest.approx((0.1 + 0.25 + 0.5 + 1.0) / 4, abs=0.01)
    assert {(one.low, one.high): one.runs for one in found.limits.used_bins if one.runs} == {
        (0, 10): 1,
        (21, 30): 1,
        (41, 50): 1,
        (91, 100): 1,
    }
    assert found.limits.allowed == {"20": 4}
    assert found.run_steps.mean == pytest.approx(37 / 4)
    assert (found.limits.at_step_limit.runs, found.limits.at_step_limit.of) == (1, 4)


async def test_E8_the_share_of_runs_over_the_limit_that_still_passed(tmp_path: Path) -> None:
    soft = Policy(limits=Limits(soft_steps=3, steps=10), reminder=None)
    await scenes.done(tmp_path / "soft.jsonl", steps=5, policy=soft, good=True)
    await scenes.done(tmp_path / "below.jsonl", steps=2, policy=soft, good=True)
    await scenes.limited(tmp_path / "hard.jsonl", good=True)
    await scenes.limited(tmp_path / "failed.jsonl", good=False)
    await scenes.limited(tmp_path / "unjudged.jsonl")
    found = report_of(tmp_path).overall.limits
    assert (found.over.runs, found.over.of) == (4, 5)
    assert (found.over_passed.runs, found.over_passed.of) == (2, 3)
    assert found.over_passed.share is not None
    assert found.over_passed.share.value == pytest.approx(2 / 3)


async def test_E8_the_recommended_limits_are_held_against_the_records(tmp_path: Path) -> None:
    for number in range(10):
        await scenes.done(tmp_path / f"{number}.jsonl", steps=12 if number == 9 else 6 + number % 5)
    report = report_of(tmp_path)
    fits = {fit.kind: fit for fit in report.recommended.fits}
    assert list(fits) == list(RECOMMENDED)
    assert (fits["look_up"].soft_steps, fits["look_up"].steps) == (10, 20)
    assert (fits["look_up"].within_soft.runs, fits["look_up"].within_soft.of) == (9, 10)
    assert (report.recommended.best, report.recommended.p90) == ("look_up", 10)
    await scenes.limited(tmp_path / "cut.jsonl", steps=4)
    await scenes.limited(tmp_path / "off.jsonl", steps=4)
    recommended = report_of(tmp_path).recommended
    assert (recommended.best, recommended.p90) == (None, None), (
        "how many steps a run needed that was cut off nobody knows"
    )


async def test_E8_figures_by_kind_of_task_where_the_recommended_limits_were_chosen(tmp_path: Path) -> None:
    await scenes.done(tmp_path / "a.jsonl", steps=4, policy=Policy(limits=RECOMMENDED["look_up"]))
    await scenes.done(tmp_path / "b.jsonl", steps=8, policy=Policy(limits=RECOMMENDED["many_systems"]))
    await scenes.done(tmp_path / "c.jsonl")
    report = report_of(tmp_path)
    assert {kind: one.run_steps.mean for kind, one in report.by_kind.items()} == {"look_up": 4.0, "many_systems": 8.0}
    assert report.recommended_by_kind["look_up"].best == "look_up"

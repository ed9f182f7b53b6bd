"""Many records under other policies: what is added up, and what is said of files that are none."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
from endstop import Engine, Hooks, read_record, tool
from endstop.analysis.backtest import BacktestReport, NamedPolicy, backtest_index, backtest_records, parse_sweep
from endstop.analysis.guarantee import exact_interval
from endstop.analysis.labels import Labels
from endstop.analysis.statistics import RatioEstimator, wilson_interval
from endstop.decision import Limits, Policy, WrongUse
from endstop.decision.policy import POLICIES
from endstop.providers import Scripted, call
from endstop.records.files import find_records
from msgspec.structs import replace

from . import scenes

FREE = Policy(name="free", limits=Limits(steps=50), reminder=None)


@tool(reads=True)
async def look(path: str) -> str:
    """Look."""
    return path


async def played(path: Path, steps: int, *, good: bool | None = None, runs: int = 1) -> Path:
    """A record of a session whose runs complete at this step."""
    script: list[Any] = []
    for _ in range(runs):
        script += [[call("look", path=str(number))] for number in range(steps - 1)] + [
            [call("finish_task", summary="x")]
        ]
    evaluate = None if good is None else (lambda run: good)
    session = Engine(Scripted(*script), tools=[look], policy=FREE, hooks=Hooks(evaluate=evaluate)).session(record=path)
    for _ in range(runs):
        await session.run("go")
    return path


def report_of(folder: Path, *policies: Policy, **options: Any) -> BacktestReport:
    return backtest_records(find_records([str(folder)]), [NamedPolicy(p.name, p) for p in policies], **options)


def up_to(steps: int) -> Policy:
    return replace(FREE, name=f"up to {steps}", limits=Limits(steps=steps))


async def test_what_is_saved_and_what_good_runs_are_cut_is_added_up_over_sessions(tmp_path: Path) -> None:
    await played(tmp_path / "a.jsonl", 2, good=True)
    await played(tmp_path / "b.jsonl", 6, good=True)
    await played(tmp_path / "c.jsonl", 9, good=False)
    report = report_of(tmp_path, up_to(4), FREE)
    cutting, same = report.policies
    assert (report.sessions, report.runs, report.used.steps, report.verdicts) == (3, 3, 17, {"passed": 2, "failed": 1})
    assert (cutting.partings["same"], cutting.partings["earlier"]) == (1, 2)
    assert (cutting.saved.steps, cutting.least_saved_steps, cutting.cut) == (2 + 5, 7, 2)
    assert (cutting.passed, cutting.false_positives) == (2, 1)
    assert [Path(case.record).name for case in cutting.most_saved] == ["c.jsonl", "b.jsonl"]
    assert [Path(case.record).name for case in cutting.good_runs_cut] == ["b.jsonl"]
    assert cutting.least_saved_steps_share is not None
    assert cutting.least_saved_steps_share.value == pytest.approx(7 / 17)
    assert same.partings["same"] == 3
    assert same.saved.steps == 0


async def test_after_a_run_that_is_cut_the_rest_of_the_session_is_unknown(tmp_path: Path) -> None:
    await played(tmp_path / "a.jsonl", 6, runs=3)
    (totals,) = report_of(tmp_path, up_to(4)).policies
    (case,) = totals.unknown
    assert (case.finding.run, case.finding.step, case.finding.unknown_from) == (1, 4, 2)
    assert (totals.known, totals.saved.steps, totals.least_saved_steps) == (0, 0, 2)
    assert totals.supposed_saved_steps == 6, "two steps of each of its three runs"


async def test_a_policy_is_compared_with_another_one_session_by_session(tmp_path: Path) -> None:
    for number, steps in enumerate((6, 8, 10)):
        await played(tmp_path / f"{number}.jsonl", steps)
    report = report_of(tmp_path, up_to(4), against=NamedPolicy("five", up_to(5)))
    assert [totals.policy for totals in report.policies] == ["up to 4", "five"]
    beyond = report.policies[0].against
    assert beyond is not None
    assert beyond.value == pytest.approx(3 / 24)


async def test_bad_files_are_listed_and_the_rest_is_tested(tmp_path: Path) -> None:
    whole = (await played(tmp_path / "a.jsonl", 3)).read_bytes()
    (tmp_path / "b.jsonl").write_bytes(b"\x00\x01\x02" * 100)
    (tmp_path / "c.jsonl").write_bytes(b"")
    (tmp_path / "d.jsonl").write_bytes(whole.replace(b'"version":"3.0"', b'"version":"4.0"'))
    (tmp_path / "e.jsonl").write_bytes(whole[:-40])
    (tmp_path / "f.jsonl").write_bytes(
        whole.split(b"\n")[0] + b"\n" + b"[" * 100_000 + b"\n" + whole.split(b"\n", 1)[1]
    )
    report = report_of(tmp_path, FREE)
    assert [Path(bad.record).name for bad in report.bad] == ["b.jsonl", "c.jsonl", "d.jsonl"]
    assert "upgrade endstop" in report.bad[2].why
    assert [Path(bad.record).name for bad in report.damaged] == ["e.jsonl", "f.jsonl"]
    assert report.sessions == 3


async def test_a_second_query_reads_no_record_and_says_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "records"
    folder.mkdir()
    await played(folder / "a.jsonl", 6, good=True)
    policies = [NamedPolicy("four", up_to(4))]
    with backtest_index(policies, str(tmp_path / "index")) as index:
        first = backtest_records(find_records([str(folder)]), policies, index=index)
    path = folder / "a.jsonl"
    stamp = path.stat()
    path.write_bytes(b"x" * stamp.st_size)  # nobody could read this
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    with backtest_index(policies, str(tmp_path / "index")) as index:
        assert backtest_records(find_records([str(folder)]), policies, index=index) == first
    with backtest_index([NamedPolicy("three", up_to(3))], str(tmp_path / "index")) as index:
        assert backtest_records(find_records([str(folder)]), [NamedPolicy("three", up_to(3))], index=index).bad


async def test_workers_come_to_the_same_as_this_process(tmp_path: Path) -> None:
    for number in range(6):
        await played(tmp_path / f"{number}.jsonl", 3 + number)
    assert report_of(tmp_path, up_to(4), processes=2) == report_of(tmp_path, up_to(4), processes=1)


# ---- sweeps


def test_a_sweep_changes_one_setting_and_holds_both_ends() -> None:
    setting, policies = parse_sweep(POLICIES["agent"], "limits.steps=5:20:5")
    assert setting == "limits.steps"
    assert [(one.name, one.value, one.policy.limits.steps) for one in policies] == [
        ("5", 5, 5), ("10", 10, 10), ("15", 15, 15), ("20", 20, 20)
    ]  # fmt: skip
    _, shares = parse_sweep(POLICIES["agent"], "reminder=0.1:0.3:0.1")
    assert [one.policy.reminder for one in shares] == [0.1, 0.2, 0.3]
    _, words = parse_sweep(POLICIES["agent"], "text=final,nudge")
    assert [one.policy.text for one in words] == ["final", "nudge"]
    _, off = parse_sweep(POLICIES["agent"], "reminder=off,0.5")
    assert [one.policy.reminder for one in off] == [None, 0.5]
    _, flags = parse_sweep(POLICIES["agent"], "closing=true,false")
    assert [one.policy.closing for one in flags] == [True, False]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("", "write SETTING="),
        ("limits.steps", "write SETTING="),
        ("limits.steps=", "write SETTING="),
        ("limits.step=1:2:1", "did you mean 'limits.steps'"),
        ("limits=1,2", "there is no setting 'limits'"),
        ("nobody=1,2", "there is no setting 'nobody'"),
        ("limits.steps=5:1:1", "no values from 5 to 1 in steps of 1"),
        ("limits.steps=1:5:0", "no values from 1 to 5 in steps of 0"),
        ("limits.steps=1:5:-1", "no values from 1 to 5 in steps of -1"),
        ("limits.steps=a:b:c", "write FROM:TO:STEP in numbers"),
        ("limits.steps=1:2", "write FROM:TO:STEP in numbers"),
        ("limits.steps=1:nan:1", "no values from 1 to NaN"),
        ("limits.steps=1:1000000000:1", "more than 200 values"),
        ("limits.steps=1,,2", "a value is empty"),
        ("limits.steps=0,1", "use 1 or more"),
        ("limits.steps=many", "use a whole number"),
        ("text=maybe", "use 'final' or 'nudge'"),
    ],
)
def test_a_sweep_that_cannot_be_is_refused_with_what_to_write(given: str, words: str) -> None:
    with pytest.raises(WrongUse, match=words):
        parse_sweep(POLICIES["agent"], given)


# ---- intervals


def test_wilsons_interval_is_that_of_the_tables() -> None:
    interval = wilson_interval(8, 10)
    assert interval is not None
    assert (round(interval.low, 4), round(interval.high, 4)) == (0.4902, 0.9433)
    assert wilson_interval(0, 0) is None
    nothing = wilson_interval(0, 50)
    assert nothing is not None
    assert (nothing.low, round(nothing.high, 4)) == (0.0, 0.0713)


def test_a_ratio_of_sums_covers_what_it_is_drawn_from() -> None:
    chance, covered = random.Random(3), 0
    for _ in range(300):
        ratio = RatioEstimator()
        for _ in range(80):
            steps = chance.randint(1, 40)
            ratio.add(sum(chance.random() < 0.25 for _ in range(steps)), steps)
        interval = ratio.interval()
        assert interval is not None
        covered += interval.low <= 0.25 <= interval.high
    assert 0.91 <= covered / 300 <= 0.98
    assert RatioEstimator().interval() is None


async def test_a_good_run_that_is_stopped_before_its_last_change_is_harmed_and_one_after_it_is_not(
    tmp_path: Path,
) -> None:
    await scenes.changing(tmp_path / "a.jsonl", before=5, after=2, good=True)  # changed at step 6 of 8
    await scenes.changing(tmp_path / "b.jsonl", before=1, after=6, good=True)  # changed at step 2 of 8
    await scenes.changing(tmp_path / "c.jsonl", before=5, after=2, good=False)
    cutting, reminding = report_of(tmp_path, up_to(4), replace(up_to(4), name="reminds", reminder=0.5)).policies
    assert (cutting.cut, cutting.false_positives) == (3, 2), "none of them had said that it was done"
    assert (cutting.before_change, cutting.harmed, cutting.passed) == (2, 1, 2)
    assert (cutting.supposed_before_change, cutting.supposed_harmed) == (2, 1)
    assert cutting.harmed_share == wilson_interval(1, 2)
    assert (reminding.before_change, reminding.harmed) == (0, 0), "after a reminder nothing is certain"
    assert (reminding.supposed_before_change, reminding.supposed_harmed) == (2, 1)


# ---- labels


def labels_of(tmp_path: Path, text: str) -> Labels:
    path = tmp_path / "labels.csv"
    path.write_text(text)
    return Labels.read(path)


async def test_verdicts_that_records_lack_come_from_labels(tmp_path: Path) -> None:
    for name, good in (("a", None), ("b", None), ("c", None), ("d", True)):
        await played(tmp_path / f"{name}.jsonl", 6, good=good)
    labels = labels_of(tmp_path, "id,resolved\na,true\nb,false\nd,true\nx,true\n")
    report = report_of(tmp_path, up_to(4), labels=labels)
    assert report.verdicts == {"passed": 2, "failed": 1, "not_run": 1}
    assert report.labels is not None
    assert (report.labels.used, report.labels.unmatched, report.labels.unlabelled) == (3, ("x",), 1)
    (totals,) = report.policies
    assert (totals.passed, totals.false_positives) == (2, 2)
    assert [Path(case.record).name for case in totals.good_runs_cut] == ["a.jsonl", "d.jsonl"]


async def test_the_label_of_an_earlier_run_counts_where_the_last_run_has_no_verdict(tmp_path: Path) -> None:
    path = await played(tmp_path / "a.jsonl", 3, runs=2)
    first, last = (run.started.run_id for run in read_record(path).runs)
    assert report_of(tmp_path, FREE, labels=labels_of(tmp_path, f"run_id,good\n{first},no\n")).verdicts == {"failed": 1}
    both = labels_of(tmp_path, f"run_id,good\n{first},no\n{last},yes\n")
    assert report_of(tmp_path, FREE, labels=both).verdicts == {"passed": 1}


async def test_the_same_labels_and_the_index_say_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "records"
    folder.mkdir()
    await played(folder / "a.jsonl", 6)
    policies = [NamedPolicy("four", up_to(4))]
    reports = []
    for _ in range(2):
        with backtest_index(policies, str(tmp_path / "index")) as index:
            labels = labels_of(tmp_path, "id,good\na,yes\n")
            reports.append(backtest_records(find_records([folder]), policies, index=index, labels=labels))
    assert reports[0] == reports[1]
    assert reports[0].verdicts == {"passed": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,good\na,no\n", r"a.jsonl passed its evaluation, but a is bad in .*labels.csv, line 2"),
        ("id,good\nx,no\n", r"none of its 1 labels matches a session"),
    ],
)
async def test_labels_that_contradict_a_record_or_match_none_are_an_error(
    tmp_path: Path, text: str, message: str
) -> None:
    await played(tmp_path / "a.jsonl", 3, good=True)
    with pytest.raises(WrongUse, match=message):
        report_of(tmp_path, FREE, labels=labels_of(tmp_path, text))


# ---- false stops


async def test_a_false_stop_is_a_good_session_stopped_before_its_work_was_done(tmp_path: Path) -> None:
    await scenes.changing(tmp_path / "early.jsonl", before=5, after=2, good=True)  # changed at step 6 of 8
    await scenes.changing(tmp_path / "late.jsonl", before=1, after=6, good=True)  # changed at step 2 of 8
    await scenes.changing(tmp_path / "bad.jsonl", before=5, after=2, good=False)
    await played(tmp_path / "said.jsonl", 6, good=True)  # changed nothing, and said so at step 6
    await played(tmp_path / "unknown.jsonl", 6)
    (totals,) = report_of(tmp_path, replace(up_to(4), reminder=0.5)).policies
    good, bad, unknown = (totals.by_verdict[verdict] for verdict in ("passed", "failed", "not_run"))
    assert (good.sessions, good.stopped, good.premature, good.saved_steps) == (3, 3, 2, 4 + 4 + 2)
    assert good.premature_share == exact_interval(2, 3)
    assert (bad.sessions, bad.stopped, bad.premature, bad.saved_steps) == (1, 1, 1, 4)
    assert (unknown.sessions, unknown.stopped) == (1, 1)
    assert [Path(case.record).name for case in totals.false_stops] == ["early.jsonl", "said.jsonl"]


async def test_no_false_stop_among_few_good_sessions_still_has_an_interval(tmp_path: Path) -> None:
    for number in range(3):
        await played(tmp_path / f"{number}.jsonl", 3, good=True)
    share = report_of(tmp_path, FREE).policies[0].by_verdict["passed"].premature_share
    assert share is not None
    assert (share.value, share.low) == (0, 0)
    assert share.high == pytest.approx(1 - 0.025 ** (1 / 3))


async def test_a_run_that_neither_changed_nor_said_anything_is_stopped_too_early_before_its_end(tmp_path: Path) -> None:
    path = await played(tmp_path / "a.jsonl", 6, good=True)
    lines = path.read_bytes().splitlines(keepends=True)
    accepted = next(place for place, line in enumerate(lines) if b"COMPLETION_ACCEPTED" in line)
    path.write_bytes(b"".join(lines[:accepted]))  # killed before its completion was accepted
    labels = labels_of(tmp_path, "id,good\na,yes\n")
    (totals,) = report_of(tmp_path, up_to(4), labels=labels).policies
    assert totals.by_verdict["passed"].premature == 1

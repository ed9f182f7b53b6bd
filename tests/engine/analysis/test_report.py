"""Many records added up, held against sessions of which it is known what they are."""

from __future__ import annotations

from pathlib import Path

import pytest
from endstop import Engine
from endstop.analysis.labels import Labels
from endstop.analysis.report import OTHERS, Report, ReportBuilder, digest_index, digest_record, report_records
from endstop.analysis.report import _decode as decoded
from endstop.analysis.scoring import Rating, Ratings, read_ratings
from endstop.decision import RECOMMENDED, Policy, WrongUse
from endstop.providers import Scripted, call
from endstop.records.files import find_records
from endstop.tools import ask_user, finish_task
from msgspec.structs import replace

from . import scenes
from .scenes import work


def report_of(folder: Path, **options: object) -> Report:
    return report_records(find_records([folder]), **options)  # type: ignore[arg-type]


async def test_every_run_ends_in_one_of_five_ways_and_the_shares_add_up(tmp_path: Path) -> None:
    await scenes.done(tmp_path / "a.jsonl")
    await scenes.told(tmp_path / "b.jsonl")
    await scenes.limited(tmp_path / "c.jsonl")
    await scenes.play(tmp_path / "d.jsonl", [[call("ask_user", question="Which?")]], presets=(ask_user, finish_task))
    path = await scenes.done(tmp_path / "e.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))  # its process was killed before the end
    figures = report_of(tmp_path).overall
    assert {name: share.runs for name, share in figures.ended.items()} == dict.fromkeys(
        ("completion", "text", "limit", "other", "unfinished"), 1
    )
    assert figures.statuses == {"completed": 2, "exhausted": 1, "awaiting_input": 1, "unfinished": 1}
    assert sum(share.share.value for share in figures.ended.values() if share.share is not None) == pytest.approx(1.0)


async def test_a_run_that_goes_on_from_a_pause_counts_its_own_steps_once(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    script = [*work(2), [call("ask_user", question="Which?", id="q")], *work(1, 9), scenes.FINISH]
    session = Engine(Scripted(*script), tools=[scenes.look], presets=(ask_user, finish_task)).session(record=path)
    await session.run("go")
    await session.answer("q", "8080")
    figures = report_of(tmp_path).overall
    assert (figures.runs, figures.steps, figures.requests, figures.questions) == (2, 5, 5, 1)
    assert figures.steps_before_done.largest == 5, "until the work was done, the pause before it included"
    assert figures.run_steps.largest == 3


async def test_false_positives_are_split_by_how_the_run_ended(tmp_path: Path) -> None:
    await scenes.done(tmp_path / "a.jsonl", good=False)
    await scenes.done(tmp_path / "b.jsonl", good=True)
    await scenes.told(tmp_path / "c.jsonl", good=False)
    await scenes.limited(tmp_path / "d.jsonl", good=False)
    await scenes.done(tmp_path / "e.jsonl")
    found = report_of(tmp_path).overall
    wrong = found.false_positives
    assert (wrong.runs.runs, wrong.runs.of) == (2, 3), "neither one that hit its limit nor one that nobody judged"
    assert (wrong.by_completion.runs, wrong.by_completion.of) == (1, 2)
    assert (wrong.by_text.runs, wrong.by_text.of) == (1, 1)
    assert wrong.by_other.of == 0
    assert (found.judged.passed.runs, found.judged.passed.of, found.judged.by_evaluation) == (1, 4, 4)


async def test_work_that_was_done_before_the_end_is_waste_after_it(tmp_path: Path) -> None:
    await scenes.talkative(tmp_path / "a.jsonl", before=3, after=2, good=True)
    await scenes.handed_back(tmp_path / "b.jsonl", steps=4, times=1)
    await scenes.done(tmp_path / "c.jsonl", steps=5)
    found = report_of(tmp_path).overall
    assert (found.waste.steps, found.waste.requests, found.waste.tool_calls) == (2 + 1, 3, 2)
    assert (found.waste.runs.runs, found.waste.runs.of) == (2, 3)
    assert found.false_negatives.handed_back == 1
    assert found.steps == 5 + 5 + 5
    assert found.waste.steps_share is not None
    assert found.waste.steps_share.value == pytest.approx(3 / 15)
    assert found.steps_before_done.mean == pytest.approx((3 + 4 + 5) / 3)
    assert found.waste.output_tokens > 0
    assert found.waste.cost_usd is not None


async def test_what_was_said_to_be_done_and_was_not_is_no_waste(tmp_path: Path) -> None:
    await scenes.talkative(tmp_path / "a.jsonl", before=3, after=2, good=False)
    found = report_of(tmp_path).overall
    assert (found.waste.steps, found.steps_before_done.largest) == (0, 5)
    said = found.anchors["said"]
    assert (said.unsolved.steps, said.overall.runs.runs) == (2, 1), "it said so all the same, and went on"


async def test_steps_after_each_anchor_are_added_up_for_solved_and_unsolved_runs_apart(tmp_path: Path) -> None:
    await scenes.changing(tmp_path / "a.jsonl", before=2, after=3, good=True)  # 6 steps
    await scenes.changing(tmp_path / "b.jsonl", before=1, after=8, good=False)  # 10 steps
    await scenes.changing(tmp_path / "c.jsonl", before=1, after=4, check=True)  # 6 steps
    await scenes.limited(tmp_path / "d.jsonl", steps=5)
    anchors = report_of(tmp_path).overall.anchors
    said, changed, checked = anchors["said"], anchors["changed"], anchors["checked"]
    assert (changed.overall.steps, changed.overall.of_steps, changed.overall.steps_without) == (3 + 8 + 4, 27, 5)
    assert (changed.overall.runs.runs, changed.overall.runs.of, changed.overall.went_on.runs) == (3, 4, 3)
    assert (changed.solved.steps, changed.solved.of_steps, changed.unsolved.steps) == (3, 6, 8)
    assert changed.overall.steps_share is not None
    assert changed.overall.steps_share.value == pytest.approx(15 / 27)
    assert 0 <= changed.overall.steps_share.low < 15 / 27 < changed.overall.steps_share.high <= 1
    assert changed.solved.steps_share is None, "of one run there is no interval"
    assert (said.overall.steps, said.overall.runs.runs, said.overall.steps_share) == (0, 3, None)
    assert (checked.overall.runs.runs, checked.overall.steps) == (2, 3), "by a test, and by an evaluation at the end"
    assert checked.unsolved.runs.runs == 0


async def test_runs_that_go_on_long_after_their_last_change_have_advice(tmp_path: Path) -> None:
    for number in range(8):
        await scenes.changing(tmp_path / f"{number}.jsonl", after=5 if number < 4 else 4, good=True)
    report = report_of(tmp_path)
    (advice,) = report.advice
    assert (advice.about, advice.firm, advice.runs) == ("after_change", False, 8)
    assert advice.because.startswith("4 of 8 runs that changed something made 5 steps or more after their last change")
    assert advice.because.endswith("; of all of them, 36 steps (60 % of all) came after it")
    assert (report.overall.anchors["changed"].solved.many.runs, report.overall.anchors["said"].overall.many.runs) == (
        4,
        0,
    )


async def test_a_pause_counts_what_came_after_a_change_once(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    script = [[call("save", path="x")], [call("ask_user", question="Which?", id="q")], *work(2), scenes.FINISH]
    session = Engine(Scripted(*script), tools=[scenes.look, scenes.save], presets=(ask_user, finish_task)).session(
        record=path
    )
    await session.run("go")
    await session.answer("q", "8080")
    found = report_of(tmp_path).overall.anchors["changed"].overall
    assert (found.runs.runs, found.runs.of) == (1, 2), "the run after the pause changed nothing"
    assert (found.steps, found.steps_without, found.of_steps) == (1, 3, 5)


async def test_a_limit_that_cut_off_good_work_is_a_false_negative(tmp_path: Path) -> None:
    await scenes.limited(tmp_path / "a.jsonl", good=True)
    await scenes.limited(tmp_path / "b.jsonl", good=False)
    await scenes.limited(tmp_path / "c.jsonl")
    found = report_of(tmp_path).overall
    assert (found.false_negatives.limit_passed.runs, found.false_negatives.limit_passed.of) == (1, 2)
    assert (found.limits.at_step_limit.runs, found.limits.over.runs) == (3, 3)
    assert (found.limits.over_passed.runs, found.limits.over_passed.of) == (1, 2)
    assert found.limits.used_share == 1.0


async def test_repeated_steps_are_counted_with_the_runs_that_made_them(tmp_path: Path) -> None:
    await scenes.repeating(tmp_path / "a.jsonl", times=4)
    await scenes.done(tmp_path / "b.jsonl")
    found = report_of(tmp_path).overall.repetition
    assert (found.runs.runs, found.runs.of, found.steps, found.nudged, found.stuck) == (1, 2, 3, 0, 0)


async def test_money_that_is_not_known_is_said_and_not_counted_as_nothing(tmp_path: Path) -> None:
    await scenes.done(tmp_path / "a.jsonl", model="small")
    await scenes.done(tmp_path / "b.jsonl", model="who-knows")
    spent = report_of(tmp_path).overall.spending
    assert spent.unpriced_runs == 1
    assert spent.cost_usd == pytest.approx((spent.input_tokens + spent.output_tokens) / 2 / 1e6, rel=0.01)
    assert spent.estimated_runs == 2


async def test_figures_by_model_policy_kind_and_tool(tmp_path: Path) -> None:
    await scenes.done(tmp_path / "a.jsonl", model="small")
    await scenes.done(tmp_path / "b.jsonl", model="large", policy=Policy(limits=RECOMMENDED["look_up"]))
    await scenes.play(tmp_path / "c.jsonl", [[call("fails", path="x")], scenes.FINISH, scenes.FINISH], model="large")
    await scenes.talkative(tmp_path / "d.jsonl", model="large")
    report = report_of(tmp_path)
    assert {name: one.runs for name, one in report.by_model.items()} == {"large": 3, "small": 1}
    assert {name: one.runs for name, one in report.by_policy.items()} == {"agent": 3, "strict": 1}
    assert {name: one.runs for name, one in report.by_kind.items()} == {"look_up": 1}
    assert (report.by_tool["fails"].calls, report.by_tool["fails"].failed) == (1, 1)
    assert report.by_tool["finish_task"].calls >= 4
    assert list(report.by_tool) == sorted(report.by_tool, key=lambda name: -report.by_tool[name].calls)


async def test_the_users_rating_counts_before_the_evaluation_and_names_kinds(tmp_path: Path) -> None:
    await scenes.done(tmp_path / "a.jsonl", good=True)
    await scenes.done(tmp_path / "b.jsonl", good=True)
    await scenes.play(tmp_path / "c.jsonl", ["One.", "Two."], runs=2)
    given = {"a": Rating(rating=0.0, kind="books"), "c": Rating(rating=1.0), "z": Rating(rating=1.0)}
    report = report_of(tmp_path, ratings=Ratings(given))
    judged = report.overall.judged
    assert (judged.passed.runs, judged.passed.of) == (2, 3), "of two runs in a session, the last one is rated"
    assert (judged.by_rating, judged.by_evaluation, judged.by_reward) == (2, 1, 0)
    assert report.overall.false_positives.runs.runs == 1
    assert (report.ratings.given, report.ratings.used, report.ratings.unmatched) == (3, 2, ("z",))
    assert report.by_kind["books"].runs == 1


async def test_a_single_run_of_a_session_can_be_rated(tmp_path: Path) -> None:
    path = await scenes.play(tmp_path / "c.jsonl", ["One.", "Two."], runs=2)
    first = decoded(digest_record(path)).runs[0].run_id
    judged = report_of(tmp_path, ratings=Ratings({first: Rating(rating=0.3)})).overall.judged
    assert (judged.passed.runs, judged.passed.of) == (0, 1)


async def test_policies_are_compared_with_a_baseline_and_one_that_is_not_there_is_refused(tmp_path: Path) -> None:
    for number in range(6):
        await scenes.done(tmp_path / f"a{number}.jsonl", steps=4 + number % 2)
        await scenes.talkative(tmp_path / f"b{number}.jsonl", before=8 + number % 2, after=1)
    comparison = report_of(tmp_path, baseline="agent").comparison
    assert comparison is not None
    (strict,) = comparison.groups
    assert (comparison.baseline, comparison.runs, strict.name, strict.runs) == ("agent", 6, "strict", 6)
    steps = {one.name: one for one in strict.differences}["steps per run"]
    assert (steps.baseline, steps.value, steps.change.value) == pytest.approx((4.5, 9.5, 5.0))
    assert steps.significant
    assert steps.change.low == pytest.approx(5 - 1.959964 * (2 * 0.3 / 6) ** 0.5)
    with pytest.raises(WrongUse, match=r"--baseline agnt: no run has this policy \(did you mean 'agent'\?\)"):
        report_of(tmp_path, baseline="agnt")


async def test_bad_files_are_listed_and_hinder_nobody_and_damage_is_told(tmp_path: Path) -> None:
    await scenes.done(tmp_path / "a.jsonl")
    (tmp_path / "b.jsonl").write_text("nonsense\n")
    path = await scenes.done(tmp_path / "c.jsonl")
    path.write_bytes(path.read_bytes() + b'{"type":"STEP_STAR')
    report = report_of(tmp_path)
    assert report.sessions == 2
    assert [Path(one.record).name for one in report.bad] == ["b.jsonl"]
    assert [(Path(one.record).name, one.why) for one in report.damaged] == [
        ("c.jsonl", "1 of its lines cannot be read; it was counted without them")
    ]


async def test_a_second_report_is_made_from_the_index_and_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scenes.done(tmp_path / "a.jsonl")
    await scenes.talkative(tmp_path / "b.jsonl", good=True)
    paths = find_records([tmp_path])
    with digest_index(str(tmp_path / "index")) as index:
        first = report_records(paths, index=index)
    monkeypatch.setattr("endstop.analysis.report.scan", None)
    with digest_index(str(tmp_path / "index")) as index:
        assert report_records(paths, index=index) == first
    assert index.problem == ""


async def test_names_without_end_are_counted_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("endstop.analysis.report.MAX_NAMES", 3)
    digested = decoded(digest_record(await scenes.done(tmp_path / "a.jsonl")))
    reporter = ReportBuilder()
    for number in range(10):
        reporter.add("a", replace(digested, runs=(replace(digested.runs[0], model=f"m{number}"),)))
    report = reporter.report()
    assert {name: one.runs for name, one in report.by_model.items()} == {OTHERS: 7, "m0": 1, "m1": 1, "m2": 1}
    assert report.runs == 10


# ---- labels


async def test_a_label_counts_as_an_evaluation_and_a_rating_before_it(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        await scenes.done(tmp_path / f"{name}.jsonl")
    await scenes.done(tmp_path / "d.jsonl", good=True)
    (tmp_path / "labels.csv").write_text("id,resolved\na,true\nb,false\nd,true\n")
    (tmp_path / "ratings.csv").write_text("id,rating\nb,good\n")
    report = report_records(
        find_records([tmp_path]),
        labels=Labels.read(tmp_path / "labels.csv"),
        ratings=read_ratings(tmp_path / "ratings.csv"),
    )
    judged = report.overall.judged
    assert (judged.by_rating, judged.by_label, judged.by_evaluation, judged.passed.runs) == (1, 1, 1, 3)
    assert report.labels is not None
    assert (report.labels.used, report.labels.unlabelled) == (3, 1)


async def test_a_label_that_contradicts_a_record_ends_the_report(tmp_path: Path) -> None:
    await scenes.done(tmp_path / "a.jsonl", good=False)
    (tmp_path / "labels.csv").write_text("id,resolved\na,true\n")
    with pytest.raises(WrongUse, match=r"a.jsonl failed its evaluation, but a is good in .*labels.csv, line 2"):
        report_records(find_records([tmp_path]), labels=Labels.read(tmp_path / "labels.csv"))

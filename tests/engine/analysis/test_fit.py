"""Fit: what is read of records, what is one task, and that the guarantee holds where the truth is known."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from endstop.analysis.eagerness import axes_of, own_levels, policy_at, single_levels
from endstop.analysis.fit import (
    LabelledSession,
    RunCourse,
    SessionCourse,
    Simulate,
    fit_courses,
    fit_records,
    simulate_session,
    tasks_of,
)
from endstop.analysis.fit_report import FitOptions, FitReport, conditions, guarantee
from endstop.analysis.guarantee import binomial_tail
from endstop.analysis.labels import RunNames
from endstop.decision import Limits, Policy, WrongUse
from endstop.decision.policy import POLICIES
from endstop.records.files import find_records
from endstop.records.parallel import FileFailure
from endstop.records.scan import scan

from .test_backtest import played

AGENT = POLICIES["agent"]
AXES = axes_of(AGENT)


# ---- sessions that are made up: (id, task, good, end of the run)


def session(id: str, task: str, good: bool | None, end: int, limits: Sequence[int]) -> SessionCourse:
    """A session of one run of `end` steps, which only limits of steps stop."""
    stops = tuple([limit if limit < end else end for limit in limits])
    rules = tuple(["step_limit" if stop < end else "" for stop in stops])
    verdict = "not_run" if good is None else "passed" if good else "failed"
    names = RunNames(run_id=f"run_{id}", session_id=id, verdict=verdict)
    return SessionCourse(names=names, prompt=task, runs=(RunCourse(end=end, said=end, stops=stops, rules=rules),))


Made = tuple[str, str, bool | None, int]


def simulated(sessions: Sequence[Made]) -> Simulate:
    """Stands for reading the records of these sessions."""

    def simulate(policies: Sequence[Policy]) -> Iterator[tuple[Path, SessionCourse | FileFailure]]:
        limits = [policy.limits.hard_steps for policy in policies]
        return ((Path(f"{made[0]}.jsonl"), session(*made, limits)) for made in sessions)

    return simulate


def fitted(sessions: Sequence[Made], options: FitOptions) -> FitReport:
    return fit_courses(simulated(sessions), AGENT, options).report


def drawn(random_: random.Random, tasks: int, rate: float, runs: int = 1) -> list[Made]:
    """Tasks with good runs of 10 steps, but a share of them needs 55; and a bad run of 90 steps for each."""
    found: list[Made] = []
    for task in range(tasks):
        end = 55 if random_.random() < rate else 10
        found += [(f"{task}.{run}", f"task {task}", True, end) for run in range(runs)]
        found.append((f"{task}.bad", f"task {task}", False, 90))
    return found


OPTIONS = FitOptions(bound=0.1, confidence=0.9, choosing_share=0.25)


def test_what_is_certified_saves_what_it_can_without_cutting_the_good_runs() -> None:
    report = fitted(drawn(random.Random(1), 200, 0.3), OPTIONS)
    chosen = report.chosen
    assert chosen is not None
    assert chosen.settings["limits.steps"] == 60, "50 would cut the 30 % that need 55"
    assert (chosen.harmed, report.testing.units, report.choosing.units) == (0, 150, 50)
    failed = report.rungs[report.certified + 1] if report.certified is not None else None
    assert failed is not None
    assert failed.trial is not None
    assert not failed.trial.passed
    assert failed.settings["limits.steps"] == 50
    assert failed.examples[0].why == "after step 50 of 55, because of the limit of steps"
    assert chosen.saved_bad is not None
    assert chosen.saved_bad.value == pytest.approx(30 / 90)
    assert chosen.saved_good is not None
    assert chosen.saved_good.value == 0


TRUTH = 0.12
"""The true share of tasks that need 55 steps: at 10 %, limits of 50 and less break the bound."""


def breaks_the_bound(report: FitReport) -> bool:
    return report.chosen is not None and report.chosen.settings["limits.steps"] <= 50


def is_no_chance(wrong: int, data_sets: int, level: float) -> bool:
    """Whether so many wrong ones are likelier than 1 in 1,000 not, if each were wrong with this probability."""
    return 1 - binomial_tail(wrong - 1, data_sets, level) < 0.001


@pytest.mark.parametrize("data_sets", [60, pytest.param(2_000, marks=pytest.mark.long)])
def test_the_whole_fit_breaks_its_bound_no_oftener_than_it_says_with_many_runs_of_a_task_too(data_sets: int) -> None:
    random_ = random.Random(2)
    wrong = 0
    for _ in range(data_sets):
        report = fitted(drawn(random_, 60, TRUTH, runs=3), OPTIONS)
        assert report.chosen is not None, "a harmless limit can always be certified"
        wrong += breaks_the_bound(report)
    assert not is_no_chance(wrong, data_sets, 0.1), wrong


@pytest.mark.long
def test_counting_every_run_for_itself_breaks_it_where_runs_of_a_task_are_alike() -> None:
    """Why tasks are drawn and not runs: the same data, every run taken as independent of the others."""
    random_ = random.Random(3)
    by_run = FitOptions(bound=0.1, confidence=0.9, choosing_share=0.25, unit="run")
    wrong = sum(breaks_the_bound(fitted(drawn(random_, 25, TRUTH, runs=10), by_run)) for _ in range(100))
    assert is_no_chance(wrong, 100, 0.1), wrong


@pytest.mark.parametrize(("runs", "what"), [(1, "18 good runs"), (2, "18 tasks with a good run")])
def test_too_few_data_are_refused_with_how_many_it_takes(runs: int, what: str) -> None:
    report = fitted(drawn(random.Random(4), 24, 0.0, runs), FitOptions())
    assert report.chosen is None
    text = guarantee(report)
    assert f"{what}: nothing below 15.3 % can be shown" in text
    assert "299 without a harm would show 1 %" in text
    assert "some 333 in all" in text


def test_a_base_that_cuts_good_runs_by_itself_is_refused() -> None:
    """Runs that its own rules stop, whatever the thresholds."""

    def stopped(policies: Sequence[Policy]) -> Iterator[tuple[Path, SessionCourse | FileFailure]]:
        for number in range(200):
            names = RunNames(run_id=f"run_{number}", session_id=str(number), verdict="passed")
            stops = (5 if number % 2 else 10,) * len(policies)
            run = RunCourse(end=10, stops=stops, rules=("finish_reason",) * len(policies))
            yield Path(f"{number}.jsonl"), SessionCourse(names=names, runs=(run,))

    report = fit_courses(stopped, AGENT, OPTIONS).report
    assert report.chosen is None
    text = guarantee(report)
    assert "Even the most cautious policy" in text
    assert "They are stopped because of how the response ended. Give another --base-policy (a policy with text" in text
    assert report.rungs[0].early_by == {"finish_reason": report.rungs[0].harmed}
    assert report.rungs[0].examples[0].why == "after step 5 of 10, because of how the response ended"


def test_scarce_data_choose_with_less_so_that_the_rest_can_show_the_bound() -> None:
    options = FitOptions()
    assert options.share_for(1000) == 0.25
    assert round(options.share_for(359) * 359) == 359 - 299
    assert options.share_for(100) == 0.25, "too few for the bound anyway"
    assert FitOptions(choosing_share=0.5).share_for(359) == 0.5


# ---- what is one task


def labelled(id: str, prompt: str) -> LabelledSession:
    return LabelledSession(f"{id}.jsonl", session(id, prompt, True, 5, [AGENT.limits.hard_steps]), True)


def test_sessions_with_the_same_prompt_are_one_task_and_those_without_go_by_their_id() -> None:
    sessions = [labelled("a", "p"), labelled("b", "p"), labelled("c", ""), labelled("d", "")]
    assert sorted(len(task.sessions) for task in tasks_of(sessions, "task")) == [1, 1, 2]
    assert len(tasks_of(sessions, "run")) == 4


def test_a_copy_of_a_record_is_no_further_evidence() -> None:
    report = fitted([*drawn(random.Random(5), 40, 0.0), ("0.0", "task 0", True, 10)], OPTIONS)
    assert (report.copies, report.sessions) == (1, 80)


@pytest.mark.parametrize(
    ("sessions", "words"),
    [
        ([("a", "t", None, 5)], "of 1 session none is labelled: give --labels FILE"),
        ([("a", "t", False, 5), ("b", "u", False, 5)], "of 2 labelled sessions none is good"),
        ([("a", "t", True, 5)], "1 good session: one part has to choose and another to test"),
        ([("a", "t", True, 5), ("b", "t", True, 5)], "2 good sessions of one task"),
        ([("a", "", True, 5), ("a", "", True, 5)], "1 good session"),
    ],
)
def test_data_that_show_nothing_are_refused(sessions: list[Made], words: str) -> None:
    with pytest.raises(WrongUse, match=words):
        fitted(sessions, FitOptions())


def test_a_good_run_is_needed_up_to_the_anchor() -> None:
    run = RunCourse(end=20, said=15, changed=9, stops=(), rules=())
    silent = RunCourse(end=20, stops=(), rules=())
    for options, needed in (
        (FitOptions(), 19),
        (FitOptions(tolerance=3), 17),
        (FitOptions(anchor="said"), 15),
        (FitOptions(anchor="changed"), 9),
        (FitOptions(anchor="changed", tolerance=2), 7),
    ):
        assert run.needed(options) == needed
        assert silent.needed(options) == (17 if options.tolerance == 3 else 19)


def test_the_promise_is_of_tasks_only_where_a_task_has_several_good_runs() -> None:
    one, three = (fitted(drawn(random.Random(7), 80, 0.0, runs), OPTIONS) for runs in (1, 3))
    assert "at most 10 % of good runs like these are stopped too early" in guarantee(one)
    assert "Every good run is of a different task" in " ".join(conditions(one))
    assert "at most 10 % of tasks like these have a good run" in guarantee(three)
    assert "also keeps the bound, if each task has the same weight" in " ".join(conditions(three))


def test_sentences_say_what_too_early_means() -> None:
    sessions = drawn(random.Random(6), 80, 0.0)
    for options, words in (
        (FitOptions(bound=0.1), "2 steps or more before the recorded end"),
        (FitOptions(bound=0.1, anchor="said"), "a step or more before the step in which a good run said"),
        (FitOptions(bound=0.1, anchor="changed"), "a step or more before the step in which a good run last changed"),
        (FitOptions(bound=0.1, tolerance=4), "5 steps or more before the recorded end"),
    ):
        assert words in next(conditions(fitted(sessions, options)))


# ---- real records


async def test_records_are_simulated_as_a_backtest_does(tmp_path: Path) -> None:
    for number, steps in enumerate((3, 3, 3, 3, 40)):
        await played(tmp_path / f"{number}.jsonl", steps, good=steps < 30)
    options = FitOptions(bound=0.6, confidence=0.8, unit="run", choosing_share=0.5)
    found = fit_records(find_records([str(tmp_path)]), AGENT, options, date="2026-11-22")
    report = found.report
    assert (report.sessions, report.runs, report.date) == (5, 5, "2026-11-22")
    assert (report.choosing.good + report.testing.good, report.choosing.bad + report.testing.bad) == (4, 1)
    assert found.policy is not None
    assert report.chosen is not None
    assert found.policy.limits == Limits(steps=report.chosen.settings["limits.steps"])
    assert report.chosen.harmed == 0


def test_a_combination_stops_a_run_where_the_first_of_its_guards_does() -> None:
    """What the search of the path supposes, on the project's own records."""
    singles = single_levels(AXES)
    together = [
        own_levels(AGENT, AXES),
        *(tuple(min(level, len(axis.levels) - 1) for axis in AXES) for level in (2, 5, 9)),
    ]
    policies = [policy_at(AGENT, AXES, levels) for levels in (*singles, *together)]
    earlier = 0
    for path in find_records([str(RECORDS)]):
        for run in simulate_session(scan(path), policies).runs:
            for levels, stop in zip(together, run.stops[len(singles) :], strict=True):
                assert stop == min(run.stops[singles.index(one)] for one in parts_of(levels)), path
                earlier += stop < run.end
    assert earlier > 20, "guards do stop some of these runs"


RECORDS = Path(__file__).parents[2] / "records"


def parts_of(levels: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Each axis alone at its level."""
    return [tuple(level if at == axis else 0 for at in range(len(levels))) for axis, level in enumerate(levels)]

"""Row A9: a report over many runs, with the users' own rating, advice, and a baseline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from endstop.analysis.metrics import RunMetrics
from endstop.analysis.report import Report, report_records
from endstop.analysis.scoring import Rating, Ratings
from endstop.decision import Limits, Policy
from endstop.records.files import find_records

from ..console import endstop
from ..engine.analysis import scenes


def report_of(folder: Path, **options: Any) -> Report:
    return report_records(find_records([folder]), **options)


def figures_of(folder: Path) -> RunMetrics:
    return report_of(folder).overall


async def test_A9_steps_before_done_with_mean_median_and_distribution(tmp_path: Path) -> None:
    for number, steps in enumerate((2, 3, 3, 4, 13)):
        await scenes.done(tmp_path / f"{number}.jsonl", steps=steps)
    await scenes.limited(tmp_path / "limited.jsonl", steps=20)
    found = figures_of(tmp_path).steps_before_done
    assert (found.runs, found.mean, found.median, found.p90, found.largest) == (5, 5.0, 3.0, 13, 13)
    assert sum(one.runs for one in found.bins) == 5
    assert [one.runs for one in found.bins if one.low == 3] == [2]


async def test_A9_the_share_of_runs_ended_by_completion_by_a_limit_and_by_text(tmp_path: Path) -> None:
    for number in range(6):
        await scenes.done(tmp_path / f"done{number}.jsonl")
    for number in range(3):
        await scenes.told(tmp_path / f"told{number}.jsonl")
    await scenes.limited(tmp_path / "limited.jsonl")
    ended = figures_of(tmp_path).ended
    shares = {name: share.share.value for name, share in ended.items() if share.share is not None}
    assert shares == {"completion": 0.6, "text": 0.3, "limit": 0.1, "other": 0.0, "unfinished": 0.0}


async def test_A9_false_positives_and_false_negatives_tokens_and_time(tmp_path: Path) -> None:
    await scenes.done(tmp_path / "good.jsonl", good=True)
    await scenes.done(tmp_path / "bad.jsonl", good=False)
    await scenes.talkative(tmp_path / "late.jsonl", before=3, after=2, good=True)
    await scenes.limited(tmp_path / "limited.jsonl", good=True)
    found = figures_of(tmp_path)
    assert (found.false_positives.runs.runs, found.false_positives.runs.of) == (1, 3)
    assert (found.false_negatives.went_on.runs, found.false_negatives.went_on.of) == (1, 3)
    assert (found.false_negatives.limit_passed.runs, found.waste.steps) == (1, 2)
    assert found.spending.input_tokens > found.spending.output_tokens > 0
    assert found.spending.run_ms.runs == 4


async def test_A9_the_users_own_rating_makes_a_false_positive(tmp_path: Path) -> None:
    await scenes.done(tmp_path / "a.jsonl")
    await scenes.done(tmp_path / "b.jsonl", good=True)
    ratings = Ratings({"a": Rating(rating=0.0), "b": Rating(rating=0.2)})
    report = report_of(tmp_path, ratings=ratings)
    assert (report.overall.false_positives.runs.runs, report.overall.judged.by_rating) == (2, 2)


async def test_A9_many_false_positives_advise_to_tighten_the_completion_check(tmp_path: Path) -> None:
    for number in range(40):
        await scenes.done(tmp_path / f"{number}.jsonl", steps=2, good=number % 4 != 0)
    (advice,) = report_of(tmp_path).advice
    assert (advice.about, advice.firm, advice.runs) == ("false_positives", True, 40)
    assert advice.says.startswith("Tighten the completion check: add a gate")
    assert advice.because == (
        "10 of 40 evaluated runs that were reported as done were not good (25 %, 95 % confidence 14 to 40): "
        "10 of 40 with a completion call"
    )


async def test_A9_many_false_negatives_advise_to_strengthen_the_prompt_to_finish(tmp_path: Path) -> None:
    for number in range(32):
        make = scenes.talkative if number % 2 else scenes.done
        await make(tmp_path / f"{number}.jsonl", good=True)  # type: ignore[operator]
    (advice,) = report_of(tmp_path).advice
    assert (advice.about, advice.firm) == ("false_negatives", True)
    assert advice.says.startswith("Strengthen the prompt: as soon as the work is done")
    assert advice.because.startswith("16 of 32 runs continued after their work was reported as done (50 %")
    assert advice.because.endswith(", for 32 steps (25 % of all)")


async def test_A9_completions_handed_back_in_vain_and_repetitions_have_advice_of_their_own(tmp_path: Path) -> None:
    for number in range(32):
        await scenes.handed_back(tmp_path / f"back{number}.jsonl", good=True)
        await scenes.repeating(tmp_path / f"again{number}.jsonl", good=True)
    assert [advice.about for advice in report_of(tmp_path).advice] == [
        "false_negatives",
        "handed_back",
        "repetition",
    ]


async def test_A9_from_a_handful_of_runs_advice_is_a_hint_and_says_so(tmp_path: Path) -> None:
    for number in range(3):
        await scenes.done(tmp_path / f"{number}.jsonl", good=False)
    (advice,) = report_of(tmp_path).advice
    assert not advice.firm
    assert "only a hint, from so few runs" in advice.because
    (tmp_path / "2.jsonl").unlink()
    assert report_of(tmp_path).advice == (), "two runs advise nothing"


async def test_A9_where_all_is_well_nothing_is_advised(tmp_path: Path) -> None:
    for number in range(10):
        await scenes.done(tmp_path / f"{number}.jsonl", good=True)
    assert report_of(tmp_path).advice == ()


async def test_A9_where_nobody_judged_that_is_the_advice(tmp_path: Path) -> None:
    for number in range(10):
        await scenes.done(tmp_path / f"{number}.jsonl")
    (advice,) = report_of(tmp_path).advice
    assert advice.about == "unjudged"
    assert "0 of 10 runs were evaluated" in advice.because


async def test_A9_against_a_baseline_policy(tmp_path: Path) -> None:
    for number in range(5):
        await scenes.done(tmp_path / f"a{number}.jsonl", steps=3, good=number < 2)
        await scenes.talkative(tmp_path / f"b{number}.jsonl", before=5, after=1, good=True)
    done = await endstop("report", tmp_path, "--baseline", "agent", "--json")
    comparison = done.json["comparison"]
    assert (comparison["baseline"], comparison["runs"]) == ("agent", 5)
    (strict,) = comparison["groups"]
    changes = {one["name"]: one["change"]["value"] for one in strict["differences"]}
    assert (strict["name"], strict["runs"]) == ("strict", 5)
    assert (
        changes["steps per run"],
        changes["steps until reported as done"],
        changes["continued after it was done"],
    ) == (
        3.0,
        2.0,
        1.0,
    )
    assert round(changes["runs that passed"], 6) == 0.6


async def test_A9_the_command_reads_ratings_and_names_what_fits_nowhere(tmp_path: Path) -> None:
    await scenes.done(tmp_path / "a.jsonl")
    ratings = tmp_path / "ratings.csv"
    ratings.write_text("session_id,rating\na,bad\nb,good\n")
    done = await endstop("report", tmp_path / "a.jsonl", "--ratings", ratings, "--json")
    assert done.json["overall"]["false_positives"]["runs"]["runs"] == 1
    told = done.json["ratings"]
    assert {name: told[name] for name in ("given", "used", "unmatched")} == {"given": 2, "used": 1, "unmatched": ["b"]}
    ratings.write_text("session_id,rating\na,4.5/5\n")
    done = await endstop("report", tmp_path / "a.jsonl", "--ratings", ratings)
    assert "The users' ratings: 1, mean 0.90 of 1" in done.out
    ratings.write_text("session_id,rating\na,4.5/0\n")
    done = await endstop("report", tmp_path / "a.jsonl", "--ratings", ratings)
    assert (done.code, "line 2: scale is '0'" in done.err) == (2, True)
    ratings.write_text(json.dumps({"session": "a", "rating": "superb"}))
    done = await endstop("report", tmp_path / "a.jsonl", "--ratings", ratings)
    assert done.code == 2
    assert "line 1: rating is 'superb': write good, bad" in done.err


async def test_A9_limits_that_cut_off_good_runs_advise_to_raise_them(tmp_path: Path) -> None:
    for number in range(30):
        await scenes.limited(tmp_path / f"{number}.jsonl", steps=3, good=number % 2 == 0)
    policy = Policy(limits=Limits(steps=40))
    played = await scenes.done(tmp_path / "done0.jsonl", steps=12, good=True, policy=policy)
    for number in range(1, 300):  # 300 sessions that went the same way: one is played
        (tmp_path / f"done{number}.jsonl").write_text(played.read_text().replace("done0", f"done{number}"))
    report = report_of(tmp_path)
    (advice,) = report.advice
    assert (report.overall.runs, advice.about) == (330, "limits")
    assert "Raise the limit: with `data_and_files` (soft 50, hard 100)" in advice.says
    assert advice.because.startswith("15 of 30 evaluated runs over a limit were good (50 %")

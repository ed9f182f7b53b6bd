"""`endstop fit` as people and scripts use it."""

from __future__ import annotations

import asyncio
import re
import shutil
import tomllib
from pathlib import Path

import pytest
from endstop import Engine
from endstop.cli.factory import load_fitted_policy, load_until
from endstop.decision import Limits, Policy, Repetition, policy_from
from endstop.decision.policy_files import FITTED_FORMAT
from endstop.providers import Scripted, call
from msgspec.structs import replace

from ...console import endstop
from ..analysis.test_backtest import FREE, look, played
from .pages import held, section
from .pages import words as words_of
from .terminal import in_terminal

ENDLESS = replace(FREE, limits=Limits(steps=200), repetition=Repetition(nudge_at=(), stop_at=None))
"""Lets a run go on that brings nothing new."""


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve good sessions of 3 or 4 steps, each of a task of its own, and two bad ones of 160; with labels."""
    folder = tmp_path_factory.mktemp("sessions")
    asyncio.run(_write(folder))
    return folder


async def _write(folder: Path, name: str = "records", good: int = 12, bad: int = 2) -> None:
    (folder / name).mkdir()
    labels = ["id,verdict"]
    for number in range(good + bad):
        steps = 3 + number % 2 if number < good else 160
        script = [[call("look", path=str(step))] for step in range(steps - 1)]
        engine = Engine(Scripted(*script, [call("finish_task", summary="x")]), tools=[look], policy=ENDLESS)
        await engine.session(record=folder / name / f"{number}.jsonl").run(f"task {number}")
        labels.append(f"{number},{'good' if number < good else 'bad'}")
    (folder / "labels.csv").write_text("\n".join(labels))


@pytest.fixture
def folder(sessions: Path, tmp_path: Path) -> Path:
    """The same, as a copy of the test's own."""
    shutil.copytree(sessions, tmp_path, dirs_exist_ok=True)
    return tmp_path


LOOSE = ("--labels", "labels.csv", "--max-false-stops", "40%", "--confidence", "90%")
"""What nine tasks can show."""


async def test_a_policy_is_written_with_its_guarantee_and_runs_use_it(folder: Path) -> None:
    done = await endstop("fit", "records", *LOOSE, "-o", "mine.toml", cwd=folder)
    assert (done.code, done.err) == (0, "")
    lines = " ".join(done.out.split())
    assert "With 90 % confidence, at most 40 % of good runs like these are stopped too early by this policy" in lines
    assert "0 of 9 good runs in the data that tested it, which shows 22.6 % or less" in lines
    assert "supposing that the model goes on as recorded" in lines
    assert "The policy is mine.toml." in lines
    assert all(len(line) <= 120 for line in done.out.splitlines())
    data = tomllib.loads((folder / "mine.toml").read_text(encoding="utf-8"))
    policy = policy_from(data)
    assert policy.stagnation.stop_at is not None
    assert policy.prompts == Policy().prompts
    table = data["fitted"]
    assert (table["tested"], table["false_stops"], table["good"], table["bad"]) == (9, 0, 12, 2)
    assert (table["max_false_stops"], table["confidence"]) == (0.4, 0.9)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", table["date"])
    tested = await endstop("backtest", "records", "--policy", "mine.toml", "--json", cwd=folder)
    assert tested.json["policies"][0]["policy"] == "mine"
    assert 0 < tested.json["policies"][0]["supposed_saved_steps"] < 320, "of the two bad runs of 160 steps"


async def test_a_backtest_gives_the_guarantee_only_for_sessions_like_those_of_the_fit(folder: Path) -> None:
    assert (await endstop("fit", "records", *LOOSE, "-o", "mine.toml", cwd=folder)).code == 0
    few = await endstop("backtest", "records", "--policy", "mine.toml", cwd=folder)
    assert "14 sessions cannot tell whether they are like those that it was fitted on; 20 can" in " ".join(
        few.out.split()
    )
    await _write(folder, "again", good=40, bad=4)
    alike = " ".join((await endstop("backtest", "again", "--policy", "mine.toml", cwd=folder)).out.split())
    assert re.search(r"mine: the mix of steps is \d+ % apart from that .* With 90 % confidence, at most 40 %", alike)
    await _write(folder, "other", good=30, bad=0)
    other = await endstop("backtest", "other", "--policy", "mine.toml", "--html", "page.html", cwd=folder)
    assert "mine: no guarantee here: the mix of steps is" in " ".join(other.out.split())
    assert "With 90 % confidence" not in other.out
    assert "mine: no guarantee here" in (folder / "page.html").read_text(encoding="utf-8")
    plain = await endstop("backtest", "other", "--policy", "agent", "--json", cwd=folder)
    assert plain.json["fitted"] == []


async def test_of_a_policy_that_an_older_endstop_fitted_the_backtest_says_that_it_does_not_know(folder: Path) -> None:
    assert (await endstop("fit", "records", *LOOSE, "-o", "mine.toml", cwd=folder)).code == 0
    text = (folder / "mine.toml").read_text(encoding="utf-8")
    (folder / "mine.toml").write_text(text.partition("[fitted.steps]")[0].replace("format = 2", "format = 1"))
    done = await endstop("backtest", "records", "--policy", "mine.toml", cwd=folder)
    assert (done.code, "whether its guarantee holds here is not known" in " ".join(done.out.split())) == (0, True)


async def test_json_has_the_path_the_test_and_the_sentences(folder: Path) -> None:
    done = await endstop("fit", "records", *LOOSE, "--json", cwd=folder)
    report = done.json
    assert (done.code, report["policy"]) == (0, None)
    assert report["guarantee"].startswith("With 90 % confidence")
    assert len(report["conditions"]) == 6
    chosen = report["rungs"][report["certified"]]
    assert chosen["trial"]["passed"]
    assert chosen["harmed_share"]["high"] > report["upper_bound"]
    assert report["testing"]["units"] + report["choosing"]["units"] == 12
    again = await endstop("fit", "records", *LOOSE, "--json", "--seed", "3", "--no-index", cwd=folder)
    assert again.json["ids"] == report["ids"]


async def test_too_little_data_are_refused_and_no_policy_is_written(folder: Path) -> None:
    done = await endstop("fit", "records", "--labels", "labels.csv", "-o", "mine.toml", "--html", "p.html", cwd=folder)
    assert (done.code, done.err) == (1, "")
    words = " ".join(done.out.split())
    assert "Nothing can be guaranteed, and no policy is written." in words
    assert "9 good runs: nothing below 28.3 % can be shown; 299 without a harm would show 1 %" in words
    assert not (folder / "mine.toml").exists()
    assert "Nothing can be guaranteed" in (folder / "p.html").read_text(encoding="utf-8")


async def test_a_page_has_the_curve_the_promise_and_nothing_from_outside(folder: Path) -> None:
    hostile = "</script><script>alert(1)</script>.toml"
    (folder / "h").mkdir()
    base = folder / "h" / "p.toml"
    base.write_text(f'name = "{hostile[:-5]}"\n')
    done = await endstop("fit", "records", *LOOSE, "--base-policy", base, "--html", "page.html", cwd=folder)
    assert done.code == 0
    assert "The page is page.html" in done.out
    page = (folder / "page.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page
    document = held(page)
    words = words_of(document)
    saved, harmed, rungs, _ = section(document, "curve")
    assert [line["name"] for line in saved["lines"]] == ["bad runs", "good runs"]
    assert [line["name"] for line in harmed["lines"]] == ["stopped too early", "bound"]
    assert harmed["lines"][1]["points"][0][:2] == [1, 40]
    names = [item for part in section(document, "cases") for item in part["items"]]
    assert all(item["name"] and item["link"].startswith("#s/") for item in names)
    early = [row[4] for row in rungs["rows"] if isinstance(row[4], dict)]
    assert all(cell["link"].startswith("?ids=") for cell in early)
    assert "With 90 % confidence, at most 40 %" in words
    assert "drawn in the same way" in words
    assert "Steps saved" in words
    assert "Good runs stopped too early" in words
    assert "The bound is 40 %" in words


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "nowhere: no such file or directory"),
        (["empty"], "no records (*.jsonl, *.jsonl.zst)"),
        (["records"], "of 14 sessions none is labelled: give --labels FILE"),
        (["records/0.jsonl", "--labels", "labels.csv"], "1 good session: one part has to choose"),
        (["records/12.jsonl", "records/13.jsonl", "--labels", "labels.csv"], "of 2 labelled sessions none is good"),
        (["records", "--labels", "none.csv"], "none.csv"),
        (["records", "--labels", "others.csv"], "none of its 1 labels matches a session"),
        (["records", "--labels", "labels.csv", "--max-false-stops", "0%"], "--max-false-stops 0%: use more than 0"),
        (["records", "--labels", "labels.csv", "--max-false-stops", "5"], "did you mean 5%?"),
        (["records", "--labels", "labels.csv", "--max-false-stops", "few"], "write a share such as 1% or 0.01"),
        (["records", "--labels", "labels.csv", "--confidence", "100%"], "--confidence 100%: use more than 0 and less"),
        (["records", "--labels", "labels.csv", "--choosing-share", "2"], "--choosing-share 2"),
        (["records", "--labels", "labels.csv", "--tolerance", "-1"], "the tolerance is -1 steps"),
        (["records", "--labels", "labels.csv", "--base-policy", "agnet"], "did you mean 'agent'"),
        (["records", "--labels", "labels.csv", "-o", "records"], "-o records is a folder"),
        (["records", "--labels", "labels.csv", "-o", "labels.csv"], "exists already: name another file, or overwrite"),
        (["records", "--labels", "labels.csv", "-o", "no/p.toml"], "there is no folder no"),
        (["bad", "--labels", "labels.csv"], "is not an endstop record"),
    ],
)
async def test_wrong_use_is_exit_code_2_with_what_to_do(folder: Path, arguments: list[str], words: str) -> None:
    (folder / "empty").mkdir()
    (folder / "bad").mkdir()
    (folder / "bad" / "x.jsonl").write_text("nothing\n")
    (folder / "others.csv").write_text("id,verdict\nelse,good\n")
    done = await endstop("fit", *arguments, cwd=folder)
    assert (done.code, done.out) == (2, "")
    assert words in done.err


async def test_a_narrow_terminal_wraps_the_settings_and_cuts_no_figure(folder: Path) -> None:
    given = (folder / "records", "--labels", folder / "labels.csv", *LOOSE[2:])
    async with in_terminal("fit", *given, columns=60) as (terminal, process):
        await terminal.shows("No file was written")
        await process.wait()
    table = terminal.text.partition("from cautious to eager")[2].partition("in a wider terminal")[0]
    assert "stagnation.same_results" in table
    assert "chosen" in table
    assert "…" not in table


async def test_the_check_of_the_base_policy_goes_on_into_the_fitted_one(folder: Path) -> None:
    table = "[until]\ncommands = [\"pytest -q\"]\nscore = '(\\d+) passed'\n"
    (folder / "base.toml").write_text(table, encoding="utf-8")
    done = await endstop("fit", "records", *LOOSE, "--base-policy", "base.toml", "-o", "mine.toml", cwd=folder)
    assert (done.code, done.err) == (0, "")
    base, fitted = (load_until(str(folder / name)) for name in ("base.toml", "mine.toml"))
    assert fitted == base is not None
    assert load_fitted_policy(str(folder / "mine.toml"))[1] is not None


async def test_the_same_task_many_times_over_is_one(tmp_path: Path) -> None:
    for number in range(3):
        await played(tmp_path / f"{number}.jsonl", 3, good=True)
    done = await endstop("fit", tmp_path)
    assert done.code == 2
    assert "3 good sessions of one task: they begin with the same prompt" in done.err
    done = await endstop("fit", tmp_path, "--unit", "run", "--max-false-stops", "90%", "--confidence", "50%", "--json")
    assert done.code == 0
    assert done.json["testing"]["units"] == 2


async def test_a_policy_of_a_newer_endstop_is_refused(folder: Path) -> None:
    await endstop("fit", "records", *LOOSE, "-o", "mine.toml", cwd=folder)
    text = (folder / "mine.toml").read_text(encoding="utf-8")
    newer = text.replace(f"\nformat = {FITTED_FORMAT}\n", f"\nformat = {FITTED_FORMAT + 1}\n")
    (folder / "newer.toml").write_text(newer, encoding="utf-8")
    (folder / "edited.toml").write_text(text.replace("stop_at = ", "stop_at = 1"), encoding="utf-8")
    for name, words in (
        ("newer.toml", "which is newer than this one"),
        ("edited.toml", "the guarantee in [fitted] is"),
    ):
        done = await endstop("backtest", "records", "--policy", name, cwd=folder)
        assert (done.code, done.out) == (2, "")
        assert words in done.err

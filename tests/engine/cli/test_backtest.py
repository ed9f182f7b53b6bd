"""`endstop backtest` as people and scripts use it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from endstop import Engine, Progress, tool
from endstop.analysis.published_policies import BY_NAME
from endstop.decision import Policy
from endstop.providers import Scripted, call

from ...console import endstop
from ..analysis import scenes
from ..analysis.test_backtest import played
from .pages import held, section, words
from .terminal import in_terminal


async def test_json_holds_how_many_sessions_and_one_entry_a_policy(tmp_path: Path) -> None:
    await played(tmp_path / "a.jsonl", 3, good=True)
    await played(tmp_path / "b.jsonl", 6, good=False)
    done = await endstop("backtest", tmp_path, "--policy", "agent", "--policy", "chat", "--json")
    assert (done.code, done.err) == (0, "")
    report = done.json
    assert report["sessions"] == 2
    assert [entry["policy"] for entry in report["policies"]] == ["agent", "chat"]
    assert report["policies"][0]["partings"] == {"same": 2, "earlier": 0, "later": 0, "diverges": 0, "refused": 0}


async def test_without_a_policy_the_shipped_ones_stand_in_a_table(tmp_path: Path) -> None:
    await played(tmp_path / "a.jsonl", 3)
    done = await endstop("backtest", tmp_path / "a.jsonl")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0].startswith(
        "chat would have saved at least 0 of 3 steps; would have ended 0 sessions of unknown worth"
    )
    assert any(line.startswith("1 session · 1 run · 3 steps") for line in lines)
    table = [line for line in lines if " would " not in line]
    assert [line.split()[0] for line in table if line.startswith(("chat ", "agent ", "strict "))] == [
        "chat", "agent", "strict"
    ]  # fmt: skip
    assert all(len(line) <= 120 for line in lines)


async def test_a_policy_of_ones_own_a_sweep_and_each_session_in_a_file(tmp_path: Path) -> None:
    await played(tmp_path / "a.jsonl", 8, good=True)
    policy = tmp_path / "quiet.toml"
    policy.write_text('reminder = "off"\n[limits]\nsteps = 5\n')
    done = await endstop("backtest", tmp_path, "--policy", policy, "--each", tmp_path / "each.json", "--json")
    (entry,) = done.json["policies"]
    assert (entry["policy"], entry["saved"]["steps"], entry["false_positives"]) == ("quiet", 3, 1)
    (line,) = (tmp_path / "each.json").read_text().splitlines()
    case = json.loads(line)
    assert (case["policy"], case["finding"]["parting"], case["finding"]["step"]) == ("quiet", "earlier", 5)
    done = await endstop(
        "backtest", tmp_path / "a.jsonl", "--policy", policy, "--sweep", "limits.steps=4:8:2", "--json"
    )
    assert done.json["swept"] == "limits.steps"
    assert [entry["saved"]["steps"] for entry in done.json["policies"]] == [4, 2, 0]


async def test_the_rules_of_other_projects_stand_beside_ones_own_in_one_table(tmp_path: Path) -> None:
    await played(tmp_path / "a.jsonl", 30, good=True)
    done = await endstop("backtest", tmp_path, "--against", "published", "--html", tmp_path / "page.html")
    assert (done.code, done.err) == (0, "")
    rows = {line.split("  ")[0]: line for line in done.out.splitlines() if line}
    assert {"agent", "agent's guards", *BY_NAME} <= set(rows)
    assert "supposing that the model goes on as recorded" in done.out
    assert all(len(line) <= 120 for line in done.out.splitlines())
    (table,) = section(held((tmp_path / "page.html").read_text()), "published")
    assert "trajectory-fuse 0.3.0" in words(table)
    stopped = [cell["link"] for row in table["rows"] for cell in row if isinstance(cell, dict) and cell.get("link")]
    assert stopped
    assert {link.partition("=")[0] for link in stopped} == {"?ids"}
    assert len(set(stopped)) == 1, "there is one session"


async def test_json_says_of_each_published_rule_what_was_read_and_what_it_would_stop(tmp_path: Path) -> None:
    await played(tmp_path / "a.jsonl", 30, good=True)
    await played(tmp_path / "b.jsonl", 3, good=False)
    done = await endstop("backtest", tmp_path, "--against", "published", "--policy", "chat", "--json")
    assert [one["name"] for one in done.json["published"]] == list(BY_NAME)
    totals = {entry["policy"]: entry for entry in done.json["policies"]}
    assert list(totals) == ["chat", *BY_NAME]
    smolagents = totals["smolagents"]
    steps = done.json["used"]["steps"] - 3 - 20
    assert (smolagents["supposed_stopped"], smolagents["supposed_saved_steps"]) == (1, steps)
    assert (smolagents["supposed_good_cut"], smolagents["passed"]) == (1, 1)
    assert totals["kimi-cli"]["supposed_stopped"] == 0


async def test_a_policy_file_with_a_check_decides_over_the_answers_that_a_record_has_and_runs_nothing(
    tmp_path: Path,
) -> None:
    @tool
    def write(path: str) -> str:
        "Write a file."
        return f"{path} is written"

    def third_step(run: Progress) -> bool:
        return run.facts.steps >= 3

    engine = Engine(
        Scripted(lambda request: call("write", path=str(len(request.messages)))), tools=[write], until=third_step
    )
    outcome = await engine.session(record=tmp_path / "a.jsonl").run("Write")
    assert outcome.stop_reason == "until_met"
    ran = tmp_path / "ran"
    (tmp_path / "checked.toml").write_text(f'[until]\ncommands = ["touch {ran}"]\n')
    (tmp_path / "other.toml").write_text('base = "agent"\n')
    done = await endstop(
        "backtest", tmp_path, "--policy", tmp_path / "checked.toml", "--policy", tmp_path / "other.toml", "--json"
    )
    assert [(one["policy"], one["partings"]["same"]) for one in done.json["policies"]] == [("checked", 1), ("other", 0)]
    assert not ran.exists()


async def test_a_policy_of_ones_own_may_not_pass_for_a_published_rule(tmp_path: Path) -> None:
    await played(tmp_path / "a.jsonl", 3)
    (tmp_path / "cline.toml").write_text("[limits]\nsteps = 5\n")
    done = await endstop(
        "backtest", tmp_path / "a.jsonl", "--policy", tmp_path / "cline.toml", "--against", "published"
    )
    assert done.code == 2
    assert "'cline' has the name of a published rule" in done.err
    done = await endstop("backtest", tmp_path / "a.jsonl", "--policy", "cline", "--against", "published", "--json")
    assert [entry["policy"] for entry in done.json["policies"]] == list(BY_NAME)


async def test_a_published_rule_is_a_policy_like_any_other(tmp_path: Path) -> None:
    await played(tmp_path / "a.jsonl", 30, good=True)
    done = await endstop("backtest", tmp_path, "--policy", "smolagents", "--against", "crewai", "--json")
    assert [entry["policy"] for entry in done.json["policies"]] == ["smolagents", "crewai"]
    assert done.json["published"] == []
    assert done.json["policies"][0]["partings"]["earlier"] == 1


async def test_files_that_are_no_records_are_named_and_hinder_nobody(tmp_path: Path) -> None:
    await played(tmp_path / "a.jsonl", 3)
    (tmp_path / "b.jsonl").write_text("{}\n")
    done = await endstop("backtest", tmp_path)
    assert done.code == 0
    assert "1 file could not be read" in done.out
    assert "b.jsonl is not an endstop record" in done.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "nowhere: no such file or directory"),
        (["."], "in this folder or below it"),
        (["bad.jsonl"], "is not an endstop record"),
        (["a.jsonl", "--policy", "agnet"], "did you mean 'agent'"),
        (["a.jsonl", "--against", "publishd"], "did you mean 'published'"),
        (["a.jsonl", "--against", "opncode"], "did you mean 'opencode'"),
        (["a.jsonl", "--against", "published", "--sweep", "limits.steps=1:3:1"], "give one of the two"),
        (["a.jsonl", "--policy", "agent", "--policy", "strict", "--sweep", "limits.steps=1:3:1"], "give --policy once"),
        (["a.jsonl", "--sweep", "limits.stops=1:3:1"], "did you mean 'limits.steps'"),
        (["a.jsonl", "--processes", "0"], "use 1 or more"),
        (["a.jsonl", "--index", "x", "--no-index"], "give one of the two"),
        (["a.jsonl", "--each", "nowhere/x"], "--each nowhere/x: No such file"),
    ],
)
async def test_wrong_use_is_exit_code_2_with_what_to_do(tmp_path: Path, arguments: list[str], words: str) -> None:
    if arguments[0] == "a.jsonl":
        await played(tmp_path / "a.jsonl", 3)
    if arguments[0] == "bad.jsonl":
        (tmp_path / "bad.jsonl").write_text("nothing\n")
    done = await endstop("backtest", *arguments, cwd=tmp_path)
    assert done.code == 2
    assert words in done.err
    assert done.out == ""


async def test_an_index_that_cannot_be_used_is_told_and_hinders_nobody(tmp_path: Path) -> None:
    await played(tmp_path / "a.jsonl", 3)
    (tmp_path / "index").write_text("this is no database, and long enough to be looked at as one" * 10)
    done = await endstop("backtest", tmp_path / "a.jsonl", "--index", tmp_path / "index")
    assert done.code == 0
    assert "is not used" in done.err


async def test_a_page_has_the_curve_of_a_sweep_and_nothing_from_outside(tmp_path: Path) -> None:
    for number in range(3):
        await played(tmp_path / f"{number}.jsonl", 4 + 2 * number, good=True)
    page = tmp_path / "page.html"
    policy = tmp_path / "<b>quiet.toml"
    policy.write_text('reminder = "off"\n')
    done = await endstop("backtest", tmp_path, "--policy", policy, "--sweep", "limits.steps=2:10:2", "--html", page)
    assert done.code == 0
    assert f"The page is {page}" in done.out
    text = page.read_text()
    document = held(text)
    (chart,) = section(document, "sweep")
    assert chart["title"] == "Trade-off of limits.steps"
    assert [line["name"].removesuffix(" ≥") for line in chart["lines"]] == [
        "steps saved",
        "supposed",
        "cut short",
        "good ones cut",
    ]
    assert [point[0] for point in chart["lines"][0]["points"]] == [2, 4, 6, 8, 10]
    assert not section(document, "saved")
    assert not re.search(r"src\s*=(?!=)|href=(?!\"data:)|https://", text.partition("<script")[0])


async def test_the_page_lists_the_same_sessions_under_the_same_headings_as_the_terminal(tmp_path: Path) -> None:
    await played(tmp_path / "a.jsonl", 12, good=True)
    policy = tmp_path / "early.toml"
    policy.write_text('name = "early"\nreminder = "off"\n[limits]\nsteps = 3\n')
    page = tmp_path / "page.html"
    done = await endstop("backtest", tmp_path, "--policy", policy, "--html", page)
    cases = section(held(page.read_text()), "cases")
    headings = [one["title"] for one in cases]
    links = [item["link"] for one in cases for item in one["items"]]
    assert links
    assert all(link.startswith("#s/session_") for link in links), "each name is a link"
    assert "early: would have stopped these good sessions too early" in headings
    assert [line for line in done.out.splitlines() if line.startswith("early: ")] == headings


async def test_a_narrow_terminal_leaves_out_columns_of_the_rules_of_others_and_cuts_no_figure(tmp_path: Path) -> None:
    await played(tmp_path / "a.jsonl", 30, good=True)
    async with in_terminal("backtest", tmp_path, "--against", "published", columns=80) as (terminal, process):
        await terminal.shows("published_rules.md")
        await process.wait()
    assert "more in a wider terminal" in terminal.text
    table = terminal.text.partition("rule ")[2].partition("wider terminal")[0]
    assert "…" not in table


async def test_names_that_a_record_brings_cannot_control_the_terminal(tmp_path: Path) -> None:
    engine = Engine(Scripted("Done."), policy=Policy(name="\x1b[2Jevil\u202e\npolicy"))
    await engine.session("one", record=tmp_path / "a.jsonl").run("Go.")
    done = await endstop("backtest", tmp_path)
    assert "recorded under evil policy 1" in done.out
    assert not {"\x1b", "\u202e"} & set(done.out)


async def test_a_policys_name_is_escaped_on_the_page(tmp_path: Path) -> None:
    await played(tmp_path / "a.jsonl", 4)
    policy = tmp_path / "p.toml"
    policy.write_text('name = "</script><script>alert(1)</script>"\n')
    page = tmp_path / "page.html"
    done = await endstop("backtest", tmp_path / "a.jsonl", "--policy", policy, "--html", page)
    assert done.code == 0
    text = page.read_text()
    assert "<script>" not in text
    assert "</script><script>alert(1)</script>" in words(held(text))


async def test_each_count_leads_to_exactly_the_sessions_that_it_counts(tmp_path: Path) -> None:
    for number in range(6):
        await played(tmp_path / f"{number}.jsonl", 2 + 2 * number, good=number != 5)
    policy = tmp_path / "early.toml"
    policy.write_text('name = "early"\nreminder = "off"\n[limits]\nsteps = 5\n')
    page = tmp_path / "page.html"
    done = await endstop("backtest", tmp_path, "--policy", policy, "--html", page, "--json")
    (early,) = done.json["policies"]
    policies, stopped, *_ = section(held(page.read_text()), "policies")
    row = dict(zip([head["name"] for head in policies["heads"]], policies["rows"][0], strict=True))
    assert len(row["earlier"]["link"].split("%2C")) == early["partings"]["earlier"] > 1
    assert len(row["cut short"]["link"].split("%2C")) == early["cut"] > 1
    assert len(row["false stops"]["link"].split("%2C")) == early["by_verdict"]["passed"]["premature"] > 1
    assert row["earlier"]["link"].startswith("?ids=")
    good = dict(zip([head["name"] for head in stopped["heads"]], stopped["rows"][0], strict=True))
    assert len(good["stopped"]["link"].split("%2C")) == early["by_verdict"]["passed"]["stopped"]


async def test_a_page_that_cannot_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
    await played(tmp_path / "a.jsonl", 4)
    done = await endstop("backtest", tmp_path / "a.jsonl", "--html", tmp_path / "a.jsonl")
    assert (done.code, done.out) == (2, "")
    assert "is one of the records" in done.err
    done = await endstop("backtest", tmp_path / "a.jsonl", "--html", tmp_path / "nowhere" / "x.html")
    assert done.code == 2


async def test_labels_say_which_sessions_were_good_and_what_they_do_not_say(tmp_path: Path) -> None:
    records = tmp_path / "records"
    records.mkdir()
    for name in ("a", "b", "c"):
        await played(records / f"{name}.jsonl", 3)
    labels = tmp_path / "labels.json"
    labels.write_text('{"a": true, "records/b.jsonl": false, "x": true}')
    done = await endstop("backtest", records, "--labels", labels)
    assert done.code == 0
    assert done.err == f"warning: {labels}: 1 of 3 labels matches no session: x\n"
    words = " ".join(done.out.splitlines())
    assert "would have ended 0 of 1 good session early, 0 of unknown worth before their last change." in words
    assert "evaluated: 1 passed, 1 failed" in words
    assert "2 sessions, 1 without" in words
    rows = [line.split() for line in done.out.split("false stops", 1)[1].splitlines()[2:5]]
    assert rows == [
        ["chat", "good", "0", "of", "1", "0", "0", "%", "(0-98)", "0", "0"],
        ["bad", "0", "of", "1", "0"],
        ["unknown", "0", "of", "1", "0"],
    ]
    told = (await endstop("backtest", records, "--labels", labels, "--json", "--quiet")).json
    assert told["labels"]["unmatched"] == ["x"]
    assert told["verdicts"] == {"passed": 1, "failed": 1, "not_run": 1}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"x": true}', "none of its 1 labels matches a session. Labels are for x; the sessions are a.jsonl, b.jsonl."),
        ('{"a": false}', "a.jsonl passed its evaluation, but a is bad in labels, 'a': correct the label"),
        ('{"a": true, "a.jsonl": false}', "a.jsonl has two labels that contradict each other: a is good in"),
        ("nothing", "labels is not in a known form of labels"),
    ],
)
@pytest.mark.parametrize("command", ["backtest", "report"])
async def test_labels_that_are_wrong_are_exit_code_2(tmp_path: Path, command: str, text: str, words: str) -> None:
    for name in ("a", "b"):
        await played(tmp_path / f"{name}.jsonl", 3, good=True)
    (tmp_path / "labels").write_text(text)
    done = await endstop(command, "a.jsonl", "b.jsonl", "--labels", "labels", cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert words in done.err


async def test_a_label_of_two_records_is_exit_code_2(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        await played(tmp_path / folder / "a.jsonl", 3)
    (tmp_path / "labels.csv").write_text("id,good\na,yes\n")
    done = await endstop("backtest", "one", "two", "--labels", "labels.csv", cwd=tmp_path)
    words = "the label a is good in labels.csv, line 2 matches two sessions: one/a.jsonl and two/a.jsonl: write an id"
    assert (done.code, words in done.err) == (2, True)
    (tmp_path / "labels.csv").write_text("id,model,good\na,one,yes\na,two,no\n")
    done = await endstop("backtest", "one", "two", "--labels", "labels.csv", "--json", cwd=tmp_path)
    assert done.json["verdicts"] == {"passed": 1, "failed": 1}


async def test_false_stops_without_a_good_session_are_said_to_be_unknown(tmp_path: Path) -> None:
    await played(tmp_path / "a.jsonl", 3, good=False)
    done = await endstop("backtest", tmp_path / "a.jsonl")
    assert "no session is known to be good, so false stops are unknown: give --labels FILE" in done.out


async def test_until_finds_when_the_tests_passed_and_what_came_after(tmp_path: Path) -> None:
    await scenes.changing(tmp_path / "a.jsonl", before=2, after=4, check=True, good=True)
    await scenes.changing(tmp_path / "b.jsonl", good=False)
    done = await endstop("backtest", tmp_path, "--until", "--each", tmp_path / "each.json", "--json")
    assert (done.code, done.err) == (0, "")
    assert {group: found["sessions"] for group, found in done.json["checks"].items()} == {
        "all": 2,
        "passed": 1,
        "failed": 1,
    }
    found = done.json["checks"]["all"]
    assert (found["checked"], found["met"], found["steps_after_met"], found["saved_steps"]) == (1, 1, 3, 3)
    lines = [json.loads(line) for line in (tmp_path / "each.json").read_text().splitlines()]
    assert [Path(line["record"]).name for line in lines] == ["a.jsonl", "b.jsonl"]
    assert [line["verdict"] for line in lines] == ["passed", "failed"]


async def test_until_prints_one_table_with_good_and_bad_sessions_apart(tmp_path: Path) -> None:
    await scenes.changing(tmp_path / "a.jsonl", good=True)
    done = await endstop("backtest", tmp_path, "--until")
    assert done.code == 0
    assert [line.split()[:2] for line in done.out.splitlines() if line.startswith(("all", "good", "bad"))] == [
        ["all", "1"],
        ["good", "1"],
    ]
    assert all(len(line) <= 120 for line in done.out.splitlines())


async def test_until_takes_no_policies_and_no_page(tmp_path: Path) -> None:
    await scenes.done(tmp_path / "a.jsonl")
    for option, value in (
        ("--policy", "agent"),
        ("--against", "agent"),
        ("--sweep", "limits.steps=1,2"),
        ("--html", "x"),
    ):
        done = await endstop("backtest", tmp_path, "--until", option, value)
        assert done.code == 2
        assert option in done.err

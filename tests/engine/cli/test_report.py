"""`endstop report` as people and scripts use it: in the terminal, as JSON, and as a page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from endstop import Engine, tool
from endstop.analysis.report import report_records
from endstop.analysis.scoring import Ratings
from endstop.cli.views.report_page import SessionSection, read_section, report_page
from endstop.decision import Limits, Policy
from endstop.http.document_page import report_html
from endstop.providers import Scripted, call
from endstop.records.files import find_records
from rich.cells import cell_len

from ...console import endstop
from ..analysis import scenes
from ..other_loops import CALLS, FAILED, record_of_calls
from .pages import HOSTILE, Parsed, held, links, section, words
from .terminal import in_terminal


async def some(folder: Path) -> Path:
    """A folder with a session of each kind."""
    folder.mkdir(exist_ok=True)
    await scenes.done(folder / "done.jsonl", good=True)
    await scenes.done(folder / "wrong.jsonl", good=False)
    await scenes.told(folder / "told.jsonl")
    await scenes.talkative(folder / "late.jsonl", good=True)
    await scenes.handed_back(folder / "back.jsonl", good=True)
    await scenes.repeating(folder / "again.jsonl")
    await scenes.limited(folder / "limited.jsonl", good=True)
    await scenes.play(folder / "two.jsonl", ["One.", [call("fails", path="x")], "Two."], runs=2)
    return folder


def page_of(folder: Path) -> str:
    report = report_records(find_records([folder]))
    sections = [SessionSection(chosen, *read_section(Path(chosen.record))) for chosen in report.telling]
    return report_html(report_page(report, sections, Ratings())).html


def sessions_of(page: str) -> list[Any]:
    """The sessions that a page lists."""
    return [one for part in section(held(page), "sessions") for one in part.get("sessions", [])]


# ---- in the terminal


async def test_the_most_telling_line_comes_first(tmp_path: Path) -> None:
    done = await endstop("report", await some(tmp_path / "r"))
    assert (done.code, done.err) == (0, "")
    first = done.out.splitlines()[0]
    assert first.startswith(
        "8 sessions, 32 steps: 13 % of the steps came after the work was reported as done; 1 of 4 evaluated runs"
    )
    for title in (
        "How runs ended",
        "Steps until reported as done",
        "Recommended limits",
        "What went wrong",
        "By policy",
        "By tool",
    ):
        assert f"\n{title}\n" in done.out, title


@pytest.mark.parametrize("columns", [60, 80, 140])
async def test_it_fits_the_terminal(tmp_path: Path, columns: int) -> None:
    folder = await some(tmp_path / "r")
    async with in_terminal("report", folder, "--baseline", "agent", columns=columns) as (terminal, process):
        await terminal.shows("compared with")
        await process.wait()
    plain = re.sub(r"\x1b\[[?\d;]*[A-Za-z]", "", terminal.raw)
    written = re.split(r"[\r\n]+", plain)  # a busy machine draws the bar of progress twice into one line
    assert max(cell_len(line) for line in written) <= columns
    assert "█" in terminal.text


async def test_a_pipe_gets_plain_lines(tmp_path: Path) -> None:
    done = await endstop("report", await some(tmp_path / "r"))
    assert "\x1b" not in done.out
    assert all(len(line) <= 120 and line == line.rstrip() for line in done.out.splitlines())


async def test_names_that_a_record_brings_cannot_control_the_terminal(tmp_path: Path) -> None:
    await scenes.done(tmp_path / "a.jsonl", model="\x1b[2Jevil\u202e\nmodel")
    await scenes.done(tmp_path / "b.jsonl", model="good")
    done = await endstop("report", tmp_path)
    assert "evil model" in done.out
    assert not {"\x1b", "\u202e"} & set(done.out)


async def test_bad_files_and_ratings_without_a_session_stand_at_the_end(tmp_path: Path) -> None:
    await scenes.done(tmp_path / "a.jsonl")
    for number in range(12):
        (tmp_path / f"bad{number:02}.jsonl").write_text("{}\n")
    (tmp_path / "ratings.csv").write_text("id,rating\nnobody,good\n")
    done = await endstop("report", tmp_path, "--ratings", tmp_path / "ratings.csv")
    assert done.code == 0
    assert "1 rating without a session or run in these records\n  nobody\n" in done.out
    assert "12 files could not be read" in done.out
    assert "bad00.jsonl is not an endstop record" in done.out
    assert done.out.rstrip().endswith("and 2 more; --json lists them all")


# ---- as JSON, and both


async def test_json_is_one_object_and_a_page_can_be_written_beside_it(tmp_path: Path) -> None:
    folder, page = await some(tmp_path / "r"), tmp_path / "page.html"
    done = await endstop("report", folder, "--json", "--html", page)
    told = done.json
    assert (told["sessions"], told["runs"], told["overall"]["steps"]) == (8, 9, 32)
    assert told["telling"][0]["reasons"] == ["not good"]
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


async def test_so_many_sessions_stand_on_the_page_as_are_asked_for(tmp_path: Path) -> None:
    folder, page = await some(tmp_path / "r"), tmp_path / "page.html"
    done = await endstop("report", folder, "--html", page, "--sessions", 3)
    assert "with 3 sessions" in " ".join(done.out.split())
    text = page.read_text(encoding="utf-8")
    assert "3 of 8 sessions: the most interesting ones of each kind" in words(held(text))
    assert len(sessions_of(text)) == 3


# ---- wrong use


async def test_without_anything_to_read_it_says_so(tmp_path: Path) -> None:
    done = await endstop("report", tmp_path / "nowhere")
    assert (done.code, done.out) == (2, "")
    assert "nowhere: no such file" in done.err
    done = await endstop("report", tmp_path)
    assert done.code == 2
    assert "in this folder or below it" in done.err
    (tmp_path / "a.jsonl").write_text("{}\n")
    done = await endstop("report", tmp_path)
    assert done.code == 2
    assert "none of 1 file can be read as a record" in done.err


async def test_a_page_that_cannot_be_written_is_found_out_before_the_work_begins(tmp_path: Path) -> None:
    record = tmp_path / "a.jsonl"
    record.write_text("nonsense: if it were read, that would be the message\n")
    before = record.read_bytes()
    for place, message in (
        (tmp_path / "no" / "page.html", "cannot write --html"),
        (tmp_path, "is a folder: name a file"),
        (record, "is one of the records: name another file"),
    ):
        done = await endstop("report", record, "--html", place)
        assert (done.code, done.out) == (2, ""), place
        assert message in done.err, place
    assert record.read_bytes() == before
    done = await endstop("report", record, "--html", tmp_path / "page.html")
    assert done.code == 2
    assert not (tmp_path / "page.html").exists(), "what was tried is not left behind"
    done = await endstop("report", record, "--sessions", -1)
    assert "--sessions is -1: use 0 to 5,000" in done.err


async def test_steps_after_each_anchor_stand_with_their_share_and_interval(tmp_path: Path) -> None:
    for number in range(3):
        await scenes.changing(tmp_path / f"{number}.jsonl", before=2, after=3 + number, good=number > 0)
    await scenes.limited(tmp_path / "limited.jsonl", steps=5)
    done = await endstop("report", tmp_path)
    after = next(line for line in done.out.splitlines() if line.startswith("steps after the last change"))
    assert re.search(r" 12 +46 % +\d+ to \d+ +3 of 4$", after), after
    solved, unsolved = (
        next(line for line in done.out.split(after)[1].splitlines() if line.strip().startswith(words))
        for words in ("solved runs", "unsolved runs")
    )
    assert re.search(r" 9 +60 % .* 2 of 2$", solved), solved
    assert re.search(r" 3 +50 % +- +1 of 1$", unsolved), unsolved
    assert re.search(r"in runs that never changed anything .* 5 +19 % .* 1 of 4\n", done.out)


async def test_links_lead_to_the_viewer_that_is_named(tmp_path: Path) -> None:
    folder, page = await some(tmp_path / "r"), tmp_path / "page.html"
    await endstop("report", folder, "--html", page, "--view", "https://host.example/runs")
    document = held(page.read_text(encoding="utf-8"))
    found = list(links(document))
    assert document["view"] == "https://host.example/runs/"
    assert len(found) > 30
    assert all(link.startswith("?") for link in found)
    assert {"?tool=finish_task", "?run_ending=said%20done", "?policy=agent", "?failed=fails"} <= set(found)
    assert f"endstop view {folder}" in words(document)
    for wrong in ("javascript:alert(1)", "host:80", ""):
        done = await endstop("report", folder, "--html", page, "--view", wrong)
        assert (done.code, done.out) == (2, "")
        assert "is not the address of a viewer" in done.err


async def test_the_table_of_tools_counts_the_results_that_say_that_the_call_failed(tmp_path: Path) -> None:
    record = record_of_calls(tmp_path / "a.jsonl")
    done = await endstop("report", record)
    head = next(line for line in done.out.splitlines() if line.startswith("Tool "))
    assert head.split()[:4] == ["Tool", "Calls", "Runs", "Failed"]
    bash = next(line for line in done.out.splitlines() if line.startswith("bash "))
    calls = sum(name == "bash" for name, *_ in CALLS)
    assert re.search(rf" {calls} +1 +{FAILED} ", bash), bash
    tools = section(held(page_of(tmp_path)), "groups")[-1]
    heads = [one["name"] for one in tools["heads"]]
    assert [heads[0], *heads[2:5]] == ["Tool", "Calls", "Runs", "Failed"]
    row = next(row for row in tools["rows"] if row[0]["text"] == "bash")
    assert (row[4]["text"], row[4]["link"]) == (f"{FAILED}", "?failed=bash")


# ---- the page


async def test_each_session_has_its_ending_cost_and_strip_with_its_last_change_and_check(tmp_path: Path) -> None:
    await scenes.changing(tmp_path / "a.jsonl", before=2, after=4, check=True)
    (one,) = sessions_of(page_of(tmp_path))
    assert (one["ending"], one["known"], one["steps"]) == ("said done", "reported as done, not checked", 7)
    assert one["cost"] == "about $0.0001"
    anchors = {anchor["name"]: anchor["step"] for anchor in one["anchors"]}
    assert anchors == {"Said done": 7, "Last change": 3, "Last check that passed": 4}
    (strip,) = one["strip"]
    assert (strip["steps"], strip["after_change"]) == (7, 4)
    assert [cell["step"] for cell in strip["cells"] if cell.get("changed")] == [3]


async def test_a_page_says_of_each_session_why_it_is_shown(tmp_path: Path) -> None:
    found = sessions_of(page_of(await some(tmp_path / "r")))
    assert len(found) == 8
    assert found[0]["reasons"] == ["not good"]
    assert (found[0]["known"], found[0]["tone"]) == ("checked and wrong by evaluation", "bad")
    assert all(one["ending"] and one["cost"] and one["id"] for one in found)


async def test_nothing_that_a_model_a_tool_or_a_user_wrote_becomes_markup(tmp_path: Path) -> None:
    @tool(name="look")
    async def look() -> str:
        """Look."""
        return HOSTILE

    script = [[call(HOSTILE)], [call("look")], HOSTILE]
    engine = Engine(Scripted(*script, model=HOSTILE), tools=[look], policy=Policy(name=HOSTILE, limits=Limits(steps=9)))
    await engine.session("x" + HOSTILE, record=tmp_path / "a.jsonl").run(HOSTILE)
    await scenes.done(tmp_path / "b.jsonl")
    (tmp_path / "<img src=x onerror=alert(1)>.jsonl").write_text("{}")
    whole = page_of(tmp_path)
    assert Parsed(whole).tags == Parsed(page_of(await some(tmp_path / "r"))).tags
    assert "alert(1)" in words(held(whole)), "it can be read"
    assert whole.partition('id="held-report">')[2].count("<") == 1


async def test_a_page_without_sessions_has_the_figures_all_the_same(tmp_path: Path) -> None:
    folder, page = await some(tmp_path / "r"), tmp_path / "page.html"
    await endstop("report", folder, "--html", page, "--sessions", 0)
    document = held(page.read_text(encoding="utf-8"))
    assert section(document, "trouble")
    assert not section(document, "sessions")


async def test_the_same_records_make_the_same_page(tmp_path: Path) -> None:
    folder = await some(tmp_path / "r")
    assert page_of(folder) == page_of(folder)


async def test_labels_are_verdicts_in_the_terminal_and_on_the_page(tmp_path: Path) -> None:
    folder = tmp_path / "r"
    folder.mkdir()
    await scenes.done(folder / "right.jsonl")
    await scenes.done(folder / "wrong.jsonl")
    await scenes.told(folder / "other.jsonl")
    labels = tmp_path / "labels.csv"
    labels.write_text("session,correct\nright,1\nwrong,0\ngone,1\n")
    done = await endstop("report", folder, "--labels", labels, "--html", tmp_path / "page.html")
    assert (done.code, done.err) == (0, f"warning: {labels}: 1 of 3 labels matches no session: gone\n")
    assert "1 of 2 evaluated runs that were reported as done were not good" in done.out
    assert "2 by labels" in " ".join(done.out.split())
    document = held((tmp_path / "page.html").read_text())
    assert "2 sessions, 1 without" in words(document)
    assert "2 by labels" in words(document)
    ids = {one["task"]: one["id"] for one in sessions_of((tmp_path / "page.html").read_text())}
    assert len(ids) <= 3
    wrong = next(row for row in section(document, "work")[0]["rows"] if row[0] == "checked and wrong")
    found = [one["id"] for one in sessions_of((tmp_path / "page.html").read_text()) if one["tone"] == "bad"]
    assert wrong[2]["link"] == f"?ids={found[0]}", "the viewer does not know the labels, so that the link has the name"

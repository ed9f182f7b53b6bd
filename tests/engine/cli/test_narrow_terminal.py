"""What commands print into a terminal of 40 or 60 columns: no row is too long, and no word is broken."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from ...servers import ChatServer, call
from .terminal import Terminal, in_terminal
from .test_question_prompt import END, TOOLS, scripted

RECORDS = Path(__file__).parents[2] / "records"
CONTROL = re.compile(r"\x1b\[[?\d;]*[A-Za-z]")
COLUMNS = pytest.mark.parametrize("columns", [40, 60])


def written(terminal: Terminal) -> list[str]:
    """The lines as they were written, before the terminal itself breaks those that are too long."""
    return [line.rstrip() for line in re.split(r"[\r\n]+", CONTROL.sub("", terminal.raw))]


async def shown(*arguments: object, columns: int) -> Terminal:
    async with in_terminal(*arguments, columns=columns, rows=500) as (terminal, _):
        await terminal.closed()
    return terminal


@pytest.fixture
def two(tmp_path: Path) -> Path:
    for name in ("before/A1.jsonl", "port_server.jsonl"):
        shutil.copy(RECORDS / name, tmp_path)
    return tmp_path


@COLUMNS
async def test_a_report_leaves_out_columns_and_breaks_no_word(columns: int, two: Path) -> None:
    terminal = await shown("report", two, columns=columns)
    assert max(map(len, written(terminal))) <= columns
    assert "columns more in a wider terminal" in terminal.text
    heads = [line for line in terminal.text.split("\n") if "Mean per run" in line]
    assert len(heads) == 1
    wide = await shown("report", two, columns=200)
    words = set(re.findall(r"[A-Za-z_]{5,}", wide.text))
    assert set(re.findall(r"[A-Za-z_]{5,}", terminal.text)) <= words | {"column", "columns", "wider", "terminal"}


@COLUMNS
async def test_a_backtest_leaves_out_columns_and_their_meanings(columns: int, two: Path) -> None:
    terminal = await shown("backtest", two, columns=columns)
    lines = written(terminal)
    assert max(len(line) for line in lines if "endstop run --fork" not in line) <= columns
    table = terminal.text[terminal.text.index("policy") : terminal.text.index("wider terminal")]
    assert "…" not in table
    assert re.search(r"policy +same +earlier +diverges", table)
    assert "cut short:" in terminal.text
    assert "goes on:" not in terminal.text, "no policy has a figure for it"


@COLUMNS
async def test_an_audit_begins_the_rows_of_a_step_below_each_other(columns: int) -> None:
    terminal = await shown("audit", RECORDS / "before" / "A1.jsonl", columns=columns)
    assert max(map(len, written(terminal))) <= columns
    lines = terminal.text.split("\n")
    step = next(number for number, line in enumerate(lines) if line.startswith("     3 finish_task"))
    assert re.match(r" {7}\w", lines[step + 1])


@COLUMNS
async def test_a_replay_fits(columns: int) -> None:
    terminal = await shown("replay", RECORDS / "port_server.jsonl", columns=columns)
    lines = written(terminal)
    assert max(len(line) for line in lines if "endstop replay" not in line) <= columns
    result = " ".join(" ".join(lines).split())
    assert "completed (completed), 1 decision the same the same: 1 decision in 1 run" in result


async def test_a_killed_run_is_told_with_a_command_in_one_line(tmp_path: Path) -> None:
    record = tmp_path / "a record of a run that was killed.jsonl"
    lines = (RECORDS / "port_server.jsonl").read_bytes().splitlines(keepends=True)
    record.write_bytes(b"".join(line for line in lines if b"RUN_FINISHED" not in line))
    terminal = await shown("replay", record, "--quiet", columns=40)
    assert f"\nendstop run --resume '{record}'" in "\n".join(written(terminal))


async def test_a_run_of_40_columns_asks_in_whole_words_and_shows_the_approved_call(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    wanted = [call("delete", id="d1", path="prod")]
    async with ChatServer(wanted, [call("nothing")], END) as server:
        where = (*scripted(server), "--tools", tmp_path / "tools.py")
        async with in_terminal("run", "Tidy up", *where, columns=40) as (terminal, _):
            await terminal.prompts("reason why not:", 1)
            terminal.press(b"y\r")
            await terminal.closed()
    assert "Run it? [y]es, [n]o, [e]dit the\narguments, or a reason why not: y\n" in terminal.text
    assert '● delete  path="prod"' in terminal.text
    assert "actions  delete prod" in terminal.text
    rules = [line for line in terminal.text.split("\n") if line.startswith("── step")]
    assert [line[:12] for line in rules] == ["── step 1 of", "── step 2 of", "── step 3 of"]
    assert all(len(line) == 40 and line.endswith("──") for line in rules), rules


async def test_the_time_of_a_step_goes_on_where_the_question_was_asked(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    async with ChatServer([call("delete", id="d1", path="prod")], [call("nothing")], END, pace=0.3) as server:
        where = (*scripted(server), "--tools", tmp_path / "tools.py")
        async with in_terminal("run", "Tidy up", *where, columns=100) as (terminal, _):
            await terminal.prompts("reason why not:", 1)
            terminal.press(b"y\r")
            await terminal.closed()
    (rule,) = [line for line in terminal.text.split("\n") if line.startswith("── step 2 of")]
    assert re.search(r"· \d+\.\d s ──$", rule), "the first step took 0.9 s and more"

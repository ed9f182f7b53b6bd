"""Help in a real terminal and in a pipe: colours, width, and examples that can be typed as they are printed."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from endstop.cli.commands import COMMANDS, build_parser, build_whole_parser
from endstop.cli.parser import Parser

from ...console import endstop
from .terminal import in_terminal

RECORD = Path(__file__).parents[2] / "records" / "hello.jsonl"
COLOUR = re.compile(r"\x1b\[[\d;]*m")


def _lines(text: str) -> list[str]:
    """What help wraps: all lines but the examples."""
    return [line.rstrip() for line in text.partition("\nExamples:")[0].splitlines()]


# ---- in a terminal


@pytest.mark.parametrize(
    "words", [(), ("run",), ("import",), ("backtest",)], ids=lambda words: " ".join(words) or "all"
)
@pytest.mark.parametrize("columns", [40, 60, 80, 140])
async def test_help_is_coloured_and_as_wide_as_the_terminal(words: tuple[str, ...], columns: int) -> None:
    async with in_terminal(*words, "--help", columns=columns) as (terminal, _):
        await terminal.closed()
    assert COLOUR.search(terminal.raw)
    widest = max(map(len, _lines(COLOUR.sub("", terminal.raw).replace("\r\n", "\n"))))
    assert widest <= columns
    assert widest > columns * 3 / 4 or not words  # the list of commands has short lines


@pytest.mark.parametrize("columns", [40, 60, 80])
@pytest.mark.parametrize("name", ["run", "race", "redact"])
async def test_an_example_that_is_wider_than_the_terminal_can_still_be_copied(name: str, columns: int) -> None:
    async with in_terminal(name, "--help", columns=columns) as (terminal, _):
        await terminal.closed()
    shown = COLOUR.sub("", terminal.raw).replace("\r\n", "\n").partition("\nExamples:")[2]
    copied = [shlex.split(line) for line in shown.replace("\\\n", "").splitlines() if line.startswith("  endstop ")]
    assert copied == [shlex.split(line) for _, line in _all()[name].examples]
    assert "\\\n" in shown
    parted = re.findall(r"(--[\w-]+) \\\n    (?!-)(\S+)", shown)
    assert [pair for pair in parted if len(" ".join(pair)) + 6 < columns] == [], "an option parted from its value"


async def test_commands_stand_in_one_column_with_their_meanings_beside_them_at_60_columns() -> None:
    async with in_terminal("--help", columns=60) as (terminal, _):
        await terminal.closed()
    lines = COLOUR.sub("", terminal.raw).replace("\r\n", "\n").splitlines()
    begins = {name: next(line for line in lines if line.startswith(f"  {name} ")) for name in COMMANDS}
    columns = {line.index(COMMANDS[name].help.split()[0], len(name) + 2) for name, line in begins.items()}
    assert len(columns) == 1


@pytest.mark.parametrize("name", COMMANDS)
async def test_no_word_of_help_is_broken_in_a_narrow_terminal(name: str) -> None:
    async with in_terminal(name, "--help", columns=40, rows=500) as (terminal, _):
        await terminal.closed()
    parser = _all()[name]
    blocks = [rows for _, rows in parser.help_blocks() if isinstance(rows, dict)]
    wanted = {word for rows in blocks for term in rows for word in term.split() if len(word) < 36}
    shown = set(COLOUR.sub("", terminal.raw).split())
    assert wanted <= shown


async def test_without_a_command_the_help_goes_to_stderr() -> None:
    alone, asked = await endstop(), await endstop("help")
    assert (alone.code, alone.out, asked.code, asked.err) == (2, "", 0, "")
    assert alone.err == asked.out == (await endstop("--help")).out
    assert (await endstop("help", "view")).out == (await endstop("view", "--help")).out
    async with in_terminal() as (terminal, process):
        await terminal.closed()
        assert await process.wait() == 2
    assert COLOUR.search(terminal.raw)


def test_the_help_of_help_stands_last_and_long_lists_of_choices_can_be_wrapped() -> None:
    rows = dict(_all()["audit"].help_blocks())
    assert list(rows["options"])[-1] == "-h, --help"
    assert "; one of cline, " in rows["reading"]["--format FORMAT"]


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=lambda env: next(iter(env)))
async def test_help_is_plain_where_no_colour_is_wanted(env: dict[str, str]) -> None:
    async with in_terminal("run", "--help", env=env) as (terminal, _):
        await terminal.closed()
    assert "\x1b" not in terminal.raw
    assert "Usage: endstop run" in terminal.raw


async def test_help_in_a_pipe_is_plain_and_says_the_same() -> None:
    piped = await endstop("run", "--help")
    async with in_terminal("run", "--help", columns=80) as (terminal, _):
        await terminal.closed()
    assert (piped.code, piped.err, "\x1b" in piped.out) == (0, "", False)
    assert piped.out.splitlines() == COLOUR.sub("", terminal.raw).replace("\r", "").splitlines()


# ---- what it says


def _all() -> dict[str, Parser]:
    return build_whole_parser().commands()


def test_the_table_of_commands_names_those_that_there_are_in_its_order() -> None:
    assert list(_all()) == list(COMMANDS)
    assert all(parser.get_default("command") is not None for parser in _all().values())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_groups_exit_codes_and_examples(name: str) -> None:
    blocks = dict(_all()[name].help_blocks())
    assert {"0", "2"} <= set(blocks["exit codes"])
    assert len(_all()[name].examples) >= 2
    for title, rows in blocks.items():
        if isinstance(rows, dict):
            assert all(meaning.strip() for meaning in rows.values()), title
            assert len(rows) <= 30 or title == "formats", f"{title} has {len(rows)} options: divide them"


EXAMPLES = [line for parser in (build_whole_parser(), *_all().values()) for _, line in parser.examples]


def test_an_example_is_a_command_line_that_the_parser_takes() -> None:
    for line in EXAMPLES:
        program, *words = shlex.split(line.partition(" > ")[0])
        assert program == "endstop", line
        args = build_parser(words).parse_args(words)
        assert callable(args.command), line


TRANSCRIPT = [
    {"type": role, "sessionId": "s", "uuid": role, "timestamp": "2026-11-21T10:00:00.000Z", "message": message}
    for role, message in (
        ("user", {"role": "user", "content": "Hello"}),
        ("assistant", {"id": "m", "role": "assistant", "model": "m", "content": [{"type": "text", "text": "Hi."}]}),
    )
]
"""What Claude Code writes of a greeting."""
SHELLS_OWN = "<>|&;$`*?[]()~#\n"
"""What means more to a shell than the words of a line: a line with one of these is given to a shell."""
OFFLINE = ("audit run.jsonl", "backtest", "export", "redact", "replay run.jsonl", "report records/", "completion")


@pytest.mark.parametrize("line", [line for line in EXAMPLES if line.startswith(tuple(f"endstop {w}" for w in OFFLINE))])
async def test_an_example_that_needs_no_model_and_no_key_press_runs_as_printed(line: str, tmp_path: Path) -> None:
    if "--step" in line:
        pytest.skip("it waits for keys; tests of the stepper press them")
    for folder in (
        "records",
        "before",
        "after",
        ".local/share/bash-completion/completions",
        ".zfunc",
        ".claude/projects/app",
    ):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / ".config/fish/completions").mkdir(parents=True)
    for place in ("run.jsonl", "records/a.jsonl", "before/a.jsonl", "after/b.jsonl"):
        (tmp_path / place).write_bytes(RECORD.read_bytes())
    (tmp_path / ".claude/projects/app/session.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in TRANSCRIPT)
    )
    (tmp_path / "mine.toml").write_text('base = "agent"\n[limits]\nsteps = 5\n')
    (tmp_path / "ratings.csv").write_text("session_id,rating,kind\nsession_1,good,look_up\n")
    if set(line) & set(SHELLS_OWN):
        environment = {"HOME": str(tmp_path), "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
        words = ["/bin/sh", "-c", line]
        done = subprocess.run(
            words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr
        return
    ended = await endstop(*shlex.split(line)[1:], cwd=tmp_path, env={"HOME": str(tmp_path)})
    assert ended.code == 0, ended.err


def test_help_on_all_commands_imports_none_of_them() -> None:
    code = (
        "import sys; from endstop.cli.commands import COMMANDS, build_parser; build_parser(['--help']).format_help();"
    )
    code += "print([m for m in sys.modules if m.removeprefix('endstop.cli.') in {c.module for c in COMMANDS.values()}])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout == "[]\n"


# ---- suggestions


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("rnu", "x"), "endstop: unknown command 'rnu' (did you mean 'run'?)"),
        (("--verison",), "did you mean '--version'"),
        (("fit", "--lables", "x.csv"), "did you mean '--labels'"),
        (("export", "html", "--ouput=x"), "did you mean '--output'"),
        (("completion", "fsh"), "did you mean 'fish'"),
        (("view", "x", "--prot", "1"), "did you mean '--port'"),
        (("run", "x", "--tool-choice", "requird"), "did you mean 'required'"),
        (("run", "x", "--model", "antropic/claude-sonnet-4-5"), "did you mean 'anthropic'"),
        (("run", "x", "--model", "gemni/gemini-2.5-flash"), "did you mean 'gemini'"),
        (("run", "x", "--model", "m", "--policy", "strcit"), "did you mean 'strict'"),
        (("backtest", "x", "--sweep", "limits.step=1:2:1"), "did you mean 'limits.steps'"),
    ],
)
async def test_a_misspelt_word_brings_one_line_with_a_suggestion(
    words: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    done = await endstop(*words, cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert done.err.count("\n") == 1


def test_a_command_that_is_named_in_a_prompt_is_not_the_command() -> None:
    args = build_parser(["run", "report", "--model", "m"]).parse_args(["run", "report", "--model", "m"])
    assert args.prompt == "report"


def test_a_parser_says_its_usage_with_what_must_be_given() -> None:
    parser = Parser(prog="endstop x")
    parser.add_argument("--to", required=True, metavar="DIR")
    parser.add_argument("--how", choices=("a", "b"), help=argparse.SUPPRESS)
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("last", nargs="?", metavar="LAST")
    assert parser.format_usage() == "endstop x [OPTIONS] --to DIR FILE... [LAST]"
    assert "--how" not in parser.format_help()

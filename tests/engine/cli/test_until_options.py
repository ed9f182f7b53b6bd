"""The options of `--until`: what is refused, how runs with a check end, and what is shown of them."""

from __future__ import annotations

import shlex
from argparse import ArgumentParser, Namespace
from pathlib import Path

import pytest
from endstop import Until
from endstop.cli.agent import build_engine
from endstop.cli.commands import build_parser
from endstop.cli.until_options import add_until, build_until, client_until, options_given
from endstop.until_settings import UntilSettings

from ...console import Done, endstop
from ...servers import ChatServer, call

GOAL = 3
CHECK = f"""n=$(wc -l < work.txt); echo "$((n < {GOAL} ? {GOAL} - n : 0)) failed, $n passed"; test "$n" -ge {GOAL}"""
"""A check whose score is the number of lines."""
UNTIL = ("--until", CHECK, "--until-score", r"(?P<failed>\d+) failed, (?P<passed>\d+) passed")
CLAIM = [call("finish_task", summary="All is done.")]
"""A claim that is too early, unless the work is done."""


def edit(lines: int) -> list[object]:
    return ["I go on. ", call("write_file", path="work.txt", content="line\n" * lines)]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "work.txt").write_text("")
    return folder


async def run(work: Path, script: list[object], *options: object) -> Done:
    async with ChatServer(*script, repeat=True) as server:
        at = ("--model", "scripted", "--api-base", server.url, "--workspace", work, "--no-closing")
        return await endstop("run", "Write three lines", *at, *options)


async def test_a_run_ends_once_the_command_succeeds_and_shows_each_check_and_the_score(work: Path) -> None:
    done = await run(work, [edit(1), CLAIM, edit(3), edit(4)], *UNTIL)
    assert done.code == 0
    assert "check 1: 0 of 3 pass\n" in done.err
    assert "check 2: 1 of 3 pass, +1\n" in done.err
    assert "not accepted as complete: " in done.err
    assert f"check 3: `{CHECK}` passes" in done.err
    assert "score of the check: ▁▃█  0 → 3 of 3" in done.err
    assert "Task complete: " in done.err
    assert "\n  checked by `" in done.err


async def test_the_outcome_as_json_says_what_checked_the_work_and_its_score(work: Path) -> None:
    done = await run(work, [edit(1), edit(3), edit(4)], *UNTIL, "--json")
    assert done.code == 0
    said = [done.json[name] for name in ("status", "stop_reason", "work", "checked_by", "check_score", "check_of")]
    assert said == ["completed", "until_met", "checked", CHECK, 3, 3]


async def test_nothing_of_the_check_is_shown_to_who_wants_only_the_answer(work: Path) -> None:
    done = await run(work, [edit(3), edit(4)], *UNTIL, "--quiet")
    assert (done.code, done.err) == (0, "")


async def test_changes_that_bring_the_check_no_further_exit_with_3_and_say_so(work: Path) -> None:
    (work / "impatient.toml").write_text('base = "agent"\n[patience]\nchecks = 2\nchecks_untold = 1\n')
    script: list[object] = [[call("write_file", path=f"{n}.txt", content=str(n))] for n in range(9)]
    done = await run(work, script, *UNTIL, "--policy", work / "impatient.toml")
    assert done.code == 3
    assert "Stopped: check came no further, work wrong: " in done.err
    assert done.err.count("nudge: ") == 1


async def test_a_model_that_reports_to_be_blocked_exits_with_3_and_its_reason_is_shown(work: Path) -> None:
    vague = [call("report_blocked", reason="There is no disk.", tried=[])]
    exact = [call("report_blocked", reason="There is no disk.", tried=["I looked."])]
    done = await run(work, [edit(1), vague, exact], *UNTIL)
    assert done.code == 3
    assert "reported as impossible, handed back: There is no disk." in done.err
    assert "Stopped: blocked, work wrong: the model cannot do it: There is no disk." in done.err


async def test_a_check_that_only_passes_with_a_changed_file_is_not_called_checked(work: Path) -> None:
    (work / "check.sh").write_text(f"#!/bin/sh\n{CHECK}\n")
    (work / "Makefile").write_text("test:\n\t@sh check.sh\n")
    cheat = [call("write_file", path="Makefile", content="test:\n\t@true\n")]
    done = await run(work, [cheat, edit(1)], "--until", "make test")
    assert done.code == 0
    assert "passes, but only with changed Makefile" in done.err
    assert "not checked: the check fails with the original Makefile" in done.err


WRONG = {
    "missing": ("--until", "there-is-no-such-program --all"),
    "not executable": ("--until", "./work.txt"),
    "missing within": ("--until", "sh -c 'exit 127'"),
    "empty": ("--until", " "),
    "pattern that fits nothing": ("--until", "test -s work.txt", "--guard", "nowhere/**"),
    "guard without a check": ("--guard", "*.txt"),
    "score without a check": ("--until-score", r"(\d+)"),
    "timeout without a check": ("--until-timeout", "5"),
    "share without a check": ("--until-share", "0.5"),
    "copy without a check": ("--until-copy",),
    "from failing without a check": ("--no-until-from-failing",),
    "score that is no pattern": ("--until", "true", "--until-score", "("),
    "no time": ("--until", "true", "--until-timeout", "0"),
}


@pytest.mark.parametrize("options", WRONG.values(), ids=WRONG)
async def test_a_check_that_cannot_work_is_a_mistake_of_use_and_nothing_is_requested(
    work: Path, options: tuple[str, ...]
) -> None:
    async with ChatServer(CLAIM, repeat=True) as server:
        at = ("--model", "scripted", "--api-base", server.url, "--workspace", work)
        done = await endstop("run", "Write three lines", *at, *options)
        assert server.requests == []
    assert done.code == 2
    assert "internal error" not in done.err
    assert "Traceback" not in done.err


async def test_a_policy_file_brings_the_check_and_an_option_replaces_its_key(work: Path) -> None:
    (work.parent / "goal.toml").write_text("base = 'agent'\n[until]\ncommands = 'grep -q line work.txt'\ntimeout = 7\n")
    done = await run(work, [CLAIM, edit(1), CLAIM], "--policy", work.parent / "goal.toml", "--json")
    assert (done.code, done.json["stop_reason"]) == (0, "until_met")
    assert done.json["checked_by"] == "grep -q line work.txt"
    (work / "work.txt").write_text("")
    done = await run(work, [edit(1), edit(3), CLAIM], "--policy", work.parent / "goal.toml", "--json", *UNTIL)
    assert (done.code, done.json["checked_by"]) == (0, CHECK)


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ("[until]\ncommand = 'true'", "unknown key 'command' (did you mean 'commands'?)"),
        ("[until]\nguard = ['x']", "missing required field `commands`"),
        ("until = 3", "goal.toml, [until] is 3"),
        ("[until]\ncommands = 'no_such_program'", "no_such_program"),
    ],
)
async def test_a_wrong_table_of_a_policy_file_is_named_with_its_file(work: Path, table: str, told: str) -> None:
    (work.parent / "goal.toml").write_text(table)
    done = await run(work, [CLAIM], "--policy", work.parent / "goal.toml")
    assert done.code == 2
    assert told in done.err


def parsed(*options: str) -> Namespace:
    parser = ArgumentParser()
    add_until(parser)
    return parser.parse_args(options)


def test_options_to_repeat_are_those_that_were_given_whatever_their_values_are() -> None:
    for given in (
        (),
        ("--until", "make test", "--until", "ruff check ."),
        ("--until", "true", "--guard", "*.ini", "--until-score", r"(\d+)", "--until-in", "docker run x"),
        ("--until", "true", "--until-timeout", "0.25", "--until-copy"),
        ("--until-criteria", "goal.md", "--until-share", "0.5", "--no-until-from-failing"),
    ):
        repeated = tuple(options_given(parsed(*given)))
        assert parsed(*repeated) == parsed(*given)
    assert list(options_given(parsed("--until", "true", "--until-share", "0.25"))) == ["--until", "true"]


# ---- policy files in each command

TABLE = f"""
base = "agent"
closing = false

[until]
commands = [{CHECK!r}]
score = '(?P<failed>\\d+) failed, (?P<passed>\\d+) passed'
timeout = 60
from_failing = false
"""


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(TABLE.replace(repr(CHECK), f"'''{CHECK}'''"))
    return path


def until_of_command(*words: object) -> Until | None:
    given = [str(word) for word in words]
    return build_engine(build_parser(given).parse_args(given)).config.until


@pytest.mark.parametrize("command", [("run", "Write"), ("serve",), ("worker",)], ids=lambda words: words[0])
def test_each_command_takes_the_check_of_the_policy_file_in_the_same_way(
    command: tuple[str, ...], work: Path, policy: Path
) -> None:
    words = (*command, "--model", "m", "--api-base", "http://127.0.0.1:9/v1", "--workspace", work)
    until = until_of_command(*words, "--policy", policy)
    assert until is not None
    assert (until.name, until.timeout, until.share, until.from_failing) == (CHECK, 60, 0.25, False)
    assert until.folder == str(work)
    changed = until_of_command(*words, "--policy", policy, "--until", "true", "--until-timeout", 600, "--env", "A")
    assert changed is not None
    assert (changed.name, changed.timeout, changed.from_failing) == ("true", 600, False)
    assert changed.commands[0].env == ("A",)
    assert until_of_command(*words, "--policy", "agent") is None


def test_the_proxy_takes_it_too_but_there_the_work_has_to_change_first(work: Path, policy: Path) -> None:
    policy.write_text(policy.read_text().replace("from_failing = false", "from_failing = true"))
    words = ["proxy", "--upstream", "http://127.0.0.1:9/v1", "--policy", str(policy)]
    until = build_until(build_parser(words).parse_args(words), str(work))
    assert until is not None
    assert (until.name, until.from_failing) == (CHECK, False)


async def test_racers_are_checked_by_it_each_in_its_copy(work: Path, policy: Path) -> None:
    async with ChatServer(CLAIM, repeat=True) as liar, ChatServer(edit(GOAL), CLAIM, repeat=True) as worker:
        models = ("--model", "liar", "--api-base", liar.url, "--model", "worker", "--api-base", worker.url)
        done = await endstop("race", "Write", *models, "--workspace", work, "--policy", policy, "--json")
    assert (done.code, done.json["winner"]) == (0, "worker"), done.err
    (outcome,) = [one["outcome"] for one in done.json["racers"] if one["won"]]
    assert (outcome["stop_reason"], outcome["checked_by"]) == ("until_met", CHECK)
    assert (work / "work.txt").read_text() == ""


async def test_a_run_that_waits_is_resumed_with_the_options_that_are_printed_for_the_check_of_the_file(
    work: Path, policy: Path, tmp_path: Path
) -> None:
    policy.write_text(policy.read_text() + "\n[limits]\nsteps = 1\n[limits.extend]\nwhen = 'ask'\nby = 9\n")
    record = tmp_path / "r.jsonl"
    done = await run(work, [edit(1)], "--policy", policy, "--record", record)
    assert done.code == 5
    words = [word for line in done.err.splitlines() if "--resume" in line for word in shlex.split(line)]
    at = words.index("--until")
    assert words[at + 1] == CHECK
    assert "--no-until-from-failing" in words
    async with ChatServer(edit(GOAL), CLAIM, repeat=True) as server:
        answer = ("run", "--resume", record, "--extend", 9, "--api-base", server.url, "--workspace", work)
        refused = await endstop(*answer)
        assert refused.code == 2
        assert "give --until again" in refused.err
        done = await endstop(*answer, *words[at:], "--json")
    assert (done.code, done.json["stop_reason"], done.json["checked_by"]) == (0, "until_met", CHECK)


def test_where_the_checks_of_clients_run_is_as_options_or_the_policy_file_say(work: Path, policy: Path) -> None:
    policy.write_text(policy.read_text() + 'inside = "docker run box"\nenv = ["IN_FILE"]\n')
    words = ["serve", "--allow-until", "--workspace", str(work), "--policy", str(policy)]
    for options, inside, env in (
        ((), "docker run box", ("IN_FILE",)),
        (("--until-in", "podman run box", "--env", "GIVEN"), "podman run box", ("GIVEN",)),
    ):
        given = [*words, *options]
        made = client_until(build_parser(given).parse_args(given))
        assert callable(made)
        (check,) = made(UntilSettings(commands=("true",))).commands
        assert (check._inside, check.env) == (inside, env)

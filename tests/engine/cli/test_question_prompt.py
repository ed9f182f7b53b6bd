"""Answers on the command line: options to resume with, and the terminal at which a person is asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from endstop import Approve, Deny, Toolbox, read_record, tool
from endstop.answers import Answer
from endstop.cli.question_prompt import ask_questions, ask_text
from endstop.cli.views.styled_lines import Line, plain_text
from endstop.decision import Question

from ...console import PATIENCE, Done, endstop
from ...servers import STALL, ChatServer, call
from .terminal import Process, in_terminal

TOOLS = """
from pathlib import Path
from endstop import tool

LOG = Path(__file__).with_name("log.txt")

@tool(approval=True)
def delete(path: str) -> str:
    "Delete a folder."
    with LOG.open("a") as log:
        log.write(f"{path}\\n")
    return f"{path} is gone"
"""
FIRST = [call("delete", id="d1", path="prod"), call("delete", id="d2", path="old")]
END = [call("finish_task", id="f1", summary="Tidy.")]


def log(folder: Path) -> list[str]:
    return (folder / "log.txt").read_text().split() if (folder / "log.txt").exists() else []


async def paused(folder: Path, server: ChatServer) -> Done:
    (folder / "tools.py").write_text(TOOLS)
    where = ("--api-base", server.url, "--tools", folder / "tools.py", "--record", folder / "r.jsonl")
    return await endstop("run", "Tidy up", "--model", "scripted", *where)


async def resume(folder: Path, server: ChatServer, *arguments: object) -> Done:
    where = ("--api-base", server.url, "--tools", folder / "tools.py")
    return await endstop("run", "--resume", folder / "r.jsonl", *where, *arguments)


async def test_calls_are_approved_with_other_arguments_and_denied_by_options(tmp_path: Path) -> None:
    async with ChatServer(FIRST, END) as server:
        asked = await paused(tmp_path, server)
        assert (asked.code, log(tmp_path)) == (5, [])
        assert "May delete run with" in asked.err
        assert "--approve d1 --approve d2" in asked.err
        arguments = ("--approve", 'd2={"path": "older"}', "--deny", "d1=prod is needed", "--json")
        done = await resume(tmp_path, server, *arguments)
    assert (done.code, done.json["status"], log(tmp_path)) == (0, "completed", ["older"])
    results = [message["content"] for message in server.requests[-1]["messages"] if message["role"] == "tool"]
    assert results[0] == "Not run: the user did not approve it and said: prod is needed"
    assert results[1].endswith("older is gone")


async def test_one_answer_leaves_the_other_call_waiting(tmp_path: Path) -> None:
    async with ChatServer(FIRST, END) as server:
        await paused(tmp_path, server)
        assert (await resume(tmp_path, server, "--approve", "d2")).code == 5
        assert log(tmp_path) == []
        assert (await resume(tmp_path, server, "--answer", "yes")).code == 0
    assert log(tmp_path) == ["prod", "old"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--approve", "d9"], "no such call waits for approval (open: d1, d2)"),
        (["--approve", "d1={"], "the arguments are not JSON"),
        (["--approve", 'd1={"path": 7}'], "path: Input should be a valid string"),
        (["--approve", "d1", "--deny", "d1"], "given two answers"),
        (["--approve", "d1", "--answer", "d1=yes"], "given two answers"),
        (["--approve", "d1", "Hi"], "cannot be combined"),
        ([], "--approve CALL_ID, --deny CALL_ID or --answer TEXT"),
    ],
)
async def test_wrong_options_are_said_before_anything_runs(tmp_path: Path, arguments: list[str], why: str) -> None:
    async with ChatServer(FIRST, END) as server:
        await paused(tmp_path, server)
        before = (tmp_path / "r.jsonl").read_bytes()
        done = await resume(tmp_path, server, *arguments)
    assert done.code == 2
    assert why in done.err
    assert ((tmp_path / "r.jsonl").read_bytes(), log(tmp_path)) == (before, [])


async def test_approvals_without_a_record_are_refused() -> None:
    assert "--resume RECORD" in (await endstop("run", "Hi", "--approve", "d1", "--model", "x")).err


# ---- a limit that asks

LOOK = """
from endstop import tool

@tool(reads=True)
def look(n: int) -> str:
    "Look."
    return f"seen {n}"
"""
ASKS = """
closing = false
[limits]
steps = 2
[limits.extend]
when = "ask"
by = 4
"""


def looks(*numbers: int) -> list[list[object]]:
    return [[call("look", id=f"l{n}", n=n)] for n in numbers]


def asks_at_its_limit(folder: Path, server: ChatServer) -> tuple[object, ...]:
    (folder / "tools.py").write_text(LOOK)
    (folder / "asks.toml").write_text(ASKS)
    return (*scripted(server), "--tools", folder / "tools.py", "--policy", folder / "asks.toml")


async def test_a_run_that_asks_for_more_steps_is_extended_by_an_option(tmp_path: Path) -> None:
    record = tmp_path / "r.jsonl"
    async with ChatServer(*looks(*range(5)), END) as server:
        where = asks_at_its_limit(tmp_path, server)
        asked = await endstop("run", "Look", *where, "--record", record)
        assert asked.code == 5
        assert "the limit of steps is reached, and the user is asked for more" in asked.err
        assert "2 of 2 steps are used. May the run make 4 more?" in asked.err
        assert f"endstop run --resume {record} --extend 4 --api-base {server.url}" in asked.err
        missing = await resume(tmp_path, server)
        assert (missing.code, "give it with --extend N, --answer TEXT" in missing.err) == (2, True)
        again = await resume(tmp_path, server, "--extend", "1", "--json")
        (question,) = again.json["questions"]
        assert (again.code, again.json["status"]) == (5, "awaiting_input")
        assert (question["call_id"], question["extends"]) == ("limits.steps.3", 4)
        done = await resume(tmp_path, server, "--extend", "20", "--json")
        assert (done.code, done.json["steps"], done.json["limits"]["steps"]["allowed"]) == (0, 6, 23)
        replayed = await endstop("replay", record)
        assert replayed.code == 0
        assert "limit extended: 20 steps more, 23 in all" in replayed.err


async def test_a_run_that_gets_no_more_steps_ends_as_exhausted(tmp_path: Path) -> None:
    async with ChatServer(*looks(*range(2))) as server:
        where = asks_at_its_limit(tmp_path, server)
        await endstop("run", "Look", *where, "--record", tmp_path / "r.jsonl")
        ended = await resume(tmp_path, server, "--answer", "no", "--json")
    assert (ended.code, ended.json["stop_reason"]) == (3, "step_limit")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--extend", "0"], "0 steps cannot be granted: use a whole number from 1 to 999999"),
        (["--extend", "5", "--answer", "no"], "a question is given two answers"),
        (["--extend", "5", "Do it"], "PROMPT and an answer cannot be combined"),
        (["--extend", "some"], "invalid int value"),
        (["--approve", "limits.steps.2"], "no such call waits for approval"),
    ],
)
async def test_a_wrong_grant_is_said_before_anything_runs(tmp_path: Path, arguments: list[str], why: str) -> None:
    async with ChatServer(*looks(*range(2))) as server:
        where = asks_at_its_limit(tmp_path, server)
        await endstop("run", "Look", *where, "--record", tmp_path / "r.jsonl")
        before = (tmp_path / "r.jsonl").read_bytes()
        done = await resume(tmp_path, server, *arguments)
    assert (done.code, why in done.err) == (2, True), done.err
    assert (tmp_path / "r.jsonl").read_bytes() == before


async def test_steps_are_granted_only_to_a_run_that_asks(tmp_path: Path) -> None:
    async with ChatServer(FIRST) as server:
        assert "--resume RECORD" in (await endstop("run", "Look", *scripted(server), "--extend", "5")).err
        await paused(tmp_path, server)
        done = await resume(tmp_path, server, "--extend", "5")
    assert (done.code, "--extend 5: no run asks for more steps" in done.err) == (2, True)


async def test_more_steps_are_asked_for_at_the_terminal_and_the_run_goes_on(tmp_path: Path) -> None:
    async with ChatServer(*looks(*range(4)), END) as server:
        where = asks_at_its_limit(tmp_path, server)
        async with in_terminal("run", "Look", *where, "--record", tmp_path / "r.jsonl") as (terminal, process):
            await terminal.prompts("or [n]o:", 1)
            assert "2 steps, then it asks for more" in terminal.text
            assert "? More steps?" in terminal.text
            terminal.press(b"1\r")
            await terminal.prompts("or [n]o:", 2)
            assert "limit extended: 1 step more, 3 in all" in terminal.text
            terminal.press(b"yes\r")
            await terminal.closed()
            assert await exit_code(process) == 0
    steps = [run.finished.outcome.steps for run in read_record(tmp_path / "r.jsonl").runs if run.finished]
    assert steps == [2, 3, 5]


# ---- at the terminal


def scripted(server: ChatServer) -> tuple[object, ...]:
    return ("--model", "scripted", "--api-base", server.url)


async def exit_code(process: Process) -> int:
    async with asyncio.timeout(PATIENCE):
        return await process.wait()


async def reads(process: Process) -> None:
    """Wait until it sleeps. Python misses a Ctrl-C that comes between the prompt and the moment it begins to read."""
    async with asyncio.timeout(PATIENCE):
        while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "S":
            await asyncio.sleep(0.01)


async def test_calls_that_wait_for_approval_are_asked_about_and_the_run_goes_on(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    async with ChatServer(FIRST, END) as server:
        where = (*scripted(server), "--tools", tmp_path / "tools.py")
        async with in_terminal("run", "Tidy up", *where) as (terminal, process):
            await terminal.shows("Run it? [y]es")
            assert log(tmp_path) == []
            terminal.press(b"y\r")
            await terminal.shows("Question 2 of 2")
            await terminal.prompts("a reason why not:", 2)
            terminal.press(b"not that one\r")
            await terminal.closed()
            assert await exit_code(process) == 0
    assert 'delete {"path": "old"}' in terminal.text
    assert log(tmp_path) == ["prod"]
    results = [message["content"] for message in server.requests[-1]["messages"] if message["role"] == "tool"]
    assert results[1].endswith("not that one")


async def test_what_was_typed_before_the_question_is_no_answer_to_it(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    async with ChatServer([FIRST[0], STALL, " "], END) as server:
        where = (*scripted(server), "--tools", tmp_path / "tools.py")
        async with in_terminal("run", "Tidy up", *where) as (terminal, process):
            await server.stalled.wait()
            terminal.press(b"y\r")
            server.go_on.set()
            await terminal.prompts("a reason why not:", 1)
            assert log(tmp_path) == []
            terminal.press(b"n\r")
            await terminal.closed()
            assert await exit_code(process) == 0
    assert log(tmp_path) == []


async def test_questions_are_asked_one_by_one_and_the_run_goes_on_in_the_same_record(tmp_path: Path) -> None:
    evil = "Which port?\x1b[2J\x1b]0;owned\x07\x9b31m\u202e"
    asks = [call("ask_user", id="q1", question=evil), call("ask_user", id="q2", question="Which host?")]
    done = [call("finish_task", summary="Both are set.")]
    async with ChatServer(asks, done) as server:
        where = (*scripted(server), "--record", tmp_path / "r.jsonl")
        async with in_terminal("run", "Set them", *where) as (terminal, process):
            await terminal.prompts("Your answer:", 1)
            terminal.press(b"80x\x7f\r")
            await terminal.prompts("Your answer:", 2)
            terminal.press(b"\r")
            await terminal.prompts("Your answer:", 3)
            terminal.press("größer 漢字\r".encode())
            await terminal.closed()
            assert await exit_code(process) == 0
    answers = [message["content"] for message in server.requests[-1]["messages"] if message["role"] == "tool"]
    assert answers == ["80", "größer 漢字"]
    assert [run.finished is not None for run in read_record(tmp_path / "r.jsonl").runs] == [True, True]
    assert terminal.text.count("30 steps (150 on progress)") == 1, "the run that goes on is not introduced again"
    assert "--answer" not in terminal.text
    assert terminal.text.count("endstop replay") == 1
    assert [bad for bad in ("\x1b[2J", "\x1b]0;", "\x9b", "\u202e") if bad in terminal.raw] == []


@pytest.mark.parametrize("key", [b"\x03", b"\x04"])
async def test_a_question_that_is_left_stays_open_and_is_asked_again_by_resume(tmp_path: Path, key: bytes) -> None:
    async with ChatServer([call("ask_user", id="q1", question="Which port?")], ["It is set.", END[0]]) as server:
        where, record = scripted(server), tmp_path / "r.jsonl"
        async with in_terminal("run", "Set it", *where, "--record", record, columns=200) as (terminal, process):
            await terminal.prompts("Your answer:", 1)
            await reads(process)
            terminal.press(key)
            await terminal.closed()
            assert await exit_code(process) == 5
        assert f"Left open. Answer it later: endstop run --resume {record} --api-base" in "".join(terminal.lines)
        before = record.read_bytes()
        again = ("run", "--resume", record, "--api-base", server.url)
        async with in_terminal(*again) as (terminal, process):
            await terminal.prompts("Your answer:", 1)
            assert "Which port?" in terminal.text
            await reads(process)
            terminal.press(key)
            await terminal.closed()
            assert (await exit_code(process), record.read_bytes()) == (5, before)
        async with in_terminal(*again) as (terminal, process):
            await terminal.prompts("Your answer:", 1)
            terminal.press(b"8080\r")
            await terminal.closed()
            assert await exit_code(process) == 0
    assert server.requests[-1]["messages"][-1]["content"] == "8080"


async def test_nothing_is_asked_with_no_input_and_the_line_for_scripts_is_shown(tmp_path: Path) -> None:
    record = tmp_path / "r.jsonl"
    async with ChatServer([call("ask_user", question="Which port?")]) as server:
        arguments = ("run", "Set it", *scripted(server), "--record", record, "--no-input")
        async with in_terminal(*arguments, columns=200) as (terminal, process):
            await terminal.closed()
            assert await exit_code(process) == 5
        assert "Your answer:" not in terminal.text
        assert f'endstop run --resume {record} --answer "..."' in "".join(terminal.lines)
        again = await endstop("run", "--resume", record, "--api-base", server.url)
    assert (again.code, "waits for an answer: give it with --answer TEXT" in again.err) == (2, True)


@pytest.mark.parametrize("env", [{"TERM": "dumb"}, {"NO_COLOR": "1"}, {"LC_ALL": "C", "PYTHONIOENCODING": "ascii"}])
async def test_a_plain_terminal_asks_too(env: dict[str, str]) -> None:
    async with (
        ChatServer([call("ask_user", question="Which 漢字?")], END) as server,
        in_terminal("run", "Set it", *scripted(server), env=env, columns=40) as (terminal, process),
    ):
        await terminal.prompts("Your answer:", 1)
        terminal.press("größer\r".encode())
        await terminal.closed()
        assert await exit_code(process) == 0
    assert server.requests[-1]["messages"][-1]["content"]
    assert "Traceback" not in terminal.text
    assert "\\x" not in terminal.text, "signs of the views are not escaped"


async def test_a_question_in_the_text_is_answered_by_the_next_message(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text("base = 'chat'\nquestion = 'ask'\n")
    async with ChatServer("Which port should I set?", "It is set.") as server:
        where = (*scripted(server), "--policy", tmp_path / "p.toml")
        async with in_terminal("run", "Set it", *where) as (terminal, process):
            await terminal.prompts("Your answer:", 1)
            terminal.press(b"8080\r")
            await terminal.closed()
            assert await exit_code(process) == 0
    assert [message["content"] for message in server.requests[-1]["messages"][-2:]] == [
        "Which port should I set?",
        "8080",
    ]


# ---- the questions themselves


@tool(approval=True)
def delete(path: str) -> str:
    "Delete a folder."
    return path


APPROVAL = Question("d1", "May it?", tool="delete", arguments={"path": "prod"})
CONFIRMATION = Question("c1", "Is it done?", confirms="All is set.")


STEPS = Question("limits.steps.30", "30 of 30 steps are used. May the run make 15 more?", extends=15)


def asked(*lines: str, questions: Sequence[Question] = (APPROVAL,)) -> tuple[dict[str, Answer] | None, str]:
    """What comes of these lines, and all that is shown; the input ends after them."""
    given, shown = iter(lines), list[Line]()

    def read(prompt: str) -> str:
        shown.append([(prompt, None)])
        try:
            return next(given)
        except StopIteration:
            raise EOFError from None

    answers = ask_questions(questions, Toolbox([delete]), shown.extend, read)
    return answers, "\n".join(map(plain_text, shown))


@pytest.mark.parametrize(
    ("lines", "answer"),
    [
        (["y"], Approve()),
        (["", "yes"], Approve()),
        (["n"], Deny()),
        (["it is in use"], Deny("it is in use")),
        (["e", '{"path": "test"}'], Approve({"path": "test"})),
        (["e", "{", '{"path": 7}', '{"paht": "x"}', '{"path": "test"}'], Approve({"path": "test"})),
        (["e", "", "n"], Deny()),
    ],
)
def test_each_answer_means_what_it_says(lines: list[str], answer: Approve | Deny) -> None:
    answers, shown = asked(*lines)
    assert answers == {"d1": answer}
    assert f"delete {json.dumps({'path': 'prod'})}" in shown


def test_what_is_wrong_with_edited_arguments_is_said() -> None:
    _, shown = asked("e", "{", '{"path": 7}', '{"path": "test"}')
    assert "That is not JSON" in shown
    assert "Input should be a valid string" in shown


def test_a_confirmation_takes_a_yes_or_a_no_and_asks_again_for_all_else() -> None:
    answers, shown = asked("", "hm", "no, the port is wrong", questions=[CONFIRMATION])
    assert answers == {"c1": "no, the port is wrong"}
    assert shown.count("Please begin with yes or no") == 2
    assert asked("Yes!", questions=[CONFIRMATION])[0] == {"c1": "Yes!"}


def test_a_question_for_more_steps_takes_a_number_a_yes_or_a_no_and_asks_again_for_all_else() -> None:
    answers, shown = asked("", "yes, 5", "0", "12", questions=[STEPS])
    assert answers == {"limits.steps.30": "12"}
    assert "30 of 30 steps are used. May the run make 15 more?" in shown
    assert shown.count("Please answer yes (15 more), no (it ends here) or a number of steps") == 3
    assert asked("y", questions=[STEPS])[0] == {"limits.steps.30": "y"}
    assert asked("n", questions=[STEPS])[0] == {"limits.steps.30": "n"}


def test_who_leaves_at_one_question_answers_none() -> None:
    assert asked()[0] is None
    assert asked("y", questions=[APPROVAL, CONFIRMATION])[0] is None

    def leave(prompt: str) -> str:
        raise KeyboardInterrupt

    assert ask_text(lambda lines: None, leave) is None


def test_arguments_that_are_too_long_to_be_shown_are_counted() -> None:
    long = Question("d1", "May it?", tool="delete", arguments={"path": "x" * 5000})
    _, shown = asked("n", questions=[long])
    assert "1,012 more characters not shown" in shown

"""`endstop replay --step` in a real pseudo-terminal."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from endstop import Engine, read_record, tool
from endstop.cli.views.replay_stepper import message_lines, request_messages
from endstop.cli.views.styled_lines import display_width, plain_text
from endstop.decision import Limits, Message, Policy, Repetition, UserMessage
from endstop.decision.events import StepStarted
from endstop.providers import Request, Scripted, call, say
from endstop.testing import settle
from endstop.tools import finish_task, think

from ....console import PATIENCE
from ..terminal import Process, Terminal, in_terminal

KEYS = "Enter step · n decision · r run · g go to"

LIVE = """
from endstop import tool

@tool
def look(place: int) -> str:
    "Look."
    return f"found {place}"
"""


@tool
async def look(place: int) -> str:
    """Look."""
    return f"found {place}"


async def recorded(path: Path, runs: int = 1, steps: int = 4, **options: Any) -> Path:
    """Runs of so many steps each."""
    script = [
        *([say(f"I look at {n}. ", 3), call("look", place=n)] for n in range(1, steps)),
        [call("finish_task", summary="All is found.")],
    ] * runs
    session = Engine(Scripted(*script), tools=[look], **options).session(record=path)
    for number in range(runs):
        await session.run(f"Task {number + 1}")
    return path


@asynccontextmanager
async def walking(
    record: Path, *arguments: object, columns: int = 100, **options: Any
) -> AsyncIterator[tuple[Terminal, Process]]:
    async with in_terminal("replay", record, "--step", *arguments, columns=columns, **options) as (terminal, process):
        yield terminal, process


async def exit_code(process: Process) -> int:
    async with asyncio.timeout(PATIENCE):
        return await process.wait()


async def press(terminal: Terminal, keys: str, shows: str) -> None:
    """Press keys, and wait for what they bring."""
    terminal.press(keys.encode())
    await terminal.shows(shows)


@pytest.mark.parametrize("columns", [60, 100, 140])
async def test_each_key_brings_one_step_and_the_end_leaves_the_terminal_as_it_was(tmp_path: Path, columns: int) -> None:
    record = await recorded(tmp_path / "r.jsonl")
    async with walking(record, columns=columns) as (terminal, process):
        await terminal.shows("before step 1 of 4")
        assert "I look at 1." not in terminal.text
        assert not terminal.echoes
        for number, key in ((1, "\r"), (2, " "), (3, "\n")):
            await press(terminal, key, f"before step {number + 1} of 4")
            assert f"found {number}" in terminal.text
            assert f"found {number + 1}" not in terminal.text
        terminal.press(b"\r")
        await terminal.closed()
        assert await exit_code(process) == 0
        assert terminal.modes == terminal.found
        assert terminal.echoes
    assert terminal.cursor_shown
    assert "✔ Reported as done" in terminal.text
    assert "before step" not in terminal.text, "the foot is not left behind"
    assert "Enter step" not in terminal.text
    told = [f"step {number} of 30" for number in (1, 2, 3, 4)]
    assert {text: terminal.text.count(text) for text in told} == dict.fromkeys(told, 1)
    assert all(len(line.rstrip()) <= columns for line in terminal.lines)


async def test_n_goes_to_the_next_decision_and_explains_it(tmp_path: Path) -> None:
    record = await recorded(tmp_path / "r.jsonl", policy=Policy(max_inner_steps=2))
    async with walking(record) as (terminal, _):
        await terminal.shows("before step 1")
        await press(terminal, "n", "before step 3")
        assert terminal.text.count("⚖ round 1: go on") == 1
        await press(terminal, "\r", "before step 4")
        assert "⚖ round 2" not in terminal.text, "only where it was asked for"


async def test_e_explains_from_then_on_and_no_longer(tmp_path: Path) -> None:
    record = await recorded(tmp_path / "r.jsonl", policy=Policy(max_inner_steps=1))
    async with walking(record) as (terminal, _):
        await terminal.shows("before step 1")
        await press(terminal, "e", "explain on")
        await press(terminal, "\r", "before step 2")
        assert terminal.text.count("⚖ round") == 1
        await press(terminal, "E", f"before step 2 of 4\n  {KEYS}")
        await press(terminal, "\r", "before step 3")
        assert terminal.text.count("⚖ round") == 1


async def test_m_shows_what_the_model_would_have_been_sent_newest_last(tmp_path: Path) -> None:
    policy = Policy(limits=Limits(steps=6), reminder=0.3)
    record = await recorded(tmp_path / "r.jsonl", runs=2, steps=4, policy=policy)
    async with walking(record, "--from", "2:1") as (terminal, _):
        await terminal.shows("before step 1 of 4 · run 2 of 2")
        await press(terminal, "me", "explain on")
        assert "✉ 11 messages for step 1" in terminal.text
        shown = terminal.text[terminal.text.index("✉") :]
        order = ["system", "Task 1", "look(place=1)", "found 1", "found 3", "finish_task(", "All is found.", "Task 2"]
        assert [shown.index(text) for text in order] == sorted(shown.index(text) for text in order)
        await press(terminal, "e\r", "before step 2")
        await press(terminal, "\rme", "before step 3 of 4 · run 2 of 2 · explain on")
        shown = terminal.text[terminal.text.index("for step 3") :]
        places = [shown.rindex(text) for text in ("Task 2", "I look at 2.", "found 2", "You have used 2 of 6 steps")]
        assert places == sorted(places), "the reminder that is shown only once stands there, too"


async def test_r_goes_to_the_next_run(tmp_path: Path) -> None:
    record = await recorded(tmp_path / "r.jsonl", runs=3)
    async with walking(record) as (terminal, process):
        await terminal.shows("before step 1 of 4 · run 1 of 3")
        await press(terminal, "r", "before step 1 of 4 · run 2 of 3")
        assert terminal.text.count("✔ Reported as done") == 1
        await press(terminal, "\r", "before step 2 of 4 · run 2 of 3")
        await press(terminal, "r", "run 3 of 3")
        terminal.press(b"r")
        await terminal.closed()
        assert await exit_code(process) == 0
    assert terminal.text.count("✔ Reported as done") == 3


async def test_g_goes_to_a_step_ahead_without_showing_what_lies_between(tmp_path: Path) -> None:
    record = await recorded(tmp_path / "r.jsonl", steps=12)
    async with walking(record) as (terminal, _):
        await terminal.shows("before step 1 of 12")
        await press(terminal, "g1", "go to step 1▏")
        await press(terminal, "x\x7f10", "go to step 10▏")
        await press(terminal, "\r", "before step 10 of 12")
        assert "found 3" not in terminal.text
        await press(terminal, "\r", "found 10")
        assert terminal.text.count("Task 1") == 1


async def test_g_goes_back_and_the_steps_can_be_seen_again(tmp_path: Path) -> None:
    record = await recorded(tmp_path / "r.jsonl", runs=2)
    async with walking(record, "--from", "2:1") as (terminal, process):
        await terminal.shows("before step 1 of 4 · run 2 of 2")
        await press(terminal, "\r\r", "before step 3 of 4")
        await press(terminal, "g2\r", "before step 2 of 4 · run 2 of 2")
        await press(terminal, "\r", "before step 3 of 4")
        assert terminal.text.count("found 2") == 2
        assert terminal.text.count("found 1") == 1
        terminal.press(b"r")
        await terminal.closed()
        assert await exit_code(process) == 0
    assert "the same: 2 decisions in 2 runs" in terminal.text
    assert terminal.cursor_shown


async def test_g_says_which_steps_there_are_and_can_be_taken_back(tmp_path: Path) -> None:
    record = await recorded(tmp_path / "r.jsonl")
    async with walking(record) as (terminal, _):
        await terminal.shows("before step 1")
        await press(terminal, "g99\r", "this run has steps 1 to 4")
        await press(terminal, "g", "go to step")
        await press(terminal, "3\x1b", f"before step 1 of 4\n  {KEYS}")
        await press(terminal, "\r", "before step 2")


async def test_there_is_no_way_back_where_tools_are_really_run(tmp_path: Path) -> None:
    record = await recorded(tmp_path / "r.jsonl")
    (tmp_path / "live.py").write_text(LIVE)
    async with walking(record, "--live-tools", "--tools", tmp_path / "live.py") as (terminal, _):
        await terminal.shows("before step 1")
        await press(terminal, "\r", "before step 2")
        await press(terminal, "g1\r", "cannot go back")


async def test_q_leaves_with_what_is_known_so_far(tmp_path: Path) -> None:
    record = await recorded(tmp_path / "r.jsonl", runs=2)
    runs = read_record(record).runs
    async with walking(record, "--from", "2:1") as (terminal, process):
        await terminal.shows("before step 1")
        await press(terminal, "\r", "before step 2")
        terminal.press(b"q")
        await terminal.closed()
        assert await exit_code(process) == 0
        assert terminal.modes == terminal.found
    assert terminal.cursor_shown
    assert f"left at {runs[1].started.run_id}:" in terminal.text
    assert "the same until then" in terminal.text
    assert "1 decision the same" in terminal.text, "of the run before"
    assert "before step" not in terminal.text


async def test_q_leaves_at_once_also_while_a_paced_step_waits(tmp_path: Path) -> None:
    record = await recorded(tmp_path / "r.jsonl")
    events = [json.loads(line) for line in record.read_text().splitlines()]
    late = [event | {"t": 90_000} if event["type"] == "PARTS" else event for event in events]
    record.write_text("".join(json.dumps(event) + "\n" for event in late))
    async with walking(record, "--pace") as (terminal, process):
        await terminal.shows("before step 1")
        await press(terminal, "\r", "waiting for the model")
        terminal.press(b"q")
        await terminal.closed()
        assert await exit_code(process) == 0


async def test_ctrl_c_leaves_with_130_and_the_terminal_as_it_was_found(tmp_path: Path) -> None:
    record = await recorded(tmp_path / "r.jsonl")
    async with walking(record) as (terminal, process):
        await terminal.shows("before step 1")
        await press(terminal, "\r", "before step 2")
        terminal.press(b"\x03")
        await terminal.closed()
        assert await exit_code(process) == 130
        assert terminal.modes == terminal.found
    assert terminal.cursor_shown
    assert "before step" not in terminal.text


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
async def test_other_signals_leave_the_terminal_as_it_was_found_too(tmp_path: Path, number: signal.Signals) -> None:
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip("the signal is ignored here, as under nohup, and so in every process that is started")
    record = await recorded(tmp_path / "r.jsonl")
    async with walking(record) as (terminal, process):
        await terminal.shows("before step 1")
        process.send_signal(number)
        assert await exit_code(process) != 0
        assert terminal.modes == terminal.found


async def test_a_stop_by_ctrl_z_that_does_not_happen_changes_nothing(tmp_path: Path) -> None:
    record = await recorded(tmp_path / "r.jsonl")
    async with walking(record) as (terminal, _):  # it leads its session, so nobody could wake it, and Linux lets it run
        await terminal.shows("before step 1")
        terminal.press(b"\x1a")
        async with asyncio.timeout(PATIENCE):
            while not terminal.cursor_shown:
                await settle()
        await press(terminal, "\r", "before step 2")
        assert not terminal.echoes


async def test_arrows_and_unknown_keys_do_nothing(tmp_path: Path) -> None:
    record = await recorded(tmp_path / "r.jsonl")
    async with walking(record) as (terminal, _):
        await terminal.shows("before step 1")
        await press(terminal, "\x1b[A\x1b[C\x1bOPxzü7?e", "explain on")
        assert "before step 1" in terminal.text


async def test_it_stops_where_a_divergence_is_and_shows_it_once(tmp_path: Path) -> None:
    record = await recorded(tmp_path / "r.jsonl", runs=2, policy=Policy(max_inner_steps=1))
    text = record.read_text()
    record.write_text(text.replace('"why":"calls answered"', '"why":"something else"', 1))
    async with walking(record) as (terminal, process):
        await terminal.shows("before step 1")
        await press(terminal, "r", "before step 2 of 4 · run 1 of 2")
        assert terminal.text.count("≠ diverges: round 1: the record says go on (something else)") == 1
        assert "the record" in terminal.text.split("≠ diverges")[1]
        terminal.press(b"q")
        await terminal.closed()
        assert await exit_code(process) == 1
    assert "NOT the same" in terminal.text


async def test_from_an_event_within_a_step_it_stops_there_and_goes_on_in_the_line(tmp_path: Path) -> None:
    record = await recorded(tmp_path / "r.jsonl")
    (run,) = read_record(record).runs
    texts = [event.seq for event in run.events if type(event).__name__ == "TextMessageContent"]
    async with walking(record, "--from", texts[4]) as (terminal, _):
        await terminal.shows(f"at event {run.started.run_id}:{texts[4]}, step 2 of 4")
        shown = terminal.text
        assert "── step 2 of 30" in shown
        assert "Task 1" in shown
        assert "I look at 1." not in shown
        assert "I look at 2." not in shown
        await press(terminal, "\r", "before step 3 of 4")
        assert terminal.text.count("I look at 2.") == 1
        assert terminal.text.count("── step 2 of 30") == 1


async def test_in_a_terminal_without_a_view_of_its_own_it_stops_in_plain_lines(tmp_path: Path) -> None:
    record = await recorded(tmp_path / "r.jsonl")
    async with walking(record, env={"TERM": "dumb"}) as (terminal, process):
        await terminal.shows("-- before step 1 of 4")
        await press(terminal, "\r", "-- before step 2 of 4")
        assert "found 1" in terminal.text
        assert terminal.text.count(KEYS) == 1
        terminal.press(b"r")
        await terminal.closed()
        assert await exit_code(process) == 0
        assert terminal.modes == terminal.found


async def test_the_report_in_json_is_the_only_thing_on_stdout(tmp_path: Path) -> None:
    record = await recorded(tmp_path / "r.jsonl")
    async with walking(record, "--json") as (terminal, process):
        await press(terminal, "r", '"same":true')
        await terminal.closed()
        assert await exit_code(process) == 0
    assert '"left_at":null' in terminal.text.replace("\n", "")


async def test_a_platform_without_termios_is_told_so(tmp_path: Path) -> None:
    record = await recorded(tmp_path / "r.jsonl")
    script = (
        "import sys; sys.modules['termios'] = None\n"
        "from endstop.cli.main import main\n"
        f"sys.exit(main(['replay', {str(record)!r}, '--step']))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 2
    assert "termios, which this platform does not have" in done.stderr


# ---- messages


@pytest.mark.parametrize("width", [40, 80])
async def test_messages_fit_are_shortened_and_only_the_newest_are_shown(tmp_path: Path, width: int) -> None:
    @tool
    async def read(path: str) -> str:
        """Read."""
        return "\n".join(f"line {n} " + "x" * 200 for n in range(50))

    script = [*([call("read", path="p" * 200 + str(n))] for n in range(20)), [call("finish_task", summary="Done")]]
    path = tmp_path / "r.jsonl"
    await Engine(Scripted(*script), tools=[read, think], presets=[finish_task]).run("Do\nit\n" * 20, record=path)
    (run,) = read_record(path).runs
    lines = [plain_text(line) for line in message_lines(request_messages([], run.events), 22, width)]
    assert all(display_width(line) <= width for line in lines)
    assert "44 messages for step 22" in lines[0]
    assert lines[1].strip() == "… 20 earlier messages"
    assert len(lines) < 200
    assert "\n".join(lines).count("line 0") == 11
    assert "line 30" not in "".join(lines)


async def test_the_messages_of_a_step_are_exactly_those_that_were_sent_for_it(tmp_path: Path) -> None:
    sent: list[list[Message]] = []

    def answer(request: Request) -> Any:
        sent.append([*request.messages, *request.ephemeral])
        if len(sent) in (5, 10):
            return [call("finish_task", summary="Done")]
        return [say("I look. ", 2), call("look", place=len(sent) % 5 // 2)]

    policy = Policy(limits=Limits(steps=6), reminder=0.3, repetition=Repetition(nudge_at=(2,)))
    session = Engine(Scripted(answer), tools=[look], policy=policy).session(record=tmp_path / "r.jsonl")
    for prompt in ("one", "two"):
        assert (await session.run(prompt)).status == "completed"
    record, asked = read_record(tmp_path / "r.jsonl"), iter(sent)
    for number, run in enumerate(record.runs):
        for place, event in enumerate(run.events):
            if isinstance(event, StepStarted):
                messages = next(asked)
                assert request_messages(record.runs[:number], run.events[:place]) == messages, "before the step"
                assert request_messages(record.runs[:number], run.events[: place + 9]) == messages, "in the midst of it"
    assert next(asked, None) is None
    assert any(isinstance(message, UserMessage) and "6 steps" in message.text for message in sent[2])

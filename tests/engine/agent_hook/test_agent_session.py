"""The state of a hook: killed at any byte, asked at once from several processes, and as quick after a long session."""

from __future__ import annotations

import cProfile
import fcntl
import os
import pstats
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread

import pytest
from endstop import read_record
from endstop.agent_hook import agent_session
from endstop.agent_hook.agent_session import session_lock
from endstop.agent_hook.failure_log import MAX_BYTES, NAME, log_line
from endstop.agent_hook.handler import answer_event
from endstop.agent_hook.old_sessions import DAY, KEPT_DAYS, MOST_SESSIONS
from endstop.base.version import __version__
from endstop.decision import events as ev
from endstop.replay import replay
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from .hooked_agents import HookedAgent, settings_in


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> HookedAgent:
    """An agent that has made the same call four times."""
    folder = tmp_path_factory.mktemp("session")
    agent = HookedAgent("claude", settings_in(folder), folder)
    agent.prompt("Say same.")
    for _ in range(4):
        agent.call("echo same", "same")
    return agent


def _gone_on(session: HookedAgent, folder: Path) -> HookedAgent:
    """The same agent, whose hook has its state in a copy of that folder."""
    shutil.copytree(session.settings.folder, folder)
    on = HookedAgent("claude", replace(session.settings, folder=folder), session.work)
    on.turn, on.number = session.turn, session.number
    return on


@settings(max_examples=25)  # each makes up to eight calls
@given(data=st.data())
def test_a_session_goes_on_whose_process_was_killed_at_any_byte(session: HookedAgent, data: st.DataObject) -> None:
    state = session.settings.folder / "s1.state"
    whole = {path: path.read_bytes() for path in (session.record, state)}
    torn = data.draw(st.sampled_from([session.record, state, None]), label="torn")
    folder = session.work / "copy"
    shutil.rmtree(folder, ignore_errors=True)
    on = _gone_on(session, folder)
    if torn is None:  # the record was written, the state was not
        (folder / session.record.name).write_bytes(whole[session.record] + b'{"type":"ROUND_STARTED","se')
    else:
        length = data.draw(st.integers(0, len(whole[torn]) - 1), label="bytes left")
        (folder / torn.name).write_bytes(whole[torn][:length])
    for _ in range(8):
        on.call("echo same", "same")
        if on.ended:
            break
    assert on.log == ""
    assert on.denied == 1
    assert on.ended
    assert read_record(folder / "s1.jsonl").runs


async def test_what_a_killed_process_wrote_is_cut_off(session: HookedAgent, tmp_path: Path) -> None:
    on, folder = _gone_on(session, tmp_path / "hook"), tmp_path / "hook"
    with open(folder / "s1.jsonl", "ab") as file:
        file.write(b'{"type":"ROUND_STARTED","seq":')
    on.call("ls", "one.txt")
    on.end()
    (run,) = read_record(folder / "s1.jsonl").runs
    assert len([event for event in run.events if isinstance(event, ev.ToolCallResult)]) == 5
    assert (await replay(folder / "s1.jsonl")).same


async def test_a_state_of_another_version_is_read_from_the_record(session: HookedAgent, tmp_path: Path) -> None:
    on, folder = _gone_on(session, tmp_path / "hook"), tmp_path / "hook"
    state = folder / "s1.state"
    state.write_bytes(state.read_bytes().replace(f'"version":"{__version__}"'.encode(), b'"version":"0.0.1"'))
    assert b"0.0.1" in state.read_bytes()
    for _ in range(3):
        on.call("echo same", "same")
    assert on.denied == 1  # at the seventh, as if nothing had been
    on.end()
    assert (await replay(folder / "s1.jsonl")).same


async def test_calls_that_end_at_once_in_several_processes_are_all_recorded(tmp_path: Path) -> None:
    agent = HookedAgent("claude", settings_in(tmp_path), tmp_path)
    agent.prompt("Read them.")
    commands = [f"cat part{number}.txt" for number in range(8)]
    calls = [{"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": command} for command in commands]
    for call in calls:
        agent.ask("PreToolUse", **call)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda call: agent.ask("PostToolUse", **call, tool_response=f"of {call['tool_use_id']}"), calls))
    agent.end()
    assert agent.log == ""
    (run,) = read_record(agent.record).runs
    results = {event.content for event in run.events if isinstance(event, ev.ToolCallResult)}
    assert results == {f"of {command}" for command in commands}
    assert (await replay(agent.record)).same


def test_a_lock_that_is_held_lets_the_agent_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_session, "LOCK_PAUSE", 0.0)
    monkeypatch.setattr(agent_session, "LOCK_SECONDS", 0.0)
    agent = HookedAgent("claude", settings_in(tmp_path), tmp_path)
    agent.prompt("Go.")
    with open(agent.settings.folder / "s1.lock", "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert agent.ask("PreToolUse", tool_name="Bash", tool_input={}) == {}
    assert "HookBusy" in agent.log
    assert agent.log.count("\n") == 1


@pytest.mark.parametrize(
    ("given", "logged"),
    [
        (b"", "Input data was truncated"),
        (b'{"session_id": "s', "truncated"),
        (b"[1, 2]", "no JSON object but list"),
        (b'{"hook_event_name": "PreToolUse", "tool_name": "Bash"}', "session_id is missing"),
        (b'{"hook_event_name": "PreToolUse", "session_id": 7}', "session_id is missing"),
        (b'{"session_id": "s", "hook_event_name": "TeammateIdle"}', ""),
        (b'{"session_id": "s"}', ""),
        (b'{"session_id": "s", "hook_event_name": ["Stop"]}', ""),
        (b'{"session_id": "../../s", "hook_event_name": "PostToolUse", "tool_input": [1], "tool_response": 3}', ""),
        (b'{"session_id": "\\ud800", "hook_event_name": "PostToolUse", "tool_response": {}}', "surrogate pair"),
    ],
)
def test_what_is_no_event_of_an_agent_is_answered_with_nothing(given: bytes, logged: str, tmp_path: Path) -> None:
    folder = settings_in(tmp_path).folder
    assert answer_event(given, settings_in(tmp_path), {}) == b""
    log = folder / NAME
    said = log.read_text(encoding="utf-8") if log.exists() else ""
    assert logged in said
    assert said.count("\n") == bool(logged)
    assert not [path for path in tmp_path.rglob("*") if folder not in path.parents and path != folder]


@pytest.mark.parametrize("name", ["hook", "hook/s1.state", "hook/s1.lock", "hook/s1.new"])
def test_a_state_that_cannot_be_written_lets_the_agent_go_on(name: str, tmp_path: Path) -> None:
    agent = HookedAgent("claude", settings_in(tmp_path), tmp_path)
    place = tmp_path / name
    if name == "hook":
        place.write_text("a file where the folder should be")
    else:
        place.mkdir(parents=True)
        (place / "inside").touch()
    agent.prompt("Say same.")
    for _ in range(9):
        assert agent.call("echo same", "same")
    assert agent.end() == ""
    if name != "hook":
        assert "nothing was answered" in agent.log


def test_what_only_hooks_read_goes_with_time_and_the_session_goes_on_from_its_record(
    session: HookedAgent, tmp_path: Path
) -> None:
    agent = _gone_on(session, tmp_path / "hook")
    folder = agent.settings.folder
    (folder / "s1.guarded").write_bytes(b"")
    _set_days_back(folder, KEPT_DAYS - 1)
    other = HookedAgent("claude", agent.settings, tmp_path, session="other")
    other.call("ls", "a")
    assert (folder / "s1.state").exists()
    _set_days_back(folder, KEPT_DAYS + 1)
    (folder / "s1.lock").touch()  # a session that was asked for today
    other.call("ls", "a")
    assert (folder / "s1.state").exists()
    _set_days_back(folder, KEPT_DAYS + 1)
    other.call("ls", "a")
    assert {file.name for file in folder.glob("s1.*")} == {"s1.jsonl"}
    assert (folder / "other.state").exists()
    agent.call("echo same", "same")
    (run,) = read_record(agent.record).runs
    assert sum(isinstance(event, ev.ToolCallResult) for event in run.events) == 5


def test_records_are_deleted_after_the_days_that_they_are_kept(session: HookedAgent, tmp_path: Path) -> None:
    agent = _gone_on(session, tmp_path / "hook")
    folder = agent.settings.folder
    (folder / "mine.jsonl").write_text("of no hook")
    (folder / "s1.files").mkdir()
    (folder / "s1.files" / "image").touch()
    other = HookedAgent("claude", replace(agent.settings, keep_days=3), tmp_path, session="other")
    _set_days_back(folder, 2)
    other.call("ls", "a")
    assert agent.record.exists()
    _set_days_back(folder, 4)
    with open(folder / "s1.lock", "ab") as file:  # a hook of the session is at work
        fcntl.flock(file, fcntl.LOCK_EX)
        other.call("ls", "a")
        assert (folder / "s1.state").exists()
    _set_days_back(folder, 4)
    other.call("ls", "a")
    assert not [*folder.glob("s1.*")]
    assert (folder / "mine.jsonl").exists()
    assert (folder / "other.jsonl").exists()
    assert "deleted records of 1 session, after 3 days" in agent.log


def test_the_sessions_deleted_at_an_event_are_bounded_and_the_next_event_goes_on(tmp_path: Path) -> None:
    agent = HookedAgent("claude", settings_in(tmp_path, keep_days=1), tmp_path)
    agent.settings.folder.mkdir()
    for number in range(MOST_SESSIONS + 5):
        for suffix in ("state", "jsonl"):
            (agent.settings.folder / f"old{number}.{suffix}").touch()
    _set_days_back(agent.settings.folder, 2)
    agent.prompt("go")
    assert len([*agent.settings.folder.glob("old*.jsonl")]) == 5
    agent.call("ls", "a")
    assert not [*agent.settings.folder.glob("old*")]


def test_who_waits_for_a_lock_that_is_deleted_takes_the_new_one(tmp_path: Path) -> None:
    path, told = tmp_path / "s1.lock", []

    def wait() -> None:
        with session_lock(path, 30.0):
            told.append(path.stat().st_ino)

    with session_lock(path, 0.0):
        waiting = Thread(target=wait)
        waiting.start()
        old = path.stat().st_ino
        keeper = path.with_suffix(".keeper")
        os.link(path, keeper)  # so that the new one has another number
        path.unlink()
    waiting.join(30.0)
    assert len(told) == 1
    assert told[0] != old


def _set_days_back(folder: Path, days: float) -> None:
    """Make all files of the folder look as old as this."""
    for file in folder.iterdir():
        os.utime(file, (time.time() - days * DAY,) * 2)


def test_the_log_is_bounded(tmp_path: Path) -> None:
    for _ in range(3 * MAX_BYTES // 1_000):
        log_line(tmp_path, "word " * 1_000)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 2.1 * MAX_BYTES


def _work_of_a_call(agent: HookedAgent) -> int:
    profile = cProfile.Profile()
    profile.enable()
    agent.call(f"cat other{agent.number}.txt", f"line {agent.number}")
    profile.disable()
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("early", "late"), [(30, 100), pytest.param(200, 1_000, marks=pytest.mark.long)])
def test_a_call_costs_the_same_at_any_length_of_the_session(early: int, late: int, tmp_path: Path) -> None:
    agent = HookedAgent("codex", settings_in(tmp_path), tmp_path)
    agent.prompt("Read them all.")
    work, sizes = {}, {}
    for number in range(1, late + 1):
        if number in (early, late):
            work[number] = _work_of_a_call(agent)
            sizes[number] = (agent.settings.folder / "s1.state").stat().st_size
        else:
            agent.call(f"cat part{number}.txt", f"part {number} holds {number * 7}")
    assert work[late] < 1.02 * work[early]
    assert sizes[late] < sizes[early] + 10_000  # the marks of the latest 192 steps
    assert agent.denied == 0


def test_keys_of_the_agent_are_in_no_record(tmp_path: Path) -> None:
    key = "sk-ant-0123456789abcdefghij"
    agent = HookedAgent("claude", settings_in(tmp_path), tmp_path, environ={"ANTHROPIC_API_KEY": key})
    agent.prompt(f"Use {key}.")
    agent.call("env", f"ANTHROPIC_API_KEY={key}")
    agent.end()
    assert key not in agent.record.read_text(encoding="utf-8")

"""`endstop hook --until`: an agent is sent on at its end while the check is not met and that brings something."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from endstop.replay import replay

from .hooked_agents import AGENTS, HookedAgent, runs_of, settings_in

NEEDS_ONE = 'echo run >> "$(dirname "$PWD")/checks"; test -f one.txt || (echo "FAILED: one.txt is missing"; exit 1)'


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "notes.txt").write_text("notes")
    return tmp_path / "work"


def checks(work: Path) -> int:
    file = work.parent / "checks"
    return file.read_text().count("run") if file.exists() else 0


@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_that_says_done_at_once_is_sent_on_works_and_is_let_go(name: str, work: Path) -> None:
    agent = HookedAgent(name, settings_in(work.parent, NEEDS_ONE), work)
    agent.prompt("Write one.txt.")
    assert "FAILED: one.txt is missing" in agent.end()
    (work / "one.txt").write_text("one")
    agent.call("echo one > one.txt", "")
    assert agent.end(again=True) == ""
    assert checks(work) == 2
    ((prompt, outcome),) = runs_of(agent.record)
    assert (prompt, outcome.stop_reason, outcome.work) == ("Write one.txt.", "until_met", "checked")
    assert asyncio.run(replay(agent.record)).same


@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_that_says_done_for_ever_is_checked_and_told_once(name: str, work: Path) -> None:
    agent = HookedAgent(name, settings_in(work.parent, NEEDS_ONE), work)
    agent.prompt("Write one.txt.")
    assert agent.end()
    assert agent.end(again=True) == ""
    assert "nothing has changed since the agent was told" in agent.said[0]
    assert checks(work) == 1
    ((_, outcome),) = runs_of(agent.record)
    assert (outcome.status, outcome.stop_reason, outcome.work) == ("exhausted", "until_stalled", "wrong")
    assert asyncio.run(replay(agent.record)).same


def test_an_agent_whose_changes_make_nothing_better_is_let_go(work: Path) -> None:
    agent = HookedAgent("claude", settings_in(work.parent, NEEDS_ONE), work)
    agent.prompt("Write one.txt.")
    sent_on = 0
    while agent.end(again=sent_on > 0):
        sent_on += 1
        (work / "notes.txt").write_text(f"notes {sent_on}")
        agent.call(f"echo notes {sent_on} > notes.txt", "")
    assert (sent_on, checks(work)) == (2, 3)
    assert "2 checks in a row were no better" in agent.said[0]


def test_an_agent_that_gets_nearer_each_time_is_sent_on_up_to_its_own_limit(work: Path) -> None:
    command = 'test $(ls | wc -l) -ge 40 || (echo "$(ls | wc -l) passed, 1 failed in 0.1s"; exit 1)'
    agent = HookedAgent("claude", settings_in(work.parent, command), work)
    agent.prompt("Write forty files.")
    sent_on = 0
    while agent.end(again=sent_on > 0):
        sent_on += 1
        (work / f"file{sent_on}.txt").touch()
        agent.call(f"touch file{sent_on}.txt", "")
    assert sent_on == 7  # Claude Code itself overrules the eighth
    assert "sent on 7 times in a row" in agent.said[0]
    agent.environ = {"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP": "2"}
    agent.prompt("Go on.")
    (work / "more.txt").touch()
    assert agent.end()
    (work / "evenmore.txt").touch()
    assert agent.end(again=True) == ""


def test_an_unchanged_work_tree_is_not_checked_again_at_another_prompt(work: Path) -> None:
    agent = HookedAgent("codex", settings_in(work.parent, NEEDS_ONE), work)
    agent.prompt("Write one.txt.")
    agent.end()
    agent.end(again=True)
    agent.prompt("What is in it?")
    assert agent.end() == ""
    assert checks(work) == 1


@pytest.mark.parametrize("changes", [False, True])
def test_in_a_conversation_a_prompt_that_changed_nothing_is_not_held_up(changes: bool, work: Path) -> None:
    agent = HookedAgent("claude", settings_in(work.parent, NEEDS_ONE), work, environ={"CLAUDE_CODE_ENTRYPOINT": "cli"})
    agent.prompt("What is in the notes?")
    agent.call("cat notes.txt", "notes")
    if changes:
        (work / "notes.txt").write_text("others")
    assert bool(agent.end()) == changes
    assert checks(work) == changes


def test_output_is_bounded_with_what_fails_first(work: Path) -> None:
    command = "echo FAILED first; for n in $(seq 3000); do echo line $n; done; exit 1"
    agent = HookedAgent("claude", settings_in(work.parent, command), work)
    agent.prompt("Go.")
    reason = agent.end()
    assert len(reason) < 2_300
    assert reason.index("FAILED first") < reason.index("line 3000")


def test_a_check_that_hangs_is_stopped_with_its_children(work: Path) -> None:
    command = "echo $$ > ../pid; sleep 1000 & sleep 1000"
    agent = HookedAgent("claude", settings_in(work.parent, command, timeout=1.5), work)
    agent.prompt("Go.")
    assert "did not end within 1.2 seconds" in agent.end()
    group = int((work.parent / "pid").read_text())
    assert not list(_processes_of(group))
    assert agent.end(again=True) == ""  # nothing has changed


def _processes_of(group: int) -> Iterator[int]:
    """The living processes of a process group."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                state, _, found = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
            except OSError:
                continue
            if int(found) == group and state != "Z":
                yield int(entry.name)


def test_guarded_files_are_what_they_were_at_the_prompt_also_for_later_processes(work: Path) -> None:
    (work / "tests").mkdir()
    test = work / "tests" / "check.sh"
    test.write_text("test -f one.txt\n")
    agent = HookedAgent("claude", settings_in(work.parent, "sh tests/check.sh", guard=("tests/**",)), work)
    agent.prompt("Make the tests pass.")
    assert agent.end()
    test.write_text("true\n")
    agent.call("echo true > tests/check.sh", "")
    assert "tests/check.sh" in agent.end(again=True)
    agent.end(again=True)
    test.write_text("test -f two.txt\n")  # the person's own change, after the agent's end
    agent.prompt("Now two.txt.")
    (work / "two.txt").touch()
    agent.call("touch two.txt", "")
    assert agent.end() == ""
    assert [outcome.stop_reason for _, outcome in runs_of(agent.record)] == ["until_stalled", "until_met"]


def test_all_guarded_files_deleted_are_put_back_for_the_check(work: Path) -> None:
    (work / "tests").mkdir()
    (work / "tests" / "check.sh").write_text("test -f one.txt\n")
    command = "for t in tests/*.sh; do test ! -e $t || sh $t || exit 1; done"
    agent = HookedAgent("claude", settings_in(work.parent, command, guard=("tests/**",)), work)
    agent.prompt("Make the tests pass.")
    (work / "tests" / "check.sh").unlink()
    (work / "tests").rmdir()
    agent.call("rm -r tests", "")
    assert "tests/check.sh" in agent.end()


def test_a_check_that_cannot_be_made_is_said_to_the_person(work: Path) -> None:
    agent = HookedAgent("claude", settings_in(work.parent, "no-such-command-here --now"), work)
    agent.prompt("Go.")
    assert agent.end() == ""
    assert "no-such-command-here" in agent.said[0]


def test_without_a_state_that_can_be_saved_no_agent_is_sent_on(work: Path) -> None:
    agent = HookedAgent("codex", settings_in(work.parent, NEEDS_ONE), work)
    os.makedirs(agent.settings.folder / "s1.new")
    assert agent.end() == ""
    assert "nothing was answered" in agent.log

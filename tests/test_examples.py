"""The examples in docs/examples run as they stand, each in a process of its own, without a model.

Two are started as users start them; the others are forked (`forked.py`), and what those start is not.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .console import python

EXAMPLES = Path(__file__).parent.parent / "docs" / "examples"


STRICT = Path(__file__).parent / "strict_warnings.py"


async def run(name: str, **settings: str) -> str:
    """What an example prints in a fork, if it ends well. No model is named to it, and a warning is an error."""
    ran = await python(STRICT, EXAMPLES / f"{name}.py", cwd=EXAMPLES, env={"ENDSTOP_MODEL": "", **settings})
    assert ran.code == 0, ran.out + ran.err
    told = [line for line in ran.err.splitlines() if 'level=info event="run ended"' not in line]  # a proxy's log
    assert told == []
    return ran.out


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("import warnings; warnings.warn('old')", "UserWarning: old"),
        ("import socket; left = socket.socket()", "ResourceWarning: unclosed"),
    ],
)
async def test_a_warning_in_a_fork_is_told(script: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text(script)
    assert told in (await python(STRICT, tmp_path / "example.py", cwd=tmp_path)).err


def start(name: str) -> str:
    """The same of a new interpreter."""
    env = {key: value for key, value in os.environ.items() if key != "ENDSTOP_MODEL"}
    command = [sys.executable, "-W", "error", EXAMPLES / f"{name}.py"]
    ran = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stderr == ""
    return ran.stdout


async def test_before_after_keeps_its_records_in_a_folder_that_it_makes(tmp_path: Path) -> None:
    ran = await python(STRICT, EXAMPLES / "before_after.py", tmp_path / "not" / "there", cwd=EXAMPLES)
    assert (ran.code, ran.err) == (0, "")
    assert len(list((tmp_path / "not" / "there").glob("*.jsonl"))) == 4


async def test_subagents_translate_at_the_same_time_and_their_cost_is_counted() -> None:
    told = (await run("subagents")).splitlines()
    assert sorted(told[:4]) == ["a step of a translator"] * 2 + ["a step of the boss"] * 2
    assert told[4:] == [
        "Spanish: Hola. French: Bonjour.",
        "2 sub-agents: $0.00021 of $0.00042",
        "3 records, of which in run.subagents: 2",
    ]


async def test_an_agent_behind_the_proxy_ends_with_its_work_and_without_it_goes_on() -> None:
    assert (await run("proxy")).splitlines() == [
        "without a proxy: 10 requests, 56,000 characters of talk after the work; it gave up",
        "endstop proxy  : 2 requests, 0 characters of talk after the work; it answered: The port is 8080.",
    ]


async def test_history_goes_on_with_messages_of_openais_form_and_gives_them_back() -> None:
    assert (await run("history")).splitlines() == [
        "user: Is that safe?",
        "assistant: That is not encrypted (6 messages).",
        "7 messages, the first 5 as they were: True",
    ]


async def test_images_shows_a_file_and_a_url() -> None:
    shown = "https://www.python.org/static/community_logos/python-logo.png"
    assert await run("images") == f"Both are pictures: image/png, 70 bytes and {shown}\n"


async def test_images_later_go_with_an_answer_and_a_message() -> None:
    shown = "https://www.python.org/static/community_logos/python-logo.png"
    assert await run("images_later") == f"completed: I see: image/png, 70 bytes and {shown}\n"


async def test_system_tells_the_model_what_belongs_to_the_run() -> None:
    assert await run("system") == "I was told: Use the customer's name, Frank. This is step 1.\n"


async def test_compaction_by_a_model_and_by_a_function_lets_the_run_go_on() -> None:
    assert (await run("compaction")).splitlines() == ["compactor: 7 messages became 2", "They go on and on."] * 2


async def test_approval_asks_in_another_process_and_runs_only_what_was_approved() -> None:
    assert (await run("approval")).splitlines() == [
        "looking up Rome",
        "one process has ended, the next one begins",
        "Approve get_temperature with {'city': 'Oakland'}? y",
        "Approve get_temperature with {'city': 'Paris'}? not Paris",
        "looking up Oakland",
        "completed: 20° in Rome and Oakland; Paris was not wanted.",
    ]


def test_output_is_typed_and_a_wrong_one_is_mended() -> None:
    assert start("output").splitlines() == [
        "CityLocation(city='London', country='United Kingdom', year=2012)",
        "London, after 3 steps",
        '{"city":"London","country":"United Kingdom","year":2012}',
    ]


async def test_deps_are_handed_in_or_made_and_closed() -> None:
    assert (await run("deps")).splitlines() == ["12 euros", "opened for joe (free)", "closed", "7 euros"]


async def test_progress_is_shown_as_it_comes() -> None:
    assert (await run("progress")).splitlines() == [
        "process: 1 of 2, processed bread",
        "process: 2 of 2, processed rolls",
        "Both are processed.",
    ]


async def test_mcp_tools_moves_a_note_from_one_server_to_another() -> None:
    told = (await run("mcp_tools")).splitlines()
    assert "old_list_notes: buy milk, call Jane" in told
    assert "old_list_notes: call Jane" in told
    assert "new_list_notes: mend the bicycle, buy milk" in told
    assert told[-1] == "completed: The note 'buy milk' is on the new shelf."


async def test_background_worker_works_off_its_queue_two_at_a_time() -> None:
    told = (await run("background_worker")).splitlines()
    assert told[:2] == ["job 1 begun", "job 2 begun"]
    assert "job 1 completed: count_words: 5" in told
    assert "job 4 completed: wait: waited 0.2 s" in told
    assert told.index("job 3 begun") > min(told.index(line) for line in told if "completed" in line)
    assert told[-1] == "4 records"


def test_background_worker_gives_running_jobs_time_after_sigterm_and_names_those_it_did_not_begin() -> None:
    command = [sys.executable, EXAMPLES / "background_worker.py", "wait: 0.5", "wait: 600", "count: a rose"]
    env = {**os.environ, "GRACE": "3"}
    env.pop("ENDSTOP_MODEL", None)
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        began = [process.stdout.readline() for _ in range(2)]
        assert began == ["job 1 begun\n", "job 2 begun\n"]
        process.terminate()
        told = process.stdout.read().splitlines()
    assert process.returncode == 0
    assert told[0] == "stopping: 2 running, 1 not begun"
    assert "job 1 completed: wait: waited 0.5 s" in told
    assert "job 2 cancelled: cancelled from outside: shutdown" in told
    assert told[-2:] == ["not begun: count: a rose", "2 records"]


async def test_chat_with_questions_takes_the_next_message_as_the_answer_and_lets_others_wait() -> None:
    said = [line.split("   ") for line in (await run("chat_with_questions")).splitlines()]
    rooms = [text for place, text in said if place == "#office rooms"]
    assert rooms == [
        "you: We need a room.",
        "bot: For which day?",
        "you: Friday",
        "you: Thank you!",
        "bot: The room is yours on Friday.",
        "bot: You said: Thank you!",
    ]
    assert ["#office lunch", "bot: You said: Soup again?"] in said


async def test_a_fastapi_app_asks_its_own_engine_and_follows_a_session_of_the_mounted_one(tmp_path: Path) -> None:
    told = (await run("fastapi_app", ENDSTOP_STORE=str(tmp_path / "sessions.db"))).splitlines()
    assert told[0] == "ask: The port is 8080."
    assert told[1] == "event: 1 RUN_STARTED"
    assert told[-3].endswith(" RUN_FINISHED")
    assert told[-2] == "completed: The port is 8080."
    assert told[-1].startswith("follow: agent/sessions/")

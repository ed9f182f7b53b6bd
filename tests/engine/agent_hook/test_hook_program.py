"""`endstop hook` as a program: what it imports, its exit codes, and the proxy that speaks in its place."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from endstop.agent_hook.agent_proxy import proxy_before
from endstop.cli import console_script
from endstop.cli.main import main

from ..proxy.agents import Provider, proxied
from .hooked_agents import HookedAgent, settings_in

_EVENT = {
    "session_id": "s1",
    "cwd": "/",
    "hook_event_name": "PostToolUse",
    "tool_name": "Bash",
    "tool_input": {"command": "ls"},
    "tool_use_id": "1",
    "tool_response": {"stdout": "one.txt", "stderr": ""},
}
NEEDLESS = (
    "aiohttp",
    "http.client",
    "litellm",
    "pydantic",
    "rich",
    "endstop.agent_hook.end_check",
    "endstop.cli.commands",
    "endstop.cli.factory",
    "endstop.cli.main",
    "endstop.cli.parser",
    "endstop.engine",
    "endstop.follow.agent_check",
    "endstop.until",
)
"""What an event must not import that is not the agent's end."""
MOST_MODULES = 260
"""Modules after such an event, those of the interpreter included."""


def _program(*options: str, event: Any = _EVENT, code: str = "") -> subprocess.CompletedProcess[str]:
    """Run the script `endstop hook` in a process of its own, or else this code."""
    script = "import sys; from endstop.cli import console_script; sys.argv = ['endstop', 'hook', *sys.argv[1:]]; "
    return subprocess.run(
        [sys.executable, "-c", f"{script}{code or 'sys.exit(console_script.main())'}", *options],
        input=event if isinstance(event, str) else json.dumps(event),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_an_event_imports_no_other_command_and_nothing_for_a_check(tmp_path: Path) -> None:
    code = "code = console_script.run(sys.argv[1:]); sys.stderr.write(' '.join(sys.modules)); sys.exit(code)"
    ran = _program("--record", str(tmp_path / "hook"), "--until", "pytest -q", "--watch", event=_EVENT, code=code)
    assert (ran.returncode, ran.stdout) == (0, "")
    imported = ran.stderr.split()
    assert "endstop.agent_hook.handler" in imported
    assert [name for name in NEEDLESS if name in imported] == []
    assert len(imported) < MOST_MODULES
    assert (tmp_path / "hook" / "s1.jsonl").exists()
    assert os.stat(tmp_path / "hook").st_mode & 0o777 == 0o700
    assert os.stat(tmp_path / "hook" / "s1.jsonl").st_mode & 0o777 == 0o600


def test_wrong_options_at_an_event_deny_nothing() -> None:
    ran = _program("--polcy", "agent")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "--polcy" in ran.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--timeout", "0"], "--timeout is 0"),
        (["--until", " "], "--until is empty"),
        (["--guard", "tests/**"], "give it with --until"),
        (["--policy", "strict"], "requires a completion tool"),
        (["--policy", "nowhere.toml"], "nowhere.toml"),
    ],
)
def test_options_that_cannot_work_are_said_and_a_person_gets_exit_code_2(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["hook", *options]) == 2
    assert said in capsys.readouterr().err
    assert console_script.run(["hook", *options]) == 1  # stdin is no terminal: an agent's event
    assert said in capsys.readouterr().err


def test_a_person_in_a_terminal_is_told_what_it_is_for() -> None:
    parent, child = os.openpty()
    try:
        code = (
            "import sys; from endstop.cli.console_script import main; sys.argv = ['endstop', 'hook']; sys.exit(main())"
        )
        ran = subprocess.run([sys.executable, "-c", code], stdin=child, capture_output=True, text=True, timeout=60)
    finally:
        os.close(parent)
        os.close(child)
    assert ran.returncode == 2
    assert "docs/guides/hook.md" in ran.stderr


async def test_a_living_proxy_is_known_by_what_it_says(tmp_path: Path) -> None:
    async with proxied(Provider(), tmp_path) as (url, _, _):
        ask = asyncio.to_thread
        assert await ask(proxy_before, "", {"ANTHROPIC_BASE_URL": url}) == "acts"
        assert await ask(proxy_before, f"{url}/v1", {}) == "acts"
        assert await ask(proxy_before, "", {"OPENAI_BASE_URL": "https://api.example.com/v1"}) == ""
        assert await ask(proxy_before, "", {}) == ""
        agent = HookedAgent("claude", settings_in(tmp_path), tmp_path, environ={"ANTHROPIC_BASE_URL": url})

        def go_round() -> None:
            for _ in range(10):
                agent.call("echo same", "same")

        await ask(go_round)
        assert (agent.denied, agent.ended) == (0, "")
        assert agent.told


def test_a_port_that_does_not_answer_is_no_proxy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:  # accepts, and says nothing
        assert proxy_before(f"http://127.0.0.1:{server.getsockname()[1]}", {}) == ""
    assert proxy_before("http://[broken", {}) == ""
    assert proxy_before("ftp://127.0.0.1", {}) == ""

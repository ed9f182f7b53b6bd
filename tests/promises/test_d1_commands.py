"""D1: commands that the model runs see no keys, neither by variables nor in the processes above them, and all end."""

from __future__ import annotations

import asyncio
import ctypes
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from endstop.decision import WrongUse
from endstop.hooks import CommandGate
from endstop.tools.child_process import run_command
from endstop.tools.workspace import workspace_tools

from ..console import COMMAND, PATIENCE, environment
from ..servers import ChatServer, call

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has subreapers and /proc")
SECRETS = {
    "OPENAI_API_KEY": "planted-1",
    "AWS_SECRET_ACCESS_KEY": "planted-2",
    "GITHUB_TOKEN": "planted-3",
    "HF_TOKEN": "planted-4",
    "DATABASE_URL": "planted-5",
    "PGPASSWORD": "planted-6",
    "HTTPS_PROXY": "http://user:planted-7@proxy:3128",
}
ANCESTORS = (
    "p=$$; while grep -q -e endstop -e reaper -e /bin/sh /proc/$p/cmdline; do "
    "tr '\\0' '\\n' < /proc/$p/environ; cat /proc/$p/maps > /dev/null && echo open $p; "
    "p=$(cut -d' ' -f4 /proc/$p/stat); done 2>/dev/null; echo looked; env"
)
"""A command that looks into the environment and the memory of every process above it."""


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)


async def run(folder: Path, command: str, timeout: float = 60, **options: Any) -> str:
    (tool,) = (tool for tool in workspace_tools(folder, allow_run=True, **options) if tool.name == "run_command")
    text: str = await tool.run({"command": command, "timeout": timeout})
    return text


async def test_D1_a_command_sees_an_allow_list_of_variables(
    tmp_path: Path, planted: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    visible = {"LANG": "C", "LC_ALL": "C", "VIRTUAL_ENV": "/v", "http_proxy": "http://proxy:1", "JAVA_HOME": "/j"}
    for name, value in visible.items():
        monkeypatch.setenv(name, value)
    text = await run(tmp_path, "env")
    assert "planted" not in text
    for name in ("PATH", "HOME"):
        assert f"{name}={os.environ[name]}" in text
    for name, value in visible.items():
        assert f"{name}={value}" in text


async def test_D1_env_adds_names(tmp_path: Path, planted: None) -> None:
    text = await run(tmp_path, "env", env=["DATABASE_URL"])
    assert "DATABASE_URL=planted-5" in text
    assert text.count("planted") == 1
    for wrong in ("DATABASE_URL", [1], ["A=b"]):
        with pytest.raises(WrongUse, match="env"):
            workspace_tools(tmp_path, env=wrong)  # type: ignore[arg-type]


@LINUX
async def test_D1_the_process_above_a_command_holds_no_keys(tmp_path: Path) -> None:
    script = (
        "import asyncio, sys\n"
        "from endstop.tools.workspace import workspace_tools\n"
        "tool = workspace_tools('.', allow_run=True)[-1]\n"
        "print(asyncio.run(tool.run({'command': sys.argv[1]})))\n"
    )
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", script, "tr '\\0' '\\n' </proc/$PPID/environ; echo looked"],
        env={**os.environ, **SECRETS},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert "looked" in done.stdout
    assert "planted" not in done.stdout


def _without_powers() -> None:
    """Root without any capability, who may look into other processes as little as any user."""
    prctl = ctypes.CDLL(None).prctl
    for capability in range(64):
        prctl(24, capability, 0, 0, 0)


@LINUX
@pytest.mark.parametrize("powers", [True, False])
async def test_D1_under_the_command_line_no_process_above_a_command_can_be_read(powers: bool, tmp_path: Path) -> None:
    record = tmp_path / "session.jsonl"
    async with ChatServer(call("run_command", command=ANCESTORS), call("finish_task", summary="Done.")) as server:
        command = [COMMAND, "run", "x", "--model", "m", "--api-base", server.url, "--record", str(record)]
        done = await asyncio.to_thread(
            subprocess.run,
            [*command, "--workspace", str(tmp_path), "--allow-run"],
            env={**environment(), **SECRETS, "HOME": str(tmp_path)},
            preexec_fn=None if powers else _without_powers,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
    assert done.returncode == 0, done.stderr
    (told,) = (m["content"] for m in server.requests[-1]["messages"] if m["role"] == "tool")
    assert "looked" in told
    assert "planted" not in told
    assert "planted" not in record.read_text()


@LINUX
def test_D1_nothing_is_done_to_a_process_that_only_imports_us() -> None:
    script = (
        "import ctypes, endstop, endstop.cli.main\n"
        "prctl = ctypes.CDLL(None).prctl\n"
        "reaping = ctypes.c_int()\n"
        "prctl(37, ctypes.byref(reaping), 0, 0, 0)\n"
        "print(prctl(3, 0, 0, 0, 0), reaping.value)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert done.stdout == "1 0\n"


@LINUX
@pytest.mark.parametrize(
    "command",
    [
        "setsid sleep 987 & echo started",
        "setsid -f sleep 987; echo started",
        "(setsid sh -c 'sleep 987 & sleep 987' &); echo started",
        "nohup sh -c 'trap \"\" TERM HUP INT; sleep 987' >/dev/null 2>&1 & echo started",
    ],
)
async def test_D1_what_has_left_its_session_ends_with_the_command(command: str, tmp_path: Path) -> None:
    text = await run(tmp_path, f"cd {tmp_path}; {command}")
    assert text.startswith("exit code 0\nstarted")
    assert _left_in(tmp_path) == []


@LINUX
async def test_D1_the_whole_tree_ends_at_the_time_limit_and_when_cancelled(tmp_path: Path) -> None:
    command = f"cd {tmp_path}; setsid -f sleep 987; setsid sleep 987 & touch begun; sleep 987"
    for seconds in (1, 10, PATIENCE):  # until the shell has had the time to begin all of it
        with pytest.raises(TimeoutError):
            await run(tmp_path, command, timeout=seconds)
        assert _left_in(tmp_path) == []
        if (tmp_path / "begun").exists():
            break
    (tmp_path / "begun").unlink()
    task = asyncio.create_task(run(tmp_path, command))
    async with asyncio.timeout(PATIENCE):
        while not (tmp_path / "begun").exists():
            await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert _left_in(tmp_path) == []


@LINUX
async def test_D1_the_tree_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    script = (
        "import asyncio, sys\n"
        "from endstop.tools.workspace import workspace_tools\n"
        "tool = workspace_tools('.', allow_run=True)[-1]\n"
        "asyncio.run(tool.run({'command': 'setsid sleep 987 & touch begun; sleep 987'}))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path)
    async with asyncio.timeout(PATIENCE):
        while not (tmp_path / "begun").exists():
            await asyncio.sleep(0.01)
        process.kill()
        process.wait()
        while _left_in(tmp_path):
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(("command", "told"), [("exit 3", "exit code 3"), ("kill -9 $$", "signal 9 (SIGKILL)")])
async def test_D1_a_command_ends_as_it_did(command: str, told: str, tmp_path: Path) -> None:
    assert told in await run(tmp_path, command)


async def test_D1_gates_see_what_commands_see_and_evaluators_all(tmp_path: Path, planted: None) -> None:
    gate = CommandGate("env >seen; false", str(tmp_path), env=["HF_TOKEN"])
    await gate(None, None)  # type: ignore[arg-type]
    assert "planted-4" in (tmp_path / "seen").read_text()
    assert (tmp_path / "seen").read_text().count("planted") == 1
    code, output = await run_command(["env"], None)
    assert (code, output.count("planted")) == (0, len(SECRETS))


def _left_in(folder: Path) -> list[str]:
    """The processes whose current folder it is."""
    left = []
    for entry in Path("/proc").iterdir():
        try:
            here = entry.name.isdigit() and os.readlink(entry / "cwd") == str(folder)
            if here and (entry / "stat").read_text().rpartition(")")[2].split()[0] != "Z":
                left.append((entry / "cmdline").read_text())
        except OSError:
            continue
    return left

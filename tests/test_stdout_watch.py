"""What `stdout_watch` notes: each test does in endstop's name what a library does not do."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from endstop import Engine, Hooks
from endstop.providers import Scripted

from . import console
from .stdout_watch import watched

WAYS = {
    "print": "def run(): print('mine')",
    "stream": "import sys\ndef run(): sys.stdout.write('mine')",
    "bytes": "import sys\ndef run(): sys.stdout.buffer.write(b'mine')",
    "descriptor": "import os\ndef run(): os.write(1, b'mine')",
    "child": "import subprocess, sys\ndef run(): subprocess.run([sys.executable, '-c', ''])",
    "package": "import rich\ndef run(): rich.print('mine')",
}


def code_in(module: str, way: str) -> Callable[[], None]:
    """A function that writes, as if it stood in this module."""
    names: dict[str, Any] = {"__name__": module}
    exec(compile(WAYS[way], f"{module}.py", "exec"), names)
    run: Callable[[], None] = names["run"]
    return run


@pytest.mark.parametrize("way", WAYS)
def test_a_module_of_endstop_that_writes_is_told_with_its_line(way: str) -> None:
    says = r"wrote to stdout: endstop\.engine:\d+ wrote .*(mine|child process)"
    with pytest.raises(AssertionError, match=says), watched():
        code_in("endstop.engine", way)()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("module", ["endstop.cli.views.tables", "my_tests", "endstopped"])
def test_a_program_and_a_test_may_write(way: str, module: str) -> None:
    with watched():
        code_in(module, way)()


async def test_a_coroutine_and_a_thread_of_endstop_are_told() -> None:
    names: dict[str, Any] = {"__name__": "endstop.engine"}
    exec("async def later():\n print('later')\ndef now():\n print('now')", names)

    async def both() -> None:
        await asyncio.create_task(names["later"]())
        await asyncio.to_thread(names["now"])

    with pytest.raises(AssertionError, match=r"later.*; .*now"), watched():
        await both()


def test_a_thread_that_nobody_here_has_called_is_told() -> None:
    thread = threading.Thread(target=print, args=("from nowhere",))

    def run() -> None:
        thread.start()
        thread.join()

    with pytest.raises(AssertionError, match="from nowhere"), watched():
        run()


async def test_what_a_users_hook_prints_in_a_run_is_the_users(capsys: pytest.CaptureFixture[str]) -> None:
    def gate(completion: Any, run: Any) -> bool:
        print("I look")
        return True

    await Engine(Scripted("Done, all of it."), hooks=Hooks(gates=[gate])).run("go")
    assert capsys.readouterr().out == "I look\n"


def test_what_is_written_arrives_where_it_would(capfd: pytest.CaptureFixture[str]) -> None:
    print("é", end="\r\n")
    sys.stdout.buffer.write(b"bytes\n")
    os.write(1, b"raw\n")
    subprocess.run([sys.executable, "-c", "print('child')"], check=True)
    assert capfd.readouterr().out == "é\r\nbytes\nraw\nchild\n"


@pytest.mark.parametrize(("module", "code"), [("endstop.engine", 1), ("mine", 0)])
async def test_it_is_told_of_a_script_too(module: str, code: int, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"exec(\"print('answer')\", {{'__name__': {module!r}}})")
    done = await console.python(script, cwd=tmp_path)
    assert (done.code, done.out) == (code, "answer\n")
    assert ("wrote to stdout: endstop.engine:1 wrote b'answer" in done.err) == bool(code)

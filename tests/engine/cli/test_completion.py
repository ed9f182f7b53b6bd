"""`endstop completion`, tried in the shells themselves: keys are typed into a terminal, and TAB is pressed.

In place of the program a function prints the words that it was called with, so a test reads what the shell has made of
the keys and not how it draws them.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import termios
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from endstop.cli.completion import SHELLS, completion_script
from endstop.providers.prices import listed_models

from ...console import PATIENCE, endstop

MODEL = listed_models("anthropic")[0]
BASH, ZSH, FISH = (
    (
        ("bash", "--noprofile", "--norc", "-i"),
        "PS1='rea''dy> '; . ./script; endstop() { printf '<%s>' \"$@\"; echo '<en''d>'; }",
    ),
    (
        ("zsh", "-f", "-i"),
        "PS1='rea''dy> '; fpath+=$PWD; autoload -Uz compinit && compinit -u -d ./dump; "
        "endstop() { printf '<%s>' \"$@\"; echo '<en''d>'; }; "
        "tab() { zle expand-or-complete; printf '<ta''b>'; }; zle -N tab; bindkey '^I' tab",
    ),
    (
        ("fish", "--no-config", "-i"),
        "function fish_prompt; echo -n 'rea''dy> '; end; source ./script; "
        "function endstop; printf '<%s>' $argv; echo '<en''d>'; end",
    ),
)
"""The command that starts each shell without its user's files, and what is typed first. Words that are waited for are
written in two pieces, so that they are not found in the echo of what was typed."""
TYPED = {
    "a command": ("ru\t", "<run>"),
    "another command": ("compl\tfi\t", "<completion><fish>"),
    "an option": ("run Go --max-s\t5", "<run><Go><--max-steps><5>"),
    "a choice of an option": ("run Go --prov\tlit\t", "<run><Go><--provider><litellm>"),
    "a choice of an argument": ("export at\t", "<export><atif>"),
    "a model": (f"run --model {MODEL[:-1]}\t", f"<run><--model><{MODEL}>"),
    "a policy": ("run --policy stri\t", "<run><--policy><strict>"),
    "a policy of one's own": ("run --policy mi\t", "<run><--policy><mine.toml>"),
    "a rule of another project": ("backtest --against openc\t", "<backtest><--against><opencode>"),
    "a record": ("replay ses\t", "<replay><session.jsonl>"),
    "a folder": ("redact x --output fol\tnew", "<redact><x><--output><folder/new>"),
}


class Shell:
    """A shell in a terminal."""

    def __init__(self, descriptor: int, *, marks_tab: bool) -> None:
        self.shown = ""
        self._marks_tab = marks_tab
        self._descriptor = descriptor
        self._news = asyncio.Event()
        asyncio.get_running_loop().add_reader(descriptor, self._read)

    def _read(self) -> None:
        try:
            block = os.read(self._descriptor, 65536)
        except OSError:  # how Linux says that the shell has ended
            block = b""
        if not block:
            asyncio.get_running_loop().remove_reader(self._descriptor)
        if b"\x1b[c" in block:  # fish asks what terminal this is, and waits
            os.write(self._descriptor, b"\x1b[?62c")
        self.shown += block.decode("utf-8", "replace")
        self._news.set()

    def press(self, keys: str) -> None:
        os.write(self._descriptor, keys.encode())

    async def complete(self, keys: str) -> None:
        """Type, and go on after each TAB when it has been obeyed: zsh completes nothing while keys are waiting."""
        for piece in re.findall(r"[^\t]*\t|[^\t]+", keys):
            done = self.shown.count("<tab>")
            self.press(piece)
            if self._marks_tab and piece.endswith("\t"):
                await self.shows("<tab>", done + 1)

    async def shows(self, text: str, times: int = 1) -> str:
        """Wait until this was written so many times, and return all that was written."""
        async with asyncio.timeout(PATIENCE):
            while self.shown.count(text) < times:
                self._news.clear()
                await self._news.wait()
        return self.shown


@asynccontextmanager
async def _shell(name: str, folder: Path) -> AsyncIterator[Shell]:
    """The shell, ready to complete in a folder that holds files of each kind."""
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed (Debian: apt-get install {name})")
    (folder / ("_endstop" if name == "zsh" else "script")).write_text(completion_script(name), encoding="utf-8")
    (folder / "folder").mkdir()
    for file in ("session.jsonl", "mine.toml", "other.txt", "folder.txt"):
        (folder / file).touch()
    command, first = dict(zip(SHELLS, (BASH, ZSH, FISH), strict=True))[name]
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
    environment = {"HOME": str(folder), "PATH": os.environ["PATH"], "TERM": "xterm", "LC_ALL": "C.UTF-8"}
    process = await asyncio.create_subprocess_exec(
        "/bin/sh",
        "-c",
        f'exec "$0" "$@" <>{os.ttyname(theirs)} >&0 2>&0',  # what a session's leader opens first controls it
        *command,
        cwd=folder,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    shell = Shell(ours, marks_tab=name == "zsh")
    try:
        shell.press(f"{first}\r")
        await shell.shows("ready> ")
        yield shell
    finally:
        asyncio.get_running_loop().remove_reader(ours)
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        os.close(ours)
        os.close(theirs)


@pytest.mark.parametrize("name", SHELLS)
async def test_a_shell_completes_commands_options_and_their_values(name: str, tmp_path: Path) -> None:
    made = {}
    async with _shell(name, tmp_path) as shell:
        for number, (what, (keys, _)) in enumerate(TYPED.items(), 1):
            before = len(shell.shown)
            await shell.complete(f"endstop {keys}\r")
            shown = await shell.shows("<end>", number)
            await shell.shows("ready> ", shell.shown.count("ready> "))
            made[what] = next(line for line in shown[before:].splitlines() if "<end>" in line)
    assert {what: line.partition("<end>")[0].rpartition("\r")[2] for what, line in made.items()} == {
        what: words for what, (_, words) in TYPED.items()
    }


@pytest.mark.parametrize("name", ["zsh", "fish"])
async def test_a_list_says_what_each_option_does(name: str, tmp_path: Path) -> None:
    async with _shell(name, tmp_path) as shell:
        await shell.complete("endstop run --re\t\t")
        shown = await shell.shows("resume the session of this record")
    assert "--resume" in shown


async def test_bash_lists_the_options_that_fit(tmp_path: Path) -> None:
    async with _shell("bash", tmp_path) as shell:
        await shell.complete("endstop run --re\t\t")
        shown = await shell.shows("--retries")
    assert "--resume" in shown
    assert "--model" not in shown


@pytest.mark.parametrize("name", SHELLS)
async def test_the_script_is_all_that_stands_on_stdout_and_the_shell_can_read_it(name: str, tmp_path: Path) -> None:
    done = await endstop("completion", name)
    assert (done.code, done.err) == (0, "")
    assert done.out == completion_script(name) + "\n"
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed (Debian: apt-get install {name})")
    (tmp_path / "script").write_text(done.out, encoding="utf-8")
    read = subprocess.run([name, "-n", tmp_path / "script"], capture_output=True, timeout=PATIENCE, check=False)
    assert (read.returncode, read.stderr) == (0, b"")


async def test_an_unknown_shell_is_refused_with_those_that_there_are() -> None:
    done = await endstop("completion", "powershell")
    assert (done.code, done.out) == (2, "")
    assert "bash, zsh, fish" in done.err

"""The console command, in a process of its own: started as users start it, or forked, which is ten times quicker."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any

from .forked import Forks, Started

PATIENCE = 300.0
"""Seconds that a command may take before the test fails."""
COMMAND = str(Path(sys.executable).with_name("endstop"))
FLEET = (
    *("endstop.cli.worker_process", "endstop.durable.dbos.worker", "endstop.store.sql", "endstop.web", "uvicorn"),
    *("alembic.command", "sqlalchemy.dialects.postgresql", "psycopg"),
)
"""What workers and servers of a fleet import when they begin to work."""


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON object on stdout."""
        assert self.out.count("\n") == 1, self.out
        return json.loads(self.out)


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment for a command: no keys, no settings and no terminal of who runs the tests."""
    private = ("_API_KEY", "_API_BASE", "_PROXY")
    kept = {name: value for name, value in os.environ.items() if not name.endswith(private)}
    kept = {name: value for name, value in kept.items() if name not in ("COLUMNS", "LINES")}
    kept = {name: value for name, value in kept.items() if not name.startswith("ENDSTOP_")}  # options of commands
    return {**kept, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "TERM": "dumb", **(extra or {})}


@asynccontextmanager
async def newly_started(*arguments: object, cwd: Path | None = None) -> AsyncIterator[asyncio.subprocess.Process]:
    """A command as users start it, still running; it is killed at the end if nothing else ended it."""
    process = await asyncio.create_subprocess_exec(
        COMMAND,
        *map(str, arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment(),
        cwd=cwd,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


@asynccontextmanager
async def started(
    *arguments: object,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    largest_file: int | None = None,
) -> AsyncIterator[Started]:
    """The same in a process that was forked (`forked.py`), none of whose files may have more bytes than this."""
    words, whole = list(map(str, arguments)), environment(env)
    process = await _forks(words, whole).start(words, whole, cwd, largest_file=largest_file)
    try:
        yield process
    finally:
        await process.leave()


async def ended(process: asyncio.subprocess.Process | Started, stdin: bytes = b"") -> Done:
    """How it ended."""
    async with asyncio.timeout(PATIENCE):
        out, err = await process.communicate(stdin)
    assert process.returncode is not None
    return Done(process.returncode, out.decode(), err.decode())


async def endstop(
    *arguments: object, stdin: bytes = b"", env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Done:
    """Run `endstop` with these arguments to its end, in a process that was forked (`forked.py`)."""
    words, whole = list(map(str, arguments)), environment(env)
    async with asyncio.timeout(PATIENCE):
        code, out, err = await _forks(words, whole).run(words, stdin, whole, cwd)
    return Done(code, out.decode(), err.decode())


async def python(script: Path, *arguments: object, cwd: Path, env: Mapping[str, str] | None = None) -> Done:
    """Run a script of Python to its end, in a process that was forked."""
    words, whole = list(map(str, arguments)), environment(env)
    async with asyncio.timeout(PATIENCE):
        code, out, err = await _forks([], whole).run(words, b"", whole, cwd, script)
    return Done(code, out.decode(), err.decode())


async def started_in_fork(*arguments: object, env: Mapping[str, str], stderr: IO[bytes]) -> Started:
    """A command of the fleet that is still running, in a process that was forked; what it says goes into a file."""
    words, whole = list(map(str, arguments)), environment(env)
    return await _forks(words, whole).start(words, whole, None, stderr)


async def python_in_fork(script: Path, *arguments: object, stderr: IO[bytes]) -> Started:
    """The same of a script of Python."""
    words, whole = list(map(str, arguments)), environment()
    return await _forks([], whole).start(words, whole, None, stderr, script)


async def started_in_terminal(terminal: int, *arguments: object, env: Mapping[str, str]) -> Started:
    """A command that is still running, in a process that was forked and leads the session of this terminal."""
    words, whole = list(map(str, arguments)), environment(env)
    return await _forks(words, whole).start_in(terminal, words, whole)


_READ_LATE = ("PYTHONIOENCODING", "PYTHONASYNCIODEBUG")
"""What a fork can be given: the first is seen to by `forked.py`, the other is read when an event loop is made."""


def _forks(words: list[str], env: Mapping[str, str]) -> Forks:
    """Those that have imported what this command needs."""
    modules = ("litellm",) if _asks_litellm(words) else FLEET if words[:1] in (["serve"], ["worker"]) else ()
    flags = {name: value for name, value in env.items() if name.startswith("PYTHON") and name not in _READ_LATE}
    return _forks_of(modules, tuple(flags.items()))


@cache
def _forks_of(modules: tuple[str, ...], flags: tuple[tuple[str, str], ...]) -> Forks:
    """flags: what an interpreter reads as it starts, and so is the same for all forks of one."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", "")
    name = f"{run}-{hashlib.sha256(repr((modules, flags)).encode()).hexdigest()[:16]}" if run else ""
    return Forks(modules, environment(dict(flags)), name)


def _asks_litellm(words: list[str]) -> bool:
    ours = "--api-base" in words and "-" not in words
    return "litellm" in words or ("--model" in words and not ours)


assert shutil.which(COMMAND), f"{COMMAND} is missing: install the project"

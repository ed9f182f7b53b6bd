"""The real console command, in a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PATIENCE = 60.0
"""Seconds that a command may take before the test fails."""
COMMAND = str(Path(sys.executable).with_name("endstop"))


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
    return {**kept, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "TERM": "dumb", **(extra or {})}


@asynccontextmanager
async def started(
    *arguments: object, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A command that is still running; it is killed at the end if nothing else ended it."""
    process = await asyncio.create_subprocess_exec(
        COMMAND,
        *map(str, arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment(env),
        cwd=cwd,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def ended(process: asyncio.subprocess.Process, stdin: bytes = b"") -> Done:
    """How it ended."""
    async with asyncio.timeout(PATIENCE):
        out, err = await process.communicate(stdin)
    assert process.returncode is not None
    return Done(process.returncode, out.decode(), err.decode())


async def endstop(
    *arguments: object, stdin: bytes = b"", env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Done:
    """Run `endstop` with these arguments to its end."""
    async with started(*arguments, env=env, cwd=cwd) as process:
        return await ended(process, stdin)


assert shutil.which(COMMAND), f"{COMMAND} is missing: install the project"

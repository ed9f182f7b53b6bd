"""Commands in processes of their own that need not import everything first: a process that has it all forks for each.

An interpreter takes half a second to import what `endstop` needs, and four more for litellm; the suite runs several
hundred commands. A fork begins with the imports done, and is in all else what a new process is: its arguments,
environment, folder and streams are its own, and it ends as an interpreter ends. That the imports themselves work, and
how much each command imports, is tested elsewhere with real starts (`tests/console.py`, `tests/test_rooms.py`).
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from endstop.cli.main import MODULES

WHAT_ALL_NEED = (
    *(f"endstop.cli.{module}" for module in MODULES.values()),
    *("endstop._exports", "endstop.tools", "endstop.replay", "endstop.providers"),
    *("aiohttp", "anyio._backends._asyncio", "pydantic", "rich.live", "structlog"),
)
MOST_BYTES = 1_000_000
"""Of one request."""


class Forks:
    """A process that has imported all this, and forks. It ends with this one."""

    def __init__(self, modules: Sequence[str], env: Mapping[str, str]) -> None:
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MOST_BYTES)
        with other:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(other.fileno()), *modules],
                env=env,
                pass_fds=[other.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )

    async def run(
        self, arguments: Sequence[str], stdin: bytes, env: Mapping[str, str], cwd: Path | None
    ) -> tuple[int, bytes, bytes]:
        """Run the command to its end; its exit code and what it wrote. Who is cancelled meanwhile kills it."""
        told, tells = os.pipe()
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            given.write(stdin)
            given.seek(0)
            request = {"arguments": arguments, "env": dict(env), "cwd": str(cwd or os.getcwd())}
            fds = [given.fileno(), out.fileno(), err.fileno(), tells]
            socket.send_fds(self._socket, [json.dumps(request).encode()], fds)
            os.close(tells)
            reader = asyncio.StreamReader()
            pipe = await asyncio.get_running_loop().connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(told, "rb")
            )
            pid = int(await reader.readline())
            try:
                code = int(await reader.readline())
            except BaseException:
                os.kill(pid, signal.SIGKILL)
                raise
            finally:
                pipe[0].close()
            out.seek(0)
            err.seek(0)
            return code, out.read(), err.read()


def _serve(control: socket.socket) -> list[str]:
    """Fork for each request. Returns in the fork, with its arguments."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that wait
    while True:
        data, fds, *_ = socket.recv_fds(control, MOST_BYTES, 4)
        if not data:
            sys.exit(0)
        if os.fork() == 0:
            control.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            pid = os.fork()
            if pid == 0:
                return _become(json.loads(data), fds)
            os.write(fds[3], b"%d\n" % pid)
            _, status = os.waitpid(pid, 0)
            os.write(fds[3], b"%d\n" % os.waitstatus_to_exitcode(status))
            os._exit(0)
        for fd in fds:
            os.close(fd)


def _become(request: dict[str, Any], fds: list[int]) -> list[str]:
    for number, fd in enumerate(fds[:3]):
        os.dup2(fd, number)
    for fd in fds:
        os.close(fd)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv = ["endstop", *request["arguments"]]
    return list(request["arguments"])


if __name__ == "__main__":
    listening = socket.socket(fileno=int(sys.argv[1]))
    sys.path.pop(0)  # this folder
    for module in (*WHAT_ALL_NEED, *sys.argv[2:]):
        importlib.import_module(module)
    assert threading.active_count() == 1, "what a thread has locked stays locked in a fork"
    gc.collect()
    gc.freeze()
    words = _serve(listening)
    from endstop.cli.main import main

    code = main(words)
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)

"""Commands in processes of their own that need not import everything first: a process that has it all forks for each.

An interpreter takes half a second to import what `endstop` needs, and four more for litellm; the suite runs several
hundred commands. A fork begins with the imports done, and is in all else what a new process is: its arguments,
environment, folder and streams are its own, and it ends as an interpreter ends. That the imports themselves work, and
how much each command imports, is tested elsewhere with real starts (`tests/console.py`, `tests/test_imports.py`).
"""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import fcntl
import gc
import importlib
import json
import os
import resource
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, Any

from endstop.cli.commands import COMMANDS

WHAT_ALL_NEED = (
    *(f"endstop.cli.{command.module}" for command in COMMANDS.values()),
    *("endstop.engine", "endstop.batch", "endstop.race", "endstop.fork", "endstop.records.recorder", "endstop.replay"),
    *("aiohttp", "anyio._backends._asyncio", "pydantic", "rich.live", "structlog"),
)
MOST_BYTES = 1_000_000
"""Of one request."""
_PR_SET_PDEATHSIG = 1
Pipe = tuple[asyncio.StreamReader, asyncio.ReadTransport]
"""The end of a pipe that is read."""
_STREAMS: list[IO[str]] = []
"""Streams that were replaced: nobody may close what they are made of."""


class Started:
    """A command that runs until it is ended. It dies with the tests, however they end."""

    def __init__(self, pid: int, end: Pipe, stdin: IO[bytes] | None, stdout: Pipe | None, stderr: Pipe | None) -> None:
        self.pid = pid
        self.stdout = stdout and stdout[0]
        self.stderr = stderr and stderr[0]
        self.returncode: int | None = None
        """The exit code; that of a signal is negative. None: it still runs."""
        self._stdin = stdin
        self._pipes = [pipe for _, pipe in filter(None, (end, stdout, stderr))]
        self._ended = asyncio.ensure_future(self._wait(end[0]))

    async def _wait(self, end: asyncio.StreamReader) -> int:
        self.returncode = int(await end.readline())
        return self.returncode

    async def wait(self) -> int:
        """Wait until it has ended; its exit code."""
        return await asyncio.shield(self._ended)

    async def communicate(self, stdin: bytes = b"") -> tuple[bytes, bytes]:
        """Write this to its stdin, wait until it has ended, and return what it wrote."""
        if self._stdin is not None:
            with self._stdin as writes, suppress(BrokenPipeError):
                writes.write(stdin)
        out, err, _ = await asyncio.gather(_all(self.stdout), _all(self.stderr), self.wait())
        return out, err

    def send_signal(self, number: int) -> None:
        """Send it a signal. Raises ProcessLookupError once it has ended."""
        if self.returncode is not None:
            raise ProcessLookupError
        os.kill(self.pid, number)

    def kill(self) -> None:
        """End it as a crash would."""
        self.send_signal(signal.SIGKILL)

    async def leave(self) -> None:
        """Kill it if it still runs, and close what connects it with the tests."""
        with suppress(ProcessLookupError):
            self.kill()
        await self.wait()
        for pipe in self._pipes:
            pipe.close()
        if self._stdin is not None:
            with suppress(BrokenPipeError):
                self._stdin.close()


async def _all(reader: asyncio.StreamReader | None) -> bytes:
    return b"" if reader is None else await reader.read()


class Forks:
    """A process that has imported all this, and forks for all workers of a run of the tests. It ends with the last."""

    def __init__(self, modules: Sequence[str], env: Mapping[str, str], name: str = "") -> None:
        """name: it is shared with whoever gives the same, and a program can ask it by that (`fork_client.py`)."""
        self.name = name
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MOST_BYTES)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
            address = b"\0endstop-" + name.encode() if name else b""
            with open(__file__) as lock:  # nobody tries to connect before whoever is first listens
                fcntl.flock(lock, fcntl.LOCK_EX)
                try:
                    listening.bind(address)
                except OSError:
                    with suppress(ConnectionRefusedError):  # it has ended
                        self._socket.connect(address)
                        return
                    listening.bind(b"")
                listening.listen(socket.SOMAXCONN)
            self._socket.connect(listening.getsockname())
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(listening.fileno()), *modules],
                env=env,
                pass_fds=[listening.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )

    async def run(
        self,
        arguments: Sequence[str],
        stdin: bytes,
        env: Mapping[str, str],
        cwd: Path | None,
        script: Path | None = None,
    ) -> tuple[int, bytes, bytes]:
        """Run `endstop`, or a script, to its end; its exit code and output. It is killed if the caller is cancelled."""
        told, tells = os.pipe()
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            given.write(stdin)
            given.seek(0)
            request = {"arguments": arguments, "env": dict(env), "cwd": str(cwd or os.getcwd())}
            request["script"] = None if script is None else str(script)
            fds = [given.fileno(), out.fileno(), err.fileno(), tells]
            socket.send_fds(self._socket, [json.dumps(request).encode()], fds)
            os.close(tells)
            reader, pipe = await _read(told)
            pid = int(await reader.readline())
            try:
                code = int(await reader.readline())
            except BaseException:
                os.kill(pid, signal.SIGKILL)
                raise
            finally:
                pipe.close()
            out.seek(0)
            err.seek(0)
            return code, out.read(), err.read()

    async def start(
        self,
        arguments: Sequence[str],
        env: Mapping[str, str],
        cwd: Path | None,
        stderr: IO[bytes] | None = None,
        script: Path | None = None,
        largest_file: int | None = None,
    ) -> Started:
        """Start `endstop` or a script: pipes are its stdin and stdout, and its stderr unless there is a file for it.

        largest_file: bytes that a file may have, as if the disk were full; None for any number.
        """
        (reads, stdin), (stdout, writes) = os.pipe(), os.pipe()
        told, tells = (None, stderr.fileno()) if stderr else os.pipe()
        fds = [reads, writes, tells]
        process = await self._begin(arguments, env, cwd, fds, script=script, largest_file=largest_file)
        for fd in (reads, writes) if stderr else (reads, writes, tells):
            os.close(fd)
        given = open(stdin, "wb", buffering=0)  # noqa: SIM115  until the command has ended
        return Started(*process, given, await _read(stdout), None if told is None else await _read(told))

    async def start_in(self, terminal: int, arguments: Sequence[str], env: Mapping[str, str]) -> Started:
        """Start the command in a terminal that it controls, as the leader of a session."""
        return Started(*await self._begin(arguments, env, None, [terminal] * 3, leads=True), None, None, None)

    async def _begin(
        self,
        arguments: Sequence[str],
        env: Mapping[str, str],
        cwd: Path | None,
        fds: list[int],
        *,
        script: Path | None = None,
        leads: bool = False,
        largest_file: int | None = None,
    ) -> tuple[int, Pipe]:
        told, tells = os.pipe()
        request = {"arguments": arguments, "env": dict(env), "cwd": str(cwd or os.getcwd())}
        request |= {"dies_with_the_tests": True, "leads": leads, "script": script and str(script)}
        request["largest_file"] = largest_file
        socket.send_fds(self._socket, [json.dumps(request).encode()], [*fds, tells])
        os.close(tells)
        end = await _read(told)
        return int(await end[0].readline()), end


async def _read(fd: int) -> Pipe:
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(fd, "rb")
    )
    return reader, transport


def _serve(listening: socket.socket) -> dict[str, Any]:
    """Fork for each request. Returns in the fork, with the request."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that wait
    listening.setblocking(False)
    watched = [listening]
    while watched:
        for ready in select.select(watched, [], [])[0]:
            if ready is listening:
                watched.append(listening.accept()[0])
                continue
            data, fds, *_ = socket.recv_fds(ready, MOST_BYTES, 4)
            if data and os.fork() == 0:
                for each in (listening, *watched):
                    each.close()
                return _fork(json.loads(data), fds)
            for fd in fds:
                os.close(fd)
            if not data:
                watched.remove(ready)
                ready.close()
        if watched == [listening]:
            listening.shutdown(socket.SHUT_RDWR)  # from now on nobody can connect, but somebody may just have
            watched.clear()
            with suppress(BlockingIOError):
                while True:
                    watched.append(listening.accept()[0])
    sys.exit(0)


def _fork(request: dict[str, Any], fds: list[int]) -> dict[str, Any]:
    """Fork once more, and tell the process id and how it ended. Returns in that fork, with the request."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _die_with_the_parent(request)
    pid = os.fork()
    if pid == 0:
        _die_with_the_parent(request)
        return _become(request, fds)
    for fd in fds[:3]:
        os.close(fd)
    os.write(fds[3], b"%d\n" % pid)
    _, status = os.waitpid(pid, 0)
    os.write(fds[3], b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def _die_with_the_parent(request: dict[str, Any]) -> None:
    if request.get("dies_with_the_tests") and sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _become(request: dict[str, Any], fds: list[int]) -> dict[str, Any]:
    for number, fd in enumerate(fds[:3]):
        os.dup2(fd, number)
    for fd in fds:
        os.close(fd)
    for name, fd, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        old = getattr(sys, name)  # made for a file, and what is there now may be a pipe
        buffering = 1 if old.line_buffering else -1
        encoding = request["env"].get("PYTHONIOENCODING") or old.encoding
        new = open(fd, mode, buffering, encoding=encoding, errors=old.errors, closefd=False)  # noqa: SIM115
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)
        _STREAMS.append(old)
    if request.get("leads"):
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    if request.get("largest_file") is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (request["largest_file"],) * 2)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    script = request.get("script")
    sys.argv = [script or "endstop", *request["arguments"]]
    if script:
        sys.path.insert(0, str(Path(script).parent))
    return request


def _exit_code(run: Callable[[], object]) -> int:
    """Run it, and return the exit code that an interpreter would end with.

    SystemExit, which help and wrong use end with, must not reach the interpreter: to take down all that was imported
    costs it 50 ms.
    """
    try:
        run()
    except SystemExit as left:
        if left.code is not None and not isinstance(left.code, int):
            print(left.code, file=sys.stderr)
        return left.code if isinstance(left.code, int) else int(left.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    listening = socket.socket(fileno=int(sys.argv[1]))
    watched = importlib.import_module("stdout_watch").watched
    sys.path.pop(0)  # this folder
    for module in (*WHAT_ALL_NEED, *sys.argv[2:]):
        importlib.import_module(module)
    sys.modules["pydantic"].create_model("First")  # which imports the rest of it
    assert threading.active_count() == 1, "what a thread has locked stays locked in a fork"
    gc.collect()
    gc.freeze()
    request = _serve(listening)
    from endstop.cli.main import run_command_line

    script = request.get("script")
    code = _exit_code(
        watched()(partial(runpy.run_path, script, run_name="__main__"))
        if script
        else lambda: sys.exit(run_command_line(request["arguments"]))
    )
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)

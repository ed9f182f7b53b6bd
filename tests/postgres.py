"""A PostgreSQL server for the tests, with Debian's binaries: a cluster of its own in a temporary folder.

It listens on a free port of loopback only, does not wait for the disk (`fsync=off`), and is gone after the tests. The
server refuses to run as root; as root it is run as `postgres` or `nobody`. Passwords are asked for by MD5: SCRAM, the
default, takes a client longer than all else that a connection does (`tests/engine/store/test_url.py` goes by it).
"""

from __future__ import annotations

import atexit
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from itertools import count
from pathlib import Path

import pytest

from .ports import held_port

PASSWORD = "s3cret/of the:tests"
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "32MB",
    "max_connections": "60",
    "autovacuum": "off",
}
_ALONE = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
)
_SECONDS = 60
_numbers = count(1)


class Missing(Exception):
    """There is no PostgreSQL here; the text says what to do."""


class Server:
    """A cluster, made when it is entered and removed when it is left. Raises Missing.

    durable: wait for the disk as a server in earnest does. also: another address of this machine to listen on.
    connections: so many are let in at once; None: as many as the tests need. settings: more settings of the server.
    """

    def __init__(
        self,
        *,
        durable: bool = False,
        also: str | None = None,
        connections: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.binaries = _binaries()
        self._as = unprivileged()
        self._settings = dict(_SETTINGS)
        if durable:
            self._settings.update(fsync="on", full_page_writes="on", autovacuum="on")
        if connections is not None:
            self._settings["max_connections"] = str(connections)
        self._settings.update(settings or {})
        self._also = also
        if also is not None:
            self._settings["listen_addresses"] = f"127.0.0.1,{also}"
        self.port = 0
        self._port = ExitStack()
        self._process: subprocess.Popen[bytes] | None = None
        self._stores: list[str] = []

    def __enter__(self) -> Server:
        self._folder = Path(tempfile.mkdtemp(prefix="endstop-pg-", dir="/tmp"))
        self._folder.chmod(0o755)
        try:
            self._init()
            self.port = self._port.enter_context(held_port())
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()
        self._port.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def url(self, database: str = "postgres", *, password: str | None = None) -> str:
        """The URL of a database."""
        secret = (PASSWORD if password is None else password).replace("/", "%2F").replace(" ", "%20")
        return f"postgresql://tests:{secret.replace(':', '%3A')}@127.0.0.1:{self.port}/{database}"

    def new_database(self) -> str:
        """Make an empty database; its name."""
        name = f"tests_{os.getpid()}_{next(_numbers)}"
        self.execute(f"CREATE DATABASE {name}")
        return name

    @contextmanager
    def empty_store(self) -> Iterator[str]:
        """The URL of a database with a store's tables and nothing in them. Later tests get it, emptied, again."""
        from endstop.store.database_schema import METADATA
        from endstop.store.url import store_at

        if self._stores:
            name = self._stores.pop()
            formats = "INSERT INTO endstop_page_formats SELECT generate_series(1, 3)"
            self.execute(f"{_ALONE}; TRUNCATE {', '.join(METADATA.tables)} RESTART IDENTITY; {formats}", name)
        else:
            name = self.new_database()
            database = store_at(self.url(name))._database
            database.prepare()
            database.dispose()
        yield self.url(name)
        self._stores.append(name)

    def execute(self, statement: str, database: str = "postgres") -> None:
        """Run a statement as the cluster's owner."""
        import psycopg

        with psycopg.connect(self.url(database), autocommit=True) as connection:
            connection.execute(statement.encode())

    @property
    def pid(self) -> int:
        """The process id of the server's first process."""
        assert self._process is not None
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Whether it was started, and not killed since."""
        return self._process is not None

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        options = [word for pair in self._settings.items() for word in ("-c", "=".join(pair))]
        command = [
            *self._as,
            self.binaries / "postgres",
            "-D",
            self._data,
            "-p",
            str(self.port),
            "-k",
            self._data,
            *options,
        ]
        with open(self._folder / "log", "ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._folder)
        ready = [self.binaries / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        deadline = time.monotonic() + _SECONDS
        while subprocess.run(ready, check=False).returncode != 0:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("PostgreSQL does not start: " + (self._folder / "log").read_text()[-2000:])
            time.sleep(0.05)

    def kill(self) -> None:
        """End the server at once, as a crash would (its children with it)."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGQUIT)  # an immediate shutdown: nothing is written any more
            process.wait(_SECONDS)

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def _init(self) -> None:
        cluster = _cluster(self.binaries, tuple(self._as))
        self._data.mkdir(mode=0o700)
        _give(self._data, self._as)
        subprocess.run([*self._as, "cp", "-a", f"{cluster}/.", self._data], check=True, cwd=self._folder)
        if self._also is not None:
            with (self._data / "pg_hba.conf").open("a") as rules:
                rules.write(f"host all all {self._also}/24 md5\n")


@cache
def _cluster(binaries: Path, runs_as: tuple[str, ...]) -> Path:
    """A cluster that no server runs on. All others of this process are copies of it: a copy is quicker than initdb."""
    folder = Path(tempfile.mkdtemp(prefix="endstop-pg-", dir="/tmp"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    folder.chmod(0o755)
    data, secret = folder / "data", folder / "password"
    data.mkdir(mode=0o700)
    secret.write_text(PASSWORD)
    _give(data, runs_as)
    command = [*runs_as, binaries / "initdb", "-D", data, "-U", "tests", "--pwfile", secret]
    command += ["-A", "md5", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"]
    made = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    if made.returncode != 0:
        raise RuntimeError(f"initdb: {made.stderr}")
    return data


def _give(folder: Path, runs_as: Sequence[str]) -> None:
    if runs_as:
        owner = pwd.getpwnam(runs_as[1].removeprefix("--reuid="))
        os.chown(folder, owner.pw_uid, owner.pw_gid)


@contextmanager
def server(*, also: str | None = None) -> Iterator[Server]:
    """A server, or a skipped test where there is no PostgreSQL. also: another address of this machine to listen on."""
    try:
        made = Server(also=also)
    except Missing as missing:
        pytest.skip(str(missing))
    with made:
        yield made


def _binaries() -> Path:
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))
    on_path = shutil.which("postgres")
    folders = [*reversed(installed), *([Path(on_path).resolve().parent] if on_path else [])]
    for folder in folders:
        if all((folder / name).exists() for name in ("postgres", "initdb", "pg_isready")):
            return folder
    raise Missing("there is no PostgreSQL here: apt-get install postgresql")


def unprivileged() -> list[str]:
    """How to become somebody who is not root; nothing if that is so already."""
    if os.geteuid() != 0:
        return []
    for name in ("postgres", "nobody"):
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        if shutil.which("setpriv") is not None:
            return ["setpriv", f"--reuid={name}", f"--regid={user.pw_gid}", "--clear-groups", "--"]
    raise Missing("PostgreSQL does not run as root, and there is no `setpriv`: apt-get install util-linux")

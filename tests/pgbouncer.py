"""PgBouncer in front of a PostgreSQL server of the tests, with Debian's binary."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from .ports import held_port
from .postgres import PASSWORD, Server, unprivileged

_SECONDS = 60


@contextmanager
def pooled(server: Server, database: str, *, mode: str, size: int = 40) -> Iterator[str]:
    """The URL of a database behind PgBouncer, or a skipped test where there is none.

    mode: `session` or `transaction`. size: how many connections it makes to the server.
    """
    binary = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if binary is None:
        pytest.skip("there is no PgBouncer here: apt-get install pgbouncer")
    to = urlsplit(server.url(database))
    with held_port() as port, tempfile.TemporaryDirectory(prefix="endstop-pgbouncer-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)  # it does not run as root
        settings = folder / "pgbouncer.ini"
        settings.write_text(f"""
[databases]
{database} = host=127.0.0.1 port={to.port} dbname={database} user=tests password='{PASSWORD}'
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = {size}
""")
        with open(folder / "log", "wb") as log:
            process = subprocess.Popen([*unprivileged(), binary, settings], stdout=log, stderr=log, cwd="/")
        url = f"postgresql://tests@127.0.0.1:{port}/{database}"
        try:
            _wait(url, process, folder / "log")
            yield url
        finally:
            process.terminate()
            process.wait(_SECONDS)


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _SECONDS
    while True:
        try:
            psycopg.connect(url).close()
            return
        except psycopg.OperationalError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PgBouncer does not start: {log.read_text()[-2000:]}") from None
            time.sleep(0.02)

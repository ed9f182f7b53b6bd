"""For all tests: Ctrl-C means Ctrl-C, nothing is kept in the user's cache, and each run tries the same examples.

A shell that starts something in the background has it ignore SIGINT and SIGQUIT, and every process below inherits
that; the tests that interrupt `endstop` would then wait for nothing.
"""

import gc
import os
import re
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from . import seaweedfs
from . import temporal as temporal_server
from .chromium import Chromium, start_chromium
from .postgres import Server, server
from .stdout_watch import watched


@pytest.fixture(scope="session", autouse=True)
def _cache_of_the_tests_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if before is None:
        del os.environ["XDG_CACHE_HOME"]
    else:
        os.environ["XDG_CACHE_HOME"] = before


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A server of the tests' own."""
    with server() as started:
        yield started


@pytest.fixture(scope="session")
def _second_postgres() -> Iterator[Server]:
    with server() as started:
        yield started


@pytest.fixture
def mortal(_second_postgres: Server) -> Server:
    """Another one, which a test may kill. It is started again for the next."""
    if not _second_postgres.runs:
        _second_postgres.start()
    return _second_postgres


@pytest.fixture(scope="session")
def temporal(request: pytest.FixtureRequest) -> Iterator[temporal_server.Server]:
    """The same of Temporal. Each test takes a namespace of its own, and each that the server has costs it work."""
    tests = sum("temporal" in getattr(item, "fixturenames", ()) for item in request.session.items)
    with temporal_server.server(tests) as started:
        yield started


@pytest.fixture(scope="session")
def s3_server() -> Iterator[seaweedfs.Server]:
    """A server with the interface of S3. Each test takes a place of its own."""
    with seaweedfs.server() as started:
        yield started


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    """Chromium for a file that has asynchronous tests, too: a test uses it in `with chromium.used() as browser`."""
    with start_chromium() as chromium:
        yield chromium


@pytest.fixture(scope="module")
def browser(chromium: Chromium) -> Iterator[Any]:
    """The browser for all tests of a module, which may have no asynchronous ones. They close each profile they open."""
    with chromium.used() as browser:
        yield browser


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a new store may be made."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.sqlite'}"
    postgres: Server = request.getfixturevalue("postgres")
    return postgres.url(postgres.new_database())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """`--dist loadfile`, but long files come first, and files that share what takes long are one."""
    if config.getvalue("dist") != "loadfile":
        return None
    from .scheduling import Files

    return Files(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Workers of pytest-xdist begin in different places, so that the assertions of a file are rewritten once."""
    if not hasattr(parent.config, "workerinput"):
        return None
    from .scheduling import Folder

    return Folder.from_parent(parent, path=path)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The same order in all workers of pytest-xdist, and none but its own where there is one process."""
    if hasattr(config, "workerinput"):
        from .scheduling import sort

        sort(items)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Twelve thousand tests are a million objects, which stay: the garbage collector need never look at them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_setup() -> Generator[None, object, object]:
    """A library prints nothing: a test fails in which endstop does."""
    with watched():
        return (yield)


pytest_runtest_call = pytest_runtest_teardown = pytest_runtest_setup


def pytest_configure(config: pytest.Config) -> None:
    """With `--hypothesis-seed` the examples are drawn from that seed."""
    if config.getoption("--hypothesis-seed") is not None:
        settings.load_profile("searching")


def pytest_unconfigure() -> None:
    """Let go of what litellm keeps open for the process, or the interpreter complains after pytest's last line."""
    if "aiohttp" in sys.modules:
        kind = sys.modules["aiohttp"].ClientSession
        for left in [one for one in gc.get_objects() if type(one) is kind]:
            left.detach()


MEMORY = Path("/dev/shm")
NEEDED_BYTES = 1 << 30
"""Free memory that the tests' files may need: five times what they were measured to take."""
if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > NEEDED_BYTES:
    # On a disk each commit of SQLite waits for the disk, and no test is about a machine that loses its power.
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)  # for the processes that tests start, and for this one

# How long an example takes is the machine's doing. Which ones are tried follows from the test's own text, so that a run
# that fails fails again; a search for others names its seed, and tries five times as many (`make search`).
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.register_profile("searching", deadline=None, derandomize=False, max_examples=500)
settings.load_profile("repeatable")
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line, the last but pytest's own, for the tests that were skipped for want of one of Debian's packages."""
    packages: Counter[str] = Counter()
    for report in terminalreporter.getreports("skipped"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        for package in re.findall(r"apt-get install ([\w-]+)", reason):
            packages[package] += 1
    if packages:
        skipped = ", ".join(f"{count} without {package}" for package, count in sorted(packages.items()))
        words = " ".join(sorted(packages))
        terminalreporter.write_line(f"skipped for want of Debian's packages: {skipped} (apt-get install {words})")

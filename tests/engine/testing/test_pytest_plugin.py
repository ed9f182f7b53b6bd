"""The fixtures of `endstop.testing.pytest_plugin`, in sessions of pytest of their own, as a user has them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from endstop.testing import faults, pytest_plugin

from ...console import Done, python

CONFTEST = 'pytest_plugins = ["endstop.testing.pytest_plugin"]\n'
TESTS = """
import asyncio
from endstop import Engine, Tool
from endstop.providers import Scripted, call
from endstop.testing.faults import by_step

def make_engine(reads):
    def make(effects):
        async def pay(invoice: int) -> str:
            effects.add(f"paid {invoice}")
            await asyncio.sleep(1)
            return "paid"
        script = by_step([call("pay", invoice=7, id="a")], [call("finish_task", summary="Paid.", id="b")])
        return Engine(Scripted(script), tools=[Tool(pay, description="Pay.", reads=reads)])
    return make

def make_run(record):
    script = [[call("pay", id="a")], [call("finish_task", summary="Paid.", id="b")]]
    async def pay() -> str:
        await asyncio.sleep(1)
        return "paid"
    return Engine(Scripted(*script), tools=[Tool(pay, description="Pay.")]).start("Pay", record=record)

def test_good(check_cut_records):
    report = check_cut_records(make_engine(reads=False), at="lines")
    print("GOOD", report.tried, report.of)

def test_bad(check_cut_records):
    check_cut_records(make_engine(reads=True), at="lines", points=None)

def test_points(check_cancel_points):
    report = check_cancel_points(make_run)
    print("TRIED", report.tried, "ALL" if report.tried == report.of else "SOME", report.of)

def test_own_points(check_cancel_points):
    print("OWN", check_cancel_points(make_run, points=1, ways=["run"]).tried)

async def test_async(check_cancel_points):
    check_cancel_points(make_run)
"""


PLUGINS = ("-p", "no:cacheprovider", "-p", "pytest_asyncio.plugin", "-rA")
ENVIRONMENT = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
"""Other plugins take seconds to load."""
PROGRAM = """
import os, sys
os.environ.update({environment!r})
import pytest
sys.exit(pytest.main({arguments!r}))
"""


def write(folder: Path, conftest: str) -> None:
    (folder / "conftest.py").write_text(conftest)
    (folder / "test_mine.py").write_text(TESTS)
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")


async def run(folder: Path, *options: str, conftest: str = CONFTEST) -> Done:
    """A session of pytest, in a fork of a process that has imported endstop."""
    write(folder, conftest)
    (folder / "program.py").write_text(PROGRAM.format(environment=ENVIRONMENT, arguments=[*PLUGINS, *options]))
    return await python(folder / "program.py", cwd=folder)


async def test_a_check_that_finds_a_defect_fails_the_test_and_says_how_to_repeat_it(tmp_path: Path) -> None:
    ran = await run(tmp_path, "-k", "good or bad")
    assert ran.code == 1, ran.out + ran.err
    assert "1 failed, 1 passed" in ran.out
    assert "not_repeated does not hold" in ran.out
    assert "to repeat it: at='lines', points=[" in ran.out
    assert "pytest_plugin.py" not in ran.out.split("short test summary")[0].replace(CONFTEST, ""), "no traceback"


async def test_points_and_seed_come_from_the_command_line_unless_the_test_gives_them(tmp_path: Path) -> None:
    few = await run(tmp_path, "-k", "points", "--faults-points", "2", "--faults-seed", "3")
    assert few.code == 0, few.out + few.err
    assert "TRIED 10 SOME" in few.out, "two in each of five ways"
    assert "OWN 1" in few.out


def test_it_works_with_xdist(tmp_path: Path) -> None:
    """In interpreters that have imported nothing."""
    write(tmp_path, CONFTEST)
    options = ["-p", "xdist", "-n", "2", "-k", "bad or points", "--faults-points", "2"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *PLUGINS, *options],
        cwd=tmp_path,
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "1 failed, 2 passed" in ran.stdout
    assert "TRIED 10 SOME" in ran.stdout
    assert "to repeat it: at='lines', points=[" in ran.stdout


def test_all_points_are_tried_if_the_command_line_says_so(request: pytest.FixtureRequest) -> None:
    class Request:
        config, node = SimpleNamespace(getoption={"faults_points": "all", "faults_seed": None}.get), request.node

    seen = {}

    def check(points: object = 5, seed: int = 0) -> faults.FaultReport:
        seen["points"] = points
        return faults.FaultReport("check")

    pytest_plugin._failing(check, Request())()  # type: ignore[arg-type]
    assert seen == {"points": None}
    assert ("call", "check", str(faults.FaultReport("check"))) in request.node._report_sections


async def test_a_number_of_points_that_cannot_be_is_told(tmp_path: Path) -> None:
    ran = await run(tmp_path, "--faults-points", "many")
    assert ran.code == 4
    assert "--faults-points is 'many': give the number of points to try" in ran.err + ran.out
    assert "Traceback" not in ran.err
    for text in ("0", "-1", "1.5", ""):
        with pytest.raises(pytest.UsageError, match="1 or more, or all"):
            pytest_plugin._points(text)


async def test_in_an_async_test_it_says_what_to_write(tmp_path: Path) -> None:
    ran = await run(tmp_path, "-k", "async")
    assert ran.code == 1
    assert "call it in a plain `def`" in ran.out


async def test_nobody_gets_it_who_does_not_ask_for_it(tmp_path: Path) -> None:
    ran = await run(tmp_path, "--fixtures", conftest="")
    assert "check_cut_records" not in ran.out


def test_every_check_is_a_fixture() -> None:
    checks = {name for name in faults.__all__ if name.startswith("check_")}
    assert {name for name in vars(pytest_plugin) if name.startswith("check_")} == checks

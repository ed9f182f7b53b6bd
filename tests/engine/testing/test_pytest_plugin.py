"""The fixtures of `endstop.testing.pytest_plugin`, in sessions of pytest of their own, as a user has them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from endstop.testing import faults, pytest_plugin

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


def run(folder: Path, *options: str, conftest: str = CONFTEST) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(conftest)
    (folder / "test_mine.py").write_text(TESTS)
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    plugins = ["-p", "no:cacheprovider", "-p", "pytest_asyncio.plugin", "-p", "xdist"]
    command = [sys.executable, "-m", "pytest", *plugins, "-rA", *options]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # others take seconds to load
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def test_a_check_that_finds_a_defect_fails_the_test_and_says_how_to_repeat_it(tmp_path: Path) -> None:
    ran = run(tmp_path, "-k", "good or bad")
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "1 failed, 1 passed" in ran.stdout
    assert "not_repeated does not hold" in ran.stdout
    assert "to repeat it: at='lines', points=[" in ran.stdout
    assert "pytest_plugin.py" not in ran.stdout.split("short test summary")[0].replace(CONFTEST, ""), "no traceback"


def test_points_and_seed_come_from_the_command_line_unless_the_test_gives_them(tmp_path: Path) -> None:
    few = run(tmp_path, "-k", "points", "--faults-points", "2", "--faults-seed", "3")
    assert few.returncode == 0, few.stdout + few.stderr
    assert "TRIED 10 SOME" in few.stdout, "two in each of five ways"
    assert "OWN 1" in few.stdout


def test_it_works_with_xdist(tmp_path: Path) -> None:
    ran = run(tmp_path, "-n", "2", "-k", "bad or points", "--faults-points", "2")
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "1 failed, 2 passed" in ran.stdout
    assert "TRIED 10 SOME" in ran.stdout
    assert "to repeat it: at='lines', points=[" in ran.stdout


def test_all_points_are_tried_if_the_command_line_says_so(pytestconfig: pytest.Config) -> None:
    class Config:
        def getoption(self, name: str) -> object:
            return {"faults_points": "all", "faults_seed": None}[name]

    seen = {}

    def check(points: object = 5, seed: int = 0) -> faults.FaultReport:
        seen["points"] = points
        return faults.FaultReport("check")

    pytest_plugin._failing(check, Config())()  # type: ignore[arg-type]
    assert seen == {"points": None}


def test_a_number_of_points_that_cannot_be_is_told(tmp_path: Path) -> None:
    ran = run(tmp_path, "--faults-points", "many")
    assert ran.returncode == 4
    assert "--faults-points is 'many': give how many points to try" in ran.stderr + ran.stdout
    assert "Traceback" not in ran.stderr
    for text in ("0", "-1", "1.5", ""):
        with pytest.raises(pytest.UsageError, match="1 or more, or all"):
            pytest_plugin._points(text)


def test_in_an_async_test_it_says_what_to_write(tmp_path: Path) -> None:
    ran = run(tmp_path, "-k", "async")
    assert ran.returncode == 1
    assert "call it in a plain `def`" in ran.stdout


def test_nobody_gets_it_who_does_not_ask_for_it(tmp_path: Path) -> None:
    ran = run(tmp_path, "--fixtures", conftest="")
    assert "check_cut_records" not in ran.stdout


def test_every_check_is_a_fixture() -> None:
    checks = {name for name in faults.__all__ if name.startswith("check_")}
    assert {name for name in vars(pytest_plugin) if name.startswith("check_")} == checks

"""Each program of repair_tasks.py fails its tests, and passes them once it is repaired; the tables count runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from .. import scripts
from .repairs import REPAIRS, environment, is_repaired, write

HERE = Path(__file__).parent


def programs_that_fail(folder: Path, *, repaired: bool) -> set[str]:
    """The names of the programs of which a test fails, from one run of pytest over all of them."""
    for name, task in REPAIRS.items():
        write(task.repaired if repaired else task.files, folder / name)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml=report.xml"]
    subprocess.run(command, cwd=folder, capture_output=True, timeout=120, env=environment(), check=False)
    cases = list(ElementTree.parse(folder / "report.xml").iter("testcase"))
    assert {case.attrib["classname"].split(".")[0] for case in cases} == set(REPAIRS)
    return {case.attrib["classname"].split(".")[0] for case in cases if len(case)}


def test_each_program_fails_its_tests(tmp_path: Path) -> None:
    assert programs_that_fail(tmp_path, repaired=False) == set(REPAIRS)


def test_each_repaired_program_passes_its_tests(tmp_path: Path) -> None:
    assert programs_that_fail(tmp_path, repaired=True) == set()


def test_a_program_is_judged_by_the_original_tests(tmp_path: Path) -> None:
    task = REPAIRS["operator"]
    passes = dict.fromkeys(task.tests, "def test_nothing():\n    pass\n")
    assert not is_repaired(task, write({**task.files, **passes}, tmp_path / "cheated"))
    assert is_repaired(task, write({**task.repaired, **passes}, tmp_path / "repaired"))


def test_the_table_counts_only_what_all_ways_have_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(HERE)
    program = scripts.load(HERE / "repair_tasks.py")
    row = {"seed": "1", "stop_reason": "completed", "steps": 3, "tokens_in": 1000, "tokens_out": 10, "seconds": 2.0}
    rows = [
        {**row, "task": "a", "way": way, "solved": way == "until", "said_done": True, "checks": 1}
        for way in program.WAYS
    ]
    rows += [{**row, "task": "b", "way": "claim", "solved": True, "said_done": True, "checks": 0}]
    program.print_tables(rows)
    printed = capsys.readouterr().out
    assert "| claim | 1 | 0 | 1 | 3 | 1,000 / 10 | 2 | 1 |" in printed
    assert "| until | 1 | 1 | 0 | 3 | 1,000 / 10 | 2 | 1 |" in printed
    assert "| a | 1 | completed, 3, **wrong** |" in printed
    assert "| b |" not in printed

"""What a run of the tests says at its end of the tests that it skipped."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
SKIPPED = """
import pytest

@pytest.mark.parametrize("number", [1, 2])
def test_of_a_database(number):
    pytest.skip("there is no PostgreSQL here: apt-get install postgresql")

def test_of_another():
    pytest.skip("no reason that a package would mend")
"""


def test_G_one_line_names_the_packages_for_want_of_which_tests_were_skipped(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text(SKIPPED, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "tests.conftest", "-c", "pyproject.toml"]
    command += ["-p", "no:schemathesis"]  # half of what it takes pytest to start
    ran = subprocess.run(
        [*command, str(tmp_path / "test_one.py")], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    lines = [line for line in ran.stdout.splitlines() if "Debian" in line]
    assert lines == ["skipped for want of Debian's packages: 2 without postgresql (apt-get install postgresql)"], (
        ran.stdout + ran.stderr
    )

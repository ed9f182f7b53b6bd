"""SIGKILL between a question for approval and the effect, as in `make kill`, which makes a thousand such trials."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


def test_no_effect_comes_before_the_yes_and_none_twice_in_twenty_trials() -> None:
    trials("20", "7")


@pytest.mark.long
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_none_comes_before_the_yes_and_none_twice_on_a_store(store: str) -> None:
    trials("20", "7", "--store", store)


def trials(*given: str, module: str = "tests.approval_kills") -> None:
    command = [sys.executable, "-m", module, *given]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=800, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.startswith("20 trials, seed 7, "), ran.stdout


def test_nor_where_a_sub_agent_asks_through_its_caller() -> None:
    trials("20", "7", module="tests.subagent_kills")

"""SIGKILL between a question for approval and the effect, as in `make kill`, which makes a thousand such trials."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_no_effect_comes_before_the_yes_and_none_twice_in_twenty_trials() -> None:
    command = [sys.executable, "-m", "tests.approval_kills", "20"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.startswith("20 trials, seed "), ran.stdout

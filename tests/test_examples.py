"""The examples in docs/examples run as they stand, each in a process of its own, without a model."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "docs" / "examples"


def run(name: str) -> str:
    """What an example prints, if it ends well. No model is named to it."""
    env = {key: value for key, value in os.environ.items() if key != "ENDSTOP_MODEL"}
    command = [sys.executable, "-W", "error", EXAMPLES / f"{name}.py"]
    ran = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stderr == ""
    return ran.stdout


def test_mcp_tools_moves_a_note_from_one_server_to_another() -> None:
    told = run("mcp_tools").splitlines()
    assert "old_list_notes: buy milk, call Jane" in told
    assert "old_list_notes: call Jane" in told
    assert "new_list_notes: mend the bicycle, buy milk" in told
    assert told[-1] == "completed: The note 'buy milk' is on the new shelf."

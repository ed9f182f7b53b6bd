"""A guard of speed that no busy machine disturbs: how many functions a warm step calls.

CPU seconds scatter by a third while other tests run; the calls of a step do not scatter by one in a hundred.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks/count_calls.py"
CALLS = 1450
"""Calls of Python and of C functions of a step, without those of the floor, which makes the same requests by hand.

Measured on 2026-11-25 with CPython 3.11. Lower it when a change saves calls.
"""
OWN_CALLS_OF_A_STEP = 657
OWN_CALLS_OF_A_CHUNK = 3.09
"""Calls of endstop's own Python functions, measured as above. One more function for each chunk is a third more."""
MAY_GROW = 1.1


@pytest.fixture(scope="module")
def counted() -> tuple[dict[str, float], str]:
    """The counts, and what is called most often."""
    ran = subprocess.run(
        [sys.executable, SCRIPT, "--top", "60"], cwd=SCRIPT.parent, capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == 0, ran.stderr
    *functions, last = ran.stdout.strip().splitlines()
    return json.loads(last), "\n".join(functions)


def test_a_warm_step_calls_no_more_functions_than_it_did(counted: tuple[dict[str, float], str]) -> None:
    step, functions = counted
    assert step["bytes"] > 300, f"the floor made no requests, so nothing was counted: {step}"
    more = step["endstop"] - step["bytes"]
    assert more <= CALLS * MAY_GROW, (
        f"a step calls {more:.0f} functions more than the floor; it was {CALLS}, and may be {CALLS * MAY_GROW:.0f}.\n"
        "Every 100 calls cost about 3 % of the CPU of a step. See below what is called most often, and compare with\n"
        "`python tests/benchmarks/count_calls.py --top 60` of the commit before. Call less often what was added (once\n"
        "a response instead of once a chunk, once a run instead of once a step), or, if each call is worth its cost,\n"
        "say so in the commit and raise CALLS.\n" + functions
    )
    assert more >= CALLS / MAY_GROW**2, (
        f"a step calls only {more:.0f} functions more than the floor instead of {CALLS}: lower CALLS, so that it holds"
    )


@pytest.mark.parametrize(("of", "was"), [("own_step", OWN_CALLS_OF_A_STEP), ("own_chunk", OWN_CALLS_OF_A_CHUNK)])
def test_a_warm_step_and_a_chunk_call_no_more_functions_of_ours_than_they_did(
    counted: tuple[dict[str, float], str], of: str, was: float
) -> None:
    calls, functions = counted
    assert calls[of] <= was * MAY_GROW, (
        f"{of}: {calls[of]:g} calls of our own functions; it was {was}, and may be {was * MAY_GROW:g}.\n"
        "Is there a function that only passes on, or one that looks at each event for the sake of one type?\n"
        f"What a step calls most often:\n{functions}"
    )
    assert calls[of] >= was / MAY_GROW**2, f"{of}: only {calls[of]:g} calls instead of {was}: lower the number"

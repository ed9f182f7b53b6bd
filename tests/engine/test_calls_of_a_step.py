"""A guard of speed that no busy machine disturbs: how many functions a warm step calls.

CPU seconds scatter by a third while other tests run; the calls of a step do not scatter by one in a hundred.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "benchmarks/count_calls.py"
CALLS = 1480
"""Calls of Python and of C functions of a step, without those of the floor, which makes the same requests by hand.

Measured on 2026-11-23: 1,405 with CPython 3.11, 1,362 with 3.12, 1,379 with 3.13; then 75 more for lines of records
that leave out what the record holds already. Lower it when a change saves calls.
"""
MAY_GROW = 1.1


def test_a_warm_step_calls_no_more_functions_than_it_did() -> None:
    counted = subprocess.run(
        [sys.executable, SCRIPT, "--top", "60"], cwd=SCRIPT.parent, capture_output=True, text=True, timeout=300
    )
    assert counted.returncode == 0, counted.stderr
    *functions, last = counted.stdout.strip().splitlines()
    step = json.loads(last)
    assert step["bytes"] > 300, f"the floor made no requests, so nothing was counted: {step}"
    more = step["endstop"] - step["bytes"]
    assert more <= CALLS * MAY_GROW, (
        f"a step calls {more:.0f} functions more than the floor; it was {CALLS}, and may be {CALLS * MAY_GROW:.0f}.\n"
        "Every 100 calls cost about 3 % of the CPU of a step. See below what is called most often, and compare with\n"
        "`python tests/benchmarks/count_calls.py --top 60` of the commit before. Call less often what was added (once\n"
        "a response instead of once a chunk, once a run instead of once a step), or, if each call is worth its cost,\n"
        "say so in the commit and raise CALLS.\n" + "\n".join(functions)
    )
    assert more >= CALLS / MAY_GROW**2, (
        f"a step calls only {more:.0f} functions more than the floor instead of {CALLS}: lower CALLS, so that it holds"
    )

"""What a step of a followed loop costs at its beginning and after a thousand steps.

python tests/benchmarks/follower.py
"""

from __future__ import annotations

from statistics import median
from time import perf_counter

from endstop import Limits, Policy
from endstop.decision import ToolCall, ToolResult
from endstop.follow import Follower

STEPS, WINDOW = 3_000, 100


def main() -> None:
    follower = Follower(Policy(limits=Limits(steps=STEPS + 1)))
    follower.prompt("Read all pages.")
    times = []
    for number in range(STEPS):
        call = ToolCall(f"call_{number}", "read", f'{{"page": {number}}}')
        result = ToolResult(call.id, call.name, f"Page {number} has {number * 7919} words, and this is new.")
        began = perf_counter()
        follower.step(calls=[call], results=[result])
        times.append((perf_counter() - began) * 1e6)
    for first in (0, 1_000 - WINDOW, STEPS - WINDOW):
        print(f"steps {first + 1} to {first + WINDOW}: {median(times[first : first + WINDOW]):.0f} µs a step (median)")
    print(f"{follower.facts.steps} steps, {follower.decision}")


if __name__ == "__main__":
    main()

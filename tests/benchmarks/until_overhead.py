"""Counts and times what `until` adds to a step that changed nothing.

    python tests/benchmarks/until_overhead.py [--rounds 9] [--top 20]

The same engine with and without a check plays sessions of 20 and of 120 steps, all of which call a tool that only reads
and end at the limit of steps. The difference between the lengths is what 100 steps cost, without the start of a session
and its check. Calls of Python and C functions are counted by cProfile, as in `count_calls.py`; time is CPU time of this
process, in turns, the median of the rounds. The goal is under 3 % for both. `--top` prints the functions that a step
with the check calls more often.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import json
import pstats
import time
from statistics import median
from tempfile import TemporaryDirectory

from endstop import Engine, Until, tool
from endstop.decision import Limits, Policy
from ours import direct
from run import Process
from task import Scenario, add

SHORT, LONG = 20, 120
Calls = dict[tuple[str, int, str], float]


def engine(server: str, steps: int, until: Until | None) -> Engine:
    """An engine whose runs end after so many steps."""
    policy = Policy(limits=Limits(steps=steps, extend=None), closing=False, reminder=None)
    return Engine(direct(server + "/v1"), tools=[tool(reads=True)(add)], policy=policy, system="", until=until)


class Contender:
    """An engine with or without a check, for short and for long sessions."""

    def __init__(self, name: str, server: str, until: Until | None) -> None:
        self.name = name
        self._engines = {steps: engine(server, steps, until) for steps in (SHORT, LONG)}
        self._sessions = 0

    async def play(self, steps: int) -> None:
        """Play a session of so many steps."""
        self._sessions += 1
        prompt = Scenario(session=f"{self.name}-{self._sessions}", steps=LONG + 1).prompt
        outcome = await self._engines[steps].run(prompt)
        assert (outcome.stop_reason, outcome.steps) == ("step_limit", steps), outcome.detail

    async def cpu(self, steps: int) -> float:
        """CPU seconds of a session."""
        began = time.process_time()
        await self.play(steps)
        return time.process_time() - began

    async def calls(self, steps: int) -> Calls:
        """Calls of each function in a session."""
        with cProfile.Profile() as profile:
            await self.play(steps)
        functions = pstats.Stats(profile).stats.items()  # type: ignore[attr-defined]
        return {where: called for where, (_, called, *_) in functions}


async def measure(contenders: list[Contender], rounds: int) -> tuple[dict[str, float], dict[str, Calls]]:
    """CPU milliseconds of a step and the calls of each function in it, by contender, warm."""
    for contender in contenders:
        await contender.play(LONG)
    times: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    for number in range(rounds):
        for contender in contenders if number % 2 else reversed(contenders):
            span = await contender.cpu(LONG) - await contender.cpu(SHORT)
            times[contender.name].append(1e3 * span / (LONG - SHORT))
    calls = {}
    for contender in contenders:
        short, long = await contender.calls(SHORT), await contender.calls(LONG)
        calls[contender.name] = {where: (n - short.get(where, 0)) / (LONG - SHORT) for where, n in long.items()}
    return {name: median(each) for name, each in times.items()}, calls


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--rounds", type=int, default=9)
    options.add_argument("--top", type=int, default=0, help="print so many functions that are called more often")
    chosen = options.parse_args()
    with Process("mock_provider.py") as provider, TemporaryDirectory() as folder:
        server = f"http://127.0.0.1:{provider.line().strip()}"
        without, checked = (
            Contender("without", server, None),
            Contender("until", server, Until("false", folder=folder)),
        )
        cpu, calls = asyncio.run(measure([without, checked], chosen.rounds))
    counted = {name: sum(each.values()) for name, each in calls.items()}
    more = {where: n - calls["without"].get(where, 0) for where, n in calls["until"].items()}
    for (path, line, name), n in sorted(more.items(), key=lambda one: -one[1])[: chosen.top]:
        print(f"{n:7.2f}  {path.rpartition('site-packages/')[2]}:{line} {name}")
    figures = {"calls": counted, "cpu_ms": cpu}
    print(
        json.dumps({**figures, "more": {what: each["until"] / each["without"] - 1 for what, each in figures.items()}})
    )


if __name__ == "__main__":
    main()

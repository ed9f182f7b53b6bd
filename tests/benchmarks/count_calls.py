"""Counts the function calls of a warm step: a measure of what the loop does that no busy machine disturbs.

    python tests/benchmarks/count_calls.py [--top 40]

One worker plays sessions of 20 steps (`task.py`) with endstop, with record, subscriber and trace, and with the floor
`bytes`; calls of Python and of C functions in its thread are counted by cProfile once both are warm. `own_step` and
`own_chunk` are the calls of endstop's own Python functions alone: of a step, and of a chunk of a long response. `--top`
also prints the functions of a step by their number of calls.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import json
import pstats
from pathlib import Path
from statistics import median

import endstop
from run import Process
from worker import Bench

STEPS, WARM_SESSIONS, SESSIONS = 20, 5, 7
FEW_CHUNKS, MANY_CHUNKS = 100, 1100
"""Responses whose difference tells what a chunk costs."""
OWN = str(Path(endstop.__file__).parent)


async def profiles(bench: Bench, steps: int = STEPS, chunks: int = 10) -> list[pstats.Stats]:
    """Profiles of warm sessions, each on connections that are open already."""
    profiled: list[pstats.Stats] = []
    async with bench.contender:
        for number in range(WARM_SESSIONS + SESSIONS):
            profile = cProfile.Profile()
            if number >= WARM_SESSIONS:
                profile.enable()
            await bench.play(bench.scenario(steps, chunks))
            profile.disable()
            if number >= WARM_SESSIONS:
                profiled.append(pstats.Stats(profile))
    return profiled


def calls(stats: pstats.Stats) -> float:
    """Calls of a step. Stubs of pstats lack the attribute."""
    return stats.total_calls / STEPS  # type: ignore[attr-defined,no-any-return]


def own_calls(stats: pstats.Stats) -> float:
    """Calls of endstop's own Python functions in a session."""
    functions = stats.stats.items()  # type: ignore[attr-defined]
    return sum(called for (path, _, _), (_, called, *_) in functions if path.startswith(OWN))


def own_calls_of_a_chunk(server: str) -> float:
    """Calls of endstop's own Python functions for each further chunk of a response."""
    few, many = (
        median(map(own_calls, asyncio.run(profiles(Bench("endstop", server), 1, chunks))))
        for chunks in (FEW_CHUNKS, MANY_CHUNKS)
    )
    return (many - few) / (MANY_CHUNKS - FEW_CHUNKS)


def table(stats: pstats.Stats, top: int) -> str:
    """The functions that are called most often, with their calls a step and where they are."""
    counted = [
        (called / STEPS, f"{path.rpartition('site-packages/')[2]}:{line} {name}")
        for (path, line, name), (_, called, *_) in stats.stats.items()  # type: ignore[attr-defined]
    ]
    return "\n".join(f"{number:7.2f}  {where}" for number, where in sorted(counted, reverse=True)[:top])


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--top", type=int, default=0, help="print so many functions, those called most often")
    top = options.parse_args().top
    counted: dict[str, float] = {}
    with Process("mock_provider.py") as provider:
        server = f"http://127.0.0.1:{provider.line().strip()}"
        for name in ("bytes", "endstop"):
            each = asyncio.run(profiles(Bench(name, server)))
            counted[name] = median(map(calls, each))
            if top:
                print(f"{name}: {counted[name]:.0f} calls a step\n{table(min(each, key=calls), top)}\n")
        counted["own_step"] = median(map(own_calls, each)) / STEPS
        counted["own_chunk"] = own_calls_of_a_chunk(server)
    print(json.dumps(counted))


if __name__ == "__main__":
    main()

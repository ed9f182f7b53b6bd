"""Measures what wrappers and litellm add, and writes the second table into docs/explanation/performance.md.

    python tests/benchmarks/voices.py [--rounds 5] [--page FILE]

As in `run.py`: processes of their own, one measurement each a round in turning order, ratios within a round, and the
median of the rounds at last.
"""

from __future__ import annotations

import argparse
import os
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from run import ROOT, Process, say
from table import commit, machine, write_page

WRAPPED = ("endstop", "retry", "limit", "timeouts", "guarded", "race", "hedge")
LITELLM = ("bare-litellm", "endstop-litellm")
PLAN: tuple[tuple[str, str, dict[str, Any], tuple[str, ...]], ...] = (
    ("step", "step", {"sessions": 10}, WRAPPED),
    ("chunk", "chunk", {"sessions": 4, "chunks": 2_000}, WRAPPED),
    ("waste", "waste", {"sessions": 10}, WRAPPED),
    ("litellm step", "step", {"sessions": 8}, LITELLM),
    ("litellm chunk", "chunk", {"sessions": 4, "chunks": 1_000}, LITELLM),
)
MEANS = {
    "endstop": "no wrapper",
    "retry": "`Retry(p)`",
    "limit": "`RateLimit(p)`, all three limits",
    "timeouts": "`Timeouts(p)`",
    "guarded": "`Fallback(Retry(RateLimit(Timeouts(p))), p)`",
    "race": "`Race(p, p)`",
    "hedge": "`Hedge(p, p, after=0.02)`",
}
Round = dict[str, dict[str, dict[str, float]]]


def once(number: int, server: str) -> Round:
    done: Round = {}
    with ExitStack() as processes:
        workers = {name: processes.enter_context(Process("worker.py", name, server)) for name in (*WRAPPED, *LITELLM)}
        for name, what, options, contenders in PLAN:
            turn = number % len(contenders)
            done[name] = {
                one: workers[one].ask({"measure": what, **options}) for one in (*contenders[turn:], *contenders[:turn])
            }
            say(f"  {name}: " + ", ".join(f"{one} {next(iter(f.values())):.4g}" for one, f in done[name].items()))
    return done


def wrappers(rounds: list[Round]) -> str:
    """The table of the wrappers."""

    def of(name: str, one: str, figure: str) -> float:
        return median(done[name][one][figure] for done in rounds)

    def ratio(name: str, one: str, figure: str) -> float:
        return median(done[name][one][figure] / done[name]["endstop"][figure] for done in rounds)

    lines = [
        "| | CPU of a step | x | CPU of a chunk | x | requests, 3 steps | chunks sent, 3 steps |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for one in WRAPPED:
        lines.append(
            f"| {MEANS[one]} | {of('step', one, 'cpu_ms'):.2f} ms | {ratio('step', one, 'cpu_ms'):.2f} "
            f"| {of('chunk', one, 'cpu_us'):.1f} µs | {ratio('chunk', one, 'cpu_us'):.2f} "
            f"| {of('waste', one, 'requests'):.1f} | {of('waste', one, 'chunks'):.1f} |"
        )
    return "\n".join(lines)


def litellm(rounds: list[Round]) -> str:
    """The table of the engine on litellm beside litellm itself."""
    lines = ["| | litellm alone | endstop on litellm | x | budget | met |", "|---|--:|--:|--:|---|---|"]
    for name, figure, unit in (("litellm step", "cpu_ms", "ms a step"), ("litellm chunk", "cpu_us", "µs a chunk")):
        bare, ours = (median(done[name][one][figure] for done in rounds) for one in LITELLM)
        x = median(done[name][LITELLM[1]][figure] / done[name][LITELLM[0]][figure] for done in rounds)
        lines.append(f"| CPU, {unit} | {bare:.1f} | {ours:.1f} | {x:.2f} | 1.1x | {'yes' if x <= 1.1 else '**no**'} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--page", type=Path, default=ROOT / "docs/explanation/performance.md")
    chosen = parser.parse_args()
    began, load, state = time.monotonic(), os.getloadavg()[0], commit(ROOT)
    rounds: list[Round] = []
    with Process("mock_provider.py") as provider:
        server = f"http://127.0.0.1:{provider.line().strip()}"
        for number in range(chosen.rounds):
            say(f"round {number + 1} of {chosen.rounds}")
            rounds.append(once(number, server))
    command = f"python tests/benchmarks/voices.py --rounds {chosen.rounds}"
    head = machine(state, command, len(rounds), load, time.monotonic() - began)
    text = f"{head}\n\n{wrappers(rounds)}\n\n{litellm(rounds)}"
    write_page(chosen.page, text, "voices")
    print(text)


if __name__ == "__main__":
    main()

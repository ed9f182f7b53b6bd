"""Measures what records cost to look through, and writes the table into docs/explanation/performance.md.

    python tests/benchmarks/backtests.py [--sessions 10000] [--steps 50] [--rounds 3] [--page FILE]

A folder of records is made in the temporary folder (166 MB for a thousand sessions of 50 steps) and removed at the
end. `endstop backtest` runs as users run it, in a process of its own, with one policy and with an index of its own;
its peak of memory is that of its largest process. Folding and deciding is measured on events that are in memory.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from endstop.analysis.policy_simulation import backtest
from endstop.decision import POLICIES, Event, Facts, decide, fold
from endstop.decision.events import StepFinished
from endstop.records.files import find_records
from endstop.records.scan import scan
from run import ROOT, say
from table import commit, machine, write_page

HERE = Path(__file__).parent
FEW = 1_000
"""Sessions of the smaller folder, beside which the larger one shows whether memory stays flat."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--page", type=Path, default=ROOT / "docs/explanation/performance.md")
    chosen = parser.parse_args()
    began, load, state = time.monotonic(), os.getloadavg()[0], commit(ROOT)
    with tempfile.TemporaryDirectory(prefix="endstop-records-") as place:
        few, many = (_made(Path(place), sessions, chosen.steps) for sessions in (FEW, chosen.sessions))
        rows = [*_in_memory(few, chosen.rounds), *_commands(few, many, chosen.rounds, Path(place))]
    command = f"python tests/benchmarks/backtests.py --sessions {chosen.sessions} --rounds {chosen.rounds}"
    head = machine(state, command, chosen.rounds, load, time.monotonic() - began)
    lines = ["| | measured | budget | met |", "|---|--:|---|---|", *rows]
    text = f"{head}\n\n" + "\n".join(lines)
    write_page(chosen.page, text, "records")
    print(text)


def _made(place: Path, sessions: int, steps: int) -> Path:
    folder = place / str(sessions)
    made = [sys.executable, HERE / "records.py", folder, "--sessions", str(sessions), "--steps", str(steps)]
    subprocess.run(made, check=True, stdout=sys.stderr)
    return folder


def _in_memory(folder: Path, rounds: int) -> Iterator[str]:
    """Events a second, on one core, without reading them."""
    events: list[Event] = [event for path in find_records([folder])[:100] for event in scan(path)]
    policy = POLICIES["agent"]

    def folded() -> None:
        facts = Facts()
        for event in events:
            facts = fold(facts, event)
            if type(event) is StepFinished:
                decide(facts, policy, traced=False)

    def walked() -> None:
        for _ in backtest(events, [policy]):
            pass

    for title, work in (("fold, and decide after each step", folded), ("backtest, one policy", walked)):
        rate = median(len(events) / _cpu(work) for _ in range(rounds))
        say(f"  {title}: {rate:,.0f}")
        budget = "200,000" if work is folded else ""
        met = "" if not budget else "yes" if rate >= 200_000 else "**no**"
        yield f"| {title}: events a second, one core | {rate:,.0f} | {budget} | {met} |"


def _cpu(work: Any) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _commands(few: Path, many: Path, rounds: int, place: Path) -> Iterator[str]:
    """The command as users run it."""
    small = [_timed(few, "--no-index") for _ in range(rounds)]
    large = [_timed(many, "--no-index") for _ in range(rounds)]
    _timed(many, "--index", str(place / "index"))
    again = [_timed(many, "--index", str(place / "index")) for _ in range(rounds)]
    sessions, steps = large[0]["sessions"], large[0]["steps"]
    seconds, peak = median(one["wall"] for one in large), median(one["peak"] for one in large)
    little = median(one["peak"] for one in small)
    met = "yes" if seconds < 60 else "**no**"
    yield f"| `endstop backtest`, {sessions:,} sessions, {steps:,} steps, first time | {seconds:.1f} s | 60 s | {met} |"
    yield f"| the same, second time | {median(one['wall'] for one in again):.1f} s | | |"
    flat = "yes" if peak < 1.5 * little else "**no**"
    title = f"peak memory of a process, {sessions:,} and {FEW:,} sessions"
    yield f"| {title} | {peak:.0f} and {little:.0f} MB | flat | {flat} |"


def _timed(folder: Path, *options: str) -> dict[str, float]:
    """One run of the command, in a process that can tell what its children took."""
    script = (
        "import json, resource, subprocess, sys, time\n"
        "began = time.perf_counter()\n"
        "done = subprocess.run(sys.argv[1:], check=True, capture_output=True)\n"
        "wall = time.perf_counter() - began\n"
        "report = json.loads(done.stdout)\n"
        "peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024\n"
        "print(json.dumps({'wall': wall, 'peak': peak, 'sessions': report['sessions'],\n"
        "                  'steps': report['used']['steps']}))\n"
    )
    endstop = str(Path(sys.executable).with_name("endstop"))
    again = [sys.executable, "-c", script, endstop, "backtest", str(folder), "--policy", "agent", "--json", *options]
    done: dict[str, float] = json.loads(subprocess.run(again, check=True, stdout=subprocess.PIPE).stdout)
    say(f"  {folder.name} {' '.join(options[:1])}: {done['wall']:.1f} s, {done['peak']:.0f} MB")
    return done


if __name__ == "__main__":
    main()

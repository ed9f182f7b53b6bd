"""Measures endstop beside hand-written floors and writes the ratios into docs/explanation/performance.md.

    python tests/benchmarks/run.py                   nine rounds, under ten minutes
    python tests/benchmarks/run.py --quick           two short rounds, under a minute; prints, and writes no page

Needs the extra `bench` (`pip install -e .[bench]`). The provider and every contender are processes of their own. In
each round each contender does each measurement once, one after another and in turning order, so that what the machine
does meanwhile hits all of them; figures of one round are divided by each other, and only then is the median taken.

CPython makes code faster while it runs: a process is warm after some sessions, and its first steps cost half as much
again. Both are measured: `cold_step` is the first that a process does, all else comes after a hundred steps.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from goals import line, write_line
from imports import measure_imports
from table import Round, Rounds, commit, machine, reached, tables, write_page

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CONTENDERS = ("lines", "bytes", "endstop")
LONGEST = 8.5 * 60
"""Seconds after which no new round begins."""
PATIENCE = 120.0
"""Seconds that one measurement may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One line to a worker. `quick`: what the short run does instead, None for nothing."""

    name: str
    measure: str
    options: dict[str, Any] = field(default_factory=dict)
    quick: dict[str, Any] | None = None
    contenders: tuple[str, ...] = CONTENDERS
    fresh: bool = False
    """In a process that has done nothing else: for peak memory, and for cold code."""
    every: int = 1
    """In every so manieth round only."""


PLAN = (
    Measurement(
        name="cold_step",
        measure="step",
        options={"sessions": 10, "warm_up": 0},
        quick={"sessions": 10, "warm_up": 0},
        fresh=True,
    ),
    Measurement(name="step", measure="step", options={"sessions": 20}, quick={"sessions": 10}),
    Measurement(name="growth", measure="growth", options={"sessions": 3}, quick={"sessions": 2}),
    Measurement(
        name="burst",
        measure="chunk",
        options={"sessions": 8, "chunks": 2_000},
        quick={"sessions": 4, "chunks": 2_000},
    ),
    Measurement(
        name="long_burst",
        measure="chunk",
        options={"sessions": 1, "chunks": 20_000},
        quick={"sessions": 1, "chunks": 20_000},
    ),
    Measurement(
        name="paced",
        measure="chunk",
        options={"sessions": 1, "chunks": 1_500, "delay": 1},
        quick={"sessions": 1, "chunks": 500, "delay": 1},
    ),
    Measurement(name="finish", measure="finish", options={"sessions": 15}, quick={"sessions": 8}),
    Measurement(
        name="chatty",
        measure="chatty",
        options={"delay": 10},
        quick={"delay": 10},
        contenders=("bytes", "deaf", "endstop"),
        every=3,
    ),
    Measurement(name="many_200", measure="many", options={"sessions": 200}, quick={"sessions": 200}, fresh=True),
    Measurement(name="many_1000", measure="many", options={"sessions": 1000}, fresh=True, every=3),
)


class Process:
    """A Python script of this folder, ended when its block is left."""

    def __init__(self, script: str, *arguments: str) -> None:
        self.name = " ".join((script, *arguments))
        self.popen = subprocess.Popen(
            [sys.executable, HERE / script, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )

    def __enter__(self) -> Process:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.popen.kill()
        self.popen.wait()

    def line(self) -> str:
        """The next line that it prints."""
        assert self.popen.stdout is not None
        ready, _, _ = select.select([self.popen.stdout], [], [], PATIENCE)
        if not ready:
            raise TimeoutError(f"{self.name} said nothing for {PATIENCE:g} s")
        line = self.popen.stdout.readline().decode()
        if not line:
            raise RuntimeError(f"{self.name} ended with exit code {self.popen.wait()}")
        return line

    def ask(self, question: dict[str, Any]) -> dict[str, float]:
        """Send a line and read the answer."""
        assert self.popen.stdin is not None
        self.popen.stdin.write(json.dumps(question).encode() + b"\n")
        answer: dict[str, float] = json.loads(self.line())
        return answer


def measure(rounds: int, quick: bool) -> Rounds:
    """Rounds of all measurements: name -> contender -> figures, one such table a round."""
    done: Rounds = []
    began = time.monotonic()
    with Process("mock_provider.py") as provider:
        server = f"http://127.0.0.1:{provider.line().strip()}"
        for number in range(rounds):
            spent = time.monotonic() - began
            if spent > LONGEST:
                say(f"stopped after {number} rounds: {LONGEST:g} s are over")
                break
            say(f"{spent:4.0f} s  round {number + 1} of {rounds}")
            done.append(measure_once(number, quick, server))
    return done


def measure_once(number: int, quick: bool, server: str) -> Round:
    """One round. Its processes are new ones: where things come to lie in memory makes a difference of some percent."""
    done: Round = {}
    with ExitStack() as processes:
        workers = {name: processes.enter_context(Process("worker.py", name, server)) for name in (*CONTENDERS, "deaf")}
        for step in PLAN:
            options = step.quick if quick else step.options
            if options is None or number % step.every:
                continue
            question = {"measure": step.measure, **options}
            turn = number % len(step.contenders)
            figures = done[step.name] = {}
            for name in (*step.contenders[turn:], *step.contenders[:turn]):
                if step.fresh:
                    with Process("worker.py", name, server) as worker:
                        figures[name] = worker.ask(question)
                else:
                    figures[name] = workers[name].ask(question)
            first = next(iter(figures["endstop"]))
            say(f"  {step.name} {first}: " + ", ".join(f"{name} {figures[name][first]:.4g}" for name in figures))
    return done


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, help="default: 9, or 2 with --quick")
    parser.add_argument("--quick", action="store_true", help="short measurements; the page stays as it is")
    parser.add_argument(
        "--page", type=Path, default=ROOT / "docs/explanation/performance.md", help="the page to write into"
    )
    parser.add_argument("--rows", type=Path, help="keep the figures of every round in this file, as JSON")
    chosen = parser.parse_args()
    rounds = chosen.rounds or (2 if chosen.quick else 9)
    began, load, state = time.monotonic(), os.getloadavg()[0], commit(ROOT)
    imports = measure_imports(3 if chosen.quick else 9)
    say(f"{time.monotonic() - began:4.0f} s  imports measured")
    done = measure(rounds, chosen.quick)
    if chosen.rows:
        chosen.rows.write_text(json.dumps({"rounds": done, "imports": imports}))
    command = " ".join(["python tests/benchmarks/run.py", *sys.argv[1:]])
    head = machine(state, command, len(done), load, time.monotonic() - began)
    text = f"{head}\n\n{tables(done, imports)}"
    print(text)
    goals = reached(done)
    print("\n" + "\n".join(line(name, now, ratio) for name, (now, ratio) in goals.items()))
    if not chosen.quick:
        write_page(chosen.page, text)
        for name, (now, ratio) in goals.items():
            write_line(chosen.page, name, now, ratio)
        say(f"written into {chosen.page}")


if __name__ == "__main__":
    main()

"""Gives changed inputs to all that reads what others wrote: a traceback, a hang and a second for an input are failures.

python -m tests.fuzz                # a million inputs; from the root of the repository
python -m tests.fuzz 20000 --seed 7 --only session
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from endstop.testing.faults import FaultReport, check_fuzzed_inputs, check_fuzzed_responses

from .engine.testing.fuzz_targets import targets
from .engine.testing.test_fault_fuzz import OF_RESPONSES, PROVIDERS, SLOWEST

MILLION = 1_000_000


def reports(folder: Path, inputs: int, seed: int, only: str) -> Iterator[tuple[str, FaultReport]]:
    """The report of each reader and each provider. inputs: of all of them together."""
    for target in targets(folder):
        if only in target.name:
            points = max(1, target.share * inputs // MILLION)
            found = check_fuzzed_inputs(
                target.read, target.examples, target.raises, points=points, seed=seed, slowest=SLOWEST
            )
            yield target.name, found
    for provider in PROVIDERS:
        name = type(provider).__name__
        if only in name:
            points = max(1, OF_RESPONSES * inputs // MILLION)
            yield name, check_fuzzed_responses(provider, points=points, seed=seed, slowest=SLOWEST)


def main(arguments: Sequence[str] | None = None) -> int:
    """Try them, print the reports and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("inputs", type=int, nargs="?", default=MILLION, help="how many (default a million)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", metavar="NAME", help="only readers with this in their name")
    args = parser.parse_args(arguments)
    failed = tried = 0
    with TemporaryDirectory() as folder:
        for name, report in reports(Path(folder), args.inputs, args.seed, args.only):
            print(f"{name}: {report}", flush=True)
            failed, tried = failed + len(report.violations), tried + report.tried
    print(f"{tried:,} inputs, {failed} violations")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

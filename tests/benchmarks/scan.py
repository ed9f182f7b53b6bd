"""How fast records are read, and in how much memory.

    python tests/benchmarks/records.py FOLDER && python tests/benchmarks/scan.py FOLDER [--files 1000]
    python tests/benchmarks/records.py FILE --bytes 1000000000 && python tests/benchmarks/scan.py FILE

Each way of reading runs in a process of its own, so that the peak of memory is its own. Seconds are CPU seconds of
that process, but for `map_files`, which is all cores: there it is the clock.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from endstop import read_record
from endstop.decision import Facts, decide, fold
from endstop.decision.events import RunStarted, StepFinished
from endstop.records.files import find_records, line_batches
from endstop.records.parallel import FileFailure, map_files
from endstop.records.scan import scan


def lines(paths: Sequence[Path]) -> int:
    """Nothing but the lines."""
    return sum(len(batch) for path in paths for batch in line_batches(path))


def events(paths: Sequence[Path]) -> int:
    """All events but parts of streams."""
    return sum(1 for path in paths for _ in scan(path))


def parts(paths: Sequence[Path]) -> int:
    """All events."""
    return sum(1 for path in paths for _ in scan(path, parts=True))


def decided(paths: Sequence[Path]) -> int:
    """Fold each event that is no part of a stream, and decide after each step."""
    return sum(map(_decided, paths))


def whole(paths: Sequence[Path]) -> int:
    """`read_record`: all events at once, as a replay needs them."""
    return sum(len(run.events) for path in paths for run in read_record(path).runs)


def spread(paths: Sequence[Path]) -> int:
    """Do as `decided` does, on all cores."""
    results = [result for _, result in map_files(_decided, paths)]
    return sum(0 if isinstance(result, FileFailure) else result for result in results)


def _decided(path: Path) -> int:
    facts, seen, policy = Facts(), 0, None
    for event in scan(path):
        facts = fold(facts, event)
        seen += 1
        if type(event) is RunStarted:
            policy = event.policy
        elif type(event) is StepFinished and policy is not None:
            decide(facts, policy, traced=False)
    return seen


WAYS: dict[str, Callable[[Sequence[Path]], int]] = {
    "lines": lines,
    "scan": events,
    "scan, parts": parts,
    "scan, fold, decide": decided,
    "read_record": whole,
    "each: scan, fold, decide": spread,
}


def measure(way: str, places: Sequence[str], files: int | None) -> dict[str, float]:
    """In this process: how many, in how many seconds, at how many megabytes."""
    paths = find_records(places)[:files]
    size = sum(path.stat().st_size for path in paths)
    wall, cpu = time.perf_counter(), time.process_time()
    counted = WAYS[way](paths)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    seconds = wall if way.startswith("each") else cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return {"files": len(paths), "bytes": size, "counted": counted, "seconds": seconds, "peak": max(peak, children)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("places", nargs="+", metavar="FOLDER or FILE")
    parser.add_argument("--files", type=int, help="only so many of them")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--best-of", type=int, default=1, metavar="N", help="the quickest of so many")
    parser.add_argument("--one", choices=WAYS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(given.one, given.places, given.files)))
        return
    print(f"{'':26}{'a second':>14}{'MB a second':>13}{'seconds':>10}{'peak MB':>9}")
    for way in given.ways:
        again = [sys.executable, __file__, *given.places, "--one", way]
        again += ["--files", str(given.files)] if given.files else []
        runs = [
            json.loads(subprocess.run(again, check=True, stdout=subprocess.PIPE).stdout) for _ in range(given.best_of)
        ]
        best = min(runs, key=lambda run: run["seconds"])
        a_second, mb = best["counted"] / best["seconds"], best["bytes"] / best["seconds"] / 1e6
        print(f"{way:26}{a_second:14,.0f}{mb:13,.0f}{best['seconds']:10.2f}{best['peak']:9.0f}", flush=True)


if __name__ == "__main__":
    main()

"""Measures how well the checks in recorded sessions are found, for docs/guides/backtest.md.

    python tests/benchmarks/recorded_checks.py FOLDER_WITH_DATA

The labels are in `tests/engine/analysis/recorded_checks.csv`; the sessions are read as for judgement.py. Precision is
the share of the steps found that are the labelled ones, recall that of the labelled ones that are found.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path

from endstop.analysis.policy_simulation import backtest
from endstop.analysis.until_totals import SessionChecks, session_checks
from labelled_sessions import read_sessions
from msgspec import Struct

LABELS = Path(__file__).resolve().parents[1] / "engine" / "analysis" / "recorded_checks.csv"


class Agreement(Struct):
    """How often the labels and what was found agree."""

    sessions: int = 0
    right: int = 0
    found: int = 0
    labelled: int = 0
    last: int = 0
    last_labelled: int = 0

    def add(self, row: dict[str, str], found: SessionChecks) -> bool:
        """Add a session; return whether both the step and the last check are right."""
        step = str(found.met.step) if found.met is not None else ""
        last = row["last_check"] if row["last_check"] == "-" else "" if found.last == "none" else found.last
        self.sessions += 1
        self.right += step == row["check_step"] != ""
        self.found += step != ""
        self.labelled += row["check_step"] != ""
        self.last_labelled += row["last_check"] != "-"
        self.last += last == row["last_check"] != "-"
        return step == row["check_step"] and last == row["last_check"]


def rows() -> Iterator[dict[str, str]]:
    """Yield the labels."""
    with open(LABELS, newline="") as file:
        yield from csv.DictReader(file)


def main() -> None:
    """Print a table of all parts, and the sessions that differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    sessions = {session.name.partition(",")[0]: session for session in read_sessions(parser.parse_args().data)}
    parts: dict[str, Agreement] = {}
    for row in rows():
        found = session_checks(list(backtest(sessions[row["session"]].events, [], find_checks=True)))
        if not parts.setdefault(row["part"], Agreement()).add(row, found):
            print(f"{row['session']}: step {row['check_step'] or '-'}, last {row['last_check'] or '-'}; found {found}")
    print("part        | sessions | precision | recall | last check")
    for part, one in parts.items():
        print(
            f"{part:11} | {one.sessions:8} | {one.right} of {one.found} | {one.right} of {one.labelled} | "
            f"{one.last} of {one.last_labelled}"
        )


if __name__ == "__main__":
    main()

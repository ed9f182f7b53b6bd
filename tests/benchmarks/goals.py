"""The goals of speed, and the table of docs/explanation/performance.md in which all of them stand.

    python tests/benchmarks/goals.py records 1.4 "1.4x their input"        what a script measured that writes no row

Each line of the table has what was measured on 2026-11-22, what was measured last, and the goal. `run.py` and
`tracing.py` write the lines that they measure; the others are set by hand from the script that is named.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent.parent / "docs/explanation/performance.md"
BEGIN, END = "<!-- goals: begin -->", "<!-- goals: end -->"


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """One line of the table. most: the goal, in times of the floor. before: the figure of 2026-11-22, as shown."""

    title: str
    script: str
    before: str
    most: float


GOALS = {
    "step": Goal(title="CPU of a step, warm", script="run.py", before="0.85 ms, 3.3x", most=1.4),
    "cold_step": Goal(title="CPU of a step, first 200 of a process", script="run.py", before="0.91 ms, 2.3x", most=1.4),
    "burst": Goal(title="CPU of a chunk in a burst", script="run.py", before="7.5 to 8.4 µs, 1.6 to 1.9x", most=1.0),
    "paced": Goal(title="CPU of a chunk, one every 1 ms", script="run.py", before="124 µs, 1.7x", most=1.25),
    "many_200": Goal(title="CPU of a session, 200 at once", script="run.py", before="7.75 ms, 1.6x", most=1.25),
    "finish": Goal(title="Completion call to return", script="run.py", before="1.5 ms, 4.6x", most=2.0),
    "records": Goal(title="Records beside their input", script="record_sizes.py", before="6x", most=1.5),
    "worker": Goal(
        title="CPU of a session in a worker, beside no queue", script="fleet.py", before="155 ms, 7x", most=2.0
    ),
    "tracing": Goal(title="CPU of a step with tracing, beside none", script="tracing.py", before="1.9x", most=1.25),
}
"""The warm step was measured on 2026-11-23 at commit 21096b1: before that only cold processes were measured."""


def line(name: str, now: str, ratio: float) -> str:
    """A goal's line of the table. now: the figure, as it is shown. ratio: the figure divided by that of its floor."""
    goal = GOALS[name]
    met = "yes" if ratio <= goal.most else "**no**"
    return f"| {goal.title} | `{goal.script}` | {goal.before} | {now} | {goal.most:g}x | {met} |"


def write_line(page: Path, name: str, now: str, ratio: float) -> None:
    """Replace the line of a goal in the page's table. Raises SystemExit if the page has none."""
    before, found, rest = page.read_text().partition(BEGIN)
    table, ended, after = rest.partition(END)
    lines = table.split("\n")
    places = [number for number, one in enumerate(lines) if one.startswith(f"| {GOALS[name].title} |")]
    if not (found and ended and len(places) == 1):
        raise SystemExit(f"{page} has no line {GOALS[name].title!r} between {BEGIN} and {END}: put it there")
    lines[places[0]] = line(name, now, ratio)
    page.write_text(before + BEGIN + "\n".join(lines) + END + after)


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("name", choices=GOALS)
    options.add_argument("ratio", type=float, help="how many times its floor")
    options.add_argument("now", help="the figure, as the table shows it")
    options.add_argument("--page", type=Path, default=PAGE)
    given = options.parse_args()
    write_line(given.page, given.name, given.now, given.ratio)


if __name__ == "__main__":
    main()

"""From the figures of all rounds to the tables of docs/explanation/performance.md."""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from goals import GOALS
from imports import NOT_BEFORE_USE

Round = dict[str, dict[str, dict[str, float]]]
"""Measurement -> contender -> figures."""
Rounds = list[Round]
FLOORS = ("lines", "bytes")
PACKAGES = ("endstop", "aiohttp", "msgspec", "anyio", "pydantic", "orjson", "uvloop")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table of ratios: a figure of a measurement, and how many times the floor it may be."""

    title: str
    measurement: str
    figure: str
    unit: str
    goal: str
    """Its name in `GOALS`."""

    @property
    def most(self) -> float:
        """How many times the floor it may be."""
        return GOALS[self.goal].most


ROWS = (
    Row(title="CPU of a step, warm", measurement="step", figure="cpu_ms", unit="ms", goal="step"),
    Row(title="CPU of a step, first 200", measurement="cold_step", figure="cpu_ms", unit="ms", goal="cold_step"),
    Row(title="CPU of a chunk, burst of 2,000", measurement="burst", figure="cpu_us", unit="µs", goal="burst"),
    Row(title="CPU of a chunk, burst of 20,000", measurement="long_burst", figure="cpu_us", unit="µs", goal="burst"),
    Row(title="CPU of a chunk, one every 1 ms", measurement="paced", figure="cpu_us", unit="µs", goal="paced"),
    Row(title="CPU of a session, 200 at once", measurement="many_200", figure="cpu_ms", unit="ms", goal="many_200"),
    Row(title="CPU of a session, 1,000 at once", measurement="many_1000", figure="cpu_ms", unit="ms", goal="many_200"),
    Row(title="Completion call to return", measurement="finish", figure="ms", unit="ms", goal="finish"),
)


def tables(rounds: Rounds, imports: dict[str, Any]) -> str:
    """All tables, as Markdown."""
    parts = (ratios(rounds), growth(rounds), after_completion(rounds), many(rounds), import_table(imports))
    return "\n\n".join(part for part in parts if part)


def ratios(rounds: Rounds) -> str:
    lines = [
        "| | endstop | floor `lines` | floor `bytes` | x `lines` | x `bytes` | middle half of rounds | goal | met |",
        "|---|--:|--:|--:|--:|--:|--:|---|---|",
    ]
    for row in ROWS:
        if not figures(rounds, row.measurement, "endstop", row.figure):
            continue
        shown = [
            f"{median(figures(rounds, row.measurement, name, row.figure)):.3g} {row.unit}"
            for name in ("endstop", *FLOORS)
        ]
        times = {floor: [ours / theirs for ours, theirs in pairs(rounds, row, floor)] for floor in FLOORS}
        stricter = max(times.values(), key=median)
        shown += [f"{median(times[floor]):.2f}" for floor in FLOORS]
        met = yes(median(stricter) <= row.most)
        lines.append(f"| {row.title} | {' | '.join(shown)} | {middle(stricter)} | {row.most:g}x | {met} |")
    return "\n".join(lines)


def reached(rounds: Rounds) -> dict[str, tuple[str, float]]:
    """What was measured of each goal: its figure as the table of goals shows it, and how many times `bytes` it is."""
    found: dict[str, tuple[str, float]] = {}
    for row in ROWS:
        ours = figures(rounds, row.measurement, "endstop", row.figure)
        if ours and row.goal not in found:
            times = median(mine / theirs for mine, theirs in pairs(rounds, row, "bytes"))
            found[row.goal] = f"{median(ours):.3g} {row.unit}, {times:.2g}x", times
    return found


def growth(rounds: Rounds) -> str:
    lines = [
        "| 200-step session | endstop | floor `lines` | floor `bytes` | budget | met |",
        "|---|--:|--:|--:|---|---|",
    ]
    for title, figure in (("CPU of step 10, ms", "step_10_ms"), ("CPU of step 193, ms", "step_193_ms")):
        shown = [f"{median(figures(rounds, 'growth', name, figure)):.3g}" for name in ("endstop", *FLOORS)]
        lines.append(f"| {title} | {' | '.join(shown)} | | |")
    ours = median(figures(rounds, "growth", "endstop", "x"))
    shown = [f"{median(figures(rounds, 'growth', name, 'x')):.2f}" for name in ("endstop", *FLOORS)]
    lines.append(f"| Step 193 / step 10 | {' | '.join(shown)} | 1.2x | {yes(ours <= 1.2)} |")
    return "\n".join(lines)


def after_completion(rounds: Rounds) -> str:
    names = ("endstop", "bytes", "deaf")
    lines = [
        "| The model talks on after completing | endstop | floor `bytes` | `deaf`, the control | budget | met |",
        "|---|--:|--:|--:|---|---|",
    ]

    def most(name: str, figure: str) -> float:
        return max(figures(rounds, "chatty", name, figure))

    possible = most("endstop", "chunks_possible")
    for title, figure in (
        (f"Chunks still sent, of {possible:g}", "chunks_after"),
        ("Tool calls still run, of 20", "calls_after"),
        ("Requests still made", "requests_after"),
    ):
        shown = " | ".join(f"{most(name, figure):g}" for name in names)
        lines.append(f"| {title} (the most of any round) | {shown} | 0 | {yes(most('endstop', figure) == 0)} |")
    shown = " | ".join(f"{median(figures(rounds, 'chatty', name, 'return_ms')):.3g} ms" for name in names)
    lines.append(f"| Completion call to return | {shown} | | |")
    return "\n".join(lines)


def many(rounds: Rounds) -> str:
    lines = [
        "| At once, 5 steps each, 20 ms a chunk | sessions a second | CPU of a session | share of a core "
        "| peak memory | before | failed | provider's share of a core |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for measurement, title in (("many_200", "200 sessions"), ("many_1000", "1,000 sessions")):
        for name in ("endstop", *FLOORS):
            if not figures(rounds, measurement, name, "cpu_ms"):
                continue
            mid = {
                figure: median(figures(rounds, measurement, name, figure))
                for figure in ("sessions_s", "cpu_ms", "cpu_share", "rss_mb", "rss_before_mb", "provider_share")
            }
            failed = sum(figures(rounds, measurement, name, "errors"))
            lines.append(
                f"| {title}, {name} | {mid['sessions_s']:.0f} | {mid['cpu_ms']:.2f} ms | {mid['cpu_share']:.0%} "
                f"| {mid['rss_mb']:.0f} MB | {mid['rss_before_mb']:.0f} MB | {failed:g} | {mid['provider_share']:.0%} |"
            )
    return "\n".join(lines)


def import_table(imports: dict[str, Any]) -> str:
    shares = ", ".join(f"{name} {spent:.0f} ms" for name, spent in imports["shares_ms"].items())
    early = ", ".join(imports["too_early"]) or "none"
    return "\n".join(
        (
            "| `from endstop import Engine`, in fresh processes | | budget | met |",
            "|---|--:|---|---|",
            f"| Seconds: median (best) | {imports['median_s']:.2f} ({imports['best_s']:.2f}) | 0.3 "
            f"| {yes(imports['median_s'] < 0.3)} |",
            f"| Imported though not needed yet, of {', '.join(NOT_BEFORE_USE)} | {early} | none "
            f"| {yes(not imports['too_early'])} |",
            f"| Modules, peak memory | {imports['modules']}, {imports['peak_mb']:.0f} MB | | |",
            f"| Who takes the time (`-X importtime`, which slows it down) | {shares} | | |",
        )
    )


# ---- figures


def figures(rounds: Rounds, measurement: str, contender: str, figure: str) -> list[float]:
    """One figure of one contender, of every round that has it."""
    return [done[measurement][contender][figure] for done in rounds if measurement in done]


def pairs(rounds: Rounds, row: Row, floor: str) -> list[tuple[float, float]]:
    """Our figure and a floor's of the same round, one pair a round."""
    ours = figures(rounds, row.measurement, "endstop", row.figure)
    return list(zip(ours, figures(rounds, row.measurement, floor, row.figure), strict=True))


def middle(values: list[float]) -> str:
    if len(values) < 3:
        return " and ".join(f"{value:.2f}" for value in values)
    low, _, high = quantiles(values, n=4, method="inclusive")
    return f"{low:.2f} to {high:.2f}"


def yes(met: bool) -> str:
    return "yes" if met else "**no**"


# ---- the page


def machine(state: str, command: str, rounds: int, load: float, seconds: float) -> str:
    """When, where and of what: the line above the tables."""
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return (
        f"Measured {datetime.now(UTC):%Y-%m-%d %H:%M} UTC at commit {state}, {rounds} rounds in {seconds:.0f} s,"
        f" by `{command}`. {processor()}, {os.cpu_count()} cores, load {load:.1f} before the start; "
        f"{platform.system()}, {platform.python_implementation()} {platform.python_version()}; {versions}."
    )


def commit(root: Path) -> str:
    """The commit that is checked out; `dirty` if anything differs from it."""
    told = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=root, capture_output=True, text=True)
    return told.stdout.strip() or "unknown"


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def write_page(page: Path, text: str, name: str = "measured") -> None:
    """Put the tables between the page's markers of this name; all else stays."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, found, rest = page.read_text().partition(begin)
    _, ended, after = rest.partition(end)
    if not (found and ended):
        raise SystemExit(f"{page} has no place for the tables: put the lines {begin} and {end} into it")
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}")

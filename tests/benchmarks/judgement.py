"""Measures what the guards stop on recorded sessions whose end is known, for docs/explanation/evidence.md.

    python tests/benchmarks/judgement.py FOLDER_WITH_DATA [--part all] [--resamples 2000]

The folder has `swe_java.tar.xz` and `known_ends.tar.xz`, and in `sessions` what other tools recorded. They are not part
of this project; docs/explanation/evidence.md names their sources. What is absent is skipped, and the output says so.
`labelled_sessions.py` imports the sessions like `endstop import` does, and each policy is simulated along them like
`endstop backtest` does: guards alone, no limit on steps, and no text ends a run. All figures assume that the model
goes on as recorded. The tables go to stdout, progress to stderr. It takes about 45 s on one core.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from zlib import crc32

from endstop.analysis.guarantee import exact_interval
from endstop.analysis.policy_simulation import BacktestResult, backtest
from endstop.analysis.published_policies import PUBLISHED, PUBLISHED_RULES, guards_alone
from endstop.analysis.statistics import Interval
from endstop.decision import POLICIES, Event, Policy, Repetition
from endstop.decision.events import RunFinished
from endstop.decision.policy import Stagnation
from endstop.decision.step_history import POINTS, StepKind
from endstop.records.files import find_records
from endstop.records.scan import scan
from labelled_sessions import read_sessions, runs_of
from msgspec.structs import replace
from run import ROOT, say

CHOSEN_ON = 60
"""Per cent of the tasks on which the points and thresholds were chosen."""
PARTS = ("chosen on", "the rest", "all")
THRESHOLDS = range(8, 15)
FAILING: tuple[StepKind, ...] = ("failure", "known_failure", "failed_change", "known_failed_change")
KINDS: dict[str, tuple[StepKind, ...]] = {
    "points of failing steps only": FAILING,
    "points of known results only": ("known", "known_lines"),
    "points of repeated changes only": ("same_change", "old_change"),
}
"""Kinds of steps that keep their points, while the others add none."""


# ---- policies


def policies() -> dict[str, Policy]:
    """The policies that are compared, by the name of their row, in the order of the table."""
    agent = guards_alone(POLICIES["agent"], "agent")
    rows = {
        "**endstop**": agent,
        "guards on repetition alone": replace(agent, guards=("stuck", "repetition")),
        "guard on stagnation alone": replace(agent, guards=("stagnation",)),
        "points alone": _stagnation(agent, same_results=None),
        "same results 40 times alone": _stagnation(agent, stop_at=None),
        "endstop before": replace(agent, guards=("stuck",), repetition=Repetition(longest_cycle=4, same_text=None)),
    }
    for stop_at in THRESHOLDS:
        stagnation = replace(agent.stagnation, stop_at=stop_at)
        rows[f"endstop, stop at {stop_at} points"] = replace(agent, stagnation=stagnation)
    rules = {rule.name for rule in PUBLISHED_RULES} - {"inspect_messages"}
    rows |= {one.name: one.policy for one in PUBLISHED if rules.intersection(one.policy.guards)}
    rows[TOLD] = _stagnation(agent, stop_at=agent.stagnation.nudge_at, same_results=None)
    return rows


TOLD = "told"
"""Not in the table: stops where the model would be told, so that those sessions are counted."""


def _stagnation(agent: Policy, **changes: int | None) -> Policy:
    return replace(agent, guards=("stagnation",), stagnation=replace(Stagnation(), **changes))


@contextmanager
def only_points_of(kinds: Sequence[StepKind]) -> Iterator[None]:
    """Let no other kind of step add points; what takes points away stays."""
    before = dict(POINTS)
    POINTS.update({kind: 0 for kind, points in before.items() if points > 0 and kind not in kinds})
    try:
        yield
    finally:
        POINTS.update(before)


# ---- sessions


@dataclass
class Session:
    """A session with a known end, and where each policy would have stopped it. Steps are those with calls."""

    group: str
    """`swe_java`, `known_ends`, or what else it is from."""
    task: str
    good: bool
    steps: int = 0
    kept: dict[str, int] = field(default_factory=dict)
    """Steps before the stop, by the name of the policy that stops it, also at its very end."""
    harmed: set[str] = field(default_factory=set)
    """Policies that stop it before its last change."""

    @property
    def chosen_on(self) -> bool:
        return crc32(self.task.encode()) % 100 < CHOSEN_ON

    def lost(self, policy: str) -> int:
        """Steps after the stop."""
        return self.steps - self.kept.get(policy, self.steps)

    def simulate(self, events: Sequence[Event], rows: Mapping[str, Policy]) -> None:
        """Find where each policy would have stopped. A stop in one run takes all later runs away, too."""
        calls = [[bool(message.calls) for message in run] for run in runs_of(events)]
        self.steps = sum(sum(run) for run in calls)
        before = 0
        for run, result in zip(calls, backtest(events, list(rows.values()), PUBLISHED_RULES), strict=True):
            for number, (name, policy) in enumerate(rows.items()):
                self._add(name, policy, result, number, before, run)
            before += sum(run)

    def _add(
        self, name: str, policy: Policy, result: BacktestResult, number: int, before: int, run: Sequence[bool]
    ) -> None:
        finding = result.findings[number]
        if name in self.kept:
            if result.digest.changed is not None:
                self.harmed.add(name)  # stopped in an earlier run, so this change is lost
            return
        if finding.stops is not None and finding.rule in policy.guards:
            self.kept[name] = before + sum(run[: finding.stops.steps])
            if finding.before_change:
                self.harmed.add(name)


def own_records() -> Iterator[tuple[Session, list[Event]]]:
    """Each of this project's records."""
    for record in find_records([ROOT / "tests" / "records"]):
        yield Session("own records", record.name, good=_ended_well(record)), list(scan(record))


def _ended_well(record: Path) -> bool:
    """Whether the last run of a record of ours was completed, or waits for the user."""
    statuses = [event.outcome.status for event in scan(record) if isinstance(event, RunFinished)]
    return bool(statuses) and statuses[-1] in ("completed", "awaiting_input")


# ---- figures


def saved(sessions: Sequence[Session], policy: str, resamples: int) -> Interval | None:
    """The share of steps after the stop, with a 95 % interval from a bootstrap over tasks."""
    tasks: dict[str, tuple[int, int]] = {}
    for one in sessions:
        lost, steps = tasks.get(one.task, (0, 0))
        tasks[one.task] = lost + one.lost(policy), steps + one.steps
    drawn, pairs, shares = Random(18), list(tasks.values()), []
    if not sum(steps for _, steps in pairs):
        return None
    for _ in range(resamples):
        sample = drawn.choices(pairs, k=len(pairs))
        shares.append(sum(lost for lost, _ in sample) / max(1, sum(steps for _, steps in sample)))
    shares.sort()
    value = sum(lost for lost, _ in pairs) / sum(steps for _, steps in pairs)
    return Interval(value, shares[round(0.025 * resamples)], shares[round(0.975 * resamples) - 1])


def row(name: str, sessions: Sequence[Session], resamples: int) -> str:
    """A row of the table for these sessions."""
    java = [one for one in sessions if one.group == "swe_java"]
    resolved = [one for one in java if one.good]
    known = [one for one in sessions if one.group == "known_ends" and one.steps]
    good, bad = [one for one in known if one.good], [one for one in known if not one.good]
    cells = (
        _percent(saved(java, name, resamples)),
        _counted(sum(name in one.harmed for one in resolved), len(resolved)),
        _counted(sum(one.lost(name) >= 2 for one in good), len(good)),
        _percent(saved(bad, name, resamples)),
    )
    return f"| {name} | {' | '.join(cells)} |"


def _percent(share: Interval | None) -> str:
    if share is None:
        return "-"
    return f"{100 * share.value:.1f} % ({100 * share.low:.1f} to {100 * share.high:.1f})"


def _counted(part: int, whole: int) -> str:
    share = exact_interval(part, whole)
    if share is None:
        return "-"
    return f"{part} of {whole}, {100 * share.value:.2g} % ({100 * share.low:.2f} to {100 * share.high:.2f})"


def table(part: str, sessions: Sequence[Session], names: Iterable[str], resamples: int) -> Iterator[str]:
    """The table of one part of the tasks."""
    within = [one for one in sessions if part == "all" or one.chosen_on == (part == "chosen on")]
    yield f"\n## Tasks: {part}\n"
    yield "| rule | saved of swe_java | resolved harmed | good cut by two steps or more | saved of bad |"
    yield "|---|--:|--:|--:|--:|"
    for name in names:
        yield row(name, within, resamples)


def others(sessions: Sequence[Session]) -> Iterator[str]:
    """What the default does to sessions without a verdict, to those that it tells something, and to our records."""
    yield "\n## The default elsewhere\n"
    yield "| sessions | steps | stopped | cut by two steps or more | told at the points of `nudge_at` |"
    yield "|---|--:|--:|--:|--:|"
    name = "**endstop**"
    for label, group in _groups(sessions).items():
        cut = [one for one in group if one.lost(name) >= 2]
        stopped, told = sum(one.lost(name) > 0 for one in group), sum(TOLD in one.kept for one in group)
        which = f": {', '.join(one.task for one in cut)}" if 0 < len(cut) < 6 else ""
        yield f"| {label}, {len(group)} | {sum(one.steps for one in group)} | {stopped} | {len(cut)}{which} | {told} |"


def _groups(sessions: Sequence[Session]) -> dict[str, list[Session]]:
    groups: dict[str, list[Session]] = {}
    for one in sessions:
        verdict = VERDICTS.get(one.group)
        groups.setdefault(f"{one.group}, {verdict[one.good]}" if verdict else one.group, []).append(one)
    return groups


VERDICTS = {
    "swe_java": ("others", "resolved"),
    "known_ends": ("bad", "good"),
    "own records": ("stopped, failed or broken off", "completed, or waiting for the user"),
}
"""What the sessions are called that are not good, and those that are."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path, help="the folder with the archives")
    parser.add_argument("--part", choices=PARTS, action="append", help="only this part of the tasks")
    parser.add_argument("--resamples", type=int, default=2_000, help="of the bootstrap")
    chosen = parser.parse_args()
    if not chosen.data.is_dir():
        parser.error(f"{chosen.data} is no folder: name the one with swe_java.tar.xz and known_ends.tar.xz")
    rows, began, sessions = policies(), time.process_time(), []
    recorded = (
        (Session(one.group, one.task, good=one.good is not False), one.events)
        for one in read_sessions(chosen.data)
        if one.group != "unseen_agents"
    )
    for session, events in (*recorded, *own_records()):
        session.simulate(events, rows)
        for name, kinds in KINDS.items():
            with only_points_of(kinds):
                session.simulate(events, {name: rows["points alone"]})
        sessions.append(session)
        if len(sessions) % 100 == 0:
            say(f"{len(sessions)} sessions, {time.process_time() - began:.0f} s")
    names = list(rows)[:-1]
    names[5:5] = KINDS
    for part in chosen.part or PARTS:
        print("\n".join(table(part, sessions, names, chosen.resamples)))
    print("\n".join(others(sessions)))
    print(f"{time.process_time() - began:.0f} s of processor time", file=sys.stderr)


if __name__ == "__main__":
    main()

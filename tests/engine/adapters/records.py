"""What records of followed runs say, for the tests of all adapters."""

from __future__ import annotations

from pathlib import Path

from endstop import read_record
from endstop.decision.events import MessageAdded, ResponseFinished
from endstop.decision.messages import Usage
from endstop.records.reader import RecordedRun
from endstop.replay import replay


def runs_in(folder: Path) -> list[RecordedRun]:
    """All runs that were recorded in a folder, in the order of their records' names."""
    return [run for path in sorted(folder.glob("*.jsonl")) for run in read_record(path).runs]


def ends(folder: Path) -> list[tuple[str, int]]:
    """How each run ended, and after how many steps."""
    return sorted(
        (run.finished.outcome.stop_reason, run.finished.outcome.steps) for run in runs_in(folder) if run.finished
    )


def works(folder: Path) -> list[tuple[str, str]]:
    """How each run ended, and what its outcome says of the work."""
    outcomes = [run.finished.outcome for run in runs_in(folder) if run.finished]
    return [(outcome.stop_reason, outcome.work) for outcome in outcomes]


def nudges(folder: Path) -> list[str]:
    """What the model of the only recorded run was nudged with."""
    (run,) = runs_in(folder)
    return [one.text for one in run.events if isinstance(one, MessageAdded) and one.origin == "nudge"]


def usages(run: RecordedRun) -> list[Usage]:
    """The usage of each response."""
    return [one.usage for one in run.events if isinstance(one, ResponseFinished)]


async def replays(folder: Path) -> bool:
    """Whether each record decides the same again."""
    return all([(await replay(path)).same for path in sorted(folder.glob("*.jsonl"))])

"""What a replay has shown, for people and for programs."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec
from msgspec import Struct

from ...replay import ReplayedRun, ReplayReport
from .clean import one_line
from .columns import plain
from .divergence import difference_lines, evidence_lines
from .text import Recorded, counted


class Circumstances(Struct, frozen=True, kw_only=True):
    """What else is to be said of a replay."""

    left_at: str = ""
    """The event at which somebody left it; empty if it came to its end."""
    diverged: bool = False
    """Whether the run that was left had diverged."""
    not_reached: str = ""
    """The event from which on it should have been shown, if it ended before."""
    being_written: bool = False
    """Whether another process still writes to the record."""
    shown: Collection[str] = ()
    """Runs whose divergence was shown to whom the report is for."""


def is_same(report: ReplayReport, circumstances: Circumstances) -> bool:
    """Whether nothing differed, as far as the replay came."""
    return report.same and not circumstances.diverged


def as_json(report: ReplayReport, circumstances: Circumstances) -> str:
    """The report as one line of JSON."""
    runs = [
        {
            "run_id": run.run_id,
            "same": run.divergence is None,
            "decisions": run.decisions,
            "divergence": run.divergence,
            "difference": run.difference,
            "outcome": run.outcome,
            "recorded": run.recorded,
        }
        for run in report.runs
    ]
    whole = {
        "same": is_same(report, circumstances),
        "record": report.path,
        "runs": runs,
        "damaged_lines": report.damaged,
        "missing_attachments": report.missing,
        "being_written": circumstances.being_written,
        "left_at": circumstances.left_at or None,
    }
    return msgspec.json.encode(whole).decode() + "\n"


def as_text(report: ReplayReport, circumstances: Circumstances, width: int) -> str:
    """The report in lines for people."""
    lines = [line for run in report.runs for line in _told(run, circumstances, width)]
    lines += _remarks(report, circumstances)
    same, decisions = is_same(report, circumstances), sum(run.decisions for run in report.runs)
    if circumstances.left_at:
        lines.append(f"left at {circumstances.left_at}: {'the same until then' if same else 'NOT the same'}")
    elif same:
        lines.append(f"the same: {counted(decisions, 'decision')} in {counted(len(report.runs), 'run')}")
    else:
        lines.append("NOT the same")
    return "\n".join(lines) + "\n"


def _told(run: ReplayedRun, circumstances: Circumstances, width: int) -> Iterator[str]:
    run_id = one_line(run.run_id, 100)
    if run.divergence is not None:
        yield f"{run_id}: diverges: {one_line(run.divergence.what, 1000)}"
        if run.run_id not in circumstances.shown:
            yield from map(plain, evidence_lines(run.divergence, width))
        return
    ended = "the record ends before the run does" if run.recorded is None else one_line(run.outcome.stop_reason, 100)
    yield f"{run_id}: {run.outcome.status} ({ended}), {counted(run.decisions, 'decision')} the same"
    if run.difference is not None:
        yield from map(plain, difference_lines(run.difference, width))


def _remarks(report: ReplayReport, circumstances: Circumstances) -> Iterator[str]:
    if circumstances.not_reached:
        yield f"event {circumstances.not_reached} was not reached: the replay ended before it"
    if circumstances.being_written:
        yield "the record is being written by another process: this is what it held when it was read"
    elif report.damaged:
        yield f"{counted(len(report.damaged), 'line')} of the record could not be read"
    if report.missing:
        yield f"{counted(len(report.missing), 'attachment')} of the record could not be found"
    if report.runs and report.runs[-1].recorded is None and not (circumstances.being_written or circumstances.left_at):
        yield f"the last run was killed; it goes on with: {Recorded(report.path).resume('')}"

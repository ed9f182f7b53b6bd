"""An event that somebody names on the command line: SEQ, or RUN:SEQ as events are called in public."""

from __future__ import annotations

from ...decision import WrongUse
from ...records.reader import RecordedRun, SessionRecord
from ...replay.diff import Beginning
from .clean import one_line
from .text import counted

SHOWN = 4
"""Runs that are listed by name."""


def beginning_of(record: SessionRecord, given: str) -> Beginning:
    """The event of this name. RUN is a run's id or its number, from 1. Raises WrongUse if the record has none."""
    run, _, seq = given.rpartition(":")
    if not (seq.isascii() and seq.isdigit()):
        raise WrongUse(f"--from {given}: write the number of an event, as in --from 12, or RUN_ID:SEQ")
    number = _number_of(record, run, given)
    events = record.runs[number].events
    if not events[0].seq <= int(seq) <= events[-1].seq:
        raise WrongUse(f"--from {given}: {_range(record.runs[number])}")
    return Beginning(run=number, seq=int(seq))


def name_of(record: SessionRecord, beginning: Beginning) -> str:
    """The public id of the event."""
    return f"{one_line(record.runs[beginning.run].started.run_id, 100)}:{beginning.seq}"


def _number_of(record: SessionRecord, run: str, given: str) -> int:
    runs = record.runs
    if not run and len(runs) == 1:
        return 0
    if not run:
        raise WrongUse(f"--from {given}: the record holds {counted(len(runs), 'run')}, so say which: {_ranges(runs)}")
    for number, recorded in enumerate(runs):
        if recorded.started.run_id == run:
            return number
    if run.isascii() and run.isdigit() and 1 <= int(run) <= len(runs):
        return int(run) - 1
    raise WrongUse(f"--from {given}: the record holds no run {run}: {_ranges(runs)}")


def _ranges(runs: list[RecordedRun]) -> str:
    more = f"; and {counted(len(runs) - SHOWN, 'run')} more" if len(runs) > SHOWN else ""
    return "; ".join(map(_range, runs[:SHOWN])) + more


def _range(run: RecordedRun) -> str:
    return f"{one_line(run.started.run_id, 100)} has events {run.events[0].seq} to {run.events[-1].seq}"

"""A session's record, held against its script: whole, each call answered once, and played again it decides the same."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from endstop.decision.events import ResponseFinished, RunFinished, RunResumed, StepFinished, ToolCallResult
from endstop.records.reader import RecordedRun, read_record
from endstop.replay import replay

from .script import Script


async def check_record(path: Path, script: Script) -> RecordedRun:
    """The last run of a record; fails unless it is whole, went by its script to the end, and replays."""
    record = read_record(path)
    assert record.damaged == []
    assert record.missing == []
    run = record.runs[-1]
    for number, recorded in enumerate(record.runs, 1):
        seqs = [event.seq for event in recorded.events]
        assert seqs == list(range(1, len(seqs) + 1)), f"run {number} of {path} has gaps"
        assert isinstance(recorded.events[-1], RunFinished)
        assert sum(isinstance(event, RunFinished) for event in recorded.events) == 1
    assert run.finished is not None
    assert run.finished.outcome.status == "completed"
    assert run.finished.outcome.answer == f"{script.who} is done"
    events = [event for recorded in record.runs for event in recorded.events]
    responses = [event for event in events if isinstance(event, ResponseFinished)]
    assert [tuple(call.name for call in response.message.calls) for response in responses] == [
        script.calls(step) for step in range(1, script.steps + 1)
    ], f"{path}: not the responses of the script"
    assert Counter(event.step for event in run.events if isinstance(event, StepFinished)).most_common(1)[0][1] == 1
    called = [call.id for response in responses for call in response.message.calls]
    results = Counter(event.call_id for event in events if isinstance(event, ToolCallResult))
    assert set(results) <= set(called)
    assert all(times == 1 for times in results.values()), results
    report = await replay(record)
    assert report.same, [run.divergence for run in report.runs]
    return run


def results(run: RecordedRun) -> list[ToolCallResult]:
    """The results of a run's calls."""
    return [event for event in run.events if isinstance(event, ToolCallResult)]


def unknown(run: RecordedRun) -> list[ToolCallResult]:
    """Those of which nobody knows whether they happened."""
    return [event for event in results(run) if event.status == "unknown"]


def resumptions(run: RecordedRun) -> int:
    """How often the run was taken over."""
    return sum(isinstance(event, RunResumed) for event in run.events)


def check_results(run: RecordedRun, script: Script) -> None:
    """Each call's result is what its tool gave, unless it is marked."""
    for event in results(run):
        if event.name in ("look", "note") and event.status == "ok":
            assert event.content.startswith(f"{event.name} "), event
            assert event.content.endswith(f" of {script.who}"), event

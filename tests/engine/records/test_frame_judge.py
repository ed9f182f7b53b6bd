"""What is known of the calls of another loop stands beside the frames of their results."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from endstop.decision.events import ToolCallResult
from endstop.records.format import encode_line
from endstop.records.frame_judge import FrameJudge
from endstop.records.frames import Frame, Frames, Gap
from endstop.records.reader import read_record

from ..other_loops import CHANGED, ENDS, events_of_calls

RECORDS = Path(__file__).parents[2] / "records"


def frames() -> list[Frame]:
    return [Frame("r", event.seq, encode_line(event)) for event in events_of_calls()]


def judged(found: Frames) -> list[str]:
    return [frame.judged.end for frame in found if isinstance(frame, Frame) and frame.judged is not None]


def test_each_result_of_another_loop_has_the_judgement_of_its_call_and_the_lines_stay() -> None:
    found = FrameJudge().judged(frames())
    assert judged(found) == ENDS
    assert [frame.line for frame in found if isinstance(frame, Frame)] == [frame.line for frame in frames()]
    files = [file for frame in found if isinstance(frame, Frame) and frame.judged for file in frame.judged.files]
    assert files == CHANGED


def test_in_whatever_portions_they_come() -> None:
    whole = frames()
    judge = FrameJudge()
    found = [one for first, last in pairwise([0, 1, 7, 8, 20, len(whole)]) for one in judge.judged(whole[first:last])]
    assert judged(found) == ENDS


@pytest.mark.parametrize("name", ["loop", "port", "gives_up"])
def test_calls_of_our_own_loop_are_judged_by_their_status(name: str) -> None:
    for run in read_record(RECORDS / f"{name}.jsonl").runs:
        found = FrameJudge().judged([Frame("r", event.seq, encode_line(event)) for event in run.events])
        statuses = [event.status for event in run.events if isinstance(event, ToolCallResult)]
        assert judged(found) == [
            {"ok": "succeeded", "error": "failed", "invalid": "failed"}.get(one, "unknown") for one in statuses
        ]


def test_gaps_and_lines_that_cannot_be_read_are_left_as_they_are() -> None:
    start, *rest = frames()
    odd: list[Frame | Gap] = [Gap("r", 3, 5), Frame("r", 5, b'{"type":"TOOL_CALL_RESULT","seq":"x"}')]
    judge = FrameJudge()
    assert judge.judged([start, *odd]) == [start, *odd]
    assert judged(judge.judged(rest)) == ENDS

"""Whatever a record has lost, a replay of it comes to an end: with a report, or with a word on what is wrong."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import anyio
from endstop.decision import Policy, WrongUse
from endstop.replay import ReplayReport, replay
from hypothesis import given
from hypothesis import strategies as st

from .scripts import FAULTS, POLICIES, SCRIPTS, World
from .test_runs import drive

GOLDEN = sorted((Path(__file__).parent.parent / "records").glob("*.jsonl"))


def lines_of(script: Any, policy: Policy, faults: Any, folder: Path) -> list[bytes]:
    drive(World(script, policy, faults), record=folder / "whole.jsonl")
    return (folder / "whole.jsonl").read_bytes().splitlines(keepends=True)


def played(lines: list[bytes], folder: Path) -> ReplayReport | None:
    (folder / "r.jsonl").write_bytes(b"".join(lines))

    async def main() -> ReplayReport:
        with anyio.fail_after(60):
            return await replay(folder / "r.jsonl")

    try:
        return asyncio.run(main())
    except WrongUse:
        return None


@given(SCRIPTS, POLICIES, FAULTS, st.data())
def test_lines_that_are_missing_or_come_twice_or_change_places_make_no_replay_hang_or_crash(
    script: Any, policy: Policy, faults: Any, data: Any
) -> None:
    with tempfile.TemporaryDirectory() as name:
        lines = lines_of(script, policy, faults, Path(name))
        lost = data.draw(st.sets(st.integers(1, len(lines) - 1), min_size=1, max_size=6))
        report = played([line for number, line in enumerate(lines) if number not in lost], Path(name))
        for _ in range(data.draw(st.integers(1, 3))):
            one, other = data.draw(st.tuples(*[st.integers(2, len(lines) - 1)] * 2)) if len(lines) > 2 else (1, 1)
            lines[one] = lines[other]
        played(lines, Path(name))
    if report is not None:
        assert [run for run in report.runs if run.outcome.stop_reason == "internal_error"] == []


@given(st.sampled_from(GOLDEN), st.data())
def test_a_record_cut_or_scratched_anywhere_is_replayed_or_refused_with_a_word(path: Path, data: Any) -> None:
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    at = data.draw(st.integers(first, len(whole) - 1))
    scratched = data.draw(st.one_of(st.none(), st.binary(min_size=1, max_size=8)))
    rest = b"" if scratched is None else scratched + whole[at + len(scratched) :]
    with tempfile.TemporaryDirectory() as name:
        played([whole[:at] + rest], Path(name))


DEEP = st.integers(1, 4000).map(lambda depth: "[" * depth + "]" * depth)
PLACES = {
    "arguments": (b'"delta":"', lambda deep: b'"delta":"{\\"x\\":' + deep.encode() + b'}", "was":"'),
    "schemas": (b'"parameters":{', lambda deep: b'"parameters":{"x":' + deep.encode() + b","),
    "facts": (b'"saw":{', lambda deep: b'"saw":{"x":' + deep.encode() + b","),
    "settings": (b'"policy":{', lambda deep: b'"settings":{"x":' + deep.encode() + b'},"policy":{'),
    "unknown": (b'"seq":', lambda deep: b'"more":' + deep.encode() + b',"seq":'),
}


@given(st.sampled_from(GOLDEN), DEEP, st.sampled_from(sorted(PLACES)))
def test_json_of_any_depth_anywhere_makes_no_replay_crash(path: Path, deep: str, place: str) -> None:
    found, put = PLACES[place]
    assert found in path.read_bytes()
    with tempfile.TemporaryDirectory() as name:
        played([path.read_bytes().replace(found, put(deep))], Path(name))

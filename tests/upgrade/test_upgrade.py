"""Upgrade in mid-run: sessions that the version before had begun, cut at every event, are ended by this version.

The ordinary suite takes a sample of the cuts of each session; `make test-long` takes them all.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from endstop import read_record
from endstop.decision import events as ev
from endstop.records.reader import RecordedRun
from msgspec.structs import replace

from .cuts import Cut, check, cuts, take_up, take_up_twice, whole
from .databases import names, places, take_up_all
from .scenes import SCENES, World, play

EVERY = 8
"""The sample: one cut in so many, and not the same places in each session."""


async def take_up_each(
    chosen: list[Cut], path: Path, take_up: Callable[[Cut, Path], Awaitable[bool]] = take_up
) -> tuple[int, list[str]]:
    """How many ended as they would have uncut, and what is wrong with others."""
    same, wrong = 0, []
    for cut in chosen:
        try:
            same += await take_up(cut, path)
        except AssertionError as error:
            wrong.append(f"{cut}: {error}")
    return same, wrong


@pytest.mark.parametrize("name", SCENES)
async def test_a_run_begun_by_the_version_before_goes_on_from_a_sample_of_its_events(name: str, tmp_path: Path) -> None:
    place = list(SCENES).index(name)
    _, wrong = await take_up_each(cuts(name)[place % EVERY :: EVERY], tmp_path / "r.jsonl")
    assert wrong == []


@pytest.mark.long
async def test_a_run_begun_by_the_version_before_goes_on_from_each_of_its_events(tmp_path: Path) -> None:
    made = same = 0
    for name in SCENES:
        chosen = cuts(name)
        ended_so, wrong = await take_up_each(chosen, tmp_path / "r.jsonl")
        assert wrong == []
        made, same = made + len(chosen), same + ended_so
    print(f"{made} cuts of {len(SCENES)} sessions, of which {same} ended exactly as uncut")
    assert made >= 2000
    assert same >= 0.94 * made, "checks that excuse too much say nothing"


async def test_a_sample_of_such_runs_is_killed_a_second_time_and_goes_on_again(tmp_path: Path) -> None:
    chosen = [cut for name in SCENES if not SCENES[name].durable for cut in cuts(name)[13::58]]
    _, wrong = await take_up_each(chosen, tmp_path / "r.jsonl", take_up_twice)
    assert wrong == []


@pytest.mark.long
async def test_such_a_run_that_is_killed_a_second_time_goes_on_again(tmp_path: Path) -> None:
    made = same = 0
    for name in SCENES:
        chosen = cuts(name) if not SCENES[name].durable else []
        ended_so, wrong = await take_up_each(chosen, tmp_path / "r.jsonl", take_up_twice)
        assert wrong == []
        made, same = made + len(chosen), same + ended_so
    print(f"{made} sessions killed twice, of which {same} ended exactly as uncut")
    assert made >= 1800
    assert same >= 0.9 * made, "checks that excuse too much say nothing"


def every_nth_place(nth: int, first: int) -> list[dict[str, tuple[int, int]]]:
    """Places in the sessions of the database, so that each round has one of each session as long as it has events."""
    chosen = {name: places(name)[first % nth :: nth] for name in names()}
    rounds = max(map(len, chosen.values()))
    return [{name: found[n] for name, found in chosen.items() if n < len(found)} for n in range(rounds)]


async def test_a_database_of_the_version_before_opens_and_its_sessions_go_on_from_a_sample_of_their_events() -> None:
    for chosen in every_nth_place(80, 17):
        _, wrong = await take_up_all(chosen)
        assert wrong == []


@pytest.mark.long
async def test_sessions_in_a_database_of_the_version_before_go_on_from_each_of_their_events() -> None:
    made = same = 0
    for chosen in every_nth_place(1, 0):
        ended_so, wrong = await take_up_all(chosen)
        assert wrong == []
        made, same = made + len(chosen), same + ended_so
    print(f"{made} cuts of {len(names())} sessions in a database, of which {same} ended exactly as uncut")
    assert made >= 1500
    assert same >= 0.94 * made, "checks that excuse too much say nothing"


# ---- the checks themselves


def requested_again(world: World, now: list[RecordedRun]) -> None:
    world.requested.append((1, 1))


def finished_call_again(world: World, now: list[RecordedRun]) -> None:
    world.ran.append(("read", "r1", '{"path":"a"}'))


def writing_call_again(world: World, now: list[RecordedRun]) -> None:
    world.ran.append(("write", "another id", '{"path":"a"}'))


def twice_in_one_process(world: World, now: list[RecordedRun]) -> None:
    world.ran.append(world.ran[-1])


def no_end(world: World, now: list[RecordedRun]) -> None:
    now[-1].events.pop()


def gap(world: World, now: list[RecordedRun]) -> None:
    del now[-1].events[-4]


def back_in_time(world: World, now: list[RecordedRun]) -> None:
    now[-1].events[-5] = replace(now[-1].events[-5], t=-1)


def no_result(world: World, now: list[RecordedRun]) -> None:
    last = max(n for n, event in enumerate(now[-1].events) if isinstance(event, ev.ToolCallResult))
    now[-1].events[last] = ev.StageFinished(stage="run", status="ok", seq=now[-1].events[last].seq)


def other_past(world: World, now: list[RecordedRun]) -> None:
    now[-1].events[1] = replace(now[-1].events[1], detail="another one")


def other_end(world: World, now: list[RecordedRun]) -> None:
    (last,) = now[-1].events[-1:]
    assert isinstance(last, ev.RunFinished)
    now[-1].events[-1] = replace(last, outcome=replace(last.outcome, answer="another one"))


def other_message(world: World, now: list[RecordedRun]) -> None:
    last = max(n for n, event in enumerate(now[-1].events) if isinstance(event, ev.ResponseFinished))
    event = now[-1].events[last]
    assert isinstance(event, ev.ResponseFinished)
    now[-1].events[last] = replace(event, message=replace(event.message, text="another one"))


def other_reminder(world: World, now: list[RecordedRun]) -> None:
    world.reminded[1, 3] = ["You have used 9 of 9 steps."]


DEFECTS = [
    (requested_again, "a finished response was requested again"),
    (finished_call_again, "a finished call was run again"),
    (writing_call_again, "a writing call that had begun was run again"),
    (twice_in_one_process, "a call ran twice in one process"),
    (no_end, "a run has not one end"),
    (gap, "numbers have a gap"),
    (back_in_time, "time goes back"),
    (no_result, "has 0 results"),
    (other_past, "what stood in the record has changed"),
    (other_end, "it ended otherwise"),
    (other_message, "the transcript is another one"),
    (other_reminder, "has another reminder"),
]


@pytest.mark.parametrize(("spoil", "complaint"), DEFECTS, ids=lambda value: getattr(value, "__name__", ""))
async def test_each_check_finds_its_defect(spoil: Any, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    lines = whole("calls").lines
    cut = Cut("calls", next(n for n, line in enumerate(lines) if b'"STEP_FINISHED"' in line) + 1)
    left = cut.write(path)
    world = World(SCENES["calls"])
    session = world.session("calls", path)
    session.load(left)
    await play(world, session, left)
    now = read_record(path).runs
    assert check("calls", left, now, world)
    spoil(world, now)
    with pytest.raises(AssertionError, match=complaint):
        check("calls", left, now, world)

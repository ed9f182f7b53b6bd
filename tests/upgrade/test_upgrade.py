"""Upgrade in mid-run: sessions that the version before had begun, cut at every event, are ended by this version.

The ordinary suite takes a sample of the cuts of each session; `make test-long` takes them all.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from .cuts import Cut, cuts, take_up
from .databases import names, places, take_up_all
from .scenes import SCENES

EVERY = 7
"""The sample: one cut in so many, and not the same places in each session."""


async def take_up_each(chosen: list[Cut], path: Path) -> tuple[int, list[str]]:
    """How many ended as they would have uncut, and what is wrong with others."""
    same, wrong = 0, []
    for cut in chosen:
        try:
            same += await take_up(cut, path)
        except AssertionError as error:
            if not cut.known:
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


def every_nth_place(nth: int, first: int) -> list[dict[str, tuple[int, int]]]:
    """Places in the sessions of the database, so that each round has one of each session as long as it has events."""
    chosen = {name: places(name)[first % nth :: nth] for name in names()}
    rounds = max(map(len, chosen.values()))
    return [{name: found[n] for name, found in chosen.items() if n < len(found)} for n in range(rounds)]


async def test_a_database_of_the_version_before_opens_and_its_sessions_go_on_from_a_sample_of_their_events() -> None:
    for chosen in every_nth_place(40, 17):
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

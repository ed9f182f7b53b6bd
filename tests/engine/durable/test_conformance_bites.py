"""Each fault of an engine is found by the case that is about it."""

from __future__ import annotations

from pathlib import Path

import pytest
from endstop.decision import WrongUse
from endstop.testing.conformance.durable import CASES, Adapter, Cannot, check

from .test_conformance import plain

pytestmark = pytest.mark.long

NAMED = {case.name: case for case in CASES}
BITES = {
    "keeps nothing": ["step: its work happens once", "step: the first result is kept"],
    "mixes calls": ["step: keys do not mix", "step: five at once"],
    "wraps errors": ["step: an exception goes through and keeps nothing"],
    "keeps errors": ["step: an exception goes through and keeps nothing"],
    "no NUL": ["killed: results of every kind come back equal"],
    "whole floats": ["killed: results of every kind come back equal"],
    "never lost": ["frozen: within a step", "frozen: between two steps", "drop: a run in work"],
    "recovers all": ["recover: of a run at rest"],
    "loses what is in work": ["lost: neither what waits nor what is in work"],
    "gives what waits": ["given: neither what waits nor what these processes have"],
    "gives what is in work": ["given: neither what waits nor what these processes have"],
    "submitted twice": ["queue: submitted twice"],
    "no at_once": ["queue: at_once is held"],
    "keeps what was dropped": ["drop: results"],
    "away silent": ["open: the engine is away"],
    "no job twice": ["queue: submitted anew after its end"],
    "prints": ["killed: as soon as submit returned"],
}


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    monkeypatch.setattr("endstop.testing.conformance.durable.cases.PATIENCE", 5.0)


@pytest.mark.parametrize(("fault", "name"), [(fault, name) for fault, names in BITES.items() for name in names])
async def test_a_fault_is_found(fault: str, name: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError) as raised:
        await check(NAMED[name], plain(tmp_path, fault))
    assert str(raised.value).startswith(f"conformance case {name!r}: ")


async def test_a_process_that_fails_ends_the_case_and_says_why(tmp_path: Path) -> None:
    broken = Adapter(make="plain:Plain", arguments={"path": str(tmp_path / "nowhere" / "jobs")})
    with pytest.raises((AssertionError, ConnectionError)) as raised:
        await check(NAMED["killed: as soon as submit returned"], broken)
    assert "cannot be opened as a database" in str(raised.value)


async def test_what_an_engine_cannot_do_is_not_asked(tmp_path: Path) -> None:
    with pytest.raises(Cannot, match="freezing"):
        await check(NAMED["frozen: within a step"], plain(tmp_path), cannot={"freezing"})
    with pytest.raises(Cannot, match="limits"):
        await check(
            NAMED["queue: the limit of all processes is held"], Adapter(make="plain:Plain", arguments={"path": "x"})
        )
    with pytest.raises(WrongUse, match="freezing"):
        await check(CASES[0], plain(tmp_path), cannot={"freezin"})
    with pytest.raises(WrongUse, match=r"package\.module:name"):
        await check(CASES[0], Adapter(make="plain"))

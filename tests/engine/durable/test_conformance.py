"""The conformance suite itself: an engine that does all that is asked passes, and each fault is found."""

from __future__ import annotations

from pathlib import Path

import pytest
from endstop.testing.conformance.durable import CASES, Adapter, DurableCase, check


def plain(folder: Path, fault: str = "") -> Adapter:
    return Adapter(
        make="plain:Plain",
        arguments={"path": str(folder / "jobs"), "fault": fault},
        limited={"limit": 2},
        away={"path": str(folder / "nowhere" / "jobs")},
    )


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_a_plain_engine_passes(case: DurableCase, tmp_path: Path) -> None:
    await check(case, plain(tmp_path))

"""Two workers, one queue: the limits of each and of all are held, and both take part."""

from __future__ import annotations

import asyncio
from collections import defaultdict

import pytest

from .fleet import Fleet
from .ledger import Ledger
from .script import Script

pytestmark = pytest.mark.long

EACH, ALL = 2, 3


async def test_the_limits_of_each_worker_and_of_all_are_held(ships: Fleet) -> None:
    limits = ("--max-running", EACH, "--max-running-everywhere", ALL)
    await asyncio.gather(ships.serve("--max-running-everywhere", ALL), ships.worker(*limits), ships.worker(*limits))
    scripts = [Script(who=f"limited-{number}", steps=10) for number in range(12)]
    ids = await asyncio.gather(*(ships.start(script) for script in scripts))
    for id in ids:
        await ships.reached(id, "completed")
    ledgers = [ships.side.of(script.who) for script in scripts]
    everywhere, each = most_at_once(ledgers)
    assert everywhere == ALL, "as many as may, and no more"
    assert all(number <= EACH for number in each.values()), each
    assert len(each) == 2, "both took part"
    assert all(ledger.faults(script) == [] for ledger, script in zip(ledgers, scripts, strict=True))
    assert sum(ledger.repeated_requests for ledger in ledgers) == 0


def most_at_once(ledgers: list[Ledger]) -> tuple[int, dict[str, int]]:
    """How many sessions were between their first and their last line at once: in all, and at each worker."""
    marks: list[tuple[int, int, str]] = []
    for ledger in ledgers:
        (by,) = ledger.askers
        marks += [(ledger.lines[0]["t"], 1, by), (ledger.lines[-1]["t"], -1, by)]
    now: dict[str, int] = defaultdict(int)
    most: dict[str, int] = defaultdict(int)
    everywhere = 0
    for _, step, by in sorted(marks):
        now[by] += step
        most[by] = max(most[by], now[by])
        everywhere = max(everywhere, sum(now.values()))
    return everywhere, dict(most)

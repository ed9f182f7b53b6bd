"""The database goes away under the fleet, and comes back."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from ..postgres import Server
from .checked import check_record, check_results, resumptions
from .fleet import LEASE, Model, fleet, until
from .script import Script


async def test_a_database_that_is_restarted_costs_no_session_and_no_step(
    mortal: Server, model: Model, tmp_path: Path
) -> None:
    scripts = [Script(who=f"restarted-{number}", steps=20, hold=8 + number) for number in range(6)]
    async with fleet(tmp_path / "fleet", mortal.url(mortal.new_database()), model) as ships:
        await asyncio.gather(ships.serve(), ships.worker(), ships.worker())
        ids = [await ships.start(script) for script in scripts]
        await until(lambda: all(len(ships.side.of(s.who).requests) == s.hold for s in scripts), "all are in a response")
        mortal.kill()
        for script in scripts:
            model.open_gate(script.who)
        over = time.monotonic() + 1.5 * LEASE
        await until(lambda: time.monotonic() > over, "every lease is over")
        asked = [len(ships.side.of(s.who).requests) for s in scripts]
        mortal.start()
        for script, id, before in zip(scripts, ids, asked, strict=True):
            told = await ships.reached(id, "completed", "failed", "cancelled", "exhausted", "interrupted")
            assert told["status"] == "completed", ships.trouble()
            run = await check_record(await ships.record(id, tmp_path), script)
            check_results(run, script)
            ledger = ships.side.of(script.who)
            assert before < script.steps, "the database went away in the middle"
            assert ledger.faults(script) == []
            assert ledger.repeated_requests == ledger.repeated_calls == 0
            assert resumptions(run) == 0, "nobody was taken for dead"
            assert len(ledger.askers) == 1
        assert "is dead" not in ships.trouble()

"""The network between a worker and its database is cut, and mended: nothing is lost, nothing is done twice."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import pytest_asyncio

from ..postgres import server
from .checked import check_record, check_results, resumptions
from .fleet import LEASE, Fleet, Member, Model, fleet, until
from .partition import Host, host
from .script import Script

pytestmark = pytest.mark.long


class Apart(NamedTuple):
    """A worker on another host, alone with its sessions so far."""

    ships: Fleet
    far: Member
    host: Host


@pytest.fixture
def other_host() -> Iterator[Host]:
    """Another host."""
    with host() as made:
        yield made


@pytest_asyncio.fixture
async def apart(other_host: Host, tmp_path: Path) -> AsyncIterator[Apart]:
    """The server here, and a worker there."""
    with server(also=other_host.database) as postgres:
        store = postgres.url(postgres.new_database())
        there = store.replace("127.0.0.1", other_host.database)
        async with Model(tmp_path, "0.0.0.0") as model, fleet(tmp_path / "fleet", store, model) as ships:
            far = ships.worker(name="far", before=other_host.before, store=there, model_host=other_host.model)
            _, worker = await asyncio.gather(ships.serve(), far)
            yield Apart(ships, worker, other_host)


async def test_a_short_cut_costs_nothing(apart: Apart, tmp_path: Path) -> None:
    ships = apart.ships
    scripts = [Script(who=f"short-{number}", steps=30) for number in range(3)]
    ids = [await ships.start(script) for script in scripts]
    near = await ships.worker(name="near")
    await until(lambda: all(len(ships.side.of(s.who).requests) >= 4 for s in scripts), "all are under way")
    apart.host.cut()
    over = time.monotonic() + LEASE / 4
    await until(lambda: time.monotonic() > over, "a quarter of the lease is over")
    apart.host.heal()
    for script, id in zip(scripts, ids, strict=True):
        await ships.reached(id, "completed")
        run = await check_record(await ships.record(id, tmp_path), script)
        assert resumptions(run) == 0, f"{near.said}\n{apart.far.said}"
        ledger = ships.side.of(script.who)
        assert ledger.faults(script) == []
        assert ledger.askers == ["far"]
        assert ledger.repeated_requests == ledger.repeated_calls == 0


async def test_a_cut_past_the_lease_moves_the_sessions_and_repeats_no_step(apart: Apart, tmp_path: Path) -> None:
    ships = apart.ships
    scripts = [Script(who=f"long-{number}", steps=30) for number in range(4)]
    ids = [await ships.start(script) for script in scripts]
    near = await ships.worker(name="near")
    await until(lambda: all(len(ships.side.of(s.who).requests) >= 4 for s in scripts), "all are under way")
    hit = [s for s in scripts if ships.side.of(s.who).requests[-1]["by"] == "far"]
    apart.host.cut()
    cut = time.monotonic_ns()
    for id in ids:
        await ships.reached(id, "completed")
    records = {id: (await ships.record(id, tmp_path)).read_bytes() for id in ids}
    apart.host.heal()
    await until(lambda: "taken for dead" in apart.far.said, "the far one finds out", 60)
    assert hit, "the far worker had sessions"
    for script, id in zip(scripts, ids, strict=True):
        path = await ships.record(id, tmp_path)
        assert path.read_bytes() == records[id], "who was cut off wrote nothing later"
        run = await check_record(path, script)
        check_results(run, script)
        ledger = ships.side.of(script.who)
        assert ledger.faults(script) == []
        if script in hit:
            assert ledger.askers == ["far", "near"]
            lease_over = cut + LEASE * 1e9
            late = [line for line in ledger.lines if line["t"] > lease_over and line.get("by") == "far"]
            assert [line for line in late if line["what"] == "begun"] == []
    await near.kill()
    last = Script(who="back", steps=5)
    id = await ships.start(last)
    await ships.reached(id, "completed")
    assert ships.side.of("back").askers == ["far"], "it works on"

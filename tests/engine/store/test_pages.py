"""Whatever the batches, a reader gets every event exactly once and in order, from wherever it begins."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from endstop.store.base import EventBatch
from endstop.store.sql import SqlStore
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .made import all_pages, batch, beginning, ending, lines, seqs, session

PROPERTY = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


LENGTHS = st.lists(st.tuples(st.integers(1, 5), st.booleans()), min_size=1, max_size=12)


@PROPERTY
@given(runs=st.lists(LENGTHS, min_size=1, max_size=4), limit=st.integers(1, 5), after=st.integers(0, 61))
async def test_every_event_is_read_once_and_in_order(
    store: SqlStore, runs: list[list[tuple[int, bool]]], limit: int, after: int
) -> None:
    await store.delete("session_1")
    await store.add(session())
    bounds = [_bounds([length for length, _ in run]) for run in runs]
    batches = [
        [_batch(f"run_{number}", at, bounds[number], step) for at, (_, step) in enumerate(run)]
        for number, run in enumerate(runs)
    ]
    # None waits for the one before: they keep their order all the same.
    await asyncio.gather(*(store.commit(one) for run in batches for one in run))
    for number, run in enumerate(runs):
        name, total = f"run_{number}", bounds[number][-1][1]
        found = await all_pages(store, name, limit=limit)
        assert seqs(found) == list(range(1, total + 1))
        assert [(page.first_seq, page.last_seq) for page in found] == bounds[number]
        rest = await store.pages(name, after=after, limit=limit)
        assert bool(rest) == (after < total)
        assert not rest or rest[0].first_seq <= after + 1 <= rest[0].last_seq
        assert all(one.last_seq + 1 == other.first_seq for one, other in pairwise(rest))
        stored = await store.run(name)
        assert stored is not None
        assert (stored.last_seq, stored.status) == (total, "completed" if len(run) > 1 else "running")
    kept = await store.session("session_1")
    assert kept is not None
    assert kept.steps == sum(3 if len(run) > 1 else run[0][1] for run in runs)  # 3: what the outcome says


def _bounds(lengths: list[int]) -> list[tuple[int, int]]:
    return [(sum(lengths[:at]) + 1, sum(lengths[: at + 1])) for at in range(len(lengths))]


def _batch(run: str, at: int, bounds: list[tuple[int, int]], step: bool) -> EventBatch:
    first, last = bounds[at]
    made = lines(first, last, step=step)
    compress = at % 2 == 1  # processes of two versions may write a run
    if at == 0:
        return beginning(last, run=run, lines=made)
    return (ending if at == len(bounds) - 1 else batch)(first, last, run=run, lines=made, compress=compress)

"""The simulation of a fleet (`tests/benchmarks/fleet_simulation.py`) where the result can be worked out by hand."""

from __future__ import annotations

from math import ceil, factorial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .scripts import load

SIMULATION = load(Path(__file__).parent / "benchmarks" / "fleet_simulation.py")
LOOK = 0.01
"""Seconds between two looks for sessions: few of the time of a step."""


def simulation(*, steps: int = 1, model: float = 0.0, **given: Any) -> Any:
    """A simulation; times of service that are not given are 0, and cores are never short unless they are given."""
    machines = {"workers": 1, "places": 1, "cores": 64, "database_cores": 64}
    machines = {name: given.pop(name, default) for name, default in machines.items()}
    times = dict.fromkeys(SIMULATION.ServiceTimes.__dataclass_fields__, 0.0) | {"poll": LOOK} | given
    work = SIMULATION.Work(steps=steps, chunks=10, model=model)
    return SIMULATION.FleetSimulation(SIMULATION.ServiceTimes(**times), work, SIMULATION.Machines(**machines))


@settings(max_examples=30)
@given(st.integers(1, 40), st.integers(1, 4), st.integers(1, 5), st.integers(1, 3))
def test_sessions_that_only_wait_for_their_model_take_turns_in_the_places(
    sessions: int, workers: int, places: int, steps: int
) -> None:
    result = simulation(workers=workers, places=places, steps=steps, model=2.0, poll=0.01).drain(sessions)
    rounds = ceil(sessions / (workers * places))
    assert result.last_end == pytest.approx(2.0 * steps * rounds, abs=0.02 * rounds)


def test_a_worker_runs_one_thread_at_a_time_whatever_the_cores() -> None:
    result = simulation(places=50, worker_step=0.1, poll=0.001).drain(50)
    assert result.last_end == pytest.approx(5.0, abs=0.01)
    assert result.worker_busy == pytest.approx(5.0)


def test_workers_beyond_the_cores_of_their_machine_make_nothing_faster() -> None:
    two, four = (
        simulation(workers=workers, cores=2, places=50, worker_step=0.1, poll=0.001).drain(100).last_end
        for workers in (2, 4)
    )
    assert two == pytest.approx(5.0, abs=0.02)
    assert four == pytest.approx(two, abs=0.2)


def test_a_database_that_shares_the_machine_takes_its_cores() -> None:
    given = {"cores": 1, "places": 50, "worker_step": 0.1, "database_step": 0.1, "poll": 0.01}
    apart = simulation(database_cores=1, **given).drain(50).last_end
    together = simulation(database_cores=None, **given).drain(50).last_end
    assert (apart, together) == (pytest.approx(5.1, abs=0.1), pytest.approx(10.0, abs=0.1))


def test_who_arrives_waits_as_the_formula_of_erlang_says() -> None:
    """M/M/c cannot be had with a fixed time of service, so the wait of M/D/c is bounded: half to all of M/M/c's."""
    a_second, servers, lasts = 8.0, 10, 1.0
    result = simulation(places=servers, model=lasts, poll=0.03).arrive(a_second, 4000, warm_up=100)
    load = a_second * lasts
    share = load / servers
    top = load**servers / factorial(servers) / (1 - share)
    must_wait = top / (sum(load**n / factorial(n) for n in range(servers)) + top)
    mean = must_wait * lasts / (servers * (1 - share))
    assert 0.4 * mean < sum(result.waited) / len(result.waited) < mean


@pytest.mark.parametrize("a_second", [2.0, 30.0])
def test_a_plan_keeps_up_and_a_worker_less_than_the_sessions_need_does_not(a_second: float) -> None:
    times = dict.fromkeys(SIMULATION.ServiceTimes.__dataclass_fields__, 0.0)
    times |= {"poll": 0.1, "worker_step": 0.01, "database_step": 0.02}
    work = SIMULATION.Work(steps=5, chunks=10, model=0.5)
    found = SIMULATION.plan(
        SIMULATION.ServiceTimes(**times),
        work,
        a_second,
        places=10,
        database_cores=4,
        most_load=0.5,
        longest_wait=1.0,
        seconds=60,
    )
    assert found.databases == ceil(a_second * 5 * 0.02 / (4 * 0.5))
    assert found.waited <= 1.0
    assert found.database_load <= 0.6
    assert found.workers * 10 >= a_second * 5 * 0.51, "so many sessions are under way at once"

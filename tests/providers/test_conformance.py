"""What every provider must do, on all that the package ships."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext
from itertools import chain, repeat
from typing import Any

import pytest
from endstop.providers import (
    Exchange,
    Fallback,
    Hedge,
    Provider,
    Race,
    RateLimit,
    Record,
    Replay,
    Request,
    Retry,
    Scripted,
    Timeouts,
)
from endstop.testing.conformance.providers import CASES, Behaviour, Endpoint, ProviderCase, check

from .voices import direct_to, litellm_to

NO_WIRE = {"connections", "keys", "timeouts"}
"""What neither a script nor a record has."""
WRONG_IN_LITELLM = {
    "refusal: in a place of its own": "litellm drops OpenAI's `delta.refusal`, and says that it ended with stop",
}
"""What cannot be set right from outside of litellm. `docs/explanation/provider_checks.md` names each."""


def scripted(script: Sequence[Behaviour]) -> Provider:
    answers = chain(script, repeat(script[-1]))

    def response(request: Request) -> object:
        behaviour = next(answers)
        stall = [asyncio.Event()] if behaviour.ends == "stalled" else []
        return [*behaviour.says, *stall, *([behaviour.error] if behaviour.error else [])]

    return Scripted(response)


def replayed(script: Sequence[Behaviour]) -> Provider:
    def exchange(behaviour: Behaviour) -> Exchange:
        ended = "cancelled" if behaviour.ends == "stalled" else "failed" if behaviour.failure else "finished"
        return Exchange(attempt="1.1", model="m", chunks=behaviour.says, ended=ended, failure=behaviour.failure)

    return Replay(map(exchange, [*script, *[script[-1]] * 10]))


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_the_direct_path(case: ProviderCase) -> None:
    await check(case, direct_to)


def known(case: ProviderCase) -> object:
    """The case, marked if litellm is known to fail it."""
    reason = WRONG_IN_LITELLM.get(case.name)
    marks = [pytest.mark.xfail(reason=reason, raises=AssertionError, strict=True)] if reason else []
    return pytest.param(case, id=case.name, marks=marks)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", [known(case) for case in CASES])
async def test_litellm(case: ProviderCase) -> None:
    await check(case, litellm_to)


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_scripted(case: ProviderCase) -> None:
    await check(case, scripted, serve=nullcontext, cannot=NO_WIRE | {"unreported"})


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_replay(case: ProviderCase) -> None:
    await check(case, replayed, serve=nullcontext, cannot=NO_WIRE)


def in_all_wrappers(endpoint: Endpoint) -> Provider:
    """The direct path in one wrapper of each kind: what any of them drops, changes or holds back is missing outside."""
    limited = RateLimit(Hedge(Timeouts(direct_to(endpoint)), after=60), streams=8)
    return Record(Retry(Fallback(Race(limited)), times={}), lambda exchange: None)


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_wrappers_do_all_that_the_provider_in_them_does(case: ProviderCase) -> None:
    await check(case, in_all_wrappers)


@pytest.mark.parametrize("case", [case for case in CASES if "connections" in case.needs], ids=str)
@pytest.mark.parametrize("make", [direct_to, pytest.param(litellm_to, marks=pytest.mark.filterwarnings("ignore"))])
async def test_a_connection_is_closed_within_100_ms(case: ProviderCase, make: Any) -> None:
    """The best of some tries: what is measured is the adapter, and not how busy this machine is."""
    times: list[float] = []
    while len(times) < 5 and min(times, default=1.0) >= 0.1:
        passed = await check(case, make)
        assert passed.closed_after is not None
        times.append(passed.closed_after)
    print(f"{case}: {min(times) * 1000:.1f} ms")
    assert min(times) < 0.1

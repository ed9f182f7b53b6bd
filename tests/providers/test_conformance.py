"""What every provider must do, on all that the package ships."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext

import pytest
from endstop.providers import Exchange, LiteLLM, OpenAICompatible, Provider, Replay, Scripted
from endstop.providers.conformance import CASES, Behaviour, Case, Endpoint, check

NO_WIRE = {"connections", "keys", "timeouts"}
"""What neither a script nor a record has."""
WRONG_IN_LITELLM = {
    "refusal: in a place of its own": "litellm drops OpenAI's `delta.refusal`, and says that it ended with stop",
    "finish: in the provider's own word": "litellm (1.105.3) says stop for every word that it does not know",
}
"""What cannot be set right from outside of litellm. `docs/providers.md` names each."""


def direct(endpoint: Endpoint) -> Provider:
    return OpenAICompatible("conformance", endpoint.url, api_key=endpoint.key, read_timeout=endpoint.timeout)


def through_litellm(endpoint: Endpoint) -> Provider:
    return LiteLLM("openai/conformance", api_base=endpoint.url, api_key=endpoint.key, timeout=endpoint.timeout)


def scripted(script: Sequence[Behaviour]) -> Provider:
    def response(behaviour: Behaviour) -> object:
        stall = [asyncio.Event()] if behaviour.ends == "stalled" else []
        return [*behaviour.says, *stall, *([behaviour.error] if behaviour.error else [])]

    return Scripted(*map(response, [*script, *[script[-1]] * 10]))


def replayed(script: Sequence[Behaviour]) -> Provider:
    def exchange(behaviour: Behaviour) -> Exchange:
        ended = "cancelled" if behaviour.ends == "stalled" else "failed" if behaviour.failure else "finished"
        return Exchange(attempt="1.1", model="m", chunks=behaviour.says, ended=ended, failure=behaviour.failure)

    return Replay(map(exchange, [*script, *[script[-1]] * 10]))


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_the_direct_path(case: Case) -> None:
    await check(case, direct)


def known(case: Case) -> object:
    """The case, marked if litellm is known to fail it."""
    reason = WRONG_IN_LITELLM.get(case.name)
    marks = [pytest.mark.xfail(reason=reason, raises=AssertionError, strict=True)] if reason else []
    return pytest.param(case, id=case.name, marks=marks)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", [known(case) for case in CASES])
async def test_litellm(case: Case) -> None:
    await check(case, through_litellm)


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_scripted(case: Case) -> None:
    await check(case, scripted, serve=nullcontext, cannot=NO_WIRE | {"unreported"})


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_replay(case: Case) -> None:
    await check(case, replayed, serve=nullcontext, cannot=NO_WIRE)

"""Every fault of a provider ends a run in a typed outcome that names the attempt, the model, the kind and the cause."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from endstop import Engine, read_record
from endstop.decision.events import AttemptFailed
from endstop.testing.conformance.providers import CASES, Endpoint, ProviderCase

from .voices import direct_to, litellm_to

FAULTS = [case for case in CASES if case.script[0].failure is not None]
LITELLM = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("make", [direct_to, pytest.param(litellm_to, marks=LITELLM)])
@pytest.mark.parametrize("case", FAULTS, ids=str)
async def test_a_fault_is_a_typed_outcome(case: ProviderCase, make: Any, tmp_path: Path) -> None:
    record = tmp_path / "run.jsonl"
    failure = case.script[0].failure
    assert failure is not None
    async with Endpoint(case.script) as endpoint, Engine(make(endpoint)) as engine:
        outcome = await engine.session(record=record).run("Look around.")
    assert (outcome.status, outcome.stop_reason) == ("failed", "provider_error")
    last = [event for event in read_record(record).runs[-1].events if isinstance(event, AttemptFailed)][-1]
    assert outcome.detail.startswith(f"attempt {last.attempt} of {engine.config.provider.model}: {last.kind}: ")
    assert last.message in outcome.detail
    if case.script[0].ends in ("refused", "error"):
        assert failure.message in outcome.detail
    assert endpoint.key not in outcome.detail + record.read_text()

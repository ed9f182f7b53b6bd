"""`endstop proxy --until`: an agent in any language ends once its work is right, and not before, on each wire."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from endstop import Until
from endstop.decision import events as ev
from endstop.replay import replay

pytest.importorskip("anthropic", reason="Anthropic's client is not installed: `pip install .[test]` brings it")

from .agents import proxied
from .checked_work import GOAL, ON_WIRES, POLICY, STREAMS, recorded, until
from .vendors import CHAT, TEXT, Vendors, Wire, run_agent, wire_of


class Hasty(Vendors):
    """Calls `work` once, says that it is done, and calls `work` again each time that it is told that it is not."""

    async def handle(self, request: Any) -> Any:
        body = await request.json()
        wire = wire_of(request)
        last = json.dumps(body[wire.field][-1])
        self.kind = "worker" if wire.results(body) == 0 or "Not accepted" in last else "babbler"
        self.said = "babbler" if self.kind == "babbler" else ""
        return await super().handle(request)

    async def _stream(self, wire: Wire, whole: dict[str, Any], reply: Any) -> None:
        self.kind = "ordinary"  # a babbler's text that ends
        await super()._stream(wire, whole, reply)


class Claimer(Vendors):
    """Calls `work` once, then `finish_task`, and `work` again each time that it is told that it is not done."""

    def __init__(self) -> None:
        super().__init__("finisher")

    def _response(self, wire: Wire, body: dict[str, Any]) -> dict[str, Any]:
        last = json.dumps(body[wire.field][-1])
        works = wire.results(body) == 0 or "Not accepted" in last
        name, arguments = ("work", {"n": len(self.requests)}) if works else ("finish_task", {"summary": TEXT})
        return wire.whole(str(len(self.requests)), "", (f"call_{len(self.requests)}", name, json.dumps(arguments)))


class Endless(Vendors):
    """Calls `work` for ever."""

    def __init__(self) -> None:
        super().__init__("worker")


@STREAMS
@ON_WIRES
async def test_a_final_text_goes_on_in_the_same_response_until_the_work_is_right(
    wire: Wire, streams: bool, work: Path, tmp_path: Path
) -> None:
    vendors, records = Hasty("ordinary"), tmp_path / "records"
    records.mkdir()
    async with proxied(vendors, records, policy=POLICY, until=until(work), workspace=str(work.parent)) as (url, _, _p):
        run = await run_agent(wire, url, streams=streams, blocks=False)
    assert len(work.read_text().splitlines()) == GOAL
    assert TEXT in run.text
    assert run.requests == GOAL + 1  # the agent itself saw no end before
    assert len(vendors.requests) == 2 * GOAL  # its model was told twice
    told = [body for body in vendors.requests if "Not accepted" in json.dumps(body)]
    assert "1 passed, 2 failed" in json.dumps(told[0])
    events, outcome = recorded(records)
    assert (outcome.status, outcome.stop_reason, outcome.work) == ("completed", "until_met", "checked")
    rejected = [event for event in events if isinstance(event, ev.CompletionRejected)]
    assert [event.by for event in rejected] == ["until", "until"]
    (record,) = records.rglob("*.jsonl")
    assert (await replay(record)).same


@STREAMS
@ON_WIRES
async def test_a_completion_that_comes_too_early_never_reaches_the_agent_and_its_model_goes_on(
    wire: Wire, streams: bool, work: Path, tmp_path: Path
) -> None:
    vendors, records = Claimer(), tmp_path / "records"
    records.mkdir()
    async with proxied(vendors, records, policy=POLICY, until=until(work), workspace=str(work.parent)) as (url, _, _p):
        run = await run_agent(wire, url, streams=streams, blocks=False)
    assert "1 passed, 2 failed" in json.dumps(vendors.requests)
    assert "assistantassistant" not in json.dumps(vendors.requests)
    events, outcome = recorded(records)
    assert (outcome.status, outcome.stop_reason, outcome.work) == ("completed", "until_met", "checked")
    assert sum(isinstance(event, ev.CompletionRejected) for event in events) == 2
    assert run.requests <= GOAL + 2
    (record,) = records.rglob("*.jsonl")
    assert (await replay(record)).same


@STREAMS
@ON_WIRES
async def test_an_agent_that_goes_on_for_ever_gets_a_completed_end_once_its_work_is_right(
    wire: Wire, streams: bool, work: Path, tmp_path: Path
) -> None:
    async def check(run: Any) -> bool:
        return len(work.read_text().splitlines()) >= GOAL

    vendors, records = Endless(), tmp_path / "records"
    records.mkdir()
    quick = Until(check, folder=work.parent, from_failing=False)
    async with proxied(vendors, records, policy=POLICY, until=quick, workspace=str(work.parent)) as (url, _, _p):
        run = await run_agent(wire, url, streams=streams, blocks=False)
    assert "The task is complete" in run.text
    events, outcome = recorded(records)
    assert (outcome.status, outcome.stop_reason, outcome.work) == ("completed", "until_met", "checked")
    assert run.requests < 12
    assert sum(isinstance(event, ev.CheckStarted) for event in events) <= run.requests + 1


@ON_WIRES
async def test_final_texts_without_progress_end_the_agent_with_its_own_text(
    wire: Wire, work: Path, tmp_path: Path
) -> None:
    vendors, records = Vendors("ordinary"), tmp_path / "records"
    records.mkdir()
    command = "echo 'FAILED: always'; exit 1"
    async with proxied(vendors, records, policy=POLICY, until=until(work, command), workspace=str(work.parent)) as (
        url,
        _,
        _p,
    ):
        run = await run_agent(wire, url, streams=True, blocks=False)
    assert run.text.endswith(TEXT)
    _, outcome = recorded(records)
    assert (outcome.status, outcome.stop_reason, outcome.work) == ("exhausted", "completion_rejected", "wrong")


@ON_WIRES
async def test_a_check_that_cannot_tell_lets_the_agent_end(wire: Wire, work: Path, tmp_path: Path) -> None:
    vendors, records = Vendors("ordinary"), tmp_path / "records"
    records.mkdir()
    async with proxied(vendors, records, policy=POLICY, until=until(work, "exit 125"), workspace=str(work.parent)) as (
        url,
        _,
        _p,
    ):
        run = await run_agent(wire, url, streams=True, blocks=False)
    assert run.text == TEXT
    assert len(vendors.requests) == run.requests


async def test_a_conversation_without_tools_is_not_checked(work: Path, tmp_path: Path) -> None:
    vendors, records = Vendors("ordinary"), tmp_path / "records"
    records.mkdir()
    marker = work.parent / "checked"
    async with proxied(
        vendors, records, policy=POLICY, until=until(work, f"touch {marker}; exit 1"), workspace=str(work.parent)
    ) as (url, client, _p):
        asked = {"model": "m", "messages": [{"role": "user", "content": "a title?"}]}
        async with client.post(f"{url}/v1/chat/completions", json=asked) as reply:
            assert reply.status == 200
    assert not marker.exists()


async def test_a_proxy_that_ends_leaves_no_process_of_a_check(work: Path, tmp_path: Path) -> None:
    vendors, records, pids = Endless(), tmp_path / "records", tmp_path / "pids"
    records.mkdir()
    hangs = f"test -s work.txt || exit 1; sleep 1000 & echo $! >> {pids}; echo $$ >> {pids}; wait"
    async with proxied(vendors, records, policy=POLICY, until=until(work, hangs), workspace=str(work.parent)) as (
        url,
        _,
        _p,
    ):
        await run_agent(CHAT, url, streams=True, blocks=False)
        with anyio.fail_after(60):
            while not (pids.exists() and len(pids.read_text().split()) == 2):
                await asyncio.sleep(0.01)
    left = [pid for pid in pids.read_text().split() if Path(f"/proc/{pid}").exists()]
    assert not left


async def test_each_change_of_the_work_is_checked_beside_the_next_response(work: Path, tmp_path: Path) -> None:
    class Patient(Endless):
        """Responds once the check of the work as it is has ended."""

        async def handle(self, request: Any) -> Any:
            while len(answered) <= len(self.requests):
                await asyncio.sleep(0.001)
            return await super().handle(request)

    async def check(run: Any) -> bool:
        answered.append(len(work.read_text().splitlines()))
        return answered[-1] >= GOAL + 1

    vendors, records = Patient(), tmp_path / "records"
    answered: list[int] = []
    records.mkdir()
    quick = Until(check, folder=work.parent, from_failing=False)
    async with proxied(vendors, records, policy=POLICY, until=quick, workspace=str(work.parent)) as (url, _, _p):
        with anyio.fail_after(60):
            await run_agent(CHAT, url, streams=True, blocks=False)
    assert answered == [*range(GOAL + 2)]

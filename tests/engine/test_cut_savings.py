"""What cuts at a completion call saved: in outcomes, in the summary of a fleet, and in `endstop report`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from endstop import Completion, Engine, read_record, tool
from endstop.decision import Price, UsageReport, WrongUse
from endstop.decision.events import ToolCallEnd
from endstop.decision.outcome import CutSavings
from endstop.providers import Prices, Scripted, call, say
from endstop.replay import replay

from ..console import endstop

REST = "x" * 400
"""A hundred tokens at 4 characters each."""
DONE = call("finish_task", summary="It is done.")


def answers(*rest: Any) -> Engine:
    return Engine(Scripted(lambda request: [DONE, *rest]))


async def test_a_cut_whose_rest_was_not_read_saved_something_that_nobody_knows() -> None:
    saved = (await answers(say(REST, 4)).run("go")).saved
    assert saved == CutSavings(cuts=1)
    assert (saved.estimated_tokens, str(saved)) == (None, "? (1 cut)")


@pytest.mark.parametrize("recorded", [True, False])
async def test_a_cut_whose_rest_was_read_is_counted(recorded: bool, tmp_path: Path) -> None:
    record = tmp_path / "run.jsonl" if recorded else None
    outcome = await answers(say(REST, 4), call("read_file", path="a")).run("go", record=record, drain=True)
    assert outcome.saved is not None
    assert (outcome.saved.cuts, outcome.saved.measured, outcome.saved.calls) == (1, 1, 1)
    assert 100 <= outcome.saved.output_tokens <= 110
    assert outcome.saved.estimated_tokens == outcome.saved.output_tokens
    if record is not None:
        (replayed,) = (await replay(record)).runs
        assert replayed.outcome.saved == outcome.saved
        assert read_record(record).runs[0].finished.outcome.saved == outcome.saved  # type: ignore[union-attr]


class Pause:
    """In a script: the provider is silent for many turns of the event loop, in which the rest of a run could end."""

    async def wait(self) -> None:
        for _ in range(1000):
            await asyncio.sleep(0)


async def test_the_run_waits_for_a_rest_that_comes_slowly(tmp_path: Path) -> None:
    rest = Pause(), say(REST, 1), Pause(), call("read_file", path="a"), Pause()
    outcome = await answers(*rest).run("go", record=tmp_path / "run.jsonl", drain=True)
    assert outcome.status == "completed"
    assert outcome.saved is not None
    assert (outcome.saved.measured, outcome.saved.calls) == (1, 1)
    (recorded,) = read_record(tmp_path / "run.jsonl").runs
    assert any(isinstance(one.chunk, UsageReport) for one in recorded.after_cut)


async def test_a_user_who_cancels_does_not_wait_for_the_rest() -> None:
    stopped = asyncio.Event()
    async with answers(Pause(), stopped).start("go", drain=True) as run:
        async for event in run:
            if isinstance(event, ToolCallEnd):
                run.cancel()
    assert run.outcome.status == "cancelled"
    assert not stopped.is_set()


async def test_a_response_that_was_not_cut_saved_nothing() -> None:
    assert (await Engine(Scripted("All is well.")).run("go", drain=True)).saved is None


async def test_a_paused_run_carries_on_what_it_saved() -> None:
    @tool(kind="completion")
    async def hand_in(summary: str) -> Completion:
        """Hand in."""
        return Completion(answer=summary, confirm="Is it right?")

    session = Engine(Scripted([call("hand_in", summary="This."), say(REST, 4)]), tools=[hand_in]).session(drain=True)
    paused = await session.run("go")
    finished = await session.answer(paused.questions[0].call_id, "yes")
    assert (paused.status, finished.status) == ("awaiting_input", "completed")
    assert paused.saved is not None
    assert finished.saved == paused.saved


async def test_a_fleet_counts_what_it_has_read_and_estimates_the_rest() -> None:
    async with answers(say(REST, 4)).run_many([str(n) for n in range(8)], drain=0.25) as fleet:
        summary = await fleet.wait()
    assert summary.total.saved == CutSavings(cuts=8, measured=2, output_tokens=200)
    assert summary.total.saved.estimated_tokens == 800
    assert [outcome.saved.measured for outcome in fleet.outcomes if outcome.saved] == [0, 0, 0, 1, 0, 0, 0, 1]
    head, row = str(summary).splitlines()
    assert "saved by cuts" in head
    assert "about 800" in row


async def test_what_cuts_saved_has_the_recorded_price_of_its_run(tmp_path: Path) -> None:
    prices = Prices({"dear": Price(input=1, output=50)})
    models = [Scripted(lambda request: [DONE, say(REST, 4)], model=name) for name in ("dear", "unknown")]
    engine = Engine(models[0], prices=prices)
    async with engine.run_many([str(n) for n in range(8)], record=tmp_path, drain=0.25) as fleet:
        saved = (await fleet.wait()).total.saved
    assert (saved.priced, saved.measured_priced, saved.cost_usd) == (8, 2, pytest.approx(200 * 50 / 1e6))
    assert saved.estimated_cost_usd == pytest.approx(0.04)
    assert str(saved) == "about 800 ($0.0400)"
    unknown = (await Engine(models[1], prices=prices).run("go", drain=True)).saved
    assert (unknown.priced, unknown.estimated_cost_usd, str(unknown)) == (0, None, "100")
    assert str(saved + unknown) == "about 900 ($0.0400+)"
    assert "about 800 ($0.0400)" in (await endstop("report", tmp_path)).out


async def test_a_fleet_that_reads_all_or_nothing_says_so() -> None:
    async with answers(say(REST, 4)).run_many(["a", "b"], drain=True) as fleet:
        assert "  200  " in str(await fleet.wait())
    async with answers(say(REST, 4)).run_many(["a", "b"]) as fleet:
        assert "  ? (2 cut)  " in str(await fleet.wait())
    async with Engine(Scripted(lambda request: "Yes.")).run_many(["a"]) as fleet:
        assert (await fleet.wait()).total.saved == CutSavings()


@pytest.mark.parametrize("drain", [-0.1, 1.5, "all", None])
def test_a_share_that_is_none_is_refused(drain: Any) -> None:
    with pytest.raises(WrongUse, match="use True, False, or the share of the tasks, from 0 to 1"):
        answers().run_many(["a"], drain=drain)


async def test_the_report_has_a_column_and_says_how_it_is_known(tmp_path: Path) -> None:
    async with answers(say(REST, 4)).run_many([str(n) for n in range(4)], record=tmp_path, drain=0.5) as fleet:
        await fleet.wait()
    told = await endstop("report", tmp_path)
    assert told.code == 0, told.err
    assert "4 responses were cut at a completion call; 2 of them were read to their end" in " ".join(told.out.split())
    assert "about 400" in told.out
    spent = json.loads((await endstop("report", tmp_path, "--json")).out)["overall"]["spending"]["saved"]
    assert spent == {
        "cuts": 4,
        "measured": 2,
        "measured_output_tokens": 200,
        "measured_calls": 0,
        "output_tokens": 400,
        "priced": 0,
        "cost_usd": None,
    }


async def test_a_report_where_nothing_was_measured_invents_no_figure(tmp_path: Path) -> None:
    await answers(say(REST, 4)).run("go", record=tmp_path / "run.jsonl")
    told = " ".join((await endstop("report", tmp_path)).out.split())
    assert "1 response was cut at a completion call; what that saved is unknown" in told

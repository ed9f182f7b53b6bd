"""The bus: publishing never waits, and a reader knows what it missed."""

import asyncio

import pytest
from endstop import Bus, Engine, Lagged, Observers
from endstop.decision import Outcome
from endstop.decision.events import RoundStarted, RunFinished, RunStarted
from endstop.providers import Scripted, call, say

from ..captured_logs import capture_logs

END = RunFinished(outcome=Outcome(run_id="r", session_id="s", status="completed", stop_reason="completed"))


def fill(bus: Bus, count: int, finish: bool = True) -> None:
    for number in range(1, count + 1):
        bus.publish(RoundStarted(seq=number, round=number))
    if finish:
        bus.publish(END)


async def test_a_reader_gets_every_event_in_order_up_to_the_terminal_one() -> None:
    bus = Bus()
    fill(bus, 5)
    assert [e.seq for e in [e async for e in bus.read()][:-1]] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("keep", [1, 2, 7])
async def test_a_reader_that_lags_gets_a_marker_and_never_loses_the_terminal_event(keep: int) -> None:
    bus = Bus(keep)
    fill(bus, 20)
    events = [e async for e in bus.read()]
    assert events[0] == Lagged(21 - keep, 22 - keep)
    assert events[-1] is END
    assert len(events) == keep + 1


async def test_a_reader_can_go_on_from_a_number() -> None:
    bus = Bus()
    fill(bus, 5)
    assert [e.seq for e in [e async for e in bus.read(after=3)][:-1]] == [4, 5]


async def test_a_reader_waits_for_what_is_not_there_yet_and_a_cancelled_one_hurts_no_other() -> None:
    bus = Bus()

    async def read() -> list[int]:
        return [event.seq async for event in bus.read()]

    readers = [asyncio.create_task(read()) for _ in range(3)]
    await asyncio.sleep(0)
    readers[1].cancel()
    fill(bus, 3)
    assert await readers[0] == await readers[2] == [1, 2, 3, 0]
    with pytest.raises(asyncio.CancelledError):
        await readers[1]


async def test_a_reader_that_stalls_in_the_middle_is_told_how_much_it_missed() -> None:
    bus = Bus(4)
    fill(bus, 2, finish=False)
    reader = bus.read()
    assert (await anext(reader)).seq == 1
    for number in range(3, 21):
        bus.publish(RoundStarted(seq=number, round=number))
    assert await anext(reader) == Lagged(15, 17)
    assert (await anext(reader)).seq == 17


async def test_subscribers_are_told_each_event_with_its_run_and_one_that_raises_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen: list[tuple[str, int]] = []

    def good(event: object, run: object) -> None:
        seen.append((run.id, event.seq))  # type: ignore[attr-defined]

    async def bad(event: object, run: object) -> None:
        raise RuntimeError("subscriber is broken")

    engine = Engine(
        Scripted([say("a"), call("finish_task", summary="x")]), observers=Observers(subscribers=[bad, good])
    )
    outcome = await engine.run("go")
    assert outcome.status == "completed"
    assert [seq for _, seq in seen] == list(range(1, len(seen) + 1))
    assert {run for run, _ in seen} == {outcome.run_id}
    assert "subscriber is broken" in caplog.text


async def test_a_broken_subscriber_is_logged_once_for_each_run_and_counted_at_its_end() -> None:
    raised = 0

    def bad(event: object, run: object) -> None:
        nonlocal raised
        raised += 1
        raise RuntimeError(f"broken {raised}")

    def once(event: object, run: object) -> None:
        if isinstance(event, RunStarted):
            raise ValueError("only here")

    engine = Engine(Scripted("one", "two"), observers=Observers(subscribers=[bad, once]))
    with capture_logs() as logs:
        outcomes = [await engine.run("go"), await engine.run("go")]
    assert raised > 10
    for outcome in outcomes:
        lines = [line for line in logs if line["run_id"] == outcome.run_id]
        again = lines[2]["times"]
        assert [(line["event"], line["function"].rpartition(".")[2]) for line in lines] == [
            ("subscriber raised", "bad"),
            ("subscriber raised", "once"),
            (f"subscriber raised again {again} times", "bad"),
        ]
        assert "broken" in lines[0]["error"]
        assert lines[0]["event_type"] == "RunStarted"
    assert sum(line.get("times", 0) for line in logs) == raised - len(outcomes)

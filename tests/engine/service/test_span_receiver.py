"""Spans of agents that run elsewhere: late, in any order, in pieces, twice; their sessions, and the alarms."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from endstop import read_record
from endstop.decision import Event, Limits, Policy, Repetition, WrongUse
from endstop.decision import events as ev
from endstop.formats import FORMATS, events_of
from endstop.formats import export_otlp as to_otlp
from endstop.formats.otlp_values import Span, json_spans, write_attributes
from endstop.service import Conflict, Receiving, Service, Unknown
from endstop.service.history import stored_runs
from endstop.store.base import Store, StoreError
from endstop.testing import FakeClock
from msgspec.structs import replace

from ..temporary_store import TemporaryStore
from .stage import Stage

RECORDS = Path(__file__).parents[2] / "records"
NAMES = ("add", "both", "changelog", "copy", "debug", "longest", "loop", "question", "times", "two")


def events_in(name: str) -> list[Event]:
    return [event for run in read_record(RECORDS / f"{name}.jsonl").runs for event in run.events]


def data_of(name: str, session: str = "s") -> Any:
    return msgspec.json.decode(msgspec.json.encode(to_otlp.export(session, events_in(name))[0]))


def spans_of(name: str, session: str = "s") -> list[Span]:
    """The spans of a record, in the order in which they end, as exporters send them."""
    return sorted(json_spans(data_of(name, session)), key=lambda span: (span.end, -span.start))


def without_contents(spans: Iterable[Span]) -> list[Span]:
    held = ("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.tool.call.arguments", "gen_ai.tool.call.result")
    held += ("gen_ai.tool.definitions",)
    kept = []
    for span in spans:
        kept.append(replace(span, attributes={k: v for k, v in span.attributes.items() if k not in held}))
    return kept


def receiving(clock: FakeClock, **more: Any) -> Receiving:
    return Receiving(clock=clock, **more)


async def told(store: Store, session_id: str) -> list[Event]:
    return [event for run in await stored_runs(store, session_id) for event in run.events]


def steps_of(events: Sequence[Event]) -> list[Any]:
    """Text, calls and tokens of each response."""
    return [
        (e.message.text, [(c.name, c.arguments) for c in e.message.calls], e.usage)
        for e in events
        if isinstance(e, ev.ResponseFinished)
    ]


def results_of(events: Sequence[Event]) -> list[Any]:
    return sorted((e.name, e.content, e.status) for e in events if isinstance(e, ev.ToolCallResult))


def imported(name: str) -> list[Event]:
    (session,) = FORMATS["otlp"].sessions(data_of(name))
    return events_of(session, "s", "otlp")


def endings(events: Sequence[Event]) -> list[Any]:
    outcomes = [event.outcome for event in events if isinstance(event, ev.RunFinished)]
    return [(outcome.stop_reason, outcome.status) for outcome in outcomes]


@pytest.mark.parametrize("name", NAMES)
async def test_spans_that_come_one_by_one_make_the_session_that_an_import_of_them_makes(name: str) -> None:
    clock, store = FakeClock(), TemporaryStore()
    async with Service({}, store=store, receiving=receiving(clock)) as service:
        assert service.receiver is not None
        for span in spans_of(name):
            await service.receiver.receive("", [span])
        await clock.advance(6)
        await service.receiver.sweep()
        (session,), _ = await service.sessions()
        assert session.agent == "otlp:endstop"
        assert session.metadata["received"]["conversation"] == "s"
        events = await told(store, session.id)
        expected = imported(name)
        assert steps_of(events) == steps_of(expected)
        assert results_of(events) == results_of(expected)
        assert endings(events)[-1] == endings(expected)[-1]
        assert session.status == endings(expected)[-1][1]
        assert session.steps == len(steps_of(expected))


@pytest.mark.parametrize("seed", range(12))
async def test_in_any_order_in_pieces_and_sent_again_nothing_counts_twice_and_nothing_is_lost(seed: int) -> None:
    chance = random.Random(seed)
    name = NAMES[seed % len(NAMES)]
    clock, store = FakeClock(), TemporaryStore()
    spans = spans_of(name)
    runs = sorted({span.trace for span in spans}, key=lambda trace: min(s.start for s in spans if s.trace == trace))
    async with Service({}, store=store, receiving=receiving(clock)) as service:
        assert service.receiver is not None
        for trace in runs:
            own = [span for span in spans if span.trace == trace]
            own += chance.sample(own, len(own) // 2)
            chance.shuffle(own)
            while own:
                size = chance.randint(1, 4)
                batch, own = own[:size], own[size:]
                await service.receiver.receive("", batch)
                if chance.random() < 0.5:
                    await service.receiver.receive("", batch)
                    await clock.advance(0.01)
            await clock.advance(6)
            await service.receiver.sweep()
        (session,), _ = await service.sessions()
        events = await told(store, session.id)
    assert steps_of(events) == steps_of(imported(name))
    assert endings(events)[-1][0] == endings(imported(name))[-1][0]


async def test_a_session_is_shown_while_it_grows_and_its_readers_get_each_event_once() -> None:
    clock, store = FakeClock(), TemporaryStore()
    async with Service({}, store=store, receiving=receiving(clock)) as service:
        assert service.receiver is not None
        *before, last = [span for span in spans_of("debug") if span.name.startswith("chat")]
        seen: list[int] = []
        for span in before:
            await service.receiver.receive("", [span])
            (session,), _ = await service.sessions()
            assert session.status == "running"
            assert session.run_id is not None
            reader = service.follow_run(await service.run(session.run_id), seen[-1] if seen else 0)
            frames = await anext(reader)
            await reader.aclose()
            seen += [frame.seq for frame in frames if not hasattr(frame, "missed")]
        assert seen == list(range(1, len(seen) + 1))
        await service.receiver.receive("", [last])
        await clock.advance(299)
        await service.receiver.sweep()
        assert (await service.session(session.id)).status == "running"
        await clock.advance(2)
        await service.receiver.sweep()
        assert (await service.session(session.id)).status != "running"


STUCK = replace(Policy(name="circles"), repetition=Repetition(stop_at=4))


async def test_an_alarm_is_an_event_a_count_and_a_line_of_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[dict[str, Any]] = []
    monkeypatch.setattr(
        "endstop.service.span_receiver.log_warning", lambda what, **about: lines.append({"what": what, **about})
    )
    clock, store = FakeClock(), TemporaryStore()
    async with Service({}, store=store, receiving=receiving(clock, policy=STUCK)) as service:
        assert service.receiver is not None
        spans = spans_of("loop")
        chats = [span for span in spans if span.name.startswith("chat")]
        for span in chats[:5]:
            await service.receiver.receive("alice", [span])
        (session,), _ = await service.sessions()
        (alarm,) = [event for event in await told(store, session.id) if isinstance(event, ev.AlarmRaised)]
        assert (alarm.policy, alarm.reason, alarm.step) == ("circles", "stuck", 4)
        assert session.status == "running", "it says so while the agent still runs"
        assert service.receiver.counts.alarms == {"stuck": 1}
        (line,) = lines
        assert (line["session_id"], line["owner"], line["reason"], line["step"]) == (session.id, "alice", "stuck", 4)
        for span in chats[5:]:
            await service.receiver.receive("alice", [span])
        assert len(lines) == 1


async def test_without_contents_limits_raise_alarms_and_repetition_does_not() -> None:
    for policy, alarms in ((STUCK, {}), (replace(Policy(), limits=Limits(steps=3)), {"step_limit": 1})):
        clock, store = FakeClock(), TemporaryStore()
        async with Service({}, store=store, receiving=receiving(clock, policy=policy)) as service:
            assert service.receiver is not None
            for span in without_contents(spans_of("loop")):
                await service.receiver.receive("", [span])
            assert service.receiver.counts.alarms == alarms
            await clock.advance(6)
            await service.receiver.sweep()
            (session,), _ = await service.sessions()
            assert session.title == "endstop: contents not recorded"
            own = [event for event in events_in("loop") if isinstance(event, ev.ResponseFinished)]
            events = await told(store, session.id)
            assert [usage for _, _, usage in steps_of(events)] == [event.usage for event in own]
            names = [[name for name, _ in calls] for _, calls, _ in steps_of(events)]
            assert names == [[call.name for call in event.message.calls] for event in own]
            assert endings(events) == endings(events_in("loop"))


async def test_after_a_restart_a_session_goes_on_and_what_it_had_counts_once() -> None:
    clock, store = FakeClock(), TemporaryStore()
    spans = spans_of("debug")
    half = len(spans) // 2
    async with Service({}, store=store, receiving=receiving(clock)) as service:
        assert service.receiver is not None
        await service.receiver.receive("", spans[:half])
    again = TemporaryStore(store.path)
    async with Service({}, store=again, receiving=receiving(clock)) as service:
        assert service.receiver is not None
        (session,), _ = await service.sessions()
        assert session.status not in ("running", "interrupted")
        await service.receiver.receive("", spans[half - 3 :])
        await clock.advance(6)
        await service.receiver.sweep()
        (session,), _ = await service.sessions()
        events = await told(again, session.id)
        assert steps_of(events) == steps_of(imported("debug"))
        assert session.status == endings(imported("debug"))[-1][1]


async def test_owners_have_sessions_of_their_own_and_nobody_steers_them() -> None:
    clock, store = FakeClock(), TemporaryStore()
    async with Service({}, store=store, receiving=receiving(clock)) as service:
        assert service.receiver is not None
        spans = spans_of("two")
        for owner in ("alice", "bob"):
            await service.receiver.receive(owner, spans[:3])
        (hers,), _ = await service.sessions(owner="alice")
        (his,), _ = await service.sessions(owner="bob")
        assert hers.id != his.id
        with pytest.raises(Unknown):
            await service.session(hers.id, owner="bob")
        for ask in (
            service.cancel(hers.id),
            service.start_run(hers.id, "And now?"),
            service.send_message(hers.id, "Stop"),
            service.answer(hers.id, "Yes"),
        ):
            with pytest.raises(Conflict, match="runs in another program"):
                await ask
        with pytest.raises(Conflict, match="no more of its spans"):
            await service.delete(hers.id)
        await clock.advance(301)
        await service.receiver.sweep()
        await service.delete(hers.id)
        await service.receiver.receive("alice", spans[3:])
        assert len((await service.sessions(owner="alice"))[0]) == 1


async def test_what_is_kept_in_memory_is_bounded() -> None:
    clock, store = FakeClock(), TemporaryStore()
    async with Service({}, store=store, receiving=receiving(clock, most_open=3)) as service:
        assert service.receiver is not None
        for number in range(8):
            own = [replace(span, trace=f"{number:032x}") for span in spans_of("hello", f"s{number}")]
            await service.receiver.receive("", [span for span in own if span.name.startswith("chat")])
        assert service.receiver.open_sessions == 3
        sessions, _ = await service.sessions()
        assert sorted(session.status == "running" for session in sessions) == [False] * 5 + [True] * 3
        await clock.advance(301)
        await service.receiver.sweep()
        await clock.advance(3600)
        await service.receiver.sweep()
        assert service.receiver.open_sessions == 0


async def test_when_the_store_fails_the_same_spans_may_be_sent_again_and_count_once() -> None:
    clock, store = FakeClock(), Stage()
    async with Service({}, store=store, receiving=receiving(clock)) as service:
        assert service.receiver is not None
        spans = spans_of("hello")
        store.fail("commit", 1)
        with pytest.raises(StoreError):
            await service.receiver.receive("", spans)
        await service.receiver.receive("", spans)
        await clock.advance(6)
        await service.receiver.sweep()
        (session,), _ = await service.sessions()
        assert steps_of(await told(store, session.id)) == steps_of(imported("hello"))


async def test_while_the_store_fails_nothing_more_is_taken() -> None:
    clock, store = FakeClock(), Stage()
    async with Service({}, store=store, receiving=receiving(clock)) as service:
        assert service.receiver is not None
        store.fail("commit", 1, 2)
        with pytest.raises(StoreError):
            await service.receiver.receive("", spans_of("hello", "a"))
        with pytest.raises(StoreError):
            await service.receiver.receive("", [replace(span, trace="9" * 32) for span in spans_of("hello", "b")])
        assert service.receiver.open_sessions == 1
        await service.receiver.receive("", [])
        (session,), _ = await service.sessions()
        assert steps_of(await told(store, session.id)) == steps_of(imported("hello"))


async def test_spans_that_wait_are_bounded_in_number_and_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("endstop.service.span_receiver.MAX_HELD", 5)
    monkeypatch.setattr("endstop.service.span_receiver.MAX_SIZE", 20_000)
    clock, store = FakeClock(), TemporaryStore()
    async with Service({}, store=store, receiving=receiving(clock)) as service:
        assert service.receiver is not None
        (call, *_) = [span for span in spans_of("add") if span.name.startswith("execute_tool")]
        for number in range(20):
            await service.receiver.receive("", [replace(call, trace=f"{number:032x}", id=f"{number:016x}")])
        assert service.receiver.counts.spans == {"tool": 20, "dropped": 15}
        late = [span for span in spans_of("loop") if span.name.startswith("chat")][5:]
        await service.receiver.receive("", list(reversed(late)))
        (session,), _ = await service.sessions()
        known = steps_of(await told(store, session.id))
        assert len(known) == len([span for span in spans_of("loop") if span.name.startswith("chat")])


async def test_times_and_texts_that_no_store_could_keep_do_no_harm() -> None:
    clock, store = FakeClock(), TemporaryStore()
    async with Service({}, store=store, receiving=receiving(clock)) as service:
        assert service.receiver is not None
        data = json_of(spans="9" * 25, text="go\0on")
        await service.receiver.receive("", list(json_spans(data)))
        (session,), _ = await service.sessions()
        (started,) = [event for event in await told(store, session.id) if isinstance(event, ev.RunStarted)]
        assert started.prompt == "go\ufffdon"


def json_of(*, spans: str, text: str) -> dict[str, Any]:
    """A request whose times are this number, and whose prompt is this text."""
    said = [{"role": "user", "parts": [{"type": "text", "content": text}]}]
    back = [{"role": "assistant", "parts": [{"type": "text", "content": "Done."}]}]
    attributes = write_attributes(
        {"gen_ai.operation.name": "chat", "gen_ai.input.messages": said, "gen_ai.output.messages": back}
    )
    span = {"traceId": "1" * 32, "spanId": "2" * 16, "startTimeUnixNano": spans, "endTimeUnixNano": "9" * 5000}
    return {"resourceSpans": [{"scopeSpans": [{"spans": [span | {"attributes": attributes}]}]}]}


async def test_spans_that_are_no_agents_are_counted_and_make_no_session() -> None:
    clock, store = FakeClock(), TemporaryStore()
    async with Service({}, store=store, receiving=receiving(clock)) as service:
        assert service.receiver is not None
        span = Span(trace="1" * 32, id="2" * 16, parent="3" * 16, name="GET /", attributes={}, events=[], resource={})
        await service.receiver.receive("", [span])
        assert service.receiver.counts.spans == {"other": 1}
        assert (await service.sessions())[0] == []


def test_a_negative_time_is_refused() -> None:
    with pytest.raises(WrongUse, match="idle_seconds"):
        Receiving(idle_seconds=-1)

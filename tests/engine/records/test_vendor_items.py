"""What a vendor wants back, from the stream to the record: in its place, whole, and never changed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from endstop import Engine, RecordOptions, read_record, tool
from endstop.decision import Assembler, FinishReport, ReasoningDelta, TextDelta, ToolCallDelta
from endstop.decision import events as ev
from endstop.decision.messages import AssistantMessage, Reasoning, ToolCall, message_parts
from endstop.providers import Scripted, call
from endstop.records.deduplication import MESSAGE_PARTS, message_of
from endstop.replay import replay
from hypothesis import given
from hypothesis import strategies as st

ITEM = '{"type":"search","found":"a port"}'


def item(text: str = ITEM) -> ReasoningDelta:
    return ReasoningDelta(signature=text, redacted=True, vendor="v")


def assembled(chunks: list[Any]) -> tuple[AssistantMessage, list[Any]]:
    assembler = Assembler(1, "1.1", set())
    events = [event for chunk in chunks for event in assembler.feed(chunk)] + assembler.close()
    return assembler.message, [event for event in events if type(event) in MESSAGE_PARTS]


def test_texts_calls_and_items_keep_their_order() -> None:
    chunks = [
        ReasoningDelta("Hm."),
        ReasoningDelta(signature="one", vendor="v"),
        TextDelta("Look"),
        TextDelta("ing."),
        item(),
        TextDelta(" Found."),
        ToolCallDelta(0, "a", "look", '{"x": 1}'),
        ReasoningDelta(signature="two", vendor="v"),
        ToolCallDelta(1, "b", "look", '{"x": 2}'),
        FinishReport("tool_calls"),
    ]
    message, _ = assembled(chunks)
    assert [part if isinstance(part, str) else getattr(part, "signature", part) for part in message_parts(message)] == [
        "one",
        "Looking.",
        ITEM,
        " Found.",
        ToolCall("a", "look", '{"x": 1}'),
        "two",
        ToolCall("b", "look", '{"x": 2}'),
    ]


def test_without_places_reasoning_comes_first_and_calls_come_last() -> None:
    old = AssistantMessage("Text", (ToolCall("a", "look"),), (Reasoning("Hm.", "old"), Reasoning("And.")))
    assert [*message_parts(old)] == [*old.reasoning, "Text", *old.calls]


def test_places_behind_the_end_of_a_text_lose_nothing() -> None:
    late = Reasoning("", ITEM, redacted=True, vendor="v", text_before=99, calls_before=9)
    message = AssistantMessage("Text", (ToolCall("a", "look"),), (late,))
    assert [*message_parts(message)] == ["Text", *message.calls, late]


chunks_in_any_order = st.lists(
    st.one_of(
        st.builds(TextDelta, st.sampled_from(["a", "bc", " "])),
        st.builds(ReasoningDelta, st.sampled_from(["x", "yz"])),
        st.builds(lambda vendor: ReasoningDelta(signature="s", vendor=vendor), st.sampled_from(["", "v"])),
        st.just(item()),
        st.builds(lambda at: ToolCallDelta(at, f"c{at}", "look", '{"x": 1}'), st.integers(0, 3)),
    ),
    max_size=12,
)


@given(chunks_in_any_order)
def test_the_events_of_a_response_make_up_its_message(chunks: list[Any]) -> None:
    message, events = assembled([*chunks, FinishReport("stop")])
    assert message_of(events) == message


@given(chunks_in_any_order)
def test_the_parts_of_a_message_hold_all_of_it_once(chunks: list[Any]) -> None:
    message, _ = assembled([*chunks, FinishReport("stop")])
    parts = [*message_parts(message)]
    assert "".join(part for part in parts if isinstance(part, str)) == message.text
    assert tuple(part for part in parts if isinstance(part, ToolCall)) == message.calls
    assert tuple(part for part in parts if isinstance(part, Reasoning)) == message.reasoning


@tool(reads=True)
def look(place: str) -> str:
    """Look somewhere."""
    return f"nothing in {place}"


def recorded(path: Path, items: list[ReasoningDelta], redact: Any = None) -> list[Any]:
    """The events of a run whose first response has these items."""
    response = [
        TextDelta("Looking."),
        *items,
        ToolCallDelta(0, "a", "look", '{"place": "b"}'),
        FinishReport("tool_calls"),
    ]
    model = Scripted(response, [call("finish_task", summary="Done.")])
    engine = Engine(model, tools=[look], record_options=RecordOptions(redact=redact))
    asyncio.run(engine.run("Go.", record=path))
    return read_record(path).runs[0].events


def first_message(events: list[Any]) -> AssistantMessage:
    return next(event.message for event in events if isinstance(event, ev.ResponseFinished))


def test_an_item_is_in_the_record_once_and_replays(tmp_path: Path) -> None:
    events = recorded(tmp_path / "r.jsonl", [item()])
    assert first_message(events).reasoning == (
        Reasoning("", ITEM, redacted=True, vendor="v", text_before=8, calls_before=0),
    )
    assert (tmp_path / "r.jsonl").read_text().count("a port") == 1
    assert asyncio.run(replay(str(tmp_path / "r.jsonl"))).same


def test_an_item_that_a_redaction_would_change_is_left_out(tmp_path: Path) -> None:
    kept = '{"type":"search","found":"nothing"}'
    events = recorded(tmp_path / "r.jsonl", [item(), item(kept)], lambda text: text.replace("a port", "[gone]"))
    assert "a port" not in (tmp_path / "r.jsonl").read_text()
    assert [block.signature for block in first_message(events).reasoning] == ["", kept]

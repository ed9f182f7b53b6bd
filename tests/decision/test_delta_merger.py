"""Deltas of one network read are merged, and what follows from the stream stays exact."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from endstop.decision import (
    AnyChunk,
    Assembler,
    FinishReport,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    Usage,
    UsageReport,
)
from endstop.decision import events as ev
from endstop.decision.delta_merger import DeltaMerger, split_delta
from hypothesis import given
from hypothesis import strategies as st


def merged(*chunks: AnyChunk) -> list[AnyChunk]:
    return DeltaMerger().merge(list(chunks))


def test_neighbouring_deltas_of_one_kind_become_one_and_others_stay() -> None:
    used = UsageReport(Usage(output_tokens=3))
    got = merged(ReasoningDelta("I "), ReasoningDelta("see."), TextDelta("a"), TextDelta("b"), used, TextDelta("c"))
    assert got == [
        ReasoningDelta("I see.", pieces=(2, 4)),
        TextDelta("ab", (1, 1)),
        used,
        TextDelta("c"),
    ]


def test_a_single_delta_of_a_read_is_handed_on_as_it_is() -> None:
    chunk = TextDelta("a")
    assert merged(chunk)[0] is chunk


def test_a_signature_ends_a_block_and_a_hidden_block_stands_alone() -> None:
    hidden = ReasoningDelta("", "sealed", True)
    got = merged(
        ReasoningDelta("a"), ReasoningDelta("b", "signed"), ReasoningDelta("c"), hidden, ReasoningDelta("d", "e")
    )
    assert got == [
        ReasoningDelta("ab", "signed", pieces=(1, 1)),
        ReasoningDelta("c"),
        hidden,
        ReasoningDelta("d", "e"),
    ]


def test_fragments_of_a_call_are_merged_up_to_its_end_and_no_further() -> None:
    head, late = ToolCallDelta(0, "a", "finish_task"), ToolCallDelta(0, arguments="{}")
    got = merged(head, ToolCallDelta(0, arguments='{"x"'), ToolCallDelta(0, arguments=": 1}"), late)
    assert got == [ToolCallDelta(0, "a", "finish_task", '{"x": 1}', pieces=(0, 4, 4)), late]


def test_fragments_of_two_calls_are_not_mixed() -> None:
    chunks = [ToolCallDelta(n % 2, arguments="1") for n in range(4)]
    assert merged(*chunks) == chunks


@pytest.mark.parametrize("before", ["", " ", "{}", " { } "])
def test_arguments_that_are_a_json_string_are_not_merged_as_any_quotation_mark_may_end_them(before: str) -> None:
    text = json.dumps('{"path": "a"}')
    chunks = [ToolCallDelta(0, "a", "look", before)] * bool(before) + [ToolCallDelta(0, arguments=c) for c in text]
    if before.strip():
        assert merged(*chunks) == chunks
    else:
        assert merged(*chunks)[-len(text) + 1 :] == chunks[-len(text) + 1 :]


def test_a_wire_that_says_where_calls_end_is_believed() -> None:
    chunks = [ToolCallDelta(0, arguments=text, whole=text == "3") for text in "1}34"]
    assert merged(*chunks) == [ToolCallDelta(0, arguments="1}3", whole=True, pieces=(1, 1, 1)), chunks[3]]


def test_a_delta_whose_text_was_changed_is_not_taken_apart() -> None:
    changed = TextDelta("[redacted]", (3, 4))
    assert split_delta(changed) == [changed]


# ---- any stream in any reads

FRAGMENTS = st.sampled_from(
    [
        "",
        " ",
        "{",
        "}",
        '"',
        "{}",
        '{"a":',
        '"b"',
        "1",
        "}}",
        '"{',
        '\\"a\\":1}"',
        "[",
        "]",
        "x",
        '{"a":1}',
        "\\",
        "null",
    ]
)
CHUNKS = st.one_of(
    st.builds(TextDelta, st.text(max_size=3)),
    st.builds(ReasoningDelta, st.text(max_size=3), st.sampled_from(["", "", "signed"]), st.booleans()),
    st.builds(
        ToolCallDelta,
        st.integers(0, 2),
        st.sampled_from(["", "", "", "a", "b"]),
        st.sampled_from(["", "", "", "look", "say"]),
        FRAGMENTS,
    ),
    st.builds(ToolCallDelta, st.integers(0, 1), arguments=FRAGMENTS),
    st.builds(ToolCallDelta, st.just(0), arguments=FRAGMENTS, whole=st.sampled_from([False, False, True])),
    st.just(UsageReport(Usage(output_tokens=1))),
    st.just(FinishReport("tool_calls")),
)
STREAMS = st.lists(CHUNKS | st.builds(ToolCallDelta, st.just(0), arguments=FRAGMENTS), max_size=30)


def in_reads(stream: list[AnyChunk], cuts: list[int]) -> list[AnyChunk]:
    """The stream as it comes out of a merger that is fed these reads."""
    merger, edges = DeltaMerger(), sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    return [chunk for begin, end in pairwise(edges) for chunk in merger.merge(stream[begin:end])]


def joined(events: list[ev.Event]) -> list[ev.Event]:
    """The events, with neighbouring deltas of one part joined."""
    result: list[ev.Event] = []
    for event in events:
        last = result[-1] if result else None
        match event, last:
            case ev.TextMessageContent(), ev.TextMessageContent():
                result[-1] = ev.TextMessageContent(attempt="1.1", delta=last.delta + event.delta)
            case ev.ToolCallArgs(), ev.ToolCallArgs() if event.call_id == last.call_id:
                result[-1] = ev.ToolCallArgs(attempt="1.1", call_id=event.call_id, delta=last.delta + event.delta)
            case ev.ReasoningMessageContent(redacted=False), ev.ReasoningMessageContent(redacted=False, signature=""):
                result[-1] = ev.ReasoningMessageContent(
                    attempt="1.1", delta=last.delta + event.delta, signature=event.signature
                )
            case _:
                result.append(event)
    return result


@given(STREAMS, st.lists(st.integers(0, 40), max_size=6))
def test_a_merged_stream_holds_the_deltas_as_they_came(stream: list[AnyChunk], cuts: list[int]) -> None:
    assert [piece for chunk in in_reads(stream, cuts) for piece in split_delta(chunk)] == stream


@given(STREAMS, st.lists(st.integers(0, 40), max_size=6))
def test_each_call_ends_at_the_same_character_of_a_merged_stream(stream: list[AnyChunk], cuts: list[int]) -> None:
    """At each end of a call everything that came before it is known, and nothing that came after it."""
    apart, together = Assembler(1, "1.1", set()), Assembler(1, "1.1", set())
    seen_apart, events_apart = ends(apart, stream)
    seen_together, events_together = ends(together, in_reads(stream, cuts))
    assert seen_together == seen_apart
    assert joined(events_together) == joined(events_apart)
    assert together.message == apart.message


def ends(assembler: Assembler, chunks: list[AnyChunk]) -> tuple[list[object], list[ev.Event]]:
    seen: list[object] = []
    events: list[ev.Event] = []
    for chunk in chunks:
        got = assembler.feed(chunk)
        events += got
        seen += [(event, assembler.message) for event in got if type(event) is ev.ToolCallEnd]
    return seen, events + assembler.close()

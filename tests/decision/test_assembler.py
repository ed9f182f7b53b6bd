"""When is a call complete, and what is a response: chunks in, events out."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any, get_args

import pytest
from endstop.decision import (
    AnyChunk,
    Assembler,
    Event,
    FinishReport,
    ProviderToolReport,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    Usage,
    UsageReport,
)
from endstop.decision.assembler import GrowingText
from endstop.decision.call_arguments import ArgumentsBuffer, count_members
from endstop.decision.events import (
    FinishReported,
    ProviderToolReported,
    ReasoningMessageContent,
    TextMessageContent,
    ToolCallArgs,
    ToolCallEnd,
    ToolCallStart,
    UsageReported,
)
from endstop.decision.messages import FinishReason, Reasoning
from hypothesis import given, settings
from hypothesis import strategies as st

STOP, CALLS, LENGTH = FinishReport("stop", "stop"), FinishReport("tool_calls", "tool_calls"), FinishReport("length")


class Fed:
    """An assembler with what came out of it."""

    def __init__(self, *chunks: AnyChunk, step: int = 3, taken: set[str] | None = None) -> None:
        self.assembler = Assembler(step, f"{step}.1", set() if taken is None else taken)
        self.events: list[Event] = []
        self.feed(*chunks)

    def feed(self, *chunks: AnyChunk) -> list[Event]:
        new = [event for chunk in chunks for event in self.assembler.feed(chunk)]
        self.events += new
        return new

    @property
    def ended(self) -> list[str]:
        """Call ids in the order in which they became complete."""
        return [event.call_id for event in self.events if isinstance(event, ToolCallEnd)]

    @property
    def calls(self) -> list[tuple[str, str, str]]:
        return [(call.id, call.name, call.arguments) for call in self.assembler.message.calls]

    def shown(self, call_id: str) -> str:
        """The arguments as somebody saw them who only watched the events."""
        args = [e for e in self.events if isinstance(e, ToolCallArgs) and e.call_id == call_id]
        return "".join(event.delta for event in args)


def head(index: int = 0, id: str = "a", name: str = "look", arguments: str = "") -> ToolCallDelta:
    return ToolCallDelta(index, id, name, arguments)


def more(arguments: str, index: int = 0) -> ToolCallDelta:
    return ToolCallDelta(index, arguments=arguments)


# ---- when a call is complete


def test_a_call_is_complete_with_the_brace_that_closes_its_arguments_and_not_before() -> None:
    fed = Fed(head())
    for fragment in ('{"path', '": "a', '.txt", "deep": {"x": 1', "}", ' , "y": "}', '"'):
        assert not any(isinstance(event, ToolCallEnd) for event in fed.feed(more(fragment)))
    assert fed.feed(more("}"))[-1] == ToolCallEnd(attempt="3.1", call_id="a")
    assert json.loads(fed.assembler.call("a").arguments) == {"path": "a.txt", "deep": {"x": 1}, "y": "}"}


def test_white_space_may_follow_the_closing_brace() -> None:
    assert Fed(head(), more('{"a": 1}\n  ')).ended == ["a"]
    late = Fed(head(), more('{"a": 1}'), more("  \n"), CALLS)
    assert late.ended == ["a"]
    assert late.calls == [("a", "look", '{"a": 1}')]


def test_a_brace_inside_a_string_completes_nothing() -> None:
    fed = Fed(head(), more('{"code": "if x {y}'), more(" }"), more("}"))
    assert fed.ended == []
    fed.feed(more('"}'))
    assert fed.ended == ["a"]


@pytest.mark.parametrize("arguments", ["", "{}", " {} ", "{ }"])
def test_an_empty_call_is_complete_only_when_the_response_ends(arguments: str) -> None:
    fed = Fed(head(arguments=arguments), TextDelta("hm"))
    assert fed.ended == []
    fed.feed(CALLS)
    assert fed.ended == ["a"]
    assert (fed.assembler.call("a").arguments.strip() or "{}").replace(" ", "") == "{}"


@pytest.mark.parametrize("arguments", ["", "{}", " {} "])
def test_C3_an_empty_call_is_not_complete_when_the_next_one_begins(arguments: str) -> None:
    fed = Fed(head(arguments=arguments))
    fed.feed(head(1, "b", "next", '{"a": 1}'))
    assert fed.ended == ["b"]
    assert not fed.assembler.all_complete_before("b")
    fed.feed(CALLS)
    assert fed.ended == ["b", "a"]


def test_C3_headers_of_parallel_calls_first_and_their_arguments_after() -> None:
    fed = Fed(head(0, "a", "look"), head(1, "b", "look"), more('{"path":', 0), more('{"path":', 1))
    assert fed.ended == []
    fed.feed(more('"x"}', 0), more('"y"}', 1), CALLS)
    assert fed.calls == [("a", "look", '{"path":"x"}'), ("b", "look", '{"path":"y"}')]


@pytest.mark.parametrize("empty", ["{}", " {}\n"])
def test_an_empty_object_that_comes_before_the_arguments_is_no_part_of_them(empty: str) -> None:
    fed = Fed(head(arguments=empty), more(" "), more('{"path": '), more('"a"}'), CALLS)
    assert fed.ended == ["a"]
    assert fed.calls == [("a", "look", '{"path": "a"}')]
    assert fed.shown("a") == '{"path": "a"}'


def test_an_empty_object_is_shown_once_it_is_all_there_is() -> None:
    fed = Fed(head(arguments="{}"))
    assert fed.shown("a") == ""
    fed.feed(CALLS)
    assert fed.shown("a") == "{}"


def test_broken_arguments_stay_as_they_were_written() -> None:
    fed = Fed(head(), more('{"a": 1, b} and so on'), CALLS)
    assert fed.ended == ["a"]
    assert fed.assembler.truncated is None
    assert fed.calls == [("a", "look", '{"a": 1, b} and so on')]


@pytest.mark.parametrize("late", ["}", " and so on", '{"b": 2}', '{"a": 2}', '{"a"', "[", '{"a": true}', "{}"])
@pytest.mark.parametrize("split", [True, False])
def test_C3_what_comes_after_the_closing_brace_makes_the_arguments_invalid(late: str, split: bool) -> None:
    whole = '{"a": 1}'
    fed = Fed(head(), *([more(whole), more(late)] if split else [more(whole + late)]), CALLS)
    assert fed.ended == ["a"]
    assert fed.calls == [("a", "look", whole + late.strip())]
    fed.events += fed.assembler.close()
    assert fed.shown("a") == whole + late.strip()
    assert count_members(fed.calls[0][2]) is None


@pytest.mark.parametrize("late", ['{"a": 1, "b": 2}', ' {"b":2,"a":1} ', '{"a": 1, "b": 2}\n{"a": 1, "b": 2}'])
@pytest.mark.parametrize("cut", [1, 3, 100])
def test_C3_the_same_arguments_once_more_are_ignored(late: str, cut: int) -> None:
    whole = '{"a": 1, "b": 2}'
    text = whole + late
    fed = Fed(head(), *(more(text[at : at + cut]) for at in range(0, len(text), cut)), CALLS)
    assert fed.calls == [("a", "look", whole)]
    assert fed.ended == ["a"]
    assert fed.assembler.close() == []


@pytest.mark.parametrize("cut", [1, 2, 5, 100])
def test_C3_arguments_that_were_encoded_twice_are_unwrapped(cut: int) -> None:
    text = json.dumps('{"path": "a\\"b"}')
    fed = Fed(head(), *(more(text[at : at + cut]) for at in range(0, len(text), cut)))
    assert fed.ended == ["a"]
    assert fed.shown("a") == '{"path": "a\\"b"}'
    fed.feed(CALLS)
    assert fed.calls == [("a", "look", '{"path": "a\\"b"}')]


def test_C3_arguments_that_come_after_the_finish_are_never_dropped() -> None:
    fed = Fed(head(arguments="{}"), CALLS, more('{"a": 1}'))
    assert count_members(fed.calls[0][2]) is None


@pytest.mark.parametrize("reason", ["length", "content_filter", "error", "context_full", "retry"])
def test_C3_of_several_calls_without_arguments_none_is_whole_where_the_response_broke_off(reason: FinishReason) -> None:
    fed = Fed(head(0, "a"), head(1, "b"), head(2, "c", arguments='{"a": '), FinishReport(reason))
    assert fed.ended == []
    assert fed.assembler.without_arguments == ("a", "b")
    assert fed.assembler.truncated == "c"


def test_C3_an_id_that_comes_after_the_name_is_the_calls_id() -> None:
    fed = Fed(head(0, "", "f"), head(1, "", "g"), head(0, "a", "", '{"x": 1}'), head(1, "b", "g", '{"x": 2}'), CALLS)
    assert fed.calls == [("a", "f", '{"x": 1}'), ("b", "g", '{"x": 2}')]


def test_C3_calls_are_shown_in_the_order_in_which_they_began() -> None:
    fed = Fed(head(0, "", "f"), head(1, "b", "g", '{"x": 2}'), more('{"x": 1}', 0), CALLS)
    assert [event.call_id for event in fed.events if isinstance(event, ToolCallStart)] == ["3.0", "b"]
    assert fed.calls == [("3.0", "f", '{"x": 1}'), ("b", "g", '{"x": 2}')]


def test_C3_where_a_wire_marks_the_ends_of_calls_it_is_believed() -> None:
    fed = Fed(head(0, "a", "f"), ToolCallDelta(0, whole=True))
    assert fed.ended == ["a"]
    fed.feed(ToolCallDelta(1, "b", "g", '{"x": 1}', whole=False))
    assert fed.ended == ["a"]
    fed.feed(ToolCallDelta(1, whole=True))
    assert fed.ended == ["a", "b"]


@pytest.mark.parametrize("arguments", ["[1]", "null", "7", '"text"', "{a: 1}", "{'a': 1}"])
def test_what_is_no_object_is_never_complete_before_the_end(arguments: str) -> None:
    fed = Fed(head(arguments=arguments))
    assert fed.ended == []
    fed.feed(CALLS)
    assert fed.ended == ["a"]
    assert fed.calls == [("a", "look", arguments)]
    assert fed.assembler.truncated is None


def test_deeply_nested_arguments_are_judged_without_a_crash() -> None:
    fed = Fed(head(arguments='{"a":' * 100_000 + "1" + "}" * 100_000), CALLS)
    assert fed.ended == ["a"]


def test_calls_whose_fragments_come_interleaved_are_put_together_each_for_itself() -> None:
    fed = Fed(
        head(0, "a", "look", '{"path":'),
        head(1, "b", "look", '{"path":'),
        more('"x"}', 0),
        more('"y"}', 1),
        CALLS,
    )
    assert fed.calls == [("a", "look", '{"path":"x"}'), ("b", "look", '{"path":"y"}')]
    assert fed.ended == ["a", "b"]


def test_a_call_that_begins_after_the_finish_is_a_call() -> None:
    fed = Fed(STOP, head(), more('{"a": 1}'))
    assert fed.ended == ["a"]
    assert fed.calls == [("a", "look", '{"a": 1}')]


def test_a_call_without_arguments_that_begins_after_the_finish_ends_with_the_stream() -> None:
    fed = Fed(CALLS, head(0, "a", "look"), head(1, "b", "look"))
    assert [type(event).__name__ for event in fed.assembler.close()] == [
        "ToolCallStart", "ToolCallEnd", "ToolCallStart", "ToolCallEnd",
    ]  # fmt: skip
    assert fed.calls == [("a", "look", ""), ("b", "look", "")]


@pytest.mark.parametrize(
    "names", [("get_", "weather"), ("g", "e", "t_weather"), ("get_", "get_weather"), ("get_weather", "get_weather")]
)
@pytest.mark.parametrize("id", ["first", "each", "last", "never"])
def test_a_name_may_come_in_pieces_or_again(names: tuple[str, ...], id: str) -> None:
    last = len(names) - 1
    has_id = [id == "each" or (id == "first" and not n) or (id == "last" and n == last) for n in range(len(names))]
    if id == "last" and names[0] != names[-1]:
        has_id[-1] = False  # a name with the first id is a call of its own; the id comes alone
    heads = [ToolCallDelta(0, "a" if has else "", name) for has, name in zip(has_id, names, strict=True)]
    fed = Fed(*heads, *([ToolCallDelta(0, "a")] if id == "last" else []), more('{"city": 1}'), CALLS)
    assert fed.calls == [("3.0" if id == "never" else "a", "get_weather", '{"city": 1}')]


@pytest.mark.parametrize("arguments", ["{}", '{"a": 1}', '{"a": '])
@pytest.mark.parametrize("id", ["", "a"])
def test_another_name_after_arguments_under_the_same_index_is_another_call(arguments: str, id: str) -> None:
    fed = Fed(ToolCallDelta(0, id, "look", arguments), ToolCallDelta(0, id, "read", '{"b": 2}'), CALLS)
    assert [(name, given) for _, name, given in fed.calls] == [("look", arguments), ("read", '{"b": 2}')]


# ---- a response that broke off (pitfalls 6: finish reasons lie, truncated calls were executed)

REASONS: tuple[FinishReason, ...] = get_args(FinishReason)
ARGUMENTS = '{"path": "a\\n\\u00e9\\ud83d\\ude00é", "n": [1, -2.5e-3, true, null, {"c": {}}], "e": {}, "s": "}"}'


@pytest.mark.parametrize("reason", REASONS)
def test_a_call_cut_off_anywhere_in_its_arguments_is_truncated_whatever_the_finish_reason_says(
    reason: FinishReason,
) -> None:
    for end in range(1, len(ARGUMENTS)):
        fed = Fed(head(), more(ARGUMENTS[:end]), FinishReport(reason, "x"))
        assert fed.assembler.truncated == "a", ARGUMENTS[:end]
        assert fed.ended == [], ARGUMENTS[:end]


@pytest.mark.parametrize("arguments", ["", "{}", "  "])
def test_an_empty_call_is_truncated_if_the_response_hit_its_length_limit(arguments: str) -> None:
    fed = Fed(head(arguments=arguments), LENGTH)
    assert fed.assembler.truncated == "a"
    assert fed.ended == []


def test_a_whole_call_stays_whole_when_the_response_hits_its_length_limit_later() -> None:
    fed = Fed(head(arguments='{"a": 1}'), head(1, "b", "look", '{"a": '), LENGTH)
    assert fed.ended == ["a"]
    assert fed.assembler.truncated == "b"


@pytest.mark.parametrize("reason", REASONS)
def test_calls_are_ended_whatever_the_finish_reason_says(reason: FinishReason) -> None:
    fed = Fed(head(arguments='{"a": 1}'), FinishReport(reason, "raw"))
    assert fed.ended == ["a"]
    assert (fed.assembler.finish, fed.assembler.raw_finish) == (reason, "raw")


# ---- ids and indexes


def test_calls_without_ids_get_step_and_index_as_theirs() -> None:
    fed = Fed(head(0, "", "f", '{"a": 1}'), head(1, "", "g", '{"a": 1}'), CALLS, step=7)
    assert [id for id, _, _ in fed.calls] == ["7.0", "7.1"]


def test_an_id_that_was_used_before_in_the_session_or_the_response_is_replaced() -> None:
    taken = {"used"}
    fed = Fed(
        head(0, "used", "f", '{"a": 1}'), head(1, "b", "f", '{"a": 2}'), head(2, "b", "f", '{"a": 3}'), taken=taken
    )
    assert fed.calls == [("3.0", "f", '{"a": 1}'), ("b", "f", '{"a": 2}'), ("3.2", "f", '{"a": 3}')]
    assert taken == {"used", "3.0", "b", "3.2"}


def test_a_model_that_uses_ids_like_ours_gets_no_id_twice() -> None:
    fed = Fed(head(0, "3.1", "f", '{"a": 1}'), head(1, "", "f", '{"a": 2}'), CALLS)
    ids = [id for id, _, _ in fed.calls]
    assert len(set(ids)) == 2


def test_a_new_id_under_an_old_index_is_a_new_call() -> None:
    fed = Fed(head(0, "a", "f", '{"a": 1}'), head(0, "b", "g", '{"b":'), more(" 2}"), CALLS)
    assert fed.calls == [("a", "f", '{"a": 1}'), ("b", "g", '{"b": 2}')]


def test_a_new_name_without_an_id_after_a_complete_call_is_a_new_call() -> None:
    fed = Fed(head(0, "", "f", '{"a": 1}'), head(0, "", "g", '{"b": 2}'), CALLS)
    assert fed.calls == [("3.0", "f", '{"a": 1}'), ("3.1", "g", '{"b": 2}')]


def test_an_id_and_a_name_repeated_with_every_fragment_are_the_same_call() -> None:
    fed = Fed(head(0, "a", "f", '{"a"'), head(0, "a", "f", ": 1"), head(0, "a", "f", "}"), CALLS)
    assert fed.calls == [("a", "f", '{"a": 1}')]
    assert sum(isinstance(event, ToolCallStart) for event in fed.events) == 1


def test_a_name_repeated_with_every_fragment_and_no_id_is_the_same_call() -> None:
    fed = Fed(head(0, "", "f", '{"a"'), head(0, "", "f", ": 1}"), CALLS)
    assert fed.calls == [("3.0", "f", '{"a": 1}')]


def test_an_empty_fragment_at_an_unused_index_begins_nothing() -> None:
    assert Fed(ToolCallDelta(4), CALLS).calls == []


# ---- all else


def test_text_reasoning_usage_and_the_providers_own_tools_come_out_as_events() -> None:
    fed = Fed(
        ReasoningDelta("Let me "),
        ReasoningDelta("see."),
        ReasoningDelta("", "signed"),
        ReasoningDelta("And then"),
        TextDelta(""),
        TextDelta("Hel"),
        TextDelta("lo"),
        ProviderToolReport("srv", "search", '{"q": 1}', "found"),
        UsageReport(Usage(input_tokens=1)),
        STOP,
        UsageReport(Usage(input_tokens=5, output_tokens=2)),
    )
    assert fed.events == [
        ReasoningMessageContent(attempt="3.1", delta="Let me "),
        ReasoningMessageContent(attempt="3.1", delta="see."),
        ReasoningMessageContent(attempt="3.1", signature="signed"),
        ReasoningMessageContent(attempt="3.1", delta="And then"),
        TextMessageContent(attempt="3.1", delta="Hel"),
        TextMessageContent(attempt="3.1", delta="lo"),
        ProviderToolReported(attempt="3.1", id="srv", name="search", arguments='{"q": 1}', result="found"),
        UsageReported(attempt="3.1", usage=Usage(input_tokens=1)),
        FinishReported(attempt="3.1", reason="stop", raw="stop"),
        UsageReported(attempt="3.1", usage=Usage(input_tokens=5, output_tokens=2)),
    ]
    message = fed.assembler.message
    assert (message.text, message.calls) == ("Hello", ())
    assert message.reasoning == (Reasoning("Let me see.", "signed"), Reasoning("And then"))
    assert fed.assembler.usage == Usage(input_tokens=5, output_tokens=2)


def test_reasoning_after_the_text_stays_apart_from_it() -> None:
    message = Fed(TextDelta("a"), ReasoningDelta("r"), TextDelta("b"), STOP).assembler.message
    assert (message.text, message.reasoning) == ("ab", (Reasoning("r"),))


# ---- whatever way it comes in pieces

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(st.text(max_size=6), values, min_size=1, max_size=4)
written = st.builds(
    lambda value, indent, plain: json.dumps(value, indent=indent, ensure_ascii=plain),
    objects,
    st.sampled_from([None, None, 1]),
    st.booleans(),
).filter(lambda text: "\\ud" not in text and _encodable(text))


def _encodable(text: str) -> bool:
    return not any(0xD800 <= ord(letter) <= 0xDFFF for letter in text)


def pieces_of(text: str, places: list[int]) -> list[str]:
    edges = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return [text[a:b] for a, b in pairwise(edges)]


places = st.lists(st.integers(0, 1000), max_size=12)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(written, places), min_size=1, max_size=4), st.sets(st.integers(0, 3)), st.randoms())
def test_calls_are_the_same_whatever_their_fragments_one_after_another_and_interleaved(
    calls: list[Any], empty: set[int], random: Any
) -> None:
    _assert_each_ends_with_its_last_fragment(calls)
    _assert_interleaved_each_is_put_together_for_itself(
        [("", cuts) if number in empty else (text, cuts) for number, (text, cuts) in enumerate(calls)], random
    )


def _assert_each_ends_with_its_last_fragment(calls: list[Any]) -> None:
    fed = Fed()
    for index, (text, cuts) in enumerate(calls):
        fed.feed(head(index, f"id{index}", f"tool{index}"))
        *before, last = pieces_of(text, cuts)
        for fragment in before:
            fed.feed(more(fragment, index))
            assert len(fed.ended) == index
        fed.feed(more(last, index))
        assert len(fed.ended) == index + 1
    fed.feed(CALLS)
    assert fed.calls == [(f"id{i}", f"tool{i}", text) for i, (text, _) in enumerate(calls)]
    assert fed.ended == [f"id{i}" for i in range(len(calls))]
    assert all(fed.shown(f"id{i}") == text for i, (text, _) in enumerate(calls))
    assert fed.assembler.truncated is None


def _assert_interleaved_each_is_put_together_for_itself(calls: list[Any], random: Any) -> None:
    """C3. A call may have no arguments at all."""
    fed = Fed(*(head(number, f"id{number}") for number in range(len(calls))))
    queues = [(number, pieces_of(text, cuts)) for number, (text, cuts) in enumerate(calls)]
    while queues := [queue for queue in queues if queue[1]]:
        number, pieces = random.choice(queues)
        fed.feed(more(pieces.pop(0), number))
    assert set(fed.ended) == {f"id{number}" for number, (text, _) in enumerate(calls) if text}
    fed.feed(CALLS)
    assert [arguments for _, _, arguments in fed.calls] == [text for text, _ in calls]
    assert len(fed.ended) == len(calls)


fragments = st.builds(
    ToolCallDelta,
    st.integers(0, 2),
    st.sampled_from(["", "", "a", "b", "3.0", "3.1"]),
    st.sampled_from(["", "", "look", "change"]),
    st.sampled_from(["", "{}", "{", "}", '{"a"', ": 1", ' "b": 2}', '{"a": 1}', " ", "[", "null", "x"]),
)
chunks = st.one_of(
    fragments,
    fragments,
    st.builds(TextDelta, st.text(max_size=3)),
    st.builds(FinishReport, st.sampled_from(REASONS)),
)


@settings(max_examples=500, deadline=None)
@given(st.lists(chunks, max_size=15))
def test_every_call_begins_once_ends_at_most_once_and_shows_its_own_arguments(given: list[AnyChunk]) -> None:
    fed = Fed(*given, CALLS)
    began = [event.call_id for event in fed.events if isinstance(event, ToolCallStart)]
    assert began == [id for id, _, _ in fed.calls]
    assert len(set(began)) == len(began)
    assert len(set(fed.ended)) == len(fed.ended)
    assert set(fed.ended) <= set(began)
    fed.events += fed.assembler.close()
    for id, _, arguments in fed.calls:
        assert fed.shown(id) == arguments
        order = [type(event) for event in fed.events if getattr(event, "call_id", None) == id]
        assert order[0] is ToolCallStart
        if ToolCallEnd in order[:-1]:  # more came after its end
            assert count_members(arguments) is None or fed.assembler.call(id).arguments == arguments


@settings(max_examples=300, deadline=None)
@given(
    written,
    st.sampled_from(["", "{}", " {}\n", "{ }{}"]),
    st.sampled_from(["", " ", "again", "}", "{", "{}", ' {"z": 0}', "x"]),
    places,
    st.integers(1, 1000),
    st.sampled_from(REASONS),
)
def test_C3_a_call_comes_to_the_same_end_however_its_text_was_cut_and_one_that_breaks_off_is_never_complete(
    text: str, before: str, after: str, cuts: list[int], breaks_at: int, reason: FinishReason
) -> None:
    _assert_it_comes_to_the_same_end(text, before, after, cuts)
    broken = text[: 1 + breaks_at % (len(text) - 1)]
    fed = Fed(head(), *(more(fragment) for fragment in pieces_of(broken, cuts)), FinishReport(reason))
    assert fed.ended == []
    assert fed.assembler.truncated == "a"


def _assert_it_comes_to_the_same_end(text: str, before: str, after: str, cuts: list[int]) -> None:
    sent = before + text + (text if after == "again" else after)
    whole = Fed(head(), more(sent), CALLS)
    for pieces in (pieces_of(sent, cuts), list(sent)):
        fed = Fed(head(), *map(more, pieces), CALLS)
        assert fed.calls == whole.calls
        assert fed.ended == whole.ended == ["a"]
    valid = after in ("", " ", "again")
    assert (count_members(whole.calls[0][2]) is not None) is valid
    if valid:
        assert json.loads(whole.calls[0][2]) == json.loads(text)


@pytest.mark.parametrize("piece", ["{}", "{} ", '"{}"', '{ }"{}"'])
def test_any_number_of_placeholders_may_come_in_one_fragment_before_the_arguments(piece: str) -> None:
    buffer = ArgumentsBuffer()
    buffer.feed(piece * 5_000 + '{"a": 1}')
    assert (buffer.whole, buffer.text) == (True, '{"a": 1}')


def test_white_space_and_repetitions_in_small_fragments_are_no_part_of_the_arguments() -> None:
    buffer = ArgumentsBuffer()
    for piece in (" ", "\n", "{", " ", '"a": 1', "}", " ", '{"a"', ":1}", '{"a": 1}' * 3):
        buffer.feed(piece)
    buffer.finish()
    assert (buffer.whole, buffer.text) == (True, '{ "a": 1}')


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        (r'{"x": "a\ud83db"}', "a\ufffdb"),
        (r'{"x": "\ude00"}', "\ufffd"),
        (r'{"x": "\ud83d\\ude00"}', "\ufffd\\ude00"),
        (r'{"x": "\\ud83d"}', "\\ud83d"),
        (r'{"x": "\ud83d\ude00"}', "\U0001f600"),
        (r'{}{"x": "\ud83d"}', "\ufffd"),
        (r'{"x": "\ud83d"}{"x": "\ud83d"}', "\ufffd"),
        (r'"{\"x\": \"\\ud83d\"}"', "\ufffd"),
    ],
)
def test_half_a_pair_among_a_calls_own_escapes_is_a_replacement_character_wherever_it_is_cut(
    arguments: str, value: str
) -> None:
    for cut in range(len(arguments) + 1):
        assembler = Assembler(1, "1.1", set())
        shown = [*assembler.feed(ToolCallDelta(0, "c", "look", arguments[:cut]))]
        shown += assembler.feed(ToolCallDelta(0, arguments=arguments[cut:]))
        shown += [*assembler.feed(FinishReport("tool_calls")), *assembler.close()]
        assert sum(type(event) is ToolCallEnd for event in shown) == 1
        (call,) = assembler.message.calls
        assert json.loads(call.arguments) == {"x": value}
        again = Assembler(1, "1.1", set())
        text = "".join(event.delta for event in shown if isinstance(event, ToolCallArgs))
        again.feed(ToolCallDelta(0, "c", "look", text))
        again.feed(FinishReport("tool_calls"))
        assert again.message.calls == assembler.message.calls


@pytest.mark.parametrize(
    ("pieces", "whole"),
    [
        (["get_", "weather"], "get_weather"),
        (["get_", "get_weather"], "get_weather"),
        (["get", "get"], "get"),
        (["ab", "a", "b"], "abab"),
        (["", "a", "", "ab"], "ab"),
    ],
)
def test_a_growing_text_takes_the_next_piece_or_all_of_it_so_far(pieces: list[str], whole: str) -> None:
    text = GrowingText()
    for piece in pieces:
        text.add(piece)
    assert (str(text), bool(text), text == whole, text == whole[:-1]) == (whole, True, True, False)

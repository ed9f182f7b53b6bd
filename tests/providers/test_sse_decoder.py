"""Server-sent events: the same events whatever way the bytes were cut, and no others."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from endstop.providers import ProtocolError
from endstop.providers.sse_decoder import LARGEST_EVENT, ErrorEvent, SSEDecoder
from hypothesis import example, given
from hypothesis import strategies as st

BOM = b"\xef\xbb\xbf"


def events_of(*blocks: bytes) -> list[bytes]:
    stream = SSEDecoder()
    return [event for block in blocks for event in stream.feed(block)] + stream.end()


def by_the_book(body: bytes) -> list[bytes]:
    """The standard, read naively over the whole body; an event that the end of the body closes counts here."""
    events: list[bytes] = []
    data: list[bytes] = []
    for line in [*re.split(rb"\r\n|\r|\n", body.removeprefix(BOM)), b""]:
        if line:
            name, _, value = line.partition(b":")
            if name == b"data":
                data.append(value.removeprefix(b" "))
        elif data:
            events.append(b"\n".join(data))
            data = []
    return [event for event in events if event]


texts = st.text(st.characters(exclude_characters="\r\n", exclude_categories=("Cs",)), max_size=12)
fields = st.sampled_from([b"data:", b"data: ", b":", b"event: ", b"id: ", b"retry: "])
lines = st.one_of(st.builds(lambda name, text: name + text.encode(), fields, texts), st.just(b""))
line_ends = st.sampled_from([b"\n", b"\r\n", b"\r"])


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """Streams with all that the standard allows, one or several kinds of line ends in each."""
    ends = st.just(draw(line_ends)) if draw(st.booleans()) else line_ends
    body = draw(st.sampled_from([b"", BOM]))
    for line in [draw(st.sampled_from([b": hi", b"data: first", b"event: x"])), *draw(st.lists(lines, max_size=12))]:
        body += line + draw(ends)
    return body if draw(st.booleans()) else body.rstrip(b"\r\n")


def cut(body: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(body), *(place % (len(body) + 1) for place in places)})
    return [body[a:b] for a, b in pairwise(edges)]


@given(bodies(), st.lists(st.integers(0, 10_000), max_size=20))
@example(b"data: a\r\n\r\ndata: b\r\n\r\n", [8, 9, 10])
@example(BOM + b"data: a\n\n", [1, 2])
def test_the_same_events_come_out_whatever_way_the_bytes_are_cut(body: bytes, places: list[int]) -> None:
    assert events_of(*cut(body, places)) == by_the_book(body)


@given(bodies(), st.integers(1, 7))
def test_the_same_events_come_out_of_pieces_of_a_few_bytes(body: bytes, size: int) -> None:
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    assert events_of(*pieces) == by_the_book(body)


@pytest.mark.parametrize(
    ("body", "events"),
    [
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
        (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
        (b"data:a\n\n", [b"a"]),
        (b"data:  a\n\n", [b" a"]),
        (b"data: one\ndata: two\n\n", [b"one\ntwo"]),
        (b"event: x\nid: 7\ndata: a\nretry: 3\n\n", [b"a"]),
        (b": keep-alive\n\ndata: a\n\n: keep-alive\n\n", [b"a"]),
        (b"event: x\ndata: a\n\nevent: y\ndata: b\n\n", [b"a", b"b"]),
        (b"data: a\n\nevent: x\ndata: b\n\n: c\n\ndata: d\n\n", [b"a", b"b", b"d"]),
        (b"event: x\n\ndata: a\n\nevent: y\nid: 7\ndata: b\n\n", [b"a", b"b"]),
        (b"data: a\n\n\ndata: b\n\n\n", [b"a", b"b"]),
        (BOM + b"data: a\n\n", [b"a"]),
        (b"data: a\n\n" + BOM + b"data: b\n\n", [b"a"]),
        (b"\n\n\ndata: a\n\n\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data: a\n\ndata: no blank line", [b"a", b"no blank line"]),
        (b"data: a\n\ndata: no blank line\n", [b"a", b"no blank line"]),
        (b"data: \n\ndata\n\ndata: a\n\n", [b"a"]),
        (b"data: a\ndatabase: b\n\n", [b"a"]),
        (b"", []),
        (b"\n\n", []),
    ],
)
def test_an_event_is_its_data_and_nothing_else(body: bytes, events: list[bytes]) -> None:
    assert events_of(body) == events
    assert events_of(*(bytes([byte]) for byte in body)) == events


@pytest.mark.parametrize(
    ("event", "is_error"),
    [
        (b"event: error\ndata: x\n\n", True),
        (b"event:error\ndata: x\n\n", True),
        (b"event:  error \ndata: x\n\n", True),
        (b"data: x\nevent: error\n\n", True),
        (b"error: x\n\n", True),
        (b"event: response.error\ndata: x\n\n", False),
        (b"data: x\n\n", False),
    ],
)
def test_an_event_is_an_error_by_its_name_wherever_it_stands(event: bytes, is_error: bool) -> None:
    body = b"event: y\ndata: a\n\n" + event + b"data: b\n\n"
    for size in (1, 7, 1000):
        found = events_of(*(body[at : at + size] for at in range(0, len(body), size)))
        assert found == [b"a", b"x", b"b"], size
        assert [type(data) is ErrorEvent for data in found] == [False, is_error, False], size


@pytest.mark.parametrize(
    ("body", "beginning"),
    [
        (b"<!DOCTYPE html><html><body>Sign in</body></html>", "<!DOCTYPE html>"),
        (b"\n\n<html>\n\n<body>\n\n</body>\n\n", "<html>"),
        (b'{"error": {"message": "no such model"}}', '{"error": {"mess'),
        (b"Not Found", "Not Found"),
        (b"\x00\x00\x01\x9c\x00\x00\x00K binary", r"\x00\x00\x01"),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_body_that_is_no_event_stream_is_an_error_that_shows_its_beginning(
    body: bytes, beginning: str, size: int
) -> None:
    with pytest.raises(ProtocolError, match="not an event stream; it begins with") as error:
        events_of(*(body[at : at + size] for at in range(0, len(body), size)))
    assert beginning in str(error.value)


def test_what_is_shown_of_a_long_body_is_short() -> None:
    with pytest.raises(ProtocolError) as error:
        events_of(b"<p>" * 10_000)
    assert len(str(error.value)) < 300


def test_a_text_that_begins_like_a_field_is_judged_only_when_enough_of_it_is_there() -> None:
    stream = SSEDecoder()
    assert stream.feed(b"da") == []
    assert stream.feed(b"ta: a\n") == []
    assert stream.feed(b"\n") == [b"a"]


def test_an_event_without_an_end_does_not_grow_forever() -> None:
    stream = SSEDecoder()
    stream.feed(b"data: ")
    with pytest.raises(ProtocolError, match="larger than"):
        stream.feed(b"x" * (LARGEST_EVENT + 1))


def test_lines_that_say_nothing_are_not_kept() -> None:
    stream = SSEDecoder()
    for _ in range(2_000):
        assert stream.feed(b": ping\n" * 70) == []
    assert sum(map(len, stream._line)) + len(stream._data) == 0
    assert stream.feed(b"data: a\n\n") == [b"a"]


def test_white_space_before_the_first_event_is_not_kept() -> None:
    stream = SSEDecoder()
    for _ in range(2_000):
        assert stream.feed(b" " * 500) == []
    assert sum(map(len, stream._line)) <= 1
    assert stream.feed(b"\ndata: a\n\n") == [b"a"]


@pytest.mark.parametrize("begins", [BOM, BOM * 2, BOM * 9, b"\n" + BOM, BOM + b"\n\n" + BOM])
def test_byte_order_marks_before_a_stream_do_not_matter(begins: bytes) -> None:
    body = begins + b"data: a\n\ndata: b\n\n"
    for size in (1, 2, 3, 5, 100):
        assert events_of(*(body[at : at + size] for at in range(0, len(body), size))) == [b"a", b"b"], size


def test_very_many_byte_order_marks_are_looked_at_once() -> None:
    body = BOM * 300_000 + b"data: a\n\n"
    assert events_of(*(body[at : at + 1000] for at in range(0, len(body), 1000))) == [b"a"]

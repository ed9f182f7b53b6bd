"""Endpoints that misuse server-sent events and the wire formats: encodings, JSON, calls, finish words, usage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...decision import FinishReport, TextDelta, ToolCallDelta, Usage, UsageReport
from .hostile_http import PING, HostileEndpoint, hostile
from .hostile_server import ANSWER, HostileAnswer

STREAM_ENDPOINTS: list[HostileEndpoint] = []
failing = hostile("failed", STREAM_ENDPOINTS)
answering = hostile("completed", STREAM_ENDPOINTS)
either = hostile("either", STREAM_ENDPOINTS)
calling = hostile("either", STREAM_ENDPOINTS, runs_calls=False)
_DEEP = 100_000

# ---- events


@answering
async def byte_order_mark(exchange: HostileAnswer) -> None:
    """A byte order mark before a good answer."""
    await exchange.stream([b"\xef\xbb\xbf", *exchange.good()])


@answering
async def lines_crlf(exchange: HostileAnswer) -> None:
    """Lines that end in CR and LF."""
    await exchange.stream(piece.replace(b"\n", b"\r\n") for piece in exchange.good())


@answering
async def lines_cr(exchange: HostileAnswer) -> None:
    """Lines that end in CR."""
    await exchange.stream(piece.replace(b"\n", b"\r") for piece in exchange.good())


@answering
async def lines_mixed_and_split(exchange: HostileAnswer) -> None:
    """Lines that end in CR and LF, split between two chunks."""
    whole = b"".join(exchange.good()).replace(b"\n", b"\r\n")
    await exchange.stream(piece + b"\r" for piece in whole.split(b"\r"))


@answering
async def split_inside_character(exchange: HostileAnswer) -> None:
    """A chunk ends inside a character of four bytes."""
    whole = b"".join(exchange.good())
    at = whole.index("\N{PILE OF POO}".encode()) + 2
    await exchange.stream([whole[:at], whole[at:]])


@either
async def invalid_utf8(exchange: HostileAnswer) -> None:
    """Bytes in the text that are not UTF-8."""
    await exchange.stream(piece.replace(b"port", b"\xff\xfe\xc3") for piece in exchange.good())


@failing
async def utf16(exchange: HostileAnswer) -> None:
    """The whole answer in UTF-16."""
    await exchange.stream(piece.decode().encode("utf-16") for piece in exchange.good())


@either
async def nul_bytes(exchange: HostileAnswer) -> None:
    """NUL between the events and in the text."""
    await exchange.stream(b"\x00" + piece.replace(b"port", b"po\x00rt") for piece in exchange.good())


@answering
async def control_characters_in_text(exchange: HostileAnswer) -> None:
    """Escape sequences, NUL and right-to-left marks in the text, as JSON writes them."""
    await exchange.stream(exchange.framed(exchange.says(TextDelta(f"\x1b[2J\x00\u202e {ANSWER}"))))


@either
async def lone_surrogates(exchange: HostileAnswer) -> None:
    """Halves of surrogate pairs in the text."""
    await exchange.stream(piece.replace(b"port", b"\\ud83d \\udca9 \\ud83d\\udca9") for piece in exchange.good())


@answering
async def unknown_fields_and_events(exchange: HostileAnswer) -> None:
    """Comments, ids, retry times and events with unknown names among those of a good answer."""
    odd = b": comment\n\nid: 7\nretry: 99999999999\n\nevent: heartbeat\ndata:\n\n"
    await exchange.stream(odd + piece for piece in exchange.good())


@failing
async def comments_endless(exchange: HostileAnswer) -> None:
    """Comments now and then that keep the connection alive, and nothing else."""
    await exchange.begin()
    while True:
        await exchange.chunks([b": ping\n\n"])
        await exchange.pause(PING)


@failing
async def comments_flood(exchange: HostileAnswer) -> None:
    """Comments without a pause and without an end."""
    await exchange.begin()
    await exchange.flood(b": ping\n\n")


@failing
async def blank_lines_flood(exchange: HostileAnswer) -> None:
    """Blank lines without an end."""
    await exchange.begin()
    await exchange.flood(b"\n")


@failing
async def line_endless(exchange: HostileAnswer) -> None:
    """A line of data that never ends."""
    await exchange.begin()
    await exchange.send(b"6\r\ndata: \r\n")
    await exchange.flood(b"and more ")


@either
async def line_enormous(exchange: HostileAnswer) -> None:
    """One event of a sixteenth of `size`."""
    await exchange.stream(exchange.framed(exchange.says(TextDelta("a" * (exchange.size // 16)))))


@either
async def text_endless(exchange: HostileAnswer) -> None:
    """The same text again and again, without an end."""
    good = exchange.good()
    piece = next(piece for piece in good if b"The port" in piece)
    await exchange.begin()
    await exchange.chunks(good[: good.index(piece)])
    await exchange.flood(piece)


@failing
async def empty_deltas_endless(exchange: HostileAnswer) -> None:
    """Empty pieces of text now and then, and nothing else."""
    good = exchange.good()
    piece = next(piece for piece in good if b"The port" in piece)
    await exchange.begin()
    await exchange.chunks(good[: good.index(piece)])
    piece = piece.replace(ANSWER[:9].encode(), b"")
    while True:
        await exchange.chunks([piece])
        await exchange.pause(PING)


# ---- bodies of another kind


@failing
async def html(exchange: HostileAnswer) -> None:
    """A page in HTML with status 200."""
    page = b"<!doctype html><html><body>Please log in.</body></html>"
    await exchange.body(page, b"content-type: text/html\r\n")


@failing
async def empty_body(exchange: HostileAnswer) -> None:
    """Status 200 and nothing."""
    await exchange.body(b"")


@either
async def content_type_wrong(exchange: HostileAnswer) -> None:
    """A good answer that is declared as a picture."""
    await exchange.body(b"".join(exchange.good()), b"content-type: image/png\r\n")


@either
async def content_type_json(exchange: HostileAnswer) -> None:
    """A good stream that is declared as JSON."""
    await exchange.body(b"".join(exchange.good()), b"content-type: application/json\r\n")


@failing
async def json_of_another_kind(exchange: HostileAnswer) -> None:
    """JSON that is not a response."""
    await exchange.body(b'{"ok": true, "choices": {"a": 1}, "content": 5}', b"content-type: application/json\r\n")


@failing
async def json_deep(exchange: HostileAnswer) -> None:
    """JSON that is nested 100,000 times, in place of a stream."""
    await exchange.body(b"[" * _DEEP + b"]" * _DEEP, b"content-type: application/json\r\n")


# ---- the data of events


@either
async def event_deep(exchange: HostileAnswer) -> None:
    """An event that is nested 100,000 times, in a good answer."""
    start, *rest = exchange.good()
    await exchange.stream([start, b'data: {"a": ' + b"[" * _DEEP + b"]" * _DEEP + b"}\n\n", *rest])


@failing
async def event_truncated(exchange: HostileAnswer) -> None:
    """An event whose JSON breaks off, and the end of the body."""
    good = exchange.good()
    await exchange.stream([*good[:2], exchange.wire.broken + b"\n\n"])


@either
async def keys_twice(exchange: HostileAnswer) -> None:
    """Each field of each event twice."""
    await exchange.stream(_with_data(piece, _doubled) for piece in exchange.good())


@either
async def numbers_nan(exchange: HostileAnswer) -> None:
    """NaN and Infinity in place of each number."""
    values = [_replaced(value, int, float("nan")) for value in exchange.says(TextDelta(ANSWER))]
    await exchange.stream(exchange.framed(values))


@either
async def numbers_enormous(exchange: HostileAnswer) -> None:
    """A number of 400 digits in place of each number."""
    values = [_replaced(value, int, 10**400) for value in exchange.says(TextDelta(ANSWER))]
    await exchange.stream(exchange.framed(values))


async def _retyped(exchange: HostileAnswer, other: Any) -> None:
    """Send events in which every value except their types becomes another."""
    values = [_replaced(value, str | int | None, other) for value in exchange.says(TextDelta(ANSWER))]
    await exchange.stream(exchange.framed(values))


@failing
async def fields_null(exchange: HostileAnswer) -> None:
    """Null in place of each text and number."""
    await _retyped(exchange, None)


@either
async def fields_numbers(exchange: HostileAnswer) -> None:
    """A number in place of each text and number."""
    await _retyped(exchange, 7)


@either
async def fields_lists(exchange: HostileAnswer) -> None:
    """A list in place of each text and number."""
    await _retyped(exchange, [["a"], {}])


@either
async def fields_objects(exchange: HostileAnswer) -> None:
    """An object in place of each text and number."""
    await _retyped(exchange, {"a": {"b": 1}})


@either
async def containers_empty(exchange: HostileAnswer) -> None:
    """Events whose lists and objects are all empty: no choices, no candidates, no items."""
    values = [{key: _emptied(inner) for key, inner in value.items()} for value in exchange.says(TextDelta(ANSWER))]
    await exchange.stream(exchange.framed(values))


# ---- how a response ends


@either
async def end_missing(exchange: HostileAnswer) -> None:
    """The finish is sent, but not the end of the stream."""
    await exchange.stream(map(exchange.wire.frame, exchange.says(TextDelta(ANSWER))))


@failing
async def finish_missing(exchange: HostileAnswer) -> None:
    """The body ends after the text, without a finish."""
    await exchange.stream(map(exchange.wire.frame, exchange.wire.values([TextDelta(ANSWER)])))


@answering
async def data_after_end(exchange: HostileAnswer) -> None:
    """A second answer after the end of the first."""
    await exchange.stream(exchange.good() + exchange.framed(exchange.says(TextDelta(" Or 9090."))))


@either
async def finish_unknown(exchange: HostileAnswer) -> None:
    """An unknown finish word."""
    values = exchange.wire.values([TextDelta(ANSWER), FinishReport("other", "banana")])
    await exchange.stream(exchange.framed(values))


@either
async def finish_twice(exchange: HostileAnswer) -> None:
    """Two finishes that contradict each other, with text between them."""
    values = exchange.says(TextDelta(ANSWER))
    await exchange.stream(exchange.framed([*values, *exchange.wire.values([FinishReport("length", "length")])]))


@failing
async def error_in_stream(exchange: HostileAnswer) -> None:
    """An error in place of the text, which repeats the key of the request."""
    error = exchange.wire.error(f"overloaded, key {' '.join(exchange.keys)}", 503)
    await exchange.stream([exchange.good()[0], exchange.wire.frame(error)])


@failing
async def error_after_text(exchange: HostileAnswer) -> None:
    """An error after half of the text."""
    good = exchange.good()
    half = next(at for at, piece in enumerate(good) if b"The port" in piece)
    await exchange.stream([*good[: half + 1], exchange.wire.frame(exchange.wire.error("it broke", None))])


@failing
async def error_of_odd_shape(exchange: HostileAnswer) -> None:
    """An error whose message is a list and whose code is an object."""
    await exchange.stream([b'event: error\ndata: {"error": {"message": ["a", {}], "code": {"b": 1}, "type": 5}}\n\n'])


# ---- usage


async def _usage(exchange: HostileAnswer, other: Any) -> None:
    """Send a good answer with other token counts."""
    values = exchange.says(TextDelta(ANSWER), UsageReport(Usage(input_tokens=7, output_tokens=3)))
    await exchange.stream(exchange.framed(_with_counts(value, other) for value in values))


@answering
async def usage_negative(exchange: HostileAnswer) -> None:
    """Negative token counts."""
    await _usage(exchange, -1_000_000)


@either
async def usage_enormous(exchange: HostileAnswer) -> None:
    """Token counts of 10 to the power of 18."""
    await _usage(exchange, 10**18)


@answering
async def usage_texts(exchange: HostileAnswer) -> None:
    """Token counts that are texts."""
    await _usage(exchange, "many")


@answering
async def usage_lists(exchange: HostileAnswer) -> None:
    """Token counts that are lists."""
    await _usage(exchange, [1, [2]])


# ---- calls, in the first answer; each further answer is good


async def _call(
    exchange: HostileAnswer, *says: ToolCallDelta, change: Callable[[Any], Any] = lambda value: value
) -> None:
    if exchange.number > 1:
        await exchange.stream(exchange.good())
        return
    await exchange.stream(exchange.framed(change(value) for value in exchange.says(*says)))


def _halves(exchange: HostileAnswer, index: int = 0) -> tuple[ToolCallDelta, ToolCallDelta]:
    head = ToolCallDelta(index, f"call_{index}", exchange.tool, '{"place": "')
    return head, ToolCallDelta(index, arguments='here"}')


@either
async def call_without_index(exchange: HostileAnswer) -> None:
    """A call in two pieces that have no index."""
    await _call(exchange, *_halves(exchange), change=lambda value: _without(value, "index", "output_index"))


@either
async def call_without_id(exchange: HostileAnswer) -> None:
    """A call that has no id."""
    await _call(exchange, *_halves(exchange), change=lambda value: _without(value, "id", "call_id"))


@either
async def call_without_name(exchange: HostileAnswer) -> None:
    """A call that has no name."""
    await _call(exchange, *_halves(exchange), change=lambda value: _without(value, "name"))


@either
async def call_id_changes(exchange: HostileAnswer) -> None:
    """The pieces of one call have different ids."""
    head, rest = _halves(exchange)
    await _call(exchange, head, ToolCallDelta(0, "call_other", arguments=rest.arguments))


@either
async def calls_of_one_id(exchange: HostileAnswer) -> None:
    """Two calls with the same id."""
    two = [ToolCallDelta(index, "call_0", exchange.tool, '{"place": "here"}') for index in range(2)]
    await _call(exchange, *two)


@either
async def calls_out_of_order(exchange: HostileAnswer) -> None:
    """The pieces of three calls in turn, the last call first."""
    pairs = [_halves(exchange, index) for index in (2, 0, 1)]
    await _call(exchange, *(half for halves in zip(*pairs, strict=True) for half in halves))


@either
async def calls_many(exchange: HostileAnswer) -> None:
    """Two hundred calls in one response."""
    calls = [ToolCallDelta(index, f"call_{index}", exchange.tool, '{"n": 1}') for index in range(200)]
    await _call(exchange, *calls)


@either
async def call_index_enormous(exchange: HostileAnswer) -> None:
    """A call whose index is 2 to the power of 70, and another of index -1."""
    calls = [ToolCallDelta(index, f"call_{index}", exchange.tool, '{"n": 1}') for index in (2**70, -1)]
    await _call(exchange, *calls)


@calling
async def call_never_whole(exchange: HostileAnswer) -> None:
    """The response is finished, but the arguments of its call are not."""
    if exchange.number > 1:
        await exchange.stream(exchange.good())
        return
    pieces = exchange.framed(exchange.says(*_halves(exchange)))
    cut = next(at for at, piece in enumerate(pieces) if b"here" in piece)
    if exchange.wire.name == "gemini":  # a call is sent in one event, which breaks off
        await exchange.stream([*pieces[:cut], pieces[cut][: pieces[cut].index(b"here")]])
        return
    await exchange.stream(piece for piece in pieces if b"here" not in piece)


@calling
async def call_broken_off(exchange: HostileAnswer) -> None:
    """The connection breaks off inside the arguments of a call, each time."""
    pieces = exchange.framed(exchange.says(*_halves(exchange)))
    cut = next(at for at, piece in enumerate(pieces) if b"here" in piece)
    await exchange.begin()
    await exchange.chunks([*pieces[:cut], pieces[cut][:30]])
    await exchange.pause(0.1)
    exchange.reset()


@calling
async def call_arguments_garbage(exchange: HostileAnswer) -> None:
    """A call whose arguments are not JSON."""
    garbage = "{{not json"
    if exchange.number > 1:
        await exchange.stream(exchange.good())
    elif exchange.wire.name == "gemini":  # arguments are an object there, not a text
        values = exchange.says(ToolCallDelta(0, "call_0", exchange.tool, '{"place": "here"}'))
        await exchange.stream(exchange.framed(_replaced_where(value, "args", garbage) for value in values))
    else:
        await exchange.stream(exchange.framed(exchange.says(ToolCallDelta(0, "call_0", exchange.tool, garbage))))


# ---- changes to values


def _with_data(piece: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """Return an event with its data changed, if that is an object."""
    before, mark, data = piece.partition(b"data: {")
    return before + b"data: " + change(b"{" + data.rstrip()) + b"\n\n" if mark else piece


def _doubled(data: bytes) -> bytes:
    return data[:-1] + b", " + data[1:]


def _replaced(value: Any, kind: Any, other: Any) -> Any:
    """Return the value with each value of this kind replaced. Values that name an event's kind stay."""
    if isinstance(value, dict):
        return {key: inner if key == "type" else _replaced(inner, kind, other) for key, inner in value.items()}
    if isinstance(value, list):
        return [_replaced(inner, kind, other) for inner in value]
    return other if isinstance(value, kind) else value


def _replaced_where(value: Any, name: str, other: Any) -> Any:
    """Return the value with each field of this name replaced."""
    if isinstance(value, dict):
        return {key: other if key == name else _replaced_where(inner, name, other) for key, inner in value.items()}
    return [_replaced_where(inner, name, other) for inner in value] if isinstance(value, list) else value


def _without(value: Any, *names: str) -> Any:
    if isinstance(value, dict):
        return {key: _without(inner, *names) for key, inner in value.items() if key not in names}
    return [_without(inner, *names) for inner in value] if isinstance(value, list) else value


def _emptied(value: Any) -> Any:
    return type(value)() if isinstance(value, dict | list) else value


def _with_counts(value: Any, other: Any) -> Any:
    """Return the value with another number for each token count."""
    if isinstance(value, dict):
        counted = {key for key, inner in value.items() if "oken" in key and isinstance(inner, int)}
        return {key: other if key in counted else _with_counts(inner, other) for key, inner in value.items()}
    return [_with_counts(inner, other) for inner in value] if isinstance(value, list) else value

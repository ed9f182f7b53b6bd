"""The direct provider against a real server on loopback: what it sends, and what it makes of each answer."""

from __future__ import annotations

import asyncio
import gc
import json
import traceback
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import pytest
from endstop import Engine, Tool
from endstop.decision import (
    AnyChunk,
    AssistantMessage,
    FinishReport,
    ReasoningDelta,
    SystemMessage,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolResult,
    ToolSpec,
    Usage,
    UsageReport,
    UserMessage,
    WrongUse,
)
from endstop.providers import (
    BadRequest,
    ContextOverflow,
    Interrupted,
    NotFound,
    OpenAICompatible,
    ProtocolError,
    ProviderError,
    RateLimited,
    Request,
    TimedOut,
    Unauthorized,
    Unavailable,
    Unreachable,
)
from endstop.providers.errors import TELLING_PART
from endstop.tools import finish_task

from ..ports import held_port
from .endpoint import OK, Endpoint, Reply, body, call_delta, cut_every, delta, sse, stream
from .streams import unmerged

PATIENCE = 60.0
"""Seconds after which a wait has failed."""
KEY = "sk-proj-0123456789abcdefghijklmnopqrstuvwxyz"
FINISHED = delta(finish="stop")
HELLO = Request(messages=[UserMessage("hello")])


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def provider_at(server: Endpoint, **options: Any) -> OpenAICompatible:
    return OpenAICompatible("m", server.url, **options)


async def chunks_of(provider: OpenAICompatible, request: Request = HELLO) -> list[AnyChunk]:
    async with asyncio.timeout(PATIENCE), provider.stream(request) as chunks:
        return [chunk async for chunk in chunks]


async def answered(*replies: Reply, **options: Any) -> list[AnyChunk]:
    async with Endpoint(*replies) as server:
        return await chunks_of(provider_at(server, **options))


async def failure(*replies: Reply, **options: Any) -> ProviderError:
    with pytest.raises(ProviderError) as error:
        await answered(*replies, **options)
    return error.value


def text_of(chunks: list[AnyChunk]) -> str:
    return "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta))


def calls_of(chunks: list[AnyChunk]) -> list[ToolCallDelta]:
    return [chunk for chunk in chunks if isinstance(chunk, ToolCallDelta)]


# ---- refusals


@pytest.mark.parametrize(
    ("status", "leaf", "kind"),
    [
        (400, BadRequest, "bad_request"),
        (401, Unauthorized, "auth"),
        (403, Unauthorized, "auth"),
        (404, NotFound, "not_found"),
        (408, TimedOut, "timeout"),
        (422, BadRequest, "bad_request"),
        (429, RateLimited, "rate_limit"),
        (500, Unavailable, "server"),
        (503, Unavailable, "server"),
        (504, TimedOut, "timeout"),
    ],
)
async def test_a_status_is_told_apart_by_what_one_would_do_about_it(
    status: int, leaf: type[ProviderError], kind: str
) -> None:
    error = await failure(body({"error": {"message": "the reason", "type": "x"}}, status))
    assert type(error) is leaf
    assert (error.kind, error.status, error.retry_after) == (kind, status, None)
    assert f"answered {status}: the reason" in str(error)
    assert "m at 127.0.0.1:" in str(error)


@pytest.mark.parametrize(("header", "seconds"), [("3", 3.0), ("0.5", 0.5), ("-1", 0.0), ("soon", None)])
async def test_retry_after_is_kept_in_seconds(header: str, seconds: float | None) -> None:
    error = await failure(body({"error": {"message": "slow down"}}, 429, retry_after=header))
    assert isinstance(error, RateLimited)
    assert error.retry_after == seconds


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 8192 tokens, however you requested 9000.",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "the request exceeds the available context window",
    ],
)
@pytest.mark.parametrize("size", [3, 10_000])
@pytest.mark.parametrize("key", ["x", "none", KEY])
async def test_a_request_with_too_many_tokens_is_a_context_overflow(message: str, size: int, key: str) -> None:
    reply = body({"error": {"message": message, "code": "context_length_exceeded"}}, 400)
    reply.pieces = cut_every([piece for piece in reply.pieces if isinstance(piece, bytes)], size)
    error = await failure(reply, api_key=key)
    assert type(error) is ContextOverflow
    assert message in str(error)


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (b"<html>Bad gateway</html>", "<html>Bad gateway</html>"),
        (b"", "(no message)"),
        (b'{"message": "in the open"}', "in the open"),
        (b'{"detail": "as FastAPI says it"}', "as FastAPI says it"),
        (b'{"error": "a plain word"}', "a plain word"),
        (b'{"error": {"code": 7}}', '{"code":7}'),
        (b'["odd"]', '["odd"]'),
        (b"\xff\xfe", "\ufffd"),
    ],
)
async def test_a_refusal_shows_the_servers_words_whatever_their_form(content: bytes, shown: str) -> None:
    error = await failure(body(content, 502))
    assert type(error) is Unavailable
    assert shown in str(error)


async def test_a_refusal_that_never_ends_or_breaks_off_is_still_told_by_its_status() -> None:
    cut = Reply(status=503, pieces=[b"overlo"], ends="cut")
    assert "answered 503: overlo" in str(await failure(cut))
    endless = Reply(status=503, pieces=[b"overlo", asyncio.Event()])
    assert "answered 503: overlo" in str(await failure(endless, first_timeout=PATIENCE, read_timeout=1))
    silent = Reply(status=503, pieces=[asyncio.Event()])
    assert "answered 503" in str(await failure(silent, first_timeout=PATIENCE, read_timeout=0.1))


async def test_a_huge_refusal_is_not_read_to_its_end_nor_shown_whole() -> None:
    error = await failure(Reply(status=500, pieces=[b"x" * 50_000] * 40))
    assert len(str(error)) < 3000


# ---- no answer


async def test_a_refused_connection_says_where() -> None:
    with (
        held_port() as port,
        pytest.raises(Unreachable, match=f"cannot connect to 127.0.0.1:{port}: ") as error,
    ):
        await chunks_of(OpenAICompatible("m", f"http://127.0.0.1:{port}/v1"))
    assert error.value.kind == "connection"


async def test_a_host_that_does_not_exist_says_where() -> None:
    with pytest.raises(Unreachable, match=r"no-such-host\.invalid"):
        await chunks_of(OpenAICompatible("m", "http://no-such-host.invalid/v1"))


@asynccontextmanager
async def server_that_says(said: bytes | None) -> AsyncIterator[int]:
    """A server that says these bytes to a request and hangs up, or says nothing (None). Gives its port."""
    gone = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if said is None:
            await reader.read()
        else:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(said)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        gone.set()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]
        await asyncio.wait_for(gone.wait(), PATIENCE)


@pytest.mark.parametrize("said", [b"", b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/1.1 200 OK\r\ncontent-le"])
async def test_a_server_that_hangs_up_or_speaks_no_http_is_unreachable(said: bytes) -> None:
    async with server_that_says(said) as port:
        with pytest.raises(Unreachable, match=f"127.0.0.1:{port}"):
            await chunks_of(OpenAICompatible("m", f"http://127.0.0.1:{port}"))


async def test_a_server_that_never_answers_is_timed_out() -> None:
    async with server_that_says(None) as port:
        with pytest.raises(TimedOut, match=r"no answer from 127.0.0.1:\d+ within 0.1 s"):
            await chunks_of(OpenAICompatible("m", f"http://127.0.0.1:{port}", read_timeout=0.1))


async def test_a_kept_connection_that_the_server_has_closed_costs_nothing_but_a_fresh_one() -> None:
    """llama.cpp announces keep-alive and closes after each stream."""
    answer = b'data: {"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n" % len(answer)
    bodies: list[bytes] = []
    done = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        length = int(request.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        bodies.append(await reader.readexactly(length))
        writer.write(head + answer)
        await writer.drain()
        if len(bodies) < 20:
            await reader.read(1)  # the next request comes into this connection, and is never read
        writer.transport.abort()
        if len(bodies) == 20:
            done.set()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with OpenAICompatible("m", f"http://127.0.0.1:{port}") as provider:
            for _ in range(20):
                assert len(await chunks_of(provider)) == 2
            await asyncio.wait_for(done.wait(), PATIENCE)
    assert len(bodies) == 20


@pytest.mark.parametrize("url", ["localhost:8000", "", "ftp://x/v1", "http://", "http://:80", "http://host:port/v1"])
def test_an_api_base_that_is_no_url_is_wrong_use(url: str) -> None:
    with pytest.raises(WrongUse, match="is not a URL"):
        OpenAICompatible("m", url)


# ---- answers that are none


async def test_html_with_status_200_is_no_event_stream_and_its_beginning_is_shown() -> None:
    error = await failure(body(b"<!DOCTYPE html><title>Sign in</title>", content_type="text/html"))
    assert type(error) is ProtocolError
    assert "not an event stream" in str(error)
    assert "<!DOCTYPE html>" in str(error)


@pytest.mark.parametrize(
    "data",
    ['{"choices": [', "not json", '"text"', "[1]", '{"choices": {"delta": 1}}', '{"choices": [{"delta": "x"}]}'],
)
async def test_a_chunk_that_cannot_be_read_is_an_error_that_shows_it(data: str) -> None:
    error = await failure(stream(delta(content="a"), data, FINISHED))
    assert type(error) is ProtocolError
    assert "cannot be read" in str(error)
    assert data[:8] in str(error)


async def test_a_stream_in_another_format_is_named_as_such() -> None:
    error = await failure(stream({"type": "message_start", "message": {"id": "msg_1"}}, done=False))
    assert type(error) is ProtocolError
    assert "not in the chat completions format" in str(error)
    assert "message_start" in str(error)


async def test_a_message_without_choices_between_the_chunks_does_no_harm() -> None:
    keep_alive = {"object": "ping"}
    chunks = await answered(stream(keep_alive, delta(content="a"), keep_alive, FINISHED))
    assert chunks == [TextDelta("a"), FinishReport("stop", "stop")]


async def test_a_stream_that_ends_without_a_finish_is_interrupted() -> None:
    for reply in (stream(delta(content="half"), done=False), Reply(pieces=[])):
        error = await failure(reply)
        assert type(error) is Interrupted
        assert "without a finish reason" in str(error)


async def test_a_connection_that_breaks_in_the_stream_is_interrupted() -> None:
    error = await failure(Reply(pieces=sse(delta(content="half"), done=False), ends="cut"))
    assert type(error) is Interrupted
    assert "broke off" in str(error)


@pytest.mark.parametrize("done", [True, False])
async def test_a_connection_that_breaks_after_the_finish_loses_nothing_that_was_said(done: bool) -> None:
    chunks = await answered(Reply(pieces=sse(delta(content="all"), FINISHED, done=done), ends="cut"))
    assert chunks == [TextDelta("all"), FinishReport("stop", "stop")]


async def test_a_stream_that_stalls_is_timed_out() -> None:
    stalled = Reply(pieces=[*sse(delta(content="half"), done=False), asyncio.Event()])
    error = await failure(stalled, first_timeout=PATIENCE, read_timeout=0.1)
    assert type(error) is TimedOut
    assert "sent no content for 0.1 s" in str(error)


async def test_a_stream_that_stalls_after_the_finish_loses_nothing_that_was_said() -> None:
    together = b"".join(sse(delta(content="all"), FINISHED, done=False))  # so that one read brings both
    stalled = Reply(pieces=[together, asyncio.Event()])
    assert text_of(await answered(stalled, first_timeout=PATIENCE, read_timeout=0.1)) == "all"


async def test_a_body_whose_compression_is_broken_is_interrupted() -> None:
    reply = stream(delta(content="a"), FINISHED)
    reply.headers = {"content_encoding": "gzip"}
    assert isinstance(await failure(reply), ProtocolError)


@pytest.mark.parametrize(
    ("error", "leaf", "words"),
    [
        ({"message": "Rate limit reached", "code": 429}, RateLimited, "Rate limit reached"),
        ({"message": "Overloaded", "code": "503"}, Unavailable, "Overloaded"),
        ({"message": "No such key", "status": 401}, Unauthorized, "No such key"),
        ({"message": "context length exceeded", "code": 400}, ContextOverflow, "context length"),
        ({"message": "Something broke", "type": "server_error", "code": None}, Unavailable, "Something broke"),
        ({"message": "Odd", "code": 7}, Unavailable, "Odd"),
        ("plain words", Unavailable, "plain words"),
        (["a list"], Unavailable, "a list"),
    ],
)
async def test_an_error_object_in_the_stream_is_the_providers_error(
    error: Any, leaf: type[ProviderError], words: str
) -> None:
    for reply in (stream(delta(content="half"), {"error": error}), body({"error": error})):
        raised = await failure(reply)
        assert type(raised) is leaf
        assert "error in the stream" in str(raised)
        assert words in str(raised)


async def test_what_came_in_one_packet_with_an_error_is_not_lost() -> None:
    reply = stream(delta(content="half"), {"error": {"message": "Overloaded", "code": 503}}, done=False)
    reply.pieces = [b"".join(piece for piece in reply.pieces if isinstance(piece, bytes))]
    chunks: list[Any] = []
    async with Endpoint(reply) as endpoint, provider_at(endpoint).stream(HELLO) as given:
        chunks.append(await anext(given))
        with pytest.raises(Unavailable, match="Overloaded"):
            await anext(given)
    assert chunks == [TextDelta("half")]


# ---- the key is never shown


def echoes(text: str) -> list[Reply]:
    """All the ways in which a server may quote what it was sent."""
    return [
        body({"error": {"message": f"Incorrect API key provided: {text}"}}, 401),
        body({"error": {"message": "x" * 1990 + text}}, 400),
        body(f"<p>{text}</p>".encode(), 500, "text/html"),
        body(f"<html>{text}".encode(), content_type="text/html"),
        body(f"<{'h' * 185}>{text}".encode(), content_type="text/html"),
        body(text.encode()),
        stream({"error": {"message": text}}),
        stream(f"{{{text}"),
        stream({"type": text}, done=False),
        stream("{" + "x" * 180 + text),
        body({"error": text}),
        body({"strange": text}),
    ]


@pytest.mark.parametrize("number", range(len(echoes(""))))
@pytest.mark.parametrize("size", [5, 10_000])
async def test_the_key_is_never_shown_in_an_error_nor_in_its_traceback(number: int, size: int) -> None:
    reply = echoes(KEY)[number]
    reply.pieces = cut_every([piece for piece in reply.pieces if isinstance(piece, bytes)], size)
    error = await failure(reply, api_key=KEY)
    for text in (str(error), repr(error), error.message, "".join(traceback.format_exception(error))):
        assert KEY[:TELLING_PART] not in text


async def test_a_placeholder_for_a_key_hides_nothing() -> None:
    error = await failure(body({"error": {"message": "maximum exceeded"}}, 400), api_key="x")
    assert "maximum exceeded" in str(error)


async def test_the_key_is_not_shown_in_the_providers_repr() -> None:
    assert KEY not in repr(OpenAICompatible("m", "http://host/v1", api_key=KEY))


# ---- what servers do differently


async def test_every_field_may_be_missing_or_null() -> None:
    chunks = await answered(
        stream(
            {},
            {"choices": None},
            {"choices": []},
            {"choices": [{}]},
            {"choices": [{"delta": None, "finish_reason": None}]},
            {"choices": [{"delta": {}}]},
            delta(content=None, reasoning_content=None, reasoning=None, refusal=None, tool_calls=None, role=None),
            delta(content="", tool_calls=[]),
            call_delta(index=0, id=None, name=None, arguments=None),
            delta(tool_calls=[{"index": 0, "id": "a", "function": None}]),
            delta(tool_calls=[{}]),
            {"choices": [{"delta": {"content": "a"}}], "usage": None, "x_groq": None, "error": None},
            {"choices": [{"finish_reason": "stop"}], "x_groq": {"id": "req"}},
            {"usage": {"prompt_tokens": None, "prompt_tokens_details": None, "completion_tokens_details": {}}},
        )
    )
    assert [chunk for chunk in chunks if not isinstance(chunk, ToolCallDelta)] == [
        TextDelta("a"),
        FinishReport("stop", "stop"),
    ]
    assert {(c.index, c.id, c.name, c.arguments) for c in calls_of(chunks)} == {(0, "", "", ""), (0, "a", "", "")}


async def test_a_call_without_an_index_is_counted_by_its_place_in_the_chunk() -> None:
    chunks = await answered(
        stream(
            delta(
                tool_calls=[
                    {"id": "a", "function": {"name": "f", "arguments": "{}"}},
                    {"id": "b", "function": {"name": "g", "arguments": "{}"}},
                ]
            ),
            delta(finish="tool_calls"),
        )
    )
    assert calls_of(chunks) == [ToolCallDelta(0, "a", "f", "{}"), ToolCallDelta(1, "b", "g", "{}")]


async def test_arguments_that_are_an_object_become_its_text() -> None:
    chunks = await answered(stream(call_delta(index=0, id="a", name="f", arguments={"x": [1]}), FINISHED))
    assert json.loads(calls_of(chunks)[0].arguments) == {"x": [1]}


async def test_an_id_that_is_a_number_is_taken_as_text() -> None:
    chunks = await answered(stream(call_delta(index=0, id=7, name="f", arguments="{}"), FINISHED))
    assert calls_of(chunks)[0].id == "7"


async def test_the_providers_word_for_the_finish_is_kept_beside_ours() -> None:
    for raw, ours in (
        ("stop", "stop"),
        ("length", "length"),
        ("tool_calls", "tool_calls"),
        ("function_call", "tool_calls"),
        ("content_filter", "content_filter"),
        ("insufficient_system_resource", "retry"),
        ("own_word", "other"),
    ):
        assert await answered(stream(delta(finish=raw))) == [FinishReport(ours, raw)]  # type: ignore[arg-type]


async def test_a_stream_that_is_done_without_a_finish_reason_finished_for_another_reason() -> None:
    assert await answered(stream(delta(content="a"))) == [TextDelta("a"), FinishReport("other")]


async def test_a_refusal_by_the_model_is_text_and_a_content_filter() -> None:
    chunks = await answered(stream(delta(refusal="I can"), delta(refusal="not."), delta(finish="stop")))
    assert (text_of(chunks), chunks[-1]) == ("I cannot.", FinishReport("content_filter", "stop"))


async def test_content_in_parts_is_text_and_reasoning() -> None:
    thinking = [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm. "}]}]
    text = [{"type": "text", "text": "Yes"}, {"type": "image"}, "odd", None]
    chunks = await answered(stream(delta(content=thinking), delta(content=text), delta(content=7), FINISHED))
    assert chunks == [ReasoningDelta("Hm. "), TextDelta("Yes"), FinishReport("stop", "stop")]


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
async def test_reasoning_goes_by_two_names(name: str) -> None:
    chunks = await answered(stream(delta(**{name: "Hm."}), delta(**{name: {"odd": 1}}), FINISHED))
    assert chunks == [ReasoningDelta("Hm."), FinishReport("stop", "stop")]


@pytest.mark.parametrize(
    ("reported", "usage"),
    [
        ({"prompt_tokens": 7, "completion_tokens": 3}, Usage(input_tokens=7, output_tokens=3)),
        ({"prompt_tokens": 7.0, "completion_tokens": "3"}, Usage(input_tokens=7, output_tokens=3)),
        (
            {"prompt_tokens": 7, "completion_tokens": 3, "prompt_cache_hit_tokens": 5},
            Usage(input_tokens=7, output_tokens=3, cached_tokens=5),
        ),
        (
            {
                "prompt_tokens": 7,
                "completion_tokens": 30,
                "total_tokens": 37,
                "prompt_tokens_details": {"cached_tokens": 4},
                "completion_tokens_details": {"reasoning_tokens": 20},
            },
            Usage(input_tokens=7, output_tokens=30, cached_tokens=4, reasoning_tokens=20),
        ),
        (  # xAI counts the reasoning beside the output: only its total tells
            {
                "prompt_tokens": 7,
                "completion_tokens": 30,
                "total_tokens": 57,
                "completion_tokens_details": {"reasoning_tokens": 20},
            },
            Usage(input_tokens=7, output_tokens=50, reasoning_tokens=20),
        ),
        ({"prompt_tokens": 1.5}, None),
        ("none", None),
    ],
)
async def test_usage_is_read_in_every_form_and_no_reason_to_lose_an_answer(reported: Any, usage: Usage | None) -> None:
    expected = [FinishReport("stop", "stop"), *([UsageReport(usage)] if usage else [])]
    assert await answered(stream(FINISHED, {"choices": [], "usage": reported})) == expected
    assert await answered(stream({**FINISHED, "usage": reported})) == expected
    assert await answered(stream({**FINISHED, "x_groq": {"usage": reported}})) == expected


async def test_a_reply_that_was_not_streamed_gives_the_same_chunks() -> None:
    message = {
        "role": "assistant",
        "content": "Look.",
        "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}],
    }
    reply = {
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3},
    }
    expected = [
        TextDelta("Look."),
        ToolCallDelta(0, "a", "f", '{"x": 1}'),
        FinishReport("tool_calls", "tool_calls"),
        UsageReport(Usage(input_tokens=7, output_tokens=3)),
    ]
    assert await answered(body(reply)) == expected
    assert await answered(body(reply, content_type="application/json; charset=utf-8")) == expected


@pytest.mark.parametrize("reply", [{}, {"choices": []}, [], "x", {"choices": [{"message": "x"}]}])
async def test_a_json_reply_that_is_no_completion_is_broken(reply: Any) -> None:
    assert type(await failure(body(reply))) is ProtocolError


@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_the_same_chunks_come_out_whatever_way_the_bytes_are_cut(size: int) -> None:
    pieces = sse(
        delta(role="assistant", content=""),
        delta(content="Grüße 👋 漢字"),
        call_delta(index=0, id="a", name="f", arguments='{"x":'),
        call_delta(index=0, arguments=' "é"}'),
        delta(finish="tool_calls"),
        {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}},
    )
    crlf = [piece.replace(b"\n", b"\r\n") for piece in pieces]
    whole = await answered(Reply(pieces=pieces))
    assert text_of(whole) == "Grüße 👋 漢字"
    assert unmerged(await answered(Reply(pieces=cut_every(pieces, size)))) == unmerged(whole)
    assert unmerged(await answered(Reply(pieces=cut_every(crlf, size)))) == unmerged(whole)
    assert unmerged(
        await answered(Reply(pieces=cut_every([b": hi\n\n", *pieces, b"data: after done\n\n"], size)))
    ) == unmerged(whole)


# ---- what is sent

LOOK = ToolSpec(
    name="look",
    description="Look.",
    parameters={"type": "object", "properties": {"path": {"type": "string"}}},
    kind="completion",
    reads=True,
)
CONVERSATION = [
    SystemMessage("Be brief."),
    UserMessage("Look, ü."),
    AssistantMessage("I look.", (ToolCall("a", "look", '{"path": "x"}'), ToolCall("b", "look", ""))),
    ToolResult("a", "look", "found"),
    ToolResult("b", "look", "no path", "invalid"),
    AssistantMessage("", (ToolCall("c", "look", "{}"),)),
    ToolResult("c", "look", ""),
]


async def test_the_request_holds_the_messages_as_the_chat_format_wants_them() -> None:
    async with Endpoint(stream(OK)) as server:
        request = Request(messages=CONVERSATION, ephemeral=[UserMessage("By the way.")], tools=(LOOK,))
        await chunks_of(provider_at(server), request)

    def call(id: str, arguments: str) -> dict[str, Any]:
        return {"id": id, "type": "function", "function": {"name": "look", "arguments": arguments}}

    assert server.body() == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [
            {
                "type": "function",
                "function": {"name": "look", "description": "Look.", "parameters": LOOK.parameters},
            }
        ],
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Look, ü."},
            {"role": "assistant", "content": "I look.", "tool_calls": [call("a", '{"path": "x"}'), call("b", "{}")]},
            {"role": "tool", "tool_call_id": "a", "content": "found"},
            {"role": "tool", "tool_call_id": "b", "content": "no path"},
            {"role": "assistant", "content": None, "tool_calls": [call("c", "{}")]},
            {"role": "tool", "tool_call_id": "c", "content": "(no output)"},
            {"role": "user", "content": "By the way."},
        ],
    }


@pytest.mark.parametrize("arguments", ['{"path": "a', "[1]", "no json", '{"a": 1} x', '"text"'])
async def test_arguments_that_are_no_json_object_come_back_as_one_that_holds_them(arguments: str) -> None:
    """llama.cpp answers 500 to each later request of a session whose history holds a call that was cut off."""
    broken = AssistantMessage("", (ToolCall("a", "look", arguments),))
    messages = [UserMessage("Look."), broken, ToolResult("a", "look", "Call it again.", "truncated")]
    async with Endpoint(stream(OK)) as server:
        await chunks_of(provider_at(server), Request(messages=messages))
    sent = server.body()["messages"][1]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(sent) == {"invalid_json": arguments}


async def test_tools_and_tool_choice_are_sent_only_where_they_say_something() -> None:
    async with Endpoint(stream(OK)) as server:
        provider = provider_at(server)
        await chunks_of(provider)
        assert not server.body().keys() & {"tools", "tool_choice"}
        for choice in ("auto", "required", "none"):
            await chunks_of(provider, Request(messages=[UserMessage("x")], tools=(LOOK,), tool_choice=choice))
            assert server.body().get("tool_choice") == (None if choice == "auto" else choice)
            assert len(server.body()["tools"]) == 1


async def test_settings_of_the_request_come_before_those_of_the_provider() -> None:
    async with Endpoint(stream(OK)) as server:
        provider = provider_at(server, settings={"temperature": 1, "seed": 7})
        await chunks_of(provider, Request(messages=[UserMessage("x")], settings={"temperature": 0}))
    assert (server.body()["temperature"], server.body()["seed"]) == (0, 7)


@pytest.mark.parametrize(
    ("given", "environment", "sent"),
    [
        (None, None, None),
        ("mine", None, "Bearer mine"),
        (None, "theirs", "Bearer theirs"),
        (None, "theirs\n", "Bearer theirs"),
        ("mine", "theirs", "Bearer mine"),
        ("", "theirs", None),
    ],
)
async def test_a_key_is_sent_if_there_is_one(
    given: str | None, environment: str | None, sent: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if environment is not None:
        monkeypatch.setenv("OPENAI_API_KEY", environment)
    async with Endpoint(stream(OK)) as server:
        await chunks_of(provider_at(server, api_key=given))
    assert server.headers[0].get("authorization") == sent


async def test_the_path_is_that_of_chat_completions_with_and_without_a_slash() -> None:
    async with Endpoint(stream(OK)) as server:
        for url in (server.url, server.url + "/"):
            assert OpenAICompatible("m", url).url == f"http://127.0.0.1:{server.port}/v1/chat/completions"


async def test_each_message_is_encoded_once_in_a_session() -> None:
    class Counting(list[Any]):
        """Messages that count how often each is looked at."""

        def __init__(self, messages: list[Any]) -> None:
            super().__init__(messages)
            self.looked: list[Any] = []

        def __getitem__(self, place: Any) -> Any:
            found = super().__getitem__(place)
            self.looked += found if isinstance(place, slice) else [found]
            return found

        def __iter__(self) -> Any:
            raise AssertionError("all messages are looked at again")

    async with Endpoint(stream(OK)) as server:
        provider, memo = provider_at(server), {}
        messages = Counting(CONVERSATION[:3])
        for more in ([], CONVERSATION[3:5], CONVERSATION[5:]):
            messages.extend(more)
            await chunks_of(provider, Request(messages=messages, memo=memo))
        assert messages.looked == CONVERSATION
        assert len(server.body()["messages"]) == len(CONVERSATION)
        changed = [UserMessage("all is new")]
        await chunks_of(provider, Request(messages=changed, edition=1, memo=memo))
        assert server.body()["messages"] == [{"role": "user", "content": "all is new"}]


# ---- connections


async def test_a_connection_is_used_again_when_its_end_comes_in_one_piece() -> None:
    async with Endpoint(stream(OK)) as server, provider_at(server) as provider:
        for _ in range(3):
            await chunks_of(provider)
        assert (len(server.requests), server.connections) == (3, 1)


async def test_a_connection_is_used_again_when_the_end_of_the_body_comes_after_done() -> None:
    go_on = asyncio.Event()
    reply = Reply(pieces=[b"".join(sse(OK)), go_on])
    async with Endpoint(reply, stream(OK)) as server, provider_at(server) as provider:
        async with provider.stream(HELLO) as chunks:
            async for chunk in chunks:
                if isinstance(chunk, FinishReport):
                    go_on.set()
        await chunks_of(provider)
        assert (len(server.requests), server.connections) == (2, 1)


async def test_the_steps_of_a_run_use_one_connection() -> None:
    async def look() -> str:
        return "nothing"

    def step(name: str, arguments: str) -> Reply:
        return stream(call_delta(index=0, id=name, name=name, arguments=arguments), delta(finish="tool_calls"))

    async with Endpoint(step("look", "{}"), step("look", "{}"), stream(OK)) as server:
        engine = Engine(provider_at(server), tools=[Tool(look, description="Look.")])
        outcome = await engine.run("go")
    assert (outcome.stop_reason, outcome.answer) == ("text_final", "ok")
    assert (len(server.requests), server.connections) == (3, 1)


async def test_a_server_that_says_nothing_after_done_keeps_nobody_waiting() -> None:
    never = asyncio.Event()
    async with Endpoint(Reply(pieces=[b"".join(sse(OK)), never])) as server:
        async with asyncio.timeout(PATIENCE):
            assert text_of(await chunks_of(provider_at(server))) == "ok"
            await server.left.wait()


def stalling() -> Reply:
    return Reply(pieces=[*sse(delta(content="a"), done=False), asyncio.Event()])


@asynccontextmanager
async def gone_by_itself(server: Endpoint) -> AsyncIterator[None]:
    """Its replies never end by themselves, so only the client can have closed the connection."""
    yield
    await asyncio.wait_for(server.left.wait(), PATIENCE)


async def test_leaving_closes_the_connection_at_once() -> None:
    async with (
        Endpoint(stalling()) as server,
        provider_at(server) as provider,
        gone_by_itself(server),
        provider.stream(HELLO) as chunks,
    ):
        assert await anext(chunks) == TextDelta("a")


async def test_an_error_in_the_block_closes_the_connection_at_once_and_comes_out() -> None:
    async with Endpoint(stalling()) as server, provider_at(server) as provider, gone_by_itself(server):
        with pytest.raises(KeyError):  # noqa: PT012  the error has to come from inside the block
            async with provider.stream(HELLO) as chunks:
                await anext(chunks)
                raise KeyError


async def test_a_cancelled_scope_closes_the_connection_at_once() -> None:
    async with Endpoint(stalling()) as server, gone_by_itself(server):
        with anyio.CancelScope() as scope:
            async with provider_at(server).stream(HELLO) as chunks:
                await anext(chunks)
                scope.cancel()
                await anext(chunks)
        assert scope.cancelled_caught


async def test_a_cancelled_task_closes_the_connection_at_once() -> None:
    begun = asyncio.Event()

    async def read() -> None:
        async with provider_at(server).stream(HELLO) as chunks:
            async for _ in chunks:
                begun.set()

    async with Endpoint(stalling()) as server, gone_by_itself(server):
        task = asyncio.create_task(read())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_a_completion_call_cuts_the_connection() -> None:
    head = call_delta(index=0, id="a", name="finish_task", arguments='{"summary": "Done."}')
    async with Endpoint(Reply(pieces=[*sse(head, done=False), asyncio.Event()])) as server, gone_by_itself(server):
        outcome = await Engine(provider_at(server), presets=[finish_task]).run("go")
        assert (outcome.stop_reason, outcome.answer) == ("completed", "Done.")
        assert outcome.usage.estimated


async def test_nothing_is_left_open_however_a_stream_is_left() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        async with Endpoint(stalling()) as server:
            async with provider_at(server).stream(HELLO) as chunks:
                await anext(chunks)
            with anyio.CancelScope() as scope:
                async with provider_at(server).stream(HELLO) as chunks:
                    await anext(chunks)
                    scope.cancel()
                    await anext(chunks)
        await answered(stream(OK))
        await failure(body({}, 500))
        await failure(body(b"<html>"))
        gc.collect()
    assert [str(warning.message) for warning in caught] == []

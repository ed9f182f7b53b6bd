"""Recorded streams of real providers through HTTP: right text, reasoning, calls, finish and usage, however cut."""

from __future__ import annotations

import asyncio
import json
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from endstop import Engine, Tool
from endstop.decision import FinishReport, ProviderToolReport, UsageReport
from endstop.decision.messages import FinishReason, Usage
from endstop.providers import (
    Interrupted,
    LiteLLM,
    OpenAICompatible,
    ProtocolError,
    Provider,
    ProviderError,
    TimedOut,
)
from endstop.providers.chat_stream import ChatStream
from endstop.providers.errors import QuotaExceeded, Unavailable

from ..shared_data import (
    ABSENT,
    Said,
    different,
    finish_place,
    plain,
    recorded,
    replies_in,
    said_by,
    serve_fixture,
    streams,
)
from .played import HELLO, Heard, Overheard, heard, server_of
from .streams import unmerged
from .voices import LITELLM, MODELS, VOICES, Voice, direct

CHAT = streams("openai-chat")
ANTHROPIC = streams("anthropic")
OTHER = streams("openai-chat", other=True)
OURS: dict[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "end_turn": "stop",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}

LITELLM_MISREADS = {
    "openai-completion-text": "the older completions endpoint has chunks of another form, which litellm leaves empty",
    "anthropic-programmatic-tool-calling.1": "litellm takes what the provider's own code wrote for text, and loses "
    "the arguments of a call that comes whole",
}


def cases(*paths: Path, misread: bool = False, all_to_litellm: bool = True) -> list[Any]:
    """Each file with each provider that reads its format. What is known to come out wrong is expected to fail.

    Without `all_to_litellm` it gets those that bring other bytes to another reader of its own, and the others in
    `make test-long`.
    """
    found = []
    for param in recorded(paths):
        path = param.values[0]
        for voice in VOICES:
            if path is not None and (voice is LITELLM or path in CHAT):
                marks = [*voice.marks]
                name = path.name.removesuffix(".chunks.txt")
                if misread and voice is LITELLM and name in LITELLM_MISREADS:
                    marks.append(pytest.mark.xfail(strict=True, reason=LITELLM_MISREADS[name]))
                if not all_to_litellm and voice is LITELLM and path not in DIFFERENT:
                    marks.append(pytest.mark.long)
                found.append(pytest.param(path, voice.values[0], id=f"{param.id}-{voice.id}", marks=marks))
    return found or [pytest.param(None, None, id="absent", marks=ABSENT)]


DIFFERENT = different(CHAT) | different(ANTHROPIC)


chat = pytest.mark.parametrize("path", recorded(CHAT))
with_calls = pytest.mark.parametrize("path", recorded(path for path in CHAT if said_by(path).calls))


def pieces_of(path: Path) -> list[bytes]:
    return list(replies_in(path)[0].pieces)


def reply_of(pieces: list[bytes]) -> Any:
    return serve_fixture().Reply(pieces)


def assert_heard(heard: Heard, said: Said) -> None:
    assert heard.message.text == said.text
    assert heard.reasoning == said.reasoning
    assert heard.calls == plain(said.calls)
    assert heard.complete == [id for id, _, _ in said.calls]
    assert heard.assembler.truncated is None


# ---- the whole response


@pytest.mark.parametrize(("path", "voice"), cases(*CHAT, *ANTHROPIC, misread=True))
async def test_a_recorded_stream_says_what_stands_in_it(path: Path, voice: Voice) -> None:
    got, said = await heard(path, voice), said_by(path)
    assert_heard(got, said)
    assert got.assembler.finish == OURS[str(said.finish)]
    assert [c.id for c in got.chunks if isinstance(c, ProviderToolReport) and c.name] == said.server_calls
    assert got.assembler.usage is not None
    beside = said.output_tokens - said.reasoning_tokens  # litellm leaves it so, but for a model it knows as xAI's
    assert got.assembler.usage.output_tokens in (said.output_tokens, beside)


@chat
async def test_the_direct_provider_keeps_the_raw_finish_reason_and_all_of_the_usage(path: Path) -> None:
    got, said = await heard(path), said_by(path)
    assert got.assembler.raw_finish == said.finish
    assert got.assembler.usage == Usage(
        input_tokens=said.input_tokens,
        output_tokens=said.output_tokens,
        cached_tokens=said.cached_tokens,
        reasoning_tokens=said.reasoning_tokens,
        cost_usd=said.cost_usd,
    )


READ_BY_HAND: dict[str, tuple[str, list[tuple[str, str, Any]], FinishReason, tuple[int, int, int, int]]] = {
    "mistral/mistral-text": ("Hello, world! This is a test response.", [], "stop", (13, 8, 0, 0)),
    "mistral/mistral-incremental-tool-call": (
        "",
        [("chatcmpl-tool-9f149c74c42f265b", "webSearchTool", {"query": "current Berlin weather"})],
        "tool_calls",
        (171, 14, 128, 0),
    ),
    "groq/groq-tool-call": ("", [("tk85n1k4m", "weather", {})], "tool_calls", (210, 15, 0, 0)),
    "xai/xai-tool-call": (
        "",
        [("call_55117580", "weather", {"location": "San Francisco"})],
        "tool_calls",
        (291, 222, 290, 196),
    ),
    "alibaba/alibaba-tool-call": (
        "",
        [("call_eee11723464a4b9eb8cee71d", "weather", {"location": "San Francisco"})],
        "tool_calls",
        (295, 22, 0, 0),
    ),
    "openai/openai-completion-text": (
        'The holiday is called "Gratitude Day" and it is a day dedicated to',
        [],
        "length",
        (14, 16, 0, 0),
    ),
}


@pytest.mark.parametrize(
    ("path", "voice"), cases(*(p for p in CHAT if f"{p.parent.name}/{p.name[:-11]}" in READ_BY_HAND), misread=True)
)
async def test_a_recorded_stream_says_what_a_person_reads_in_it(path: Path, voice: Voice) -> None:
    text, calls, finish, (sent, received, cached, reasoned) = READ_BY_HAND[f"{path.parent.name}/{path.name[:-11]}"]
    got = await heard(path, voice)
    assert (got.message.text, got.calls, got.assembler.finish) == (text, calls, finish)
    assert got.assembler.usage == Usage(
        input_tokens=sent,
        output_tokens=received,
        cached_tokens=cached,
        reasoning_tokens=reasoned,
        cost_usd=0.00013305 if path.parent.name == "xai" else None,  # 1,330,500 ticks of which a dollar has 10**10
    )


# ---- however the bytes are cut


@pytest.mark.parametrize(("path", "voice"), cases(*CHAT, *ANTHROPIC, all_to_litellm=False))
async def test_a_recorded_stream_cut_every_7_bytes_gives_the_same_chunks(path: Path, voice: Voice) -> None:
    assert (await heard(path, voice, split=7)).chunks == (await heard(path, voice)).chunks


@pytest.mark.parametrize("path", recorded(path for path in CHAT if path.stat().st_size < 6000))
async def test_a_recorded_stream_cut_at_every_byte_gives_the_same_chunks(path: Path) -> None:
    assert (await heard(path, split=1)).chunks == (await heard(path)).chunks


def sizes() -> list[Any]:
    """Each file in pieces of each size; all the many small ones of the other files in `make test-long`."""
    return [
        pytest.param(*param.values, size, id=f"{param.id}-{size}", marks=[*param.marks, *marks])
        for param in recorded(CHAT)
        for size in (1, 2, 1000, 65536)
        for marks in [[pytest.mark.long] if size < 1000 and param.values[0] not in DIFFERENT else []]
    ]


@pytest.mark.parametrize(("path", "size"), sizes())
def test_the_bytes_of_a_recorded_stream_give_the_same_chunks_in_pieces_of_any_size(path: Path, size: int) -> None:
    def read(size: int, body: bytes) -> list[Any]:
        stream = ChatStream()
        chunks = [c for at in range(0, len(body), size) for c in stream.feed(body[at : at + size])]
        return unmerged(chunks + stream.end())

    body = b"".join(pieces_of(path))
    whole = read(len(body), body)
    assert read(size, body) == whole
    assert read(size, body.replace(b"\n", b"\r\n")) == whole


# ---- broken off


def places(count: int, voice: Voice = direct) -> list[int]:
    """A handful of places in a list of so many, the first and the last among them; fewer for litellm, which is slow."""
    if voice is not direct:
        return sorted({1, count // 2, count - 1} & set(range(count + 1)))
    return sorted(
        {0, 1, 2, count // 4, count // 2, 3 * count // 4, count - 2, count - 1, count} & set(range(count + 1))
    )


async def failing(path: Path, provider: Provider) -> tuple[Heard, ProviderError]:
    got = Heard()
    with pytest.raises(ProviderError) as error:
        await got.all_of(provider)
    return got, error.value


class Watched:
    """An engine whose tools take whatever they are called with, and note it."""

    def __init__(self, provider: Provider, path: Path) -> None:
        self.ran: list[Any] = []
        names = {name for _, name, _ in said_by(path).calls}
        self.engine = Engine(provider, tools=[self.tool(name) for name in sorted(names)], presets=())

    def tool(self, name: str) -> Tool:
        async def work(location: str = "", query: str = "") -> str:
            self.ran.append((name, location or query))
            return "done"

        return Tool(work, name=name, description="Note what it was called with.")


async def broken_off(path: Path, voice: Voice, **serving: Any) -> tuple[Heard, ProviderError | None]:
    """What is heard of a response that breaks off. If it has calls, an engine hears it, too, and executes none."""
    async with server_of(path, **serving) as server:
        provider = voice(server.url, path)
        if not said_by(path).calls:
            return await failing(path, provider)
        overheard = Overheard(provider, Heard())
        watched = Watched(overheard, path)
        outcome = await watched.engine.run("go")
    assert (outcome.status, outcome.stop_reason) == ("failed", "provider_error")
    assert watched.ran == []
    return overheard.heard, overheard.error


def assert_half_said(got: Heard, path: Path) -> None:
    """It never finished, and what it said is the beginning of what stands in the recording."""
    said = said_by(path)
    assert got.assembler.finish is None
    assert not any(isinstance(chunk, FinishReport) for chunk in got.chunks)
    assert said.text.startswith(got.message.text)
    assert said.reasoning.startswith(got.reasoning)
    whole = {id: json.loads(arguments or "{}") for id, _, arguments in said.calls}
    for id in got.complete:
        assert json.loads(got.assembler.call(id).arguments) == whole[id]


@pytest.mark.parametrize(("path", "voice"), cases(*CHAT, *ANTHROPIC))
async def test_a_connection_that_breaks_before_the_finish_is_interrupted_and_no_call_of_it_is_executed(
    path: Path, voice: Voice
) -> None:
    for place in places(finish_place(path), voice):
        got, error = await broken_off(path, voice, cut_after=place)
        assert type(error) is Interrupted, place
        assert_half_said(got, path)


@chat
async def test_a_connection_that_breaks_after_the_finish_loses_no_more_than_the_usage(path: Path) -> None:
    said = said_by(path)
    for place in range(finish_place(path) + 1, len(pieces_of(path)) + 1):
        got = await heard(path, cut_after=place)
        assert_heard(got, said)
        assert got.assembler.raw_finish == said.finish


@pytest.mark.parametrize(("path", "voice"), cases(*CHAT, *ANTHROPIC, all_to_litellm=False))
async def test_a_body_that_ends_too_early_is_interrupted_and_no_call_of_it_is_executed(
    path: Path, voice: Voice
) -> None:
    pieces = pieces_of(path)
    for place in places(finish_place(path), voice):
        got, error = await broken_off(path, voice, replies=[reply_of(pieces[:place])])
        assert type(error) is Interrupted, place
        assert_half_said(got, path)


@pytest.mark.parametrize("path", recorded(path for path in CHAT if path.stat().st_size < 6000))
def test_a_body_that_ends_anywhere_before_its_finish_is_interrupted(path: Path) -> None:
    pieces = pieces_of(path)
    body = b"".join(pieces)
    finished = list(accumulate(map(len, pieces)))[finish_place(path)] - 2  # the blank line may be missing
    for end in range(len("data:"), len(body) + 1):  # a shorter one may be the beginning of anything
        stream = ChatStream()
        stream.feed(body[:end])
        if end < finished:
            with pytest.raises(Interrupted):
                stream.end()
        else:
            stream.end()


@with_calls
async def test_the_calls_of_a_whole_response_are_executed(path: Path) -> None:
    async with server_of(path) as server:
        watched = Watched(direct(server.url, path), path)
        outcome = await watched.engine.run("go")
    values = [(name, *json.loads(arguments or "{}").values()) for _, name, arguments in said_by(path).calls]
    assert [ran[: len(value)] for ran, value in zip(watched.ran, values, strict=True)] == values
    assert "no recorded reply left" in outcome.detail
    assert outcome.steps == 2


@pytest.mark.parametrize(("path", "voice"), cases(*(path for path in CHAT if path.name == "deepseek-text.chunks.txt")))
async def test_a_response_cut_off_by_its_length_limit_goes_on_and_a_broken_one_does_not(
    path: Path, voice: Voice
) -> None:
    text = CHAT[[p.name for p in CHAT].index("mistral-text.chunks.txt")]
    replies = [*replies_in(path), *replies_in(text)]
    async with server_of(path, replies) as server:
        outcome = await Engine(voice(server.url, path)).run("go")
    assert (outcome.stop_reason, outcome.steps) == ("text_final", 2)
    assert outcome.answer == "Hello, world! This is a test response."
    async with server_of(path, replies, cut_after=300) as server:
        outcome = await Engine(voice(server.url, path)).run("go")
    assert (outcome.stop_reason, outcome.steps) == ("provider_error", 1)


# ---- stalled, and left


@chat
async def test_a_stream_that_stalls_before_the_finish_is_timed_out(path: Path) -> None:
    async with server_of(path, stall_after=finish_place(path) // 2) as server:
        provider = OpenAICompatible("recorded", server.url, read_timeout=0.2)
        async with asyncio.timeout(60):
            got, error = await failing(path, provider)
    assert type(error) is TimedOut
    assert_half_said(got, path)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", recorded(path for path in ANTHROPIC if path.name == "anthropic-text.chunks.txt"))
async def test_a_stream_that_stalls_is_timed_out_by_litellm_within_the_timeout_of_the_settings(path: Path) -> None:
    async with server_of(path, stall_after=finish_place(path) // 2) as server:
        model = MODELS[path.parent.name]
        provider = LiteLLM(model, api_base=server.url, api_key="placeholder", settings={"timeout": 0.2})
        async with asyncio.timeout(60):  # litellm may have to be imported first
            got, error = await failing(path, provider)
    assert type(error) is TimedOut
    assert_half_said(got, path)


class Noted(list[int]):
    """A list that tells when something is added to it."""

    def __init__(self) -> None:
        self.added = asyncio.Event()

    def append(self, number: int) -> None:
        super().append(number)
        self.added.set()


@pytest.mark.parametrize(("path", "voice"), cases(*(path for path in CHAT if path.stat().st_size > 20_000)))
async def test_leaving_a_stream_closes_the_connection(path: Path, voice: Voice) -> None:
    async with server_of(path, stall_after=20) as server:
        server.disconnects = Noted()
        async with voice(server.url, path).stream(HELLO) as chunks:
            await anext(aiter(chunks))
        await asyncio.wait_for(server.disconnects.added.wait(), 60)
    assert server.disconnects == [21]


# ---- other formats, to the direct provider


@pytest.mark.parametrize("path", recorded(OTHER))
async def test_a_stream_in_another_format_is_a_clear_error(path: Path) -> None:
    """In small pieces, of which none tells the format; `test_stop_signals.py` plays them as they were recorded."""
    async with server_of(path, split=7) as server:
        got, error = await failing(path, direct(server.url, path))
    if isinstance(error, Unavailable | QuotaExceeded):  # an error object that is shaped as in the chat format
        assert "error in the stream" in str(error)
    else:
        assert type(error) is ProtocolError
        assert any(
            words in str(error)
            for words in ("not in the chat completions format", "not an event stream", "cannot be read")
        )
    assert got.assembler.finish is None
    assert [chunk for chunk in got.chunks if not isinstance(chunk, UsageReport)] == []

"""Conversion of litellm's chunks to ours, by their attributes, without importing litellm."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from inspect import isasyncgenfunction
from typing import Any, NamedTuple, NoReturn

import msgspec
from msgspec.structs import astuple, replace

from ..decision import (
    AnyChunk,
    FinishReason,
    FinishReport,
    ProviderToolReport,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    Usage,
    UsageReport,
)
from ..decision.delta_merger import MERGEABLE
from ..decision.finish_words import NO_WORDS, parse_finish_reason
from ..decision.reported_usage import reported_usage
from .chat_stream import COST_FIELDS, reported_cost
from .errors import ProtocolError, too_much_received
from .http_provider import most_received
from .surrogate_pairs import PairJoiner, whole_characters

SERVER_TOOL = "srvtoolu_"
"""Prefix of ids of tools that Anthropic runs itself (Anthropic API reference, "server tools")."""
REMOTE_TOOL = "mcptoolu_"
"""Prefix of ids of MCP tools that Anthropic calls itself (Anthropic API reference, "MCP connector")."""
MOST_BUFFERED = 100_000
"""More lines than a block of bytes can have that was read but not yet processed."""


class RewrittenWords:
    """Finish words of one stream that litellm replaced."""

    def __init__(self) -> None:
        self._words: dict[str, str] = {}

    def note(self, word: str, became: str) -> None:
        """Remember the provider's word and its replacement."""
        self._words[became] = word

    def raw(self, word: str) -> str:
        """Return the provider's original word, or the same word if litellm did not replace it."""
        return self._words.get(word, word)


class ReceivedBytes:
    """Counter of the bytes received over the network for one `LiteLLM` stream. Raises ProtocolError beyond its limits.

    largest: maximum bytes of the response after decompression. Connections may receive twice as many plus one megabyte.
    """

    def __init__(self, largest: int) -> None:
        self.error: ProtocolError | None = None
        """The error that was raised. litellm hides it in its own errors."""
        self.bodies: list[Any] = []
        """Bodies of the responses, to be closed with their `aclose`: litellm leaves some of them open."""
        self._largest, self._most = largest, most_received(largest)
        self._size = self._unpacked = 0

    def count(self, size: int) -> None:
        """Count bytes of the connection, with headers and framing. Raises ProtocolError if they are too many."""
        self._size += size
        if self._size > self._most:
            self.break_off(too_much_received(self._most))

    def count_unpacked(self, size: int) -> None:
        """Count bytes of the body after decompression. Raises ProtocolError if they are too many."""
        self._unpacked += size
        if self._unpacked > self._largest:
            larger = f"the response is larger than {self._largest} bytes"
            self.break_off(ProtocolError(f"{larger}: if that is intended, raise largest_response"))

    def break_off(self, error: ProtocolError) -> NoReturn:
        """Raise the error, and keep it in `error`."""
        self.error = error
        raise error


class OneIterator:
    """Wrapper of an OpenAI client's stream, so that `async for` over it creates no generator.

    litellm begins such a loop for each chunk and leaves it. The event loop would close each abandoned generator in a
    separate task.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.events: Any = None
        """The generator from which the stream reads; the stream drops it at `[DONE]` and at an error."""
        begin = getattr(stream, "_iter_events", None)
        if begin is not None:
            stream._iter_events = partial(self._begin, begin)

    def _begin(self, begin: Callable[[], Any]) -> Any:
        self.events = begin()
        return self.events

    def __aiter__(self) -> OneIterator:
        return self

    def __anext__(self) -> Awaitable[Any]:
        """Return the next chunk."""
        return self._stream.__anext__()  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def iterate_once(response: Any) -> Any:
    """Return the stream that litellm reads, wrapped if a loop over it would create a generator."""
    stream = getattr(response, "completion_stream", None)
    if isasyncgenfunction(getattr(type(stream), "__aiter__", None)) and hasattr(stream, "__anext__"):
        stream = response.completion_stream = OneIterator(stream)
    return stream


async def end_generator(reading: Any) -> None:
    """Let a generator end that waits for more of a body that is closed.

    Such generators are nested, and closing one drops the next, which the event loop then closes in a task that nobody
    waits for. Reading on makes them end from within, through the error of the closed body.
    """
    with suppress(Exception):
        for _ in range(MOST_BUFFERED):
            await anext(reading)


class CurrentStream(NamedTuple):
    """The `LiteLLM` stream for which litellm is running."""

    words: RewrittenWords
    received: ReceivedBytes


CURRENT_STREAM: ContextVar[CurrentStream | None] = ContextVar("endstop_litellm_stream", default=None)
"""The `LiteLLM` stream for which litellm is running in this context. None where other code of the process calls
litellm, whose behaviour must then not change."""


class RecordingFinishMap(dict[str, str]):
    """litellm's map of finish reasons, which also reports each lookup to `CURRENT_STREAM`.

    litellm replaces all finish words with OpenAI's, and unknown ones with `stop`, so a response that the provider
    aborted would look complete. It looks them all up in this one map and does not keep the original word.
    """

    def get(self, word: str, default: Any = None) -> Any:
        """Return litellm's replacement for a word."""
        became = super().get(word, default)
        stream = CURRENT_STREAM.get()
        if stream is not None and isinstance(word, str) and word and became != word:
            stream.words.note(word, became or "stop")
        return became


class MutedTokenCounter:
    """litellm's token counter, which returns 0 while litellm runs for a `LiteLLM` stream (`CURRENT_STREAM`).

    litellm's modules for Claude use it to make up the reasoning tokens, which were not reported, from the summary of
    the reasoning.
    """

    def __init__(self, count: Callable[..., int]) -> None:
        self._count = count

    def __call__(self, *given: Any, **named: Any) -> int:
        """Return litellm's count of a text's tokens; 0 while litellm runs for a `LiteLLM` stream."""
        return self._count(*given, **named) if CURRENT_STREAM.get() is None else 0


class LiteLLMReader:
    """Converter of litellm's chunks (OpenAI's, as pydantic objects) to ours.

    `signs`: whether reasoning is signed. `words`: the user's finish words, which take precedence over `FINISH_WORDS`.
    """

    def __init__(self, *, signs: bool, words: Mapping[str, FinishReason] = NO_WORDS) -> None:
        self.rewritten = RewrittenWords()
        """Finish words that litellm replaced."""
        self.has_content = False
        """Whether any text, reasoning or call has been received."""
        self.finished = False
        self._signs = signs
        self._words = words
        self._called = False
        self._shown: set[str] = set()
        self._server_tool: ProviderToolReport | None = None
        """The tool run by the provider whose arguments are still arriving."""
        self._server_arguments: list[str] = []
        self._server_index: int | None = None
        self._stated: Usage | None = None
        self._looked_at = 0
        self._pairs = PairJoiner()

    def stated(self, chunks: Sequence[Any]) -> list[AnyChunk]:
        """Return the usage reported so far, as a `UsageReport`; empty if it has not changed since the last call.

        `chunks`: all chunks that litellm has kept of the stream. litellm reports their usage only at the end, but
        Claude reports input and cached tokens at the beginning, and a stream that is cut would lose them.
        """
        before = self._stated
        for chunk in chunks[self._looked_at :]:
            usage = getattr(chunk, "usage", None)
            if usage is not None:
                self._stated = _usage(usage)
        self._looked_at = len(chunks)
        return [] if self._stated is None or self._stated == before else [UsageReport(self._stated)]

    def _whole(self, sum: Usage) -> Usage:
        """Return the final usage, without reasoning tokens that litellm made up; estimated if none was reported."""
        if self._stated is None:
            return replace(sum, estimated=True)
        return replace(sum, reasoning_tokens=self._stated.reasoning_tokens, cost_usd=self._stated.cost_usd)

    def read(self, chunk: Any) -> list[AnyChunk]:
        """Convert one litellm chunk."""
        parts: list[AnyChunk] = []
        for choice in chunk.choices:
            self._delta(choice.delta, parts)
            self.has_content = self.has_content or bool(parts)
            if choice.finish_reason:
                self.finished = True
                self._report_server_tool(parts)
                raw = self.rewritten.raw(choice.finish_reason)
                parts.append(FinishReport(self._finish(raw), raw))
        usage = _extra(chunk, "usage")
        if usage is not None:
            whole = self._whole(_usage(usage))
            if whole != self._stated:  # otherwise it has been reported
                parts.append(UsageReport(whole))
        return self._with_whole_characters(parts)

    def _with_whole_characters(self, parts: list[AnyChunk]) -> list[AnyChunk]:
        """Join the surrogate pairs that the server split between chunks; see `PairJoiner`."""
        if not self._pairs.held and all(whole_characters(text) is text for part in parts for text in _texts(part)):
            return parts
        events = [
            {"type": "delta" if isinstance(part, MERGEABLE) else "", "chunk": msgspec.to_builtins(part)}
            for part in parts
        ]
        return [_chunk(ready["chunk"]) for event in events for ready in self._pairs.feed(event)]

    def _finish(self, raw: str) -> FinishReason:
        """Return the finish reason. Since 1.108, litellm says tool_calls even if the provider ran all the tools."""
        finish = parse_finish_reason(raw, self._words)
        return "stop" if finish == "tool_calls" and self._shown and not self._called else finish

    def _delta(self, delta: Any, parts: list[AnyChunk]) -> None:
        reasoning = _extra(delta, "reasoning_content") or ""
        blocks = _blocks(delta) if self._signs else []
        signature = "".join(block.get("signature") or "" for block in blocks)
        if reasoning or signature:  # without the block's text, which up to 1.105 is repeated with the signature
            parts.append(ReasoningDelta(reasoning, signature))
        for block in blocks:
            if block.get("data"):
                parts.append(ReasoningDelta(signature=block["data"], redacted=True))
        if delta.content:
            self._report_server_tool(parts)
            parts.append(TextDelta(delta.content))
        for position, call in enumerate(delta.tool_calls or ()):
            self._call(call, position, parts)
        self._remote_results(delta, parts)

    def _call(self, call: Any, position: int, parts: list[AnyChunk]) -> None:
        index = position if call.index is None else call.index
        id, name, arguments = call.id or "", call.function.name or "", call.function.arguments or ""
        if id.startswith(SERVER_TOOL):
            self._report_server_tool(parts)
            self._server_tool, self._server_index = ProviderToolReport(id, name), index
            self._server_arguments = [arguments]
        elif not id and index == self._server_index and self._server_tool is not None:
            self._server_arguments.append(arguments)
        else:
            self._report_server_tool(parts)
            self._called = True
            parts.append(ToolCallDelta(index, id, name, arguments))

    def _remote_results(self, delta: Any, parts: list[AnyChunk]) -> None:
        """Report MCP tools that Anthropic calls itself. litellm shows only their results, repeatedly."""
        fields = _extra(delta, "provider_specific_fields") or {}
        for result in fields.get("tool_results") or ():
            id = str(result.get("tool_use_id", ""))
            if id.startswith(REMOTE_TOOL) and id not in self._shown:
                self._shown.add(id)
                parts.append(ProviderToolReport(id, "mcp", result=json.dumps(result.get("content"))))

    def _report_server_tool(self, parts: list[AnyChunk]) -> None:
        """Report a tool that the provider ran itself, once its arguments are complete."""
        if self._server_tool is not None:
            parts.append(replace(self._server_tool, arguments="".join(self._server_arguments)))
            self._shown.add(self._server_tool.id)
        self._server_tool = self._server_index = None


def _texts(part: AnyChunk) -> Iterator[str]:
    return (value for value in astuple(part) if isinstance(value, str))


def _chunk(fields: dict[str, Any]) -> AnyChunk:
    """Return a chunk with these fields, with U+FFFD for invalid characters."""
    whole = {name: whole_characters(value) if isinstance(value, str) else value for name, value in fields.items()}
    chunk: AnyChunk = msgspec.convert(whole, AnyChunk)
    return chunk


def _blocks(delta: Any) -> list[dict[str, Any]]:
    """Return the signed blocks, under Anthropic's name or OpenRouter's; their fields have the same names."""
    given = _extra(delta, "thinking_blocks") or _extra(delta, "reasoning_details") or ()
    return [block for block in given if isinstance(block, dict)]


def _extra(model: Any, name: str) -> Any:
    """Return a field that may be missing.

    This does not use `getattr`, for which pydantic builds an error message for each missing field, 3 µs each.
    """
    fields = model.__dict__
    return fields[name] if name in fields else (model.__pydantic_extra__ or {}).get(name)


def _usage(usage: Any) -> Usage:
    prompt = getattr(usage, "prompt_tokens_details", None)
    completion = getattr(usage, "completion_tokens_details", None)
    reported = reported_usage(
        getattr(usage, "prompt_tokens", None),
        getattr(usage, "completion_tokens", None),
        cached=getattr(prompt, "cached_tokens", None),
        reasoning=getattr(completion, "reasoning_tokens", None),
        cost=reported_cost({name: getattr(usage, name, None) for name in COST_FIELDS}),
    )
    return Usage(estimated=True) if reported is None else reported


def chunk_length(chunk: AnyChunk) -> int:
    """Return the number of characters of content in a chunk."""
    match chunk:
        case TextDelta(text=text) | ReasoningDelta(text=text):
            return len(text)
        case ToolCallDelta(arguments=text):
            return len(text)
        case ProviderToolReport(arguments=arguments, result=result):
            return len(arguments) + len(result)
        case _:
            return 0

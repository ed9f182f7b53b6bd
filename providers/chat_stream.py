"""Parser for OpenAI's streamed chat completions: bytes in, chunks out.

Servers differ, so any field may be missing, null or not of the documented type. The result is always a list of chunks
or a ProviderError. Source: OpenAI API reference, "The chat completion chunk object".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import chain
from typing import Any

import msgspec
from msgspec import Struct

from ..decision import (
    AnyChunk,
    FinishReason,
    FinishReport,
    ProviderToolReport,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    Usage,
)
from ..decision.finish_words import NO_WORDS, is_server_failure, parse_finish_reason
from ..decision.reported_usage import dollars, reported_usage, token_count
from .chat_reasoning import ReturnedReasoning
from .errors import Interrupted, ProtocolError
from .event_stream import EventStream, details_of, loads, quoted, stream_error, usage_report
from .loose_json import decode_loosely
from .surrogate_pairs import encodable

NULL = len(b"null")
TICKS = 10**10
"""Ticks per US dollar, xAI's unit of cost (xAI documentation, "Cost Tracking")."""
KNOWN = frozenset({None, "", "function", "custom"})
"""Known types of calls."""
UNNUMBERED = 2**20
"""Offset between the indexes given to several calls at one position that have no index."""
COST_FIELDS = ("cost", "cost_details", "is_byok", "cost_in_usd_ticks")
"""Fields that `reported_cost` reads."""


class _Wire(Struct, gc=False):
    """Short-lived objects decoded from the wire, not tracked by the garbage collector."""


class _Function(_Wire):
    name: str | None = None
    arguments: Any = None


class _Custom(_Wire):
    name: str | None = None
    input: str | None = None


class _Call(_Wire):
    index: int | None = None
    id: str | int | None = None
    type: str | None = None
    function: _Function | None = None
    custom: _Custom | None = None
    extra_content: Any = None


class _Audio(_Wire):
    transcript: str | None = None
    data: str | None = None


class _Delta(_Wire):
    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    reasoning_details: Any = None
    extra_content: Any = None
    refusal: str | None = None
    audio: _Audio | None = None
    tool_calls: list[_Call] | None = None
    function_call: _Function | None = None  # the older form, for a single call


class _Choice(_Wire):
    index: Any = None
    delta: _Delta | None = None
    message: _Delta | None = None
    text: str | None = None  # the older completions endpoint, which some servers serve at this path
    finish_reason: str | None = None
    native_finish_reason: Any = None  # OpenRouter: the finish word of the vendor behind it, which may report a failure
    usage: msgspec.Raw = msgspec.Raw()  # Moonshot reports the usage here, with the finish reason
    error: Any = None  # OpenRouter and gateways like it report a failure of the vendor behind them here


class _Groq(_Wire):
    usage: msgspec.Raw = msgspec.Raw()
    error: Any = None


class _Chunk(_Wire):
    choices: list[_Choice] | None = None
    usage: msgspec.Raw = msgspec.Raw()  # decoded separately: an invalid number in it must not make the chunk unreadable
    x_groq: _Groq | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Chunk).decode


class ChatStream(EventStream):
    """Parser of one streamed response.

    `vendor`: the server's host, if items that it wants back are kept. `returns_text`: as in `ReturnedReasoning`.
    """

    def __init__(
        self, words: Mapping[str, FinishReason] = NO_WORDS, vendor: str = "", returns_text: bool = False
    ) -> None:
        super().__init__(words)
        self._returned = ReturnedReasoning(vendor, returns_text)
        self._choice: Any = None
        """Index of the choice that was received first; chunks of any other choice are ignored."""
        self._has_choices = self._has_delta = False
        self._of_unknown_types: tuple[bytes, dict[int, dict[str, Any]]] = (b"", {})
        """The latest event with a call of an unknown type, and the result of `_members_of_calls` for it."""
        self._foreign = b""
        self._sound = 0
        """Length of the audio received with the text, in characters of base64."""
        self.refused = False
        self._unnumbered: dict[int, _Call] = {}
        """The latest call without an index at each position, with the index given to it here."""
        self._unknown: dict[int, tuple[str, str, list[dict[str, Any]]]] = {}
        """Calls of unknown types, by index: the id, the type, and the members of each piece."""

    def read_end(self, chunks: list[AnyChunk]) -> None:
        """Raise an error unless the body ended with `[DONE]`: without that, the response is incomplete."""
        if self._foreign and not self._has_choices:
            raise ProtocolError(f"the stream is not in the chat completions format: {quoted(self._foreign)}")
        if not self.done:
            raise Interrupted("the stream ended without a finish reason")
        self.end_message(chunks)
        chunks.append(FinishReport("other"))

    def read_body(self, body: bytes) -> list[AnyChunk]:
        """Return the chunks of a response that was not streamed."""
        return parse_whole_reply(body, self._words, self)

    def read_event(self, data: bytes, chunks: list[AnyChunk]) -> None:
        """Turn one event into chunks, and append them to `chunks`."""
        try:
            chunk = _decode(data)
        except (msgspec.DecodeError, RecursionError, ValueError) as error:
            if data[:6] == b"[DONE]":
                self.done = True
                return
            loose = None if _is_error(value := decode_loosely(data)) else _loosely(data)
            if loose is None:
                if _is_error(value) and not self.finished:
                    raise stream_error(value) from None
                raise ProtocolError(f"a chunk of the stream cannot be read ({error}): {quoted(data)}") from error
            chunk = loose
        choices = chunk.choices
        if choices is None or chunk.error is not None:
            if (chunk.error or _is_error(decode_loosely(data))) and not self.finished:
                raise stream_error(decode_loosely(data))
            self._foreign = self._foreign or data
        if choices is not None:
            self._has_choices = True
        for choice in choices or ():
            if choice.index != self._choice and choice.index is not None:
                if self._choice is not None:
                    continue  # a second choice, which was not requested
                self._choice = choice.index
            if choice.error and not self.finished:
                raise stream_error(choice.error)
            if (delta := choice.delta) is not None:
                self._has_delta = True
                self.add_delta(delta, data, chunks)
            elif choice.message is not None and not self._has_delta:  # if not, it repeats them, as MiniMax's does
                self.add_delta(choice.message, data, chunks)
            elif choice.text:
                chunks.append(TextDelta(choice.text))
            if choice.finish_reason:
                self.end_message(chunks)
                self.finished = True
                chunks.append(self.finish_report(choice))
                chunks += usage_report(choice.usage, _usage)
        if len(chunk.usage) > NULL or chunk.x_groq is not None:
            groq = chunk.x_groq or _Groq()
            if groq.error and not self.finished:
                raise stream_error(groq.error)
            chunks += usage_report(chunk.usage, _usage) or usage_report(groq.usage, _usage)

    def finish_report(self, choice: _Choice) -> FinishReport:
        """Return the finish of a choice, with the vendor's own word if only that says that the vendor failed."""
        raw, native = choice.finish_reason or "", choice.native_finish_reason
        if isinstance(native, str) and is_server_failure(parse_finish_reason(native, self._words), native):
            raw = native
        return FinishReport("content_filter" if self.refused else parse_finish_reason(raw, self._words), raw)

    def add_delta(self, delta: _Delta, data: bytes, chunks: list[AnyChunk]) -> None:
        """Append the chunks of a delta, or of the whole message of an unstreamed response.

        data: the event or response that holds it.
        """
        content = delta.content
        if content:
            if self._returned.pending:
                chunks += self._returned.flush()
            if type(content) is str:
                chunks.append(TextDelta(content))
            else:
                chunks += _content_parts(content)
        if delta.reasoning_details:
            self._returned.add_details(delta.reasoning_details)
        reasoning = delta.reasoning_content or delta.reasoning
        if reasoning and isinstance(reasoning, str):
            chunks.append(ReasoningDelta(reasoning))
            self._returned.add_text(reasoning, "reasoning_content" if delta.reasoning_content else "reasoning")
        if delta.extra_content:
            chunks += self._returned.extra_content(delta.extra_content, "message")
        if delta.refusal:
            self.refused = True
            chunks.append(TextDelta(delta.refusal))
        if delta.audio is not None:
            self._sound += len(delta.audio.data or "")
            if delta.audio.transcript:
                chunks.append(TextDelta(delta.audio.transcript))
        if delta.function_call is not None and not delta.tool_calls:
            delta.tool_calls = [_Call(index=0, function=delta.function_call)]
        if not delta.tool_calls:
            return
        if self._returned.pending:
            chunks += self._returned.flush()
        for position, call in enumerate(delta.tool_calls):
            index = self._index_of(call, position) if call.index is None else call.index
            id = "" if call.id is None else str(call.id)
            if call.function is None and call.custom is None and (call.type not in KNOWN or index in self._unknown):
                self._add_unknown(index, id, call.type or "", self._members_of_call(data, position))
                continue
            name, arguments = _name_and_arguments(call)
            chunks.append(ToolCallDelta(index, id, name, arguments))
            if call.extra_content:
                chunks += self._returned.extra_content(call.extra_content, "call")

    def end_message(self, chunks: list[AnyChunk]) -> None:
        """Append what was collected and not yet emitted (reasoning to send back). Call it at the end of a message."""
        if self._returned.pending:
            chunks += self._returned.flush()
        for index, (id, kind, members) in self._unknown.items():
            chunks.append(ToolCallDelta(index, id, kind, _encoded(_joined(members)).decode(), whole=True))
        self._unknown.clear()
        if self._sound:
            chunks.append(ProviderToolReport("", "audio", result=f"(sound: {self._sound} characters of base64)"))
            self._sound = 0

    def _index_of(self, call: _Call, position: int) -> int:
        """Return the index of a call that has none. If ids do not tell, a call with another name begins a new call.

        Servers that number their calls may send a name in pieces; those that do not send whole calls.
        """
        before = self._unnumbered.get(position)
        name = call.function.name if call.function is not None else None
        if before is not None and before.function is not None and before.index is not None:
            if not name or call.id or before.id or name == before.function.name:
                return before.index
            call.index = before.index + UNNUMBERED
        else:
            call.index = position
        if name:
            self._unnumbered[position] = call
        return call.index

    def _members_of_call(self, data: bytes, position: int) -> dict[str, Any]:
        """Return the members of a call of an unknown type. The event `data` is decoded once for all of its calls."""
        if self._of_unknown_types[0] is not data:
            self._of_unknown_types = data, _members_of_calls(data)
        return self._of_unknown_types[1].get(position, {})

    def _add_unknown(self, index: int, id: str, kind: str, members: dict[str, Any]) -> None:
        """Collect a call of an unknown type.

        Its type is used as the name and its members as the arguments, so that the model is told that there is no such
        tool.
        """
        before = self._unknown.get(index, ("", "", []))
        before[2].append(members)
        self._unknown[index] = before[0] or id, before[1] or kind, before[2]


def _joined(pieces: list[Any]) -> Any:
    """Return a value joined from its pieces: texts and lists grow, objects are merged, anything else is replaced."""
    given = [piece for piece in pieces if piece is not None]
    if all(isinstance(piece, str) for piece in given):
        return "".join(given)
    if all(isinstance(piece, list) for piece in given):
        return [*chain.from_iterable(given)]
    if not all(isinstance(piece, dict) for piece in given):
        return given[-1]
    members: dict[str, list[Any]] = {}
    for name, value in chain.from_iterable(piece.items() for piece in given):
        members.setdefault(name, []).append(value)
    return {name: _joined(values) for name, values in members.items()}


def _name_and_arguments(call: _Call) -> tuple[str, str]:
    """Return the name and arguments in a piece of a call. A custom tool's call has free text as arguments."""
    if (custom := call.custom) is not None:
        return custom.name or "", custom.input or ""
    function = call.function or _Function()
    arguments = function.arguments
    if arguments is not None and not isinstance(arguments, str):
        arguments = msgspec.json.encode(arguments).decode()
    return function.name or "", arguments or ""


def _members_of_calls(data: bytes) -> dict[int, dict[str, Any]]:
    """Return the members of each call of an event, by position, without those that all calls have."""
    value, found = decode_loosely(data), dict[int, dict[str, Any]]()
    known = ("index", "id", "type", "extra_content")
    for choice in value.get("choices", ()) if isinstance(value, dict) else ():
        calls = (choice.get("delta") or choice.get("message") or {}).get("tool_calls")
        for position, call in enumerate(calls if isinstance(calls, list) else ()):
            if position not in found and isinstance(call, dict):
                found[position] = {name: part for name, part in call.items() if name not in known}
    return found


def _content_parts(content: Any) -> list[AnyChunk]:
    """Return the chunks of content that is a list of parts, the form in which Mistral sends text and thinking."""
    chunks: list[AnyChunk] = []
    for part in content if isinstance(content, list) else [content]:
        if not isinstance(part, dict):
            continue
        if part.get("type") == "thinking":
            inner = part.get("thinking")
            for piece in inner if isinstance(inner, list) else [{"text": inner}]:
                if isinstance(piece, dict) and isinstance(piece.get("text"), str):
                    chunks.append(ReasoningDelta(piece["text"]))
        elif isinstance(part.get("text"), str):
            chunks.append(TextDelta(part["text"]))
    return chunks


def _usage(usage: Mapping[str, Any]) -> Usage | None:
    prompt, completion = details_of(usage, "prompt_tokens_details"), details_of(usage, "completion_tokens_details")
    return reported_usage(
        usage.get("prompt_tokens"),
        whole_output(usage, usage.get("prompt_tokens"), usage.get("completion_tokens"), completion),
        cached=prompt.get("cached_tokens") or usage.get("prompt_cache_hit_tokens"),  # DeepSeek's name for cached tokens
        reasoning=completion.get("reasoning_tokens"),
        cost=reported_cost(usage),
    )


def whole_output(usage: Mapping[str, Any], input: Any, output: Any, details: Mapping[str, Any]) -> Any:
    """Return the output tokens including reasoning.

    xAI counts reasoning separately, all others as a part of the output: only the total tells which.
    """
    if not details.get("reasoning_tokens"):
        return output
    counts = [token_count(value) for value in (input, output, details.get("reasoning_tokens"))]
    whole = sum(count or 0 for count in counts)
    if counts[2] and counts[1] is not None and token_count(usage.get("total_tokens")) == whole:
        return counts[1] + counts[2]
    return output


def reported_cost(usage: Mapping[str, Any]) -> float | None:
    """Return the reported cost of a response in US dollars; None if its usage has none, or a cost of 0.

    OpenRouter reports a number. If the user's own key pays the vendor, that number is only OpenRouter's fee, and the
    vendor's price is a separate field (OpenRouter documentation, "Usage Accounting"). Perplexity reports an object with
    `total_cost`, xAI ticks (xAI documentation, "Cost Tracking").
    """
    if usage.keys().isdisjoint(COST_FIELDS):
        return None
    cost, details = usage.get("cost"), usage.get("cost_details")
    if isinstance(cost, Mapping):
        cost = cost.get("total_cost")
    found = dollars(cost) or (dollars(usage.get("cost_in_usd_ticks")) or 0.0) / TICKS
    if usage.get("is_byok") is True and isinstance(details, Mapping):
        found += dollars(details.get("upstream_inference_cost")) or 0.0
    return found or None


def parse_whole_reply(
    body: bytes, words: Mapping[str, FinishReason] = NO_WORDS, reader: ChatStream | None = None
) -> list[AnyChunk]:
    """Parse a response that was not streamed.

    `words`: the user's finish words, which precede those of the table. `reader`: reads the message.
    """
    body = encodable(body)
    try:
        reply = _decode(body)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        loose = None if _is_error(value := decode_loosely(body)) else _loosely(body)
        if _is_error(value):
            raise stream_error(value) from None
        if loose is None:
            raise ProtocolError(
                f"the response is neither a stream nor a completion ({error}): {quoted(body)}"
            ) from error
        reply = loose
    if reply.error or (not reply.choices and _is_error(decode_loosely(body))):
        raise stream_error(decode_loosely(body))
    if not reply.choices:
        raise ProtocolError("the response has no choices")
    choice = reply.choices[0]
    if choice.error:
        raise stream_error(choice.error)
    reader = reader or ChatStream(words)
    chunks: list[AnyChunk] = []
    reader.add_delta(choice.message or choice.delta or _Delta(), body, chunks)
    reader.end_message(chunks)
    chunks.append(reader.finish_report(choice))
    return chunks + usage_report(reply.usage, _usage)


def _loosely(data: bytes) -> _Chunk | None:
    """Decode a malformed chunk, which has invalid numbers or fields of unexpected types.

    Fields that are not needed are ignored. Returns None if the data is not a JSON object or a needed field cannot be
    read.
    """
    value = loads(data)
    if not isinstance(value, dict):
        return None
    choices, usage = value.get("choices"), value.get("usage")
    if not (choices is None or isinstance(choices, list)) or not all(map(_is_readable, choices or ())):
        return None
    return _Chunk(
        choices=[_choice(one) for one in choices if isinstance(one, dict)] if isinstance(choices, list) else None,
        usage=_raw_object(usage),
        error=value.get("error"),
    )


def _is_readable(choice: Any) -> bool:
    """Return whether a choice has the documented structure: an unreadable part of a response must not be ignored."""
    return isinstance(choice, dict) and all(
        choice.get(name) is None or isinstance(choice[name], dict) for name in ("delta", "message")
    )


def _choice(value: dict[str, Any]) -> _Choice:
    return _Choice(
        index=_number(value.get("index")),
        delta=_delta_of(value.get("delta")),
        message=_delta_of(value.get("message")),
        text=_text(value.get("text")),
        finish_reason=_text(value.get("finish_reason")),
        native_finish_reason=value.get("native_finish_reason"),
        usage=_raw_object(value.get("usage")),
        error=value.get("error"),
    )


def _delta_of(value: Any) -> _Delta | None:
    if not isinstance(value, dict):
        return None
    calls = value.get("tool_calls")
    content, audio = value.get("content"), value.get("audio")
    return _Delta(
        content=_text(content) if isinstance(content, str) else content if isinstance(content, list) else None,
        reasoning_content=_text(value.get("reasoning_content")),
        reasoning=_text(value.get("reasoning")),
        reasoning_details=value.get("reasoning_details"),
        extra_content=value.get("extra_content"),
        refusal=_text(value.get("refusal")),
        audio=_Audio(_text(audio.get("transcript")), _text(audio.get("data"))) if isinstance(audio, dict) else None,
        tool_calls=[_call_of(one) for one in calls if isinstance(one, dict)] if isinstance(calls, list) else None,
        function_call=_function_of(value.get("function_call")),
    )


def _call_of(value: dict[str, Any]) -> _Call:
    id, custom = value.get("id"), value.get("custom")
    return _Call(
        index=_number(value.get("index")),
        id=_text(id) if isinstance(id, str) else str(id) if isinstance(id, int) else None,
        type=_text(value.get("type")),
        function=_function_of(value.get("function")),
        custom=_Custom(_text(custom.get("name")), _text(custom.get("input"))) if isinstance(custom, dict) else None,
        extra_content=value.get("extra_content"),
    )


def _function_of(value: Any) -> _Function | None:
    if not isinstance(value, dict):
        return None
    arguments = value.get("arguments")
    if isinstance(arguments, str):
        arguments = _text(arguments)
    elif arguments is not None:
        arguments = _encoded(arguments).decode()
    return _Function(name=_text(value.get("name")), arguments=arguments)


def _raw_object(value: Any) -> msgspec.Raw:
    return msgspec.Raw(_encoded(value)) if isinstance(value, dict) else msgspec.Raw()


def _number(value: Any) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


def _is_error(value: Any) -> bool:
    """Return whether a value in place of a chunk is an error.

    vLLM and Anthropic mark errors; other servers only send an error's fields.
    """
    if isinstance(value, list):
        return any(_is_error(part) for part in value)
    if not isinstance(value, dict) or value.get("choices"):
        return False
    if value.get("error") or value.get("object") == "error" or value.get("type") == "error":
        return True
    return any(isinstance(value.get(name), str) for name in ("message", "msg")) or bool(
        value.keys() & {"detail", "errors", "base_resp"}
    )

"""Parser for Gemini's streamed responses: bytes in, chunks out.

Source: Gemini API reference, "GenerateContentResponse", and Vertex AI's page of the same name.

No event says that nothing follows it. Models up to Gemini 1.5 and some gateways send a finish reason and a usage with
each event, and search results may come after both, so a stream is read to its end for as long as somebody reads it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

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
from ..decision.finish_words import NO_WORDS, parse_finish_reason
from ..decision.reported_usage import reported_usage, sum_of_counts, token_count
from .errors import Interrupted, ProtocolError
from .event_stream import LEFT_TO_CLIENT, EventStream, quoted, stream_error, usage_report
from .gemini_arguments import ArgumentPiece, GrowingArguments
from .gemini_parts import VENDOR, PartNote, note_delta
from .loose_json import decode_loosely
from .surrogate_pairs import encodable

NULL = msgspec.Raw(b"null")
CODE_EXECUTION = "code_execution"
KNOWN_PARTS = frozenset(
    "executableCode codeExecutionResult toolCall toolResponse inlineData fileData videoMetadata partMetadata".split()
)
"""Objects in a part that are about the vendor's own tools or about the part."""
DONE = ("Result", "Response", "Data", "Metadata", "Resolution")
"""Endings of the names of objects that request no action."""


class _Wire(Struct, gc=False, rename="camel"):
    """Short-lived objects decoded from the wire, not tracked by the garbage collector."""


class _Call(_Wire):
    id: str | None = None
    name: str | None = None
    args: msgspec.Raw = msgspec.Raw()
    partial_args: list[ArgumentPiece] | None = None
    will_continue: bool | None = None


class _Part(_Wire):
    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: _Call | None = None


class _OtherPart(_Wire):
    """A part that is neither a text nor a call."""

    executable_code: dict[str, Any] | None = None
    code_execution_result: dict[str, Any] | None = None
    tool_call: dict[str, Any] | None = None
    tool_response: dict[str, Any] | None = None
    inline_data: dict[str, Any] | None = None
    file_data: dict[str, Any] | None = None


class _Content(_Wire):
    parts: list[_Part] | None = None


class _Candidate(_Wire):
    content: _Content | None = None
    finish_reason: Any = None
    finish_message: Any = None
    index: Any = None
    grounding_metadata: msgspec.Raw = msgspec.Raw()
    url_context_metadata: msgspec.Raw = msgspec.Raw()
    citation_metadata: msgspec.Raw = msgspec.Raw()
    safety_ratings: msgspec.Raw = msgspec.Raw()


class _Response(_Wire):
    candidates: list[_Candidate] | None = None
    prompt_feedback: dict[str, Any] | None = None
    usage_metadata: msgspec.Raw = msgspec.Raw()
    error: Any = None


_decode = msgspec.json.Decoder(_Response).decode
_decode_other = msgspec.json.Decoder(_OtherPart).decode
_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode


class GeminiStream(EventStream):
    """Parser of one response of `streamGenerateContent`.

    runs_items: whether the client acts on parts that are not function calls. If False, a response that has a part of an
    unknown kind without a result ends with an error that names the kind.
    """

    def __init__(self, words: Mapping[str, FinishReason] = NO_WORDS, *, runs_items: bool = True) -> None:
        super().__init__(words)
        self._runs_items = runs_items
        self._waiting: list[str] = []
        """Kinds of parts that may wait for the client."""
        self._foreign = b""
        """The first event that is not in this format."""
        self._calls = 0
        self._after_call = False
        """Whether the previous part was a call."""
        self._growing: GrowingArguments | None = None
        """Arguments of the call in progress."""
        self._raw_parts: tuple[bytes, list[list[msgspec.Raw]]] = (b"", [])
        """The latest event with a part that is neither a text nor a call, and the parts of its candidates."""
        self._begun: dict[str, deque[str]] = {}
        """The ids under which tools of each name have begun, oldest first; some may have ended."""
        self._server_tools: dict[str, ProviderToolReport] = {}
        """Tools run by the vendor whose results have not arrived, by id."""
        self._numbered = 0
        self._shown: set[bytes] = set()
        self._counts = msgspec.Raw()
        """The latest usage, undecoded: most events have one, and only the last one counts."""
        self._reported: AnyChunk | None = None
        self._counted = False
        """Whether a usage came with the finish reason or after it."""

    @property
    def whole(self) -> bool:
        """Whether finish reason and usage have been received."""
        return self.done or self._counted

    # ---- events

    def read_event(self, data: bytes, chunks: list[AnyChunk]) -> None:
        """Turn one event into chunks, and append them to `chunks`."""
        try:
            response = _decode(data)
            candidates = response.candidates
            if candidates is None or response.error is not None or response.prompt_feedback is not None:
                self._read_unusual(response, data, chunks)
            for place, candidate in enumerate(candidates or ()):
                if not candidate.index:  # only the first candidate was requested
                    self._read_candidate(place, candidate, data, chunks)
            if response.usage_metadata:
                self._counts = response.usage_metadata
            if self.finished or self._reported is None:
                counts = self._report_usage(chunks)
                self._counted = self._counted or (counts and self.finished and bool(response.usage_metadata))
        except (msgspec.DecodeError, RecursionError, ValueError) as error:
            if data[:6] == b"[DONE]":  # gateways add this
                self.done = True
                return
            value = decode_loosely(data)
            parts = value if isinstance(value, list) else [value]
            if any(isinstance(part, dict) and part.get("error") for part in parts) and not self.finished:
                raise stream_error(value) from None
            raise ProtocolError(f"a chunk of the stream cannot be read ({error}): {quoted(data)}") from error

    def read_end(self, chunks: list[AnyChunk]) -> None:
        """Raise Interrupted, or ProtocolError for another format: a response without a finish reason is incomplete."""
        if self._foreign:
            raise ProtocolError(f"the stream is not in Gemini's format: {quoted(self._foreign)}")
        raise Interrupted("the stream ended without a finish reason")

    def read_body(self, body: bytes) -> list[AnyChunk]:
        """Return the chunks of a body that is not an event stream: one response, or a list of them."""
        try:
            events = msgspec.json.decode(body, type=list[msgspec.Raw] | dict[str, msgspec.Raw])
        except (msgspec.DecodeError, RecursionError, ValueError) as error:
            raise ProtocolError(f"the response cannot be read ({error}): {quoted(body)}") from error
        chunks: list[AnyChunk] = []
        for event in events if isinstance(events, list) else [body]:
            self.read_event(bytes(event), chunks)
        if not self.finished:
            self.read_end(chunks)
        return chunks

    def _read_candidate(self, place: int, candidate: _Candidate, data: bytes, chunks: list[AnyChunk]) -> None:
        if (content := candidate.content) is not None:
            for number, part in enumerate(content.parts or ()):
                if part.text and part.thought is None and part.thought_signature is None and not self._after_call:
                    chunks.append(TextDelta(part.text))  # nearly all events are
                elif not self._read_part(part, chunks):
                    self._read_other(self._raw_part(data, place, number), chunks)
        if (
            candidate.finish_reason is not None
            or candidate.grounding_metadata
            or candidate.url_context_metadata
            or candidate.citation_metadata
        ):
            self._read_end_of_candidate(candidate, chunks)

    def _read_unusual(self, response: _Response, data: bytes, chunks: list[AnyChunk]) -> None:
        """Read an event that is an error, feedback on a blocked prompt, only a count, or in another format."""
        if response.error is not None and not self.finished:
            raise stream_error(decode_loosely(data))
        if response.prompt_feedback is not None:
            self._read_feedback(response.prompt_feedback, chunks)
        elif response.candidates is None and not response.usage_metadata:
            self._foreign = self._foreign or data

    def _read_end_of_candidate(self, candidate: _Candidate, chunks: list[AnyChunk]) -> None:
        self._report_once("grounding", candidate.grounding_metadata, chunks)
        self._report_once("url_context", candidate.url_context_metadata, chunks)
        self._report_once("citations", candidate.citation_metadata, chunks)
        word = candidate.finish_reason
        if word is not None and not self.finished:
            reason = parse_finish_reason(str(word), self._words)
            if reason not in ("stop", "tool_calls"):
                self._report_once("safety_ratings", candidate.safety_ratings, chunks)
                self._report_once("finish_message", msgspec.json.encode(candidate.finish_message), chunks)
            self._finish(reason, str(word), chunks)

    def _read_feedback(self, feedback: dict[str, Any], chunks: list[AnyChunk]) -> None:
        """Read the feedback on a blocked prompt. Such a response has no candidates, only a list of reasons."""
        word = feedback.get("blockReason")
        if word and not self.finished:
            self._report_once("prompt_feedback", msgspec.json.encode(feedback), chunks)
            self._finish(self._words.get(str(word), "content_filter"), str(word), chunks)

    def _finish(self, reason: FinishReason, word: str, chunks: list[AnyChunk]) -> None:
        if self._growing is not None:
            cut = reason not in ("stop", "tool_calls") or self._growing.is_open
            chunks.append(self._end_of_growing(cut))
        chunks += self._server_tools.values()
        self._server_tools = {}
        self.finished = True
        if self._waiting and not self._runs_items and reason in ("stop", "tool_calls"):
            reason, word = "error", LEFT_TO_CLIENT.format(", ".join(self._waiting))
        chunks.append(FinishReport(reason, word))

    # ---- parts

    def _read_part(self, part: _Part, chunks: list[AnyChunk]) -> bool:
        """Append the chunks of a text, a thought or a call. Return False for any other part."""
        signature, text = part.thought_signature or "", part.text
        if part.function_call is not None:
            self._read_call(part.function_call, signature, chunks)
        elif part.thought:
            if text or signature:
                chunks.append(ReasoningDelta(text or "", signature, vendor=VENDOR if signature else ""))
        elif text is None:
            return False
        elif signature or self._after_call:
            self._read_text(text, signature, chunks)
        elif text:
            chunks.append(TextDelta(text))
        return True

    def _raw_part(self, data: bytes, place: int, number: int) -> msgspec.Raw:
        """Return a part of an event as it was received. The event is decoded once for all of its parts."""
        if self._raw_parts[0] is not data:
            self._raw_parts = (
                data,
                [_parts_of(raw) for raw in _decode_list(_decode_fields(encodable(data))["candidates"])],
            )
        return self._raw_parts[1][place][number].copy()

    def _read_other(self, raw: msgspec.Raw, chunks: list[AnyChunk]) -> None:
        """Keep a part as it was received, because the vendor wants it back, and report its content."""
        chunks.append(note_delta(PartNote(part=raw)))
        self._report_part(_decode_other(raw), chunks)
        for name, value in decode_loosely(bytes(raw)).items():
            if isinstance(value, dict) and name not in KNOWN_PARTS:
                chunks.append(ProviderToolReport(self._next_id(name), name, _json(value)))
                if not name.endswith(DONE):
                    self._waiting.append(name)

    def _read_text(self, text: str, signature: str, chunks: list[AnyChunk]) -> None:
        if signature:
            chunks.append(note_delta(PartNote(signature, text=len(text))))
        elif text and self._after_call:
            chunks.append(note_delta(PartNote()))  # otherwise the text would be sent back before the calls
        if text:
            self._after_call = False
            chunks.append(TextDelta(text))

    def _read_call(self, call: _Call, signature: str, chunks: list[AnyChunk]) -> None:
        if self._growing is not None and not call.name:
            self._grow(call, chunks)
            return
        if self._growing is not None:  # the next call begins, so the previous one has ended
            chunks.append(self._end_of_growing(self._growing.is_open))
        self._after_call = True
        if signature or call.id:
            chunks.append(note_delta(PartNote(signature, call_id=call.id or "")))
        id, name = call.id or "", call.name or ""
        if call.partial_args is not None or call.will_continue:
            self._growing = GrowingArguments()
            chunks.append(ToolCallDelta(self._calls, id, name, whole=False))
            self._grow(call, chunks)
            return
        arguments = encodable(bytes(call.args)).decode()
        chunks.append(ToolCallDelta(self._calls, id, name, "" if arguments == "null" else arguments, whole=True))
        self._calls += 1

    def _grow(self, call: _Call, chunks: list[AnyChunk]) -> None:
        """Add pieces to the arguments of the call in progress. They are complete, as text, only at its end."""
        assert self._growing is not None
        for piece in call.partial_args or ():
            self._growing.add(piece)
        chunks.append(ToolCallDelta(self._calls, whole=False) if call.will_continue else self._end_of_growing(False))

    def _end_of_growing(self, cut: bool) -> ToolCallDelta:
        """Return the arguments of the call in progress. `cut`: leave their end off, so that they count as truncated."""
        assert self._growing is not None
        arguments, self._growing = self._growing.text(), None
        index = self._calls
        self._calls += 1
        return ToolCallDelta(index, arguments=arguments[:-1] if cut else arguments, whole=not cut)

    # ---- what the vendor does itself

    def _report_part(self, part: _OtherPart, chunks: list[AnyChunk]) -> None:
        if (code := part.executable_code) is not None:
            self._begin_tool(CODE_EXECUTION, code, _without_id(code))
        elif (result := part.code_execution_result) is not None:
            chunks.append(self._end_tool(CODE_EXECUTION, result, _without_id(result)))
        elif (call := part.tool_call) is not None:
            self._begin_tool(_tool_name(call), call, call.get("args"))
        elif (response := part.tool_response) is not None:
            chunks.append(self._end_tool(_tool_name(response), response, response.get("response")))
        elif (data := part.inline_data or part.file_data) is not None:
            size = f"{len(str(data['data'])) * 3 // 4} bytes" if "data" in data else str(data.get("fileUri", ""))
            chunks.append(
                ProviderToolReport(self._next_id("file"), "file", result=f"{data.get('mimeType', '')} {size}")
            )

    def _begin_tool(self, name: str, given: dict[str, Any], arguments: Any) -> None:
        id = str(given.get("id") or "") or self._next_id(name)
        self._server_tools[id] = ProviderToolReport(id, name, _json(arguments))
        self._begun.setdefault(name, deque()).append(id)

    def _end_tool(self, name: str, given: dict[str, Any], result: Any) -> ProviderToolReport:
        """Report a tool whose result has arrived: the one with its id or, without an id, the oldest of its name."""
        id = str(given.get("id") or "") or self._oldest(name)
        begun = self._server_tools.pop(id, None) or ProviderToolReport(id or self._next_id(name), name)
        return replace(begun, result=_json(result))

    def _oldest(self, name: str) -> str:
        """Return the id of the oldest tool of this name that has not ended; empty if there is none."""
        ids = self._begun.get(name, deque())
        while ids:
            tool = self._server_tools.get(ids[0])
            if tool is not None and tool.name == name:
                return ids[0]
            ids.popleft()
        return ""

    def _next_id(self, name: str) -> str:
        self._numbered += 1
        return f"{name}_{self._numbered}"

    def _report_once(self, name: str, raw: bytes | msgspec.Raw, chunks: list[AnyChunk]) -> None:
        """Report what the vendor says about a response, unless it is empty or has been reported."""
        said = encodable(bytes(raw))
        if said in (b"", b"{}", b"[]", b"null", b'""') or said in self._shown:
            return
        self._shown.add(said)
        value = decode_loosely(said)
        queries = [query for name in QUERIES for query in value.get(name) or ()] if isinstance(value, dict) else []
        arguments = _json({"queries": queries}) if queries else ""
        chunks.append(ProviderToolReport(self._next_id(name), name, arguments, said.decode()))

    # ---- usage

    def _report_usage(self, chunks: list[AnyChunk]) -> bool:
        """Report the first usage of a response, because a cut response has no other, and the last one.

        Return whether the latest usage counts tokens.
        """
        reports = usage_report(self._counts, _usage)
        for report in reports:
            if report != self._reported:
                self._reported = report
                chunks.append(report)
        return bool(reports)


QUERIES = ("webSearchQueries", "imageSearchQueries", "retrievalQueries")
"""Fields of the grounding metadata that hold the search queries."""


def _usage(usage: Mapping[str, Any]) -> Usage | None:
    """Return the usage; None if it counts no tokens.

    The total tells what the output count includes: most models count thoughts separately, which are then added, and
    some include them. An output of 0 may be missing, like any field with its default value (ProtoJSON format).
    """
    input = token_count(usage.get("promptTokenCount"))
    given = usage.get("candidatesTokenCount")
    if input is not None:
        input += token_count(usage.get("toolUsePromptTokenCount")) or 0
        given = 0 if given is None else given
    output, thoughts = token_count(given), token_count(usage.get("thoughtsTokenCount"))
    total = token_count(usage.get("totalTokenCount"))
    within = output is not None and total == (input or 0) + output and output >= (thoughts or 0)
    return reported_usage(
        input,
        output if within else sum_of_counts(output, thoughts),
        cached=usage.get("cachedContentTokenCount"),
        reasoning=thoughts,
    )


def _parts_of(candidate: msgspec.Raw) -> list[msgspec.Raw]:
    """Return a candidate's parts as they were received; empty if its content is null."""
    content = _decode_fields(candidate).get("content", NULL)
    parts = NULL if content == NULL else _decode_fields(content).get("parts", NULL)
    return [] if parts == NULL else _decode_list(parts)


def _tool_name(given: dict[str, Any]) -> str:
    return str(given.get("toolType") or "tool").lower()


def _without_id(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name != "id"}


def _json(value: Any) -> str:
    return "" if value is None else msgspec.json.encode(value).decode()

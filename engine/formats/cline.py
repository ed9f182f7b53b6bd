"""Import of cline recordings: a list of HTTP replies (path, status, response), of which chat endpoint replies are read.

Requests are not recorded, so prompts and tool results are unknown. Replies, streamed or not, are parsed with our own
provider's parser. A reply after `attempt_completion` begins a new run, because cline continues only after the user has
answered. So does a reply after plain text, unless cline's own tools are in use: then cline asks for a tool call and
continues.
Sources: nock, "Recording" (the list); OpenAI API reference, "Chat Completions" (the replies).
"""

from __future__ import annotations

import binascii
import zlib
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..decision import AnyChunk, Assembler, AssistantMessage, Usage
from ..providers import ProviderError
from ..providers.chat_stream import ChatStream, parse_whole_reply
from ..providers.error_replies import parse_error_body
from ..providers.loose_json import decode_loosely
from ..providers.sse_decoder import SSEDecoder
from .imported_session import ImportedSession, Unreadable
from .parsing import as_dict, as_list, as_text, parse_cost, parse_time
from .session_builder import SessionBuilder

COMPLETION = "attempt_completion"
_CHAT_PATH = "/chat/completions"
_OTHER_CHAT_PATHS = ("/messages", "/responses", ":generateContent", ":streamGenerateContent")
"""Chat endpoints in other formats, whose replies are counted as losses."""
MAX_REPLY_BYTES = 64 * 1024 * 1024
"""Size limit of a decompressed reply."""


class _Reply(Struct):
    """A parsed reply."""

    message: AssistantMessage
    raw_finish: str = ""
    usage: Usage | None = None
    model: str = ""
    t: float | None = None


def sessions(data: Any) -> Iterator[ImportedSession]:
    """Yield the only session of a recording."""
    session = ImportedSession()
    builder = SessionBuilder(session)
    failures: list[str] = []
    starts_run = True
    for entry in map(as_dict, data if isinstance(data, list) else [data]):
        path = as_text(entry.get("path")).partition("?")[0]
        if not path.endswith(_CHAT_PATH):
            if path.endswith(_OTHER_CHAT_PATHS):
                session.count_loss("reply")
            continue
        try:
            reply = _parse_reply(entry)
        except ProviderError as error:
            failures.append(str(error) or type(error).__name__)
            builder.add_failure(failures[-1], status=error.status, starts_run=starts_run)
            session.count_loss("prompt", starts_run)
            starts_run = False
            continue
        _add_reply(builder, reply, starts_run)
        starts_run = _ends_run(reply.message, session)
    if not builder.steps:
        raise Unreadable(failures[-1] if failures else "it contains no reply of a chat endpoint")
    yield session


def matches(data: Any) -> bool:
    """Return whether this is a list of recorded HTTP replies."""
    first = as_dict(as_list(data)[0] if as_list(data) else None)
    return {"path", "status", "response"} <= first.keys()


def _add_reply(builder: SessionBuilder, reply: _Reply, starts_run: bool) -> None:
    session = builder.session
    session.model = session.model or reply.model
    builder.add_response(
        reply.message.text,
        [(call.id, call.name, call.arguments) for call in reply.message.calls],
        reply.message.reasoning,
        usage=reply.usage,
        raw_finish=reply.raw_finish,
        model=reply.model,
        t=reply.t,
        starts_run=starts_run,
    )
    if starts_run:
        session.count_loss("prompt")


def _ends_run(message: AssistantMessage, session: ImportedSession) -> bool:
    """Return whether a run ends with this response.

    It does if the response calls `attempt_completion`, or is plain text in a session that has not called it so far.
    """
    if message.calls:
        return any(call.name == COMPLETION for call in message.calls)
    return not any(
        call.name == COMPLETION
        for imported in session.messages
        if isinstance(imported.message, AssistantMessage)
        for call in imported.message.calls
    )


# ---- replies


def _parse_reply(entry: dict[str, Any]) -> _Reply:
    """Parse a reply. Raises ProviderError if it is an error or an incomplete response."""
    body = _body(entry)
    status = entry.get("status")
    if isinstance(status, int) and status >= 400:
        raise ProviderError(f"HTTP status {status}: {parse_error_body(body).message}")
    chunks, events = (parse_whole_reply(body), [body]) if body.lstrip()[:1] == b"{" else _stream(body)
    assembler = Assembler(0, "", set())
    for chunk in chunks:
        assembler.feed(chunk)
    assembler.close()
    return _add_metadata(_Reply(assembler.message, assembler.raw_finish, assembler.usage), events)


def _stream(body: bytes) -> tuple[list[AnyChunk], list[bytes]]:
    stream, events = ChatStream(), SSEDecoder()
    chunks = stream.feed(body)
    return chunks + stream.end(), [*events.feed(body), *events.end()]


def _add_metadata(reply: _Reply, events: list[bytes]) -> _Reply:
    """Add the model, time and cost that the reply reports."""
    for event in events:
        chunk = as_dict(decode_loosely(event))
        reply.model = reply.model or as_text(chunk.get("model"))
        reply.t = reply.t or parse_time(chunk.get("created"))
        cost = parse_cost(as_dict(chunk.get("usage")))
        if cost is not None and reply.usage is not None:
            reply.usage = replace(reply.usage, cost_usd=cost)
    return reply


def _body(entry: dict[str, Any]) -> bytes:
    """Return the bytes of a reply, which is recorded as text, as JSON or, if it is binary, as hexadecimal digits."""
    response = entry.get("response")
    parts = response if isinstance(response, list) and all(isinstance(part, str) for part in response) else [response]
    if entry.get("responseIsBinary") is True or (isinstance(response, list) and _is_hex(parts)):
        try:
            return _decompress(b"".join(binascii.unhexlify(part) for part in parts if isinstance(part, str)))
        except binascii.Error:
            pass
    if not isinstance(response, str) and parts[:1] == [response]:
        return msgspec.json.encode(response)
    return "".join(part for part in parts if isinstance(part, str)).encode("utf-8", "replace")


def _is_hex(parts: list[Any]) -> bool:
    return all(isinstance(part, str) and part and not part.strip("0123456789abcdef") for part in parts)


def _decompress(body: bytes) -> bytes:
    """Return the body, decompressed if it is gzip and cut to `MAX_REPLY_BYTES`."""
    if body[:2] != b"\x1f\x8b":
        return body
    try:
        return zlib.decompressobj(wbits=31).decompress(body, MAX_REPLY_BYTES)
    except zlib.error:
        return body

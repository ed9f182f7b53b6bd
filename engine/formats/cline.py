"""cline's recordings: a list of HTTP replies (path, status, response), of which those of the chat endpoint are heard.

What was sent is not in a recording, so prompts and the results of tools are not known. Replies are streams of chat
completions or whole ones; they go through the readers of our own provider. A reply after `attempt_completion` begins
a run: cline goes on only when the user has said something. So does one after plain text, unless the tools are
cline's own: then the loop has asked for a tool and goes on.
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
from ..providers.sse_decoder import SSEDecoder
from .imported_session import Conversation, Foreign, Unreadable
from .parsing import cost_of, listed, mapping, seconds, word

COMPLETION = "attempt_completion"
_CHAT = "/chat/completions"
_OTHER_CHATS = ("/messages", "/responses", ":generateContent", ":streamGenerateContent")
"""Chat endpoints of other formats: their replies are not heard, and listed as lost."""
LARGEST_REPLY = 64 * 1024 * 1024
"""Bytes that one compressed reply may hold."""


class _Reply(Struct):
    """One reply, as heard."""

    message: AssistantMessage
    raw_finish: str = ""
    usage: Usage | None = None
    model: str = ""
    t: float | None = None


def sessions(data: Any) -> Iterator[Foreign]:
    """The session of a recording."""
    foreign = Foreign()
    conversation = Conversation(foreign)
    failures: list[str] = []
    begins = True
    for entry in map(mapping, data if isinstance(data, list) else [data]):
        path = word(entry.get("path")).partition("?")[0]
        if not path.endswith(_CHAT):
            if path.endswith(_OTHER_CHATS):
                foreign.lose("reply")
            continue
        try:
            reply = _heard(entry)
        except ProviderError as error:
            failures.append(str(error) or type(error).__name__)
            conversation.failed(failures[-1], begins=begins)
            foreign.lose("prompt", begins)
            begins = False
            continue
        _add(conversation, reply, begins)
        begins = _ends(reply.message, foreign)
    if not conversation.steps:
        raise Unreadable(failures[-1] if failures else "it holds no reply of a chat endpoint")
    yield foreign


def fits(data: Any) -> bool:
    """Whether this is a list of recorded HTTP replies."""
    first = mapping(listed(data)[0] if listed(data) else None)
    return {"path", "status", "response"} <= first.keys()


def _add(conversation: Conversation, reply: _Reply, begins: bool) -> None:
    foreign = conversation.foreign
    foreign.model = foreign.model or reply.model
    conversation.assistant(
        reply.message.text,
        [(call.id, call.name, call.arguments) for call in reply.message.calls],
        reply.message.reasoning,
        usage=reply.usage,
        raw_finish=reply.raw_finish,
        model=reply.model,
        t=reply.t,
        begins=begins,
    )
    if begins:
        foreign.lose("prompt")


def _ends(message: AssistantMessage, foreign: Foreign) -> bool:
    """Whether a run ends with this response."""
    if message.calls:
        return any(call.name == COMPLETION for call in message.calls)
    return not any(
        call.name == COMPLETION
        for said in foreign.said
        if isinstance(said.message, AssistantMessage)
        for call in said.message.calls
    )


# ---- replies


def _heard(entry: dict[str, Any]) -> _Reply:
    """One reply. Raises ProviderError if it is an error, or no whole response."""
    body = _body(entry)
    status = entry.get("status")
    if isinstance(status, int) and status >= 400:
        raise ProviderError(f"HTTP status {status}: {parse_error_body(body).message}")
    chunks, events = (parse_whole_reply(body), [body]) if body.lstrip()[:1] == b"{" else _stream(body)
    assembler = Assembler(0, "", set())
    for chunk in chunks:
        assembler.feed(chunk)
    return _beside(_Reply(assembler.message, assembler.raw_finish, assembler.usage), events)


def _stream(body: bytes) -> tuple[list[AnyChunk], list[bytes]]:
    stream, events = ChatStream(), SSEDecoder()
    chunks = stream.feed(body)
    return chunks + stream.end(), [*events.feed(body), *events.end()]


def _beside(reply: _Reply, events: list[bytes]) -> _Reply:
    """What a reply says beside the response: the model, when it was made, and what it cost."""
    for event in events:
        try:
            chunk = mapping(msgspec.json.decode(event))
        except (msgspec.DecodeError, RecursionError):
            continue
        reply.model = reply.model or word(chunk.get("model"))
        reply.t = reply.t or seconds(chunk.get("created"))
        cost = cost_of(mapping(chunk.get("usage")))
        if cost is not None and reply.usage is not None:
            reply.usage = replace(reply.usage, cost_usd=cost)
    return reply


def _body(entry: dict[str, Any]) -> bytes:
    """The bytes of a reply: recorded as text, as JSON, or in hexadecimal digits where they are no text."""
    response = entry.get("response")
    parts = response if isinstance(response, list) and all(isinstance(part, str) for part in response) else [response]
    if entry.get("responseIsBinary") is True or (isinstance(response, list) and _is_hex(parts)):
        try:
            return _unpacked(b"".join(binascii.unhexlify(part) for part in parts if isinstance(part, str)))
        except binascii.Error:
            pass
    if not isinstance(response, str) and parts[:1] == [response]:
        return msgspec.json.encode(response)
    return "".join(part for part in parts if isinstance(part, str)).encode("utf-8", "replace")


def _is_hex(parts: list[Any]) -> bool:
    return all(isinstance(part, str) and part and not part.strip("0123456789abcdef") for part in parts)


def _unpacked(body: bytes) -> bytes:
    """The body, unpacked if it is gzip; at most `LARGEST_REPLY` bytes of it."""
    if body[:2] != b"\x1f\x8b":
        return body
    try:
        return zlib.decompressobj(wbits=31).decompress(body, LARGEST_REPLY)
    except zlib.error:
        return body

"""What the proxy needs to know of a wire: how a request is read, and in what form its own answers are sent.

The wire's parser of responses is the provider's of the same name, so the proxy hears what the engine would hear.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import takewhile
from typing import Any

import msgspec
from msgspec import Struct

from ..decision import AssistantMessage, ToolCall, ToolSpec, Usage
from ..formats.gemini_content import add_content, is_content, merge_contents
from ..formats.imported_session import ImportedMessage, ImportedSession
from ..formats.openai import add_message, parse_tools
from ..formats.parsing import as_dict, as_list, as_text
from ..formats.response_items import merge_items
from ..formats.session_builder import SessionBuilder
from ..formats.text_calls import read_text_calls
from ..providers.event_stream import EventStream, json_values, quoted
from ..providers.loose_json import decode_loosely
from ..providers.sse_decoder import ErrorEvent, SSEDecoder
from ..providers.surrogate_pairs import EncodableEvents

JSON = "application/json"
EVENT_STREAM = "text/event-stream"
TOO_DEEP = "the response is nested too deep"


class WireRequest(Struct, frozen=True, kw_only=True):
    """One request for a response, as an agent sent it."""

    model: str
    streams: bool
    system: str
    items: Sequence[Any]
    """The conversation: messages, or items of the Responses API."""
    tools: tuple[ToolSpec, ...]
    body: Mapping[str, Any]
    """The whole request, decoded."""
    after: str = ""
    """The response at the provider after which the conversation goes on; empty if it is here whole."""
    in_array: bool = False
    """Whether its stream is a JSON array that grows, not a stream of events."""


class OwnReply(Struct, frozen=True, kw_only=True):
    """A reply that the proxy writes itself."""

    status: int = 200
    content_type: str = JSON
    body: bytes


class ReplyEnd(ABC):
    """Sees each event of a streamed reply, and can end the stream behind any of them.

    So a client whose response was cut reads a whole response of its wire.
    """

    response_id = ""
    """The id of the response, where later requests can name it."""

    @property
    def in_thought(self) -> bool:
        """Whether the model is in the middle of a thought, which its vendor takes back only as a whole."""
        return False

    def pieces(self, event: bytes) -> list[bytes]:
        """Return an event as several, if it holds more than what one decision is about."""
        return [event]

    def as_event(self, event: bytes) -> bytes:
        """Return an event of the stream as a server-sent event."""
        return event

    @abstractmethod
    def see(self, event: bytes) -> None:
        """An event was passed on, as it came: its lines with the blank one."""

    @abstractmethod
    def ends(self, event: bytes) -> bool:
        """Return whether an event belongs to the end of the response: its finish reason, its usage, its last mark."""

    @abstractmethod
    def add(self, text: str) -> bytes:
        """Return the events that add a text to the response, before its end."""

    @abstractmethod
    def add_calls(self, calls: Sequence[ToolCall], first: int) -> bytes:
        """Return the events that add these calls to the response. first: number of calls before them."""

    @abstractmethod
    def go_on(self, event: bytes) -> bytes:
        """Return an event of a further response as one that continues this response; empty if it is left out."""

    def comment(self, text: str) -> bytes:
        """Say in the stream why it ends here, for readers of the bytes: a comment, which clients skip."""
        return f": {text}\n\n".encode()

    @abstractmethod
    def fail(self, reason: str, detail: str) -> bytes:
        """The wire's error, as the event that ends the response."""

    @abstractmethod
    def cut(self, usage: Usage) -> bytes:
        """The events that end the response behind a whole call. usage: what was used, partly estimated."""

    @abstractmethod
    def finish(self, text: str, usage: Usage) -> bytes:
        """The events that end the response with this text as its last."""


class ReportedError(Exception):
    """The provider reports an error in the middle of a stream. said: its words, decoded."""

    def __init__(self, said: Any) -> None:
        super().__init__(str(said))
        self.said = said


class UnfinishedCall(ValueError):
    """A response ended in the middle of a call's input, which cannot be sent as an object."""


class ResponseAssembler(ABC):
    """Puts a stream together into the response that the provider sends where none is asked for.

    Feed it the bytes, cut anywhere. It knows nothing of runs: what it is fed is what a client that streams would get.
    """

    def __init__(self) -> None:
        self._events = SSEDecoder()
        self._encodable = EncodableEvents()
        self.complete = False
        """Whether the end of the response has come."""

    def feed(self, block: bytes) -> None:
        """Add more of the stream.

        Raises ReportedError if the provider reports an error in it, and ValueError or ProtocolError if it cannot be
        put together.
        """
        try:
            for data in self._encodable.feed(self._events.feed(block)):
                self._read(data)
        except RecursionError:
            raise ValueError(TOO_DEEP) from None

    def response(self) -> dict[str, Any] | None:
        """The response, once the stream has ended; None if the stream ended before it. Raises like `feed`."""
        try:
            for data in [*self._encodable.feed(self._events.end()), *self._encodable.end()]:
                self._read(data)
            return self.build() if self.complete else None
        except RecursionError:
            raise ValueError(TOO_DEEP) from None

    def _read(self, data: bytes) -> None:
        if data.startswith(b"[DONE]"):
            self.read_end()
            return
        event = decode_loosely(data)
        if not self.complete and (type(data) is ErrorEvent or (type(event) is dict and self.is_error(event))):
            raise ReportedError(event if event is not None else data.decode("utf-8", "replace"))
        if len(values := json_values(data) if event is None else []) > 1:
            for value in values:
                self._read(value)
            return
        if not isinstance(event, dict):
            raise ValueError(f"an event of the stream cannot be read: {quoted(data)}")
        self.add(event)

    def read_end(self) -> None:  # noqa: B027
        """The mark has come that ends a stream of chat completions; the other wires have none."""

    @abstractmethod
    def is_error(self, event: Mapping[str, Any]) -> bool:
        """Whether an event reports that the response has failed."""

    @abstractmethod
    def add(self, event: dict[str, Any]) -> None:
        """Add an event. Raises ValueError if it does not fit."""

    @abstractmethod
    def build(self) -> dict[str, Any]:
        """The response of a stream that is complete. Raises ValueError if it cannot be put together."""


def _add_user_message(items: Sequence[Any], text: str) -> list[Any]:
    return [*items, {"role": "user", "content": text}]


def _said(model: str, message: AssistantMessage) -> dict[str, Any]:
    return {"role": "assistant", "content": message.text}


class ProxyWire(Struct, frozen=True, kw_only=True):
    """One wire."""

    name: str
    path: re.Pattern[str]
    """The end of the path of its requests."""
    items: str
    """The field of a request that holds the conversation."""
    system: str
    """The field that holds the system prompt apart from the conversation; empty if none does."""
    open_parser: Callable[[WireRequest], EventStream]
    open_end: Callable[[WireRequest], ReplyEnd]
    reply: Callable[[WireRequest, str, str, Usage], OwnReply]
    """A whole response with this text, from (request, text, id, usage)."""
    refusal: Callable[[str, str, int], OwnReply]
    """The wire's own error that no client retries, from (reason, detail, status). status: 400 or 404."""
    tool: Callable[[ToolSpec], dict[str, Any]]
    """A tool as a request offers it."""
    without_call: Callable[[dict[str, Any], str, str], None]
    """Takes the calls of a tool out of a whole response; from (response, tool, text). text: put in their place, if it
    is not empty."""
    no_calls: bytes = b'"none"'
    """The `tool_choice` with which no tool is called, encoded."""
    open_assembler: Callable[[], ResponseAssembler]
    stream_fields: Callable[[Mapping[str, Any]], dict[str, Any]]
    """The fields by which a request asks for a stream with its usage, from its body."""
    add_user_text: Callable[[Sequence[Any], str], list[Any]] = _add_user_message
    """A conversation with this text of the user at its end."""
    said: Callable[[str, AssistantMessage], dict[str, Any]] = _said
    """A final text of the model as an item of a conversation; from (model, message)."""
    claim_items: Callable[[str, AssistantMessage, ToolCall, str], list[Any]]
    """A response that calls a completion tool, and the call's result, as items of a conversation; from (model, message,
    call, result)."""
    add_calls: Callable[[Sequence[Any], int, Sequence[ToolCall], str], list[Any]]
    """A conversation whose response after this many items makes these calls, too, each with this result; from (items,
    number, calls, result). As it is, if that response makes no call."""
    whole_events: bool = False
    """Whether events are passed on only as a whole, because one may hold a call and what follows it."""
    stores: bool = False
    """Whether a provider can store the conversation, so that a request names the response from which it goes on."""
    add_text_before: Callable[[dict[str, Any], str], None]
    """Puts a text before everything else in a whole response."""
    unstreamed_fields: tuple[str, ...] = ()
    """Fields of a request whose response is another one, or none, if it streams."""

    def read(self, body: Mapping[str, Any], path: str = "") -> WireRequest:
        """Read a request. path: with its query. Raises ValueError if it holds no conversation that can be followed."""
        if body.get("n") not in (None, 1):
            raise ValueError("the request asks for several responses")
        if body.get("background") is True:
            raise ValueError("the response does not come with this request")
        given = body.get(self.items)
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given
        if not isinstance(items, list) or not items:
            raise ValueError(f"the request has no {self.items}")
        return WireRequest(
            model=as_text(body.get("model")),
            streams=body.get("stream") is True,
            system=_plain_text(body.get(self.system)) if self.system else _first_system_text(items),
            items=items,
            tools=parse_tools(body.get("tools")),
            body=body,
            after=as_text(body.get("previous_response_id"))
            or _conversation(body.get("conversation"))
            or as_text(as_dict(body.get("thread")).get("previous_message_id")),
        )

    def stream_path(self, path: str) -> str:
        """Return the path, with its query, of a request that asks for a stream. path: without a stream."""
        return path

    def with_tool(self, tools: Sequence[Any], spec: ToolSpec) -> list[Any]:
        """Return the tools of a request with one more."""
        return [*tools, self.tool(spec)]

    def without_calls(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields by which a request says that no tool is called. body: the request."""
        return {"tool_choice": msgspec.Raw(self.no_calls)}

    def may_call(self, body: Mapping[str, Any], names: Collection[str]) -> bool:
        """Return whether a request leaves the model free to call one of these tools."""
        choice = body.get("tool_choice")
        fields = as_dict(choice)
        forced = as_text(as_dict(fields.get("function")).get("name")) or as_text(fields.get("name"))
        if forced:
            return forced in names
        return bool(names) and "none" not in (choice, fields.get("type"))

    def settings(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the settings of a request under the names of chat completions."""
        return body


def is_from_model(item: Any) -> bool:
    """Whether the model said this item of a conversation."""
    fields = as_dict(item)
    if "role" in fields:
        return as_text(fields["role"]) in ("assistant", "model")
    kind = as_text(fields.get("type"))
    return kind.endswith("_call") or kind == "reasoning"


def first_response(items: Sequence[Any]) -> int:
    """Return the place of the model's first response in a conversation; the number of items if there is none.

    What an agent writes in the model's name is no response (`OWN_REPLIES`).
    """
    for place, item in enumerate(items):
        if is_from_model(item):
            read = read_messages(items[: place + 1])
            if any(isinstance(one.message, AssistantMessage) for one in read):
                return place
    return len(items)


def read_messages(items: Sequence[Any], calls: Sequence[ToolCall] = ()) -> list[ImportedMessage]:
    """Items of a conversation as messages. Results of calls that are not among the items are left out.

    But for those at the beginning of items that go on from a response which is not among them. calls: those of the
    response with which the items begin, if it is known. Gemini's calls may have no ids of their own.
    """
    builder = SessionBuilder(ImportedSession())
    if any(map(is_content, items)):
        _read_contents(builder, items, calls)
    else:
        for message in merge_items([*_missing_calls(items), *read_text_calls(items)], builder.session):
            add_message(builder, message)
    builder.add_held()
    return builder.session.messages


def _read_contents(builder: SessionBuilder, items: Sequence[Any], calls: Sequence[ToolCall]) -> None:
    contents = merge_contents(items)
    if calls:
        builder.add_response("", [(call.id, call.name, call.arguments) for call in calls])
        contents = contents[is_from_model(contents[0]) :]
    for content in contents:
        add_content(builder, content)


def _missing_calls(items: Sequence[Any]) -> list[dict[str, Any]]:
    """The calls whose results come first: as items of their own, or in a message of the user's role."""
    outputs = takewhile(lambda item: as_text(item.get("type")).endswith("_call_output"), map(as_dict, items))
    blocks = as_list(as_dict(items[0]).get("content")) if items else []
    results = (block for block in map(as_dict, blocks) if block.get("type") == "tool_result")
    ids = [*(item.get("call_id") for item in outputs), *(block.get("tool_use_id") for block in results)]
    return [{"type": "function_call", "call_id": as_text(id), "name": "", "arguments": "{}"} for id in ids]


def _conversation(value: Any) -> str:
    """The id of a conversation that the provider keeps."""
    return as_text(value) or as_text(as_dict(value).get("id"))


def _first_system_text(items: Sequence[Any]) -> str:
    first = as_dict(items[0])
    return _plain_text(first.get("content")) if first.get("role") in ("system", "developer") else ""


def _plain_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(as_text(as_dict(part).get("text")) for part in as_list(content))

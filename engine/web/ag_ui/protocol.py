"""Events of AG-UI 1.0 that we send, as structs (docs.ag-ui.com/spec/1.0/schema). Fields are camelCase on the wire.

Why not the models of the official package, `ag-ui-protocol`? Every text delta is encoded for every reader. For 10,000
deltas our structs take 5 ms, the models and their encoder 160 ms or more. They also cannot encode our events as the
value of a `CUSTOM` event without a conversion (12 ms against 258 ms for 10,000), and importing them makes the start of
the server 0.4 s slower (measured with ag-ui-protocol 1.0.0, pydantic 2.14, Python 3.11). So the package is a dependency
of the tests only, which check every event that we send with its models.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from ...decision import Image
from ...decision.wrong_calls import explained

PROTOCOL_VERSION = "1.0"


class _ProtocolStruct(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False):
    """Struct that omits fields at their default: the protocol has no null for an absent field."""


class AgUiEvent(_ProtocolStruct, frozen=True, kw_only=True):
    """Fields that every event may have."""

    timestamp: int | None = None
    """Milliseconds since 1970; None if not known."""
    metadata: dict[str, Any] | None = None
    """Data that the protocol has no field for, under the key `endstop`."""


# ---- the run


class EchoedMessage(_ProtocolStruct, frozen=True, kw_only=True):
    """A message of the user in the input of a run."""

    id: str
    role: str
    content: str | list[dict[str, Any]]


class EchoedInput(_ProtocolStruct, frozen=True, kw_only=True):
    """The input of a run, for a reader who did not send it."""

    thread_id: str
    run_id: str
    messages: tuple[EchoedMessage, ...]


class RunStarted(AgUiEvent, frozen=True, kw_only=True, tag="RUN_STARTED"):
    """A run starts."""

    thread_id: str
    run_id: str
    protocol_version: str
    input: EchoedInput | None = None


class SuccessOutcome(_ProtocolStruct, frozen=True, kw_only=True, tag="success"):
    """The run completed."""


class Interrupt(_ProtocolStruct, frozen=True, kw_only=True):
    """An open question."""

    id: str
    reason: str
    """`input_required`, `confirmation` or `tool_call`."""
    message: str
    tool_call_id: str | None = None
    response_schema: dict[str, Any] | None = None
    expires_at: str | None = None
    metadata: dict[str, Any] | None = None


class InterruptOutcome(_ProtocolStruct, frozen=True, kw_only=True, tag="interrupt"):
    """The run waits for the answers to these questions; there is at least one."""

    interrupts: tuple[Interrupt, ...]


class CancelledOutcome(_ProtocolStruct, frozen=True, kw_only=True, tag="cancelled"):
    """The run was stopped before it completed, by the user or at a limit. It has no result."""


class TokenUsage(_ProtocolStruct, frozen=True, kw_only=True):
    """The usage of one model in this run only.

    Cached and reasoning tokens are left out if they are 0, because a provider may just not report them.
    """

    model: str | None = None
    input_tokens: int
    output_tokens: int
    total_tokens: int
    cached_input_tokens: int | None = None
    reasoning_tokens: int | None = None


class RunFinished(AgUiEvent, frozen=True, kw_only=True, tag="RUN_FINISHED"):
    """A run ends without an error."""

    thread_id: str
    run_id: str
    outcome: SuccessOutcome | InterruptOutcome | CancelledOutcome
    result: Any = None
    usage: tuple[TokenUsage, ...] = ()


class RunError(AgUiEvent, frozen=True, kw_only=True, tag="RUN_ERROR"):
    """A run ends with an error."""

    message: str
    code: str
    usage: tuple[TokenUsage, ...] = ()


class StepStarted(AgUiEvent, frozen=True, kw_only=True, tag="STEP_STARTED"):
    """A step starts."""

    step_name: str


class StepFinished(AgUiEvent, frozen=True, kw_only=True, tag="STEP_FINISHED"):
    """A step ends."""

    step_name: str


# ---- messages


class TextMessageStart(AgUiEvent, frozen=True, kw_only=True, tag="TEXT_MESSAGE_START"):
    """A text message starts."""

    message_id: str
    role: str


class TextMessageContent(AgUiEvent, frozen=True, kw_only=True, tag="TEXT_MESSAGE_CONTENT"):
    """More of the text message."""

    message_id: str
    delta: str


class TextMessageEnd(AgUiEvent, frozen=True, kw_only=True, tag="TEXT_MESSAGE_END"):
    """The text message is complete."""

    message_id: str


class ReasoningStart(AgUiEvent, frozen=True, kw_only=True, tag="REASONING_START"):
    """A span of reasoning starts."""

    message_id: str


class ReasoningMessageStart(AgUiEvent, frozen=True, kw_only=True, tag="REASONING_MESSAGE_START"):
    """The message in the span of reasoning starts."""

    message_id: str
    role: str


class ReasoningMessageContent(AgUiEvent, frozen=True, kw_only=True, tag="REASONING_MESSAGE_CONTENT"):
    """More of the reasoning."""

    message_id: str
    delta: str


class ReasoningMessageEnd(AgUiEvent, frozen=True, kw_only=True, tag="REASONING_MESSAGE_END"):
    """The message in the span of reasoning is complete."""

    message_id: str


class ReasoningEnd(AgUiEvent, frozen=True, kw_only=True, tag="REASONING_END"):
    """The span of reasoning ends."""

    message_id: str


# ---- calls


class ToolCallStart(AgUiEvent, frozen=True, kw_only=True, tag="TOOL_CALL_START"):
    """A tool call starts."""

    tool_call_id: str
    tool_call_name: str
    parent_message_id: str


class ToolCallArgs(AgUiEvent, frozen=True, kw_only=True, tag="TOOL_CALL_ARGS"):
    """More of the arguments of a tool call."""

    tool_call_id: str
    delta: str


class ToolCallEnd(AgUiEvent, frozen=True, kw_only=True, tag="TOOL_CALL_END"):
    """The arguments of a tool call are complete."""

    tool_call_id: str


class ToolCallResult(AgUiEvent, frozen=True, kw_only=True, tag="TOOL_CALL_RESULT"):
    """The result of a tool call, as a separate message: text, or parts with text and images."""

    message_id: str
    tool_call_id: str
    content: str | list[dict[str, Any]]
    role: str


class Custom(AgUiEvent, frozen=True, kw_only=True, tag="CUSTOM"):
    """An event that the protocol has no type for."""

    name: str
    value: Any


class LaggedValue(Struct, frozen=True, kw_only=True):
    """Value of `endstop.lagged`: the reader was too slow, and events are lost to it."""

    run_id: str
    missed: int
    next_seq: int


def custom_name(kind: type[Struct]) -> str:
    """Return the name of our event of this type in a `CUSTOM` event, as in `endstop.step_started`."""
    return f"endstop.{str(kind.__struct_config__.tag).lower()}"


@explained
def to_sse(id: str, events: Iterable[bytes]) -> bytes:
    """Encode AG-UI events as server-sent events. The last one gets `id`, which so stands for all of them."""
    frames = [b"data: " + one for one in events]
    if frames:
        frames[-1] = b"id: " + id.encode() + b"\n" + frames[-1]
    return b"".join(frame + b"\n\n" for frame in frames)


def content_of(parts: Sequence[str | Image]) -> str | list[dict[str, Any]]:
    """Return the content of a message: a text, or content parts if there are images."""
    if not any(isinstance(part, Image) for part in parts):
        return "".join(map(str, parts))
    return [{"type": "text", "text": part} if isinstance(part, str) else _image_part(part) for part in parts if part]


def _image_part(image: Image) -> dict[str, Any]:
    """Return an image as a part of a message."""
    if image.url:
        return {"type": "image", "source": {"type": "url", "value": image.url}}
    data = b64encode(image.data).decode("ascii")
    return {"type": "image", "source": {"type": "data", "value": data, "mimeType": image.media_type}}


def to_milliseconds(wall: str) -> int | None:
    """Convert an ISO 8601 time to milliseconds since 1970; UTC if it has no zone. None if it is not a time."""
    try:
        moment = datetime.fromisoformat(wall)
    except ValueError:
        return None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)

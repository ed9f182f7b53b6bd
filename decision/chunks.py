"""Chunks of a provider's stream: the minimum that the engine needs, independent of the wire format."""

from __future__ import annotations

from msgspec import Struct

from .messages import FinishReason, Json, Name, Text, Usage


class Chunk(Struct, frozen=True, tag=str.lower, gc=False):
    """One piece of a streamed response."""


class TextDelta(Chunk, frozen=True, omit_defaults=True):
    """More of the answer's text."""

    text: Text
    pieces: tuple[int, ...] = ()
    """If it was merged from several deltas: the length of each in characters. See `delta_merger.py`."""


class ReasoningDelta(Chunk, frozen=True, omit_defaults=True):
    """More of the reasoning. A `signature` ends the block that it signs."""

    text: Text = ""
    signature: Name = ""
    redacted: bool = False
    """Whether the block has no readable text, as in `Reasoning`. It is separate: it does not end a block before it."""
    vendor: Name = ""
    """The wire format that wrote the signature, as in `Reasoning`."""
    pieces: tuple[int, ...] = ()
    """As in `TextDelta`, of `text`."""


class ToolCallDelta(Chunk, frozen=True, omit_defaults=True):
    """A fragment of a tool call. `id` and `name` come once, or never; `arguments` in pieces."""

    index: int
    id: Name = ""
    name: Name = ""
    arguments: Json = ""
    whole: bool | None = None
    """Whether the call is complete with this fragment, if the wire format says so; None: the arguments tell it."""
    pieces: tuple[int, ...] = ()
    """As in `TextDelta`, of `arguments`."""


class ProviderToolReport(Chunk, frozen=True, omit_defaults=True):
    """A tool that the provider runs itself (web search, code execution). Reported, never executed here."""

    id: Name
    name: Name
    arguments: Json = ""
    result: Text = ""


class FinishReport(Chunk, frozen=True, omit_defaults=True):
    """Why the response ended, including the provider's original word for it."""

    reason: FinishReason
    raw: Name = ""


class UsageReport(Chunk, frozen=True):
    """Usage of the response so far; a later report replaces an earlier one of the same attempt."""

    usage: Usage


class ModelSelected(Chunk, frozen=True, tag="voice"):
    """The following chunks come from this model. Sent by wrappers that use several models, or retry one.

    After an `AttemptEnded` it starts the attempt that replaces it; otherwise it only names the model that was chosen.
    """

    model: Name


class AttemptEnded(Chunk, frozen=True, omit_defaults=True, kw_only=True):
    """An attempt at this response failed, and its chunks in the stream are void.

    If `beside` is true, the failed attempt ran in parallel with the one that was chosen (a race): the chunks in the
    stream are those of the chosen one and stay valid.
    """

    model: Name
    kind: str
    """One of `providers.errors.KINDS`; `cancelled` if it lost a race."""
    message: Text
    status: int | None = None
    retry_after: float | None = None
    """Seconds that the provider asked to wait."""
    usage: Usage | None = None
    """Usage of the attempt, if it is known or can be estimated."""
    beside: bool = False
    text: Text = ""
    """For a response that was cut because it repeated itself: its text before the repetition."""


AnyChunk = (
    TextDelta
    | ReasoningDelta
    | ToolCallDelta
    | ProviderToolReport
    | FinishReport
    | UsageReport
    | ModelSelected
    | AttemptEnded
)
"""Any chunk that a provider streams."""

"""What a provider's stream is made of: the least that the engine needs, whatever the wire format was."""

from __future__ import annotations

from msgspec import Struct

from .messages import FinishReason, Usage


class Chunk(Struct, frozen=True, tag=str.lower, gc=False):
    """One piece of a streamed response."""


class TextDelta(Chunk, frozen=True):
    """More of the answer's text."""

    text: str


class ReasoningDelta(Chunk, frozen=True, omit_defaults=True):
    """More of the reasoning. A `signature` closes the block that it signs."""

    text: str = ""
    signature: str = ""
    redacted: bool = False
    """A block of its own, whose text the provider hides: `signature` holds it, encrypted."""


class ToolCallDelta(Chunk, frozen=True, omit_defaults=True):
    """A fragment of a tool call. `id` and `name` come once (or never), `arguments` in pieces."""

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""
    whole: bool | None = None
    """Whether the call is complete with this fragment, where the wire says so; None where its arguments must tell."""


class ProviderToolReport(Chunk, frozen=True, omit_defaults=True):
    """A tool that the provider itself runs (web search, code execution). Shown, never executed here."""

    id: str
    name: str
    arguments: str = ""
    result: str = ""


class FinishReport(Chunk, frozen=True, omit_defaults=True):
    """Why the model says it ended, with the provider's own word for it."""

    reason: FinishReason
    raw: str = ""


class UsageReport(Chunk, frozen=True):
    """What the response cost so far; a later report replaces an earlier one of the same attempt."""

    usage: Usage


class ModelSelected(Chunk, frozen=True, tag="voice"):
    """From here on this model speaks. Said by wrappers that ask several, or one several times.

    After an `AttemptEnded` it begins the attempt that takes its place; otherwise it only says who is heard.
    """

    model: str


class AttemptEnded(Chunk, frozen=True, omit_defaults=True, kw_only=True):
    """An attempt at this response that came to nothing. What the stream has shown of it is void.

    `beside`: it was made beside the one that is heard (a race), which goes on as if nothing had been.
    """

    model: str
    kind: str
    """One of `providers.errors.KINDS`; `cancelled` if it was given up because another was faster."""
    message: str
    status: int | None = None
    retry_after: float | None = None
    """Seconds that the provider asked to wait."""
    usage: Usage | None = None
    """What it cost, where that is known or can be estimated."""
    beside: bool = False
    text: str = ""
    """Of a response that was cut because it repeated itself: its text before that."""


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

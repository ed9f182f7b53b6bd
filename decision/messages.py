"""Messages, tool calls, results, tool specifications and usage: the types that all packages share.

A message is what the model receives or has written. Tool arguments stay the text that the model wrote: it is parsed
when the tool is about to run, and sent back to the provider unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal
from unicodedata import category

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from .errors import WrongUse
from .wrong_attributes import Refused
from .wrong_calls import CheckedStruct, ExplainedStruct, unexplained


class Redacted(Enum):
    """How redaction treats a field of a record (`engine/records/event_redaction.py`), according to its type."""

    TEXT = "text"
    JSON = "json"
    SCHEMA = "schema"
    NAME = "name"


Text = Annotated[str, Redacted.TEXT]
"""Text of a user, a model, a tool or a function of the user. It is redacted."""
Json = Annotated[str, Redacted.JSON]
"""Such text as JSON, like the arguments of a call. Each value is redacted, so that it stays JSON; invalid JSON is
redacted as a text."""
JsonSchema = Annotated[Mapping[str, Any], Redacted.SCHEMA]
"""A JSON Schema. Its descriptions and values are redacted."""
Name = Annotated[str, Redacted.NAME]
"""A name or id that an agent, a model or a provider chose. Only known secrets are hidden in it. A `str`, in contrast,
is an id or a word of endstop itself, and written unchanged."""

FinishReason = Literal[
    "stop", "length", "tool_calls", "content_filter", "error", "other", "pause", "context_full", "retry"
]
"""Why a response ended, according to the provider. Not to be confused with the run's stop reason (`outcome.py`).

`finish_words.py` has each vendor's words for it, and what the loop does. `other`: an unknown word.
"""

ToolKind = Literal["ordinary", "completion", "question", "think", "blocked"]
"""What a call of a tool means to the loop, which depends on the tool's kind and never on its name. `blocked`: the model
reports that the task cannot be done."""

ResultStatus = Literal[
    "ok", "error", "rejected", "skipped", "cancelled", "invalid", "truncated", "unknown", "unanswered", "denied"
]
"""How a call ended: `ok`, `error` and `rejected` come from the tool, the others from the engine.

skipped: it came after a completion. cancelled: it was running when the run was cut. invalid: unknown tool or bad
arguments. truncated: the response was cut off inside the call. unknown: the process died while it was running.
unanswered: a question that the user never answered. denied: the user did not approve the call.
"""


class ToolCall(ExplainedStruct, frozen=True):
    """One call of one tool, as the model wrote it. `arguments` is JSON text and may be invalid."""

    id: Name
    name: Name
    arguments: Json = ""


class ToolSpec(CheckedStruct, frozen=True, kw_only=True):
    """A tool as the engine and the model know it: the schema that is sent, and what only the engine uses."""

    name: Name
    description: Text
    parameters: JsonSchema
    """JSON Schema of the arguments; its type is `object`."""
    kind: ToolKind = "ordinary"
    reads: bool = False
    """True if a call changes nothing: it may then run in parallel with others, and while the response is still
    streaming."""
    polls: bool = False
    """True if the tool is meant to be called repeatedly with the same result: such calls do not count as repetition."""
    completes: bool = False
    """True if an ordinary tool may also complete the task, such as a plan whose last step is a completion."""
    parallel: bool = False
    """True if a call that may change something can run in parallel with others of this kind, once the response is
    complete."""
    approval: bool = False
    """True if a call may need the user's approval before it runs."""


class Reasoning(ExplainedStruct, frozen=True, omit_defaults=True):
    """One block of the model's reasoning, or another item of a response that its vendor wants back unchanged."""

    text: Text
    signature: Name = ""
    """Opaque data that proves the block to the provider that wrote it, or holds the item itself."""
    redacted: bool = False
    """True if there is nothing to read: the provider hides the text, and `signature` holds it, encrypted; or it is
    another item, such as a search that the vendor ran itself, in the form that `vendor` reads."""
    vendor: Name = ""
    """The wire format that wrote the signature, such as `anthropic`; it is sent to no other. Empty if unknown."""
    text_before: int = 0
    """Number of characters of the message's text before this block. Counted only if `vendor` is set."""
    calls_before: int = 0
    """Number of calls of the message before this block. Counted only if `vendor` is set."""


class SystemMessage(CheckedStruct, frozen=True, tag_field="role", tag="system"):
    """The system prompt; if there is one, the first message."""

    text: Text


class Image(CheckedStruct, frozen=True, omit_defaults=True):
    """An image, as bytes or as a URL. A prompt may contain images, and a tool may return one, or texts and images.

    Raises WrongUse for a field of the wrong type.
    """

    data: bytes = b""
    """Content of the image file, as it is: not in base64."""
    media_type: Name = "image/png"
    """Media type of `data`, such as `image/jpeg`."""
    url: Text = ""
    """URL from which the provider fetches the image. If it is set, `data` is not used."""

    def __post_init__(self) -> None:
        for name, value, kind in (
            ("data", self.data, bytes),
            ("media_type", self.media_type, str),
            ("url", self.url, str),
        ):
            if not isinstance(value, kind):
                raise WrongUse(
                    f"Image({name}=...) is a value of type {type(value).__name__}: use {kind.__name__} "
                    "(an image on the web is Image(url=...); an image file is a Path among the texts of a prompt)"
                )

    def __str__(self) -> str:
        return self.url or f"{self.media_type}, {len(self.data)} bytes"


class UserMessage(CheckedStruct, frozen=True, tag_field="role", tag="user", omit_defaults=True):
    """A message from the user, or from the loop in the user's role (nudge, reminder, closing)."""

    text: Text
    """The text of the message. It has a mark at the place of each image, such as `[image 1: image/png, 1520 bytes]`."""
    images: tuple[Image, ...] = ()

    @classmethod
    def of(cls, parts: Iterable[str | Image]) -> UserMessage:
        """Return a message with these texts and images, each on separate lines."""
        lines: list[str] = []
        images: list[Image] = []
        for part in parts:
            if isinstance(part, Image):
                images.append(part)
            lines.append(part if isinstance(part, str) else _mark(len(images), part))
        return cls("\n".join(lines), tuple(images))

    @property
    def parts(self) -> tuple[str | Image, ...]:
        """Texts and images in their order, without the marks. Images whose marks are missing come last."""
        found: list[str | Image] = []
        gone: list[Image] = []
        rest = self.text
        for number, image in enumerate(self.images, 1):
            before, mark, after = f"\n{rest}\n".partition(f"\n{_mark(number, image)}\n")
            if not mark:
                gone.append(image)
                continue
            found += [*([before[1:]] if before[1:] else []), image]
            rest = after[:-1]
        return (*found, *([rest] if rest else []), *gone)


def _mark(number: int, image: Image) -> str:
    return f"[image {number}: {image}]"


class AssistantMessage(ExplainedStruct, frozen=True, tag_field="role", tag="assistant", omit_defaults=True):
    """One response of the model, complete or cut."""

    text: Text = ""
    calls: tuple[ToolCall, ...] = ()
    reasoning: tuple[Reasoning, ...] = ()

    @property
    def has_vendor_items(self) -> bool:
        """Whether the response holds items that only its vendor can read and with which the vendor can continue it."""
        return any(block.vendor and block.redacted for block in self.reasoning)


class MessageDeltas(Struct, frozen=True):
    """Location of a message in a record whose RESPONSE_FINISHED was written without it."""

    first: int
    """Sequence number (`seq`) of the first event that holds a part of the message."""
    count: int
    """How many events hold the message: those of the same attempt, from `first` on, of the types TEXT_MESSAGE_CONTENT,
    REASONING_MESSAGE_CONTENT, TOOL_CALL_START and TOOL_CALL_ARGS."""


NO_MESSAGE = AssistantMessage()
"""Placeholder for a message that was left out of a record. As the default, it is not written."""


def message_parts(message: AssistantMessage) -> Iterator[str | ToolCall | Reasoning]:
    """Yield the texts, calls and reasoning of a response in their order, as far as it is known.

    Without `text_before` and `calls_before`, reasoning comes first and calls come last.
    """
    text = calls = 0
    for block in message.reasoning:
        if block.text_before > text and (piece := message.text[text : block.text_before]):
            yield piece
            text += len(piece)
        yield from message.calls[calls : block.calls_before]
        calls = max(calls, block.calls_before)
        yield block
    if text < len(message.text):
        yield message.text[text:]
    yield from message.calls[calls:]


class ToolResult(ExplainedStruct, frozen=True, tag_field="role", tag="tool", omit_defaults=True):
    """The only answer to a tool call."""

    call_id: Name
    name: Name
    content: Text
    status: ResultStatus = "ok"
    images: tuple[Image, ...] = ()
    """Images in addition to the text; a model without vision gets only the text."""


Message = SystemMessage | UserMessage | AssistantMessage | ToolResult
"""A message of a conversation."""


MOST_TOKENS = 2**53
"""The largest count of tokens. Every whole number up to it is exact as a float (IEEE 754, binary64)."""
MOST_DOLLARS = 2.0**53
"""The largest cost in US dollars, far above any real one: sums of costs and their squares stay finite."""


class Usage(ExplainedStruct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """Tokens and cost of one attempt, step or run.

    `cached_tokens` are part of `input_tokens`, `reasoning_tokens` part of `output_tokens`. `cost_usd` is None if no
    price is known. `estimated` is True if the provider did not report all of it: usage comes last in a stream, so a
    stream that was cut never delivers it.

    Counts are 0 to `MOST_TOKENS`, a cost is 0 to `MOST_DOLLARS`. A number out of range is treated as unknown (0, or
    None for the cost), and `estimated` is then True. So a sum never falls, even for records with such numbers.
    """

    if not TYPE_CHECKING:  # type checkers refuse this use themselves
        __call__ = Refused("Usage", "()")

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float | None = None
    estimated: bool = False

    def __post_init__(self) -> None:
        if not (
            0 <= self.input_tokens <= MOST_TOKENS
            and 0 <= self.output_tokens <= MOST_TOKENS
            and 0 <= self.cached_tokens <= MOST_TOKENS
            and 0 <= self.reasoning_tokens <= MOST_TOKENS
            and (self.cost_usd is None or 0 <= self.cost_usd <= MOST_DOLLARS)
        ):
            self._forget_impossible()

    def _forget_impossible(self) -> None:
        for name in ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens"):
            if not 0 <= getattr(self, name) <= MOST_TOKENS:
                force_setattr(self, name, 0)
        if self.cost_usd is not None and not 0 <= self.cost_usd <= MOST_DOLLARS:
            force_setattr(self, "cost_usd", None)
        force_setattr(self, "estimated", True)

    def __add__(self, other: Usage) -> Usage:
        """Return the sum. A count or cost that would be too large stays at the largest value."""
        if self.cost_usd is None or other.cost_usd is None:
            cost = self.cost_usd if other.cost_usd is None else other.cost_usd
        else:
            cost = min(self.cost_usd + other.cost_usd, MOST_DOLLARS)
        input, output = self.input_tokens + other.input_tokens, self.output_tokens + other.output_tokens
        cached, reasoning = self.cached_tokens + other.cached_tokens, self.reasoning_tokens + other.reasoning_tokens
        if input > MOST_TOKENS or output > MOST_TOKENS or cached > MOST_TOKENS or reasoning > MOST_TOKENS:
            input, output, cached, reasoning = (min(sum, MOST_TOKENS) for sum in (input, output, cached, reasoning))
        return new_usage(
            input_tokens=input,
            output_tokens=output,
            cached_tokens=cached,
            reasoning_tokens=reasoning,
            cost_usd=cost,
            estimated=self.estimated or other.estimated,
        )

    def completed_by(self, earlier: Usage | None) -> Usage:
        """Return this report of a response's usage, completed from an earlier report of the same response."""
        if not self.estimated or earlier is None:
            return self
        lacks_input, lacks_output = not self.input_tokens, not self.output_tokens
        return replace(
            self,
            input_tokens=earlier.input_tokens if lacks_input else self.input_tokens,
            cached_tokens=earlier.cached_tokens if lacks_input else self.cached_tokens,
            output_tokens=earlier.output_tokens if lacks_output else self.output_tokens,
            reasoning_tokens=earlier.reasoning_tokens if lacks_output else self.reasoning_tokens,
            cost_usd=earlier.cost_usd if self.cost_usd is None else self.cost_usd,
        )

    def for_cut_response(self, *, input_tokens: int, output_tokens: int) -> Usage:
        """Return the usage of a response that was cut: what was reported before the cut, and estimates for the rest.

        `input_tokens` is used if nothing was reported, `output_tokens` if it exceeds what was reported.
        """
        return replace(
            self,
            input_tokens=self.input_tokens or input_tokens,
            output_tokens=max(self.output_tokens, output_tokens),
            estimated=True,
        )


new_call, new_result = unexplained(ToolCall), unexplained(ToolResult)
new_message, new_usage = unexplained(AssistantMessage), unexplained(Usage)
"""Constructors for what the library makes in each step."""

_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"})
"""General categories of invisible characters (Unicode Standard, section 4.5)."""
_FILLERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0" + "".join(map(chr, range(0xFE00, 0xFE10))))
"""Invisible letters and marks: fillers, the empty Braille pattern, variation selectors."""


def is_blank(text: str) -> bool:
    """Return whether a text has only white space and invisible characters, so that it is empty to a reader."""
    return all(category(character) in _UNSEEN or character in _FILLERS for character in text)

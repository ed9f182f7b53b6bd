"""The words that all rooms share: messages, calls, results, tools and usage.

A message is what the model is shown or has said. Tool arguments stay the text that the model wrote: it is
parsed where a tool is about to run, and sent back to the provider letter for letter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal
from unicodedata import category

from msgspec import Struct
from msgspec.structs import replace

from .errors import WrongUse

FinishReason = Literal[
    "stop", "length", "tool_calls", "content_filter", "error", "other", "pause", "context_full", "retry"
]
"""Why the model says it ended a response. Never a stop reason, which is the loop's own (`outcome.py`).

What vendors say for each, and what the loop does, stands in `finish_words.py`. `other`: a word that nobody knows.
"""

ToolKind = Literal["ordinary", "completion", "question", "think"]
"""What a call of a tool means to the loop. Behaviour follows the kind, never the name."""

ResultStatus = Literal[
    "ok", "error", "rejected", "skipped", "cancelled", "invalid", "truncated", "unknown", "unanswered"
]
"""How a call was settled: `ok`, `error` and `rejected` are a tool's own answer, the others are synthetic.

skipped: stood after a completion. cancelled: was running when the run was cut. invalid: unknown tool or bad
arguments. truncated: the response broke off inside the call. unknown: the process died while it ran.
unanswered: a question whose answer never came.
"""


class ToolCall(Struct, frozen=True):
    """One call of one tool, as the model wrote it. `arguments` is JSON text and may be invalid."""

    id: str
    name: str
    arguments: str = ""


class ToolSpec(Struct, frozen=True, kw_only=True):
    """What the engine and the model know of a tool: the wire schema, and the private kind beside it."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON Schema of the arguments, an object."""
    kind: ToolKind = "ordinary"
    reads: bool = False
    """True if a call changes nothing: it may then run beside others, and while the stream goes on."""
    polls: bool = False
    """True if the same call with the same result again and again is what it is for: no repetition to speak of."""
    completes: bool = False
    """True if an ordinary tool may complete the task as well, as a plan does whose last step is a completion."""


class Reasoning(Struct, frozen=True, omit_defaults=True):
    """One block of the model's reasoning. `signature` proves it to the provider that wrote it."""

    text: str
    signature: str = ""
    redacted: bool = False
    """The provider hides the text; `signature` holds it, encrypted."""


class SystemMessage(Struct, frozen=True, tag_field="role", tag="system"):
    """Standing instructions; the first message if there is one."""

    text: str


class UserMessage(Struct, frozen=True, tag_field="role", tag="user"):
    """What the user said, or what the loop says in the user's role (nudge, reminder, closing)."""

    text: str


class AssistantMessage(Struct, frozen=True, tag_field="role", tag="assistant", omit_defaults=True):
    """One response of the model, whole or cut."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    reasoning: tuple[Reasoning, ...] = ()


class Image(Struct, frozen=True, omit_defaults=True):
    """A picture, as its bytes or at an address. A tool may return one, or a list of texts and pictures."""

    data: bytes = b""
    media_type: str = "image/png"
    url: str = ""
    """Where the provider finds it; instead of `data`."""

    def __post_init__(self) -> None:
        for name, value, kind in (
            ("data", self.data, bytes),
            ("media_type", self.media_type, str),
            ("url", self.url, str),
        ):
            if not isinstance(value, kind):
                raise WrongUse(
                    f"Image({name}=...) is given a value of type {type(value).__name__}: use {kind.__name__}"
                )


class ToolResult(Struct, frozen=True, tag_field="role", tag="tool", omit_defaults=True):
    """The one answer to one tool call."""

    call_id: str
    name: str
    content: str
    status: ResultStatus = "ok"
    images: tuple[Image, ...] = ()
    """Pictures beside the text; a model that cannot see has the text alone."""


Message = SystemMessage | UserMessage | AssistantMessage | ToolResult


class Usage(Struct, frozen=True, kw_only=True):
    """Tokens and money of one attempt, one step or one run.

    `cached_tokens` are part of `input_tokens`, `reasoning_tokens` part of `output_tokens`.
    `cost_usd` is None where no price is known. `estimated` is True if any part of it was not reported by the
    provider: a stream that was cut early never delivers its usage, which comes last.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float | None = None
    estimated: bool = False

    def __add__(self, other: Usage) -> Usage:
        if self.cost_usd is None or other.cost_usd is None:
            cost = self.cost_usd if other.cost_usd is None else other.cost_usd
        else:
            cost = self.cost_usd + other.cost_usd
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            cost_usd=cost,
            estimated=self.estimated or other.estimated,
        )

    def for_cut_response(self, *, input_tokens: int, output_tokens: int) -> Usage:
        """The same for a response that was left before its end: what was stated of it by then, the rest estimated.

        `input_tokens` counts where nothing was stated, `output_tokens` where it is more than what was stated.
        """
        return replace(
            self,
            input_tokens=self.input_tokens or input_tokens,
            output_tokens=max(self.output_tokens, output_tokens),
            estimated=True,
        )


_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"})
"""General categories of characters that show nothing (Unicode Standard, section 4.5)."""
_FILLERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0" + "".join(map(chr, range(0xFE00, 0xFE10))))
"""Letters and marks that show nothing, either: fillers, the empty Braille pattern, variation selectors."""


def is_blank(text: str) -> bool:
    """Whether a person sees nothing of a text: it is empty, or all white space and invisible characters."""
    return all(category(character) in _UNSEEN or character in _FILLERS for character in text)

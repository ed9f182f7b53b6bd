"""litellm's chunks to ours. It imports nothing of litellm: attributes are enough."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

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
    UsageReport,
)
from ..decision.finish_words import NO_WORDS, parse_finish_reason
from .chat_stream import reported_cost

SERVER_TOOL = "srvtoolu_"
"""Ids of tools that Anthropic runs itself begin with this (Anthropic API reference, "server tools")."""
REMOTE_TOOL = "mcptoolu_"
"""Ids of tools behind MCP that Anthropic calls itself (Anthropic API reference, "MCP connector")."""


class RewrittenWords:
    """The finish words of one stream that litellm rewrote, each with what it made of it."""

    def __init__(self) -> None:
        self._words: dict[str, str] = {}

    def note(self, word: str, became: str) -> None:
        """Keep a word with what litellm made of it."""
        self._words[became] = word

    def raw(self, word: str) -> str:
        """The provider's word that litellm made this one of; the same if it did not."""
        return self._words.get(word, word)


CURRENT_STREAM: ContextVar[RewrittenWords | None] = ContextVar("endstop_litellm_finish_words", default=None)
"""Who wants to know what litellm rewrites while it reads a chunk: nobody but a stream of ours."""


class RecordingFinishMap(dict[str, str]):
    """litellm's own table of finish words, which answers as it did and tells the stream that is being read.

    litellm makes OpenAI's words of all others, and of those that it does not know a `stop`, so that a response which
    the provider gave up would look whole. It looks them all up in one table, and keeps the raw word nowhere.
    """

    def get(self, word: str, default: Any = None) -> Any:
        """What litellm makes of a word."""
        became = super().get(word, default)
        stream = CURRENT_STREAM.get()
        if stream is not None and isinstance(word, str) and word and became != word:
            stream.note(word, became or "stop")
        return became


class MutedTokenCounter:
    """litellm's counter of tokens, which answers as it did, but counts nothing in a stream of ours.

    In its modules for Claude it is there to make up the reasoning tokens, which nobody stated, from the summary of the
    reasoning that is shown.
    """

    def __init__(self, count: Callable[..., int]) -> None:
        self._count = count

    def __call__(self, *given: Any, **named: Any) -> int:
        """How many tokens litellm takes a text for; 0 while a stream of ours is read."""
        return self._count(*given, **named) if CURRENT_STREAM.get() is None else 0


class LiteLLMReader:
    """litellm's chunks (OpenAI's, as pydantic objects) to ours. `words`: finish words beside those of the table."""

    def __init__(self, *, signs: bool, words: Mapping[str, FinishReason] = NO_WORDS) -> None:
        self.rewritten = RewrittenWords()
        """What litellm made of the provider's finish words."""
        self.has_content = False
        """Whether any text, reasoning or call has come."""
        self.finished = False
        self._signs = signs
        self._words = words
        self._called = False
        self._shown: set[str] = set()
        self._server_tool: ProviderToolReport | None = None
        self._server_index: int | None = None
        self._stated: Usage | None = None
        self._looked_at = 0

    def stated(self, chunks: Sequence[Any]) -> list[AnyChunk]:
        """The usage that the provider has reported so far, as one `UsageReport`; empty if the last call gave the same.

        `chunks` are all that litellm has kept of the stream. litellm itself hands out their sum only at the end of the
        stream. Claude reports the input tokens, and how many of them were cached, at the beginning: without this a
        stream that is cut would lose them.
        """
        before = self._stated
        for chunk in chunks[self._looked_at :]:
            usage = getattr(chunk, "usage", None)
            if usage is not None:
                self._stated = _usage(usage)
        self._looked_at = len(chunks)
        return [] if self._stated is None or self._stated == before else [UsageReport(self._stated)]

    def _whole(self, sum: Usage) -> Usage:
        """The sum at the end, without what litellm made up: reasoning tokens, or everything if nothing was reported."""
        if self._stated is None:
            return replace(sum, estimated=True)
        return replace(sum, reasoning_tokens=self._stated.reasoning_tokens, cost_usd=self._stated.cost_usd)

    def read(self, chunk: Any) -> list[AnyChunk]:
        """The chunks that one of litellm's holds."""
        parts: list[AnyChunk] = []
        for choice in chunk.choices:
            self._delta(choice.delta, parts)
            self.has_content = self.has_content or bool(parts)
            if choice.finish_reason:
                self.finished = True
                self._report_server_tool(parts)
                raw = self.rewritten.raw(choice.finish_reason)
                parts.append(FinishReport(self._finish(raw), raw))
        usage = _extra(chunk, "usage")
        if usage is not None:
            whole = self._whole(_usage(usage))
            if whole != self._stated:  # which is told already
                parts.append(UsageReport(whole))
        return parts

    def _finish(self, raw: str) -> FinishReason:
        """From 1.108 on litellm says tool_calls also where the provider has run all that was called."""
        finish = parse_finish_reason(raw, self._words)
        return "stop" if finish == "tool_calls" and self._shown and not self._called else finish

    def _delta(self, delta: Any, parts: list[AnyChunk]) -> None:
        reasoning = _extra(delta, "reasoning_content") or ""
        blocks = _blocks(delta) if self._signs else []
        signature = "".join(block.get("signature") or "" for block in blocks)
        if reasoning or signature:  # never the block's own text: up to 1.105 it comes again with the signature
            parts.append(ReasoningDelta(reasoning, signature))
        for block in blocks:
            if block.get("data"):
                parts.append(ReasoningDelta(signature=block["data"], redacted=True))
        if delta.content:
            self._report_server_tool(parts)
            parts.append(TextDelta(delta.content))
        for position, call in enumerate(delta.tool_calls or ()):
            self._call(call, position, parts)
        self._remote_results(delta, parts)

    def _call(self, call: Any, position: int, parts: list[AnyChunk]) -> None:
        index = position if call.index is None else call.index
        id, name, arguments = call.id or "", call.function.name or "", call.function.arguments or ""
        if id.startswith(SERVER_TOOL):
            self._report_server_tool(parts)
            self._server_tool, self._server_index = ProviderToolReport(id, name, arguments), index
        elif not id and index == self._server_index and self._server_tool is not None:
            self._server_tool = replace(self._server_tool, arguments=self._server_tool.arguments + arguments)
        else:
            self._report_server_tool(parts)
            self._called = True
            parts.append(ToolCallDelta(index, id, name, arguments))

    def _remote_results(self, delta: Any, parts: list[AnyChunk]) -> None:
        """Of tools behind MCP that Anthropic calls by itself, litellm shows the results alone, again and again."""
        fields = _extra(delta, "provider_specific_fields") or {}
        for result in fields.get("tool_results") or ():
            id = str(result.get("tool_use_id", ""))
            if id.startswith(REMOTE_TOOL) and id not in self._shown:
                self._shown.add(id)
                parts.append(ProviderToolReport(id, "mcp", result=json.dumps(result.get("content"))))

    def _report_server_tool(self, parts: list[AnyChunk]) -> None:
        """Tell of a tool that the provider ran itself, now that its arguments are whole."""
        if self._server_tool is not None:
            parts.append(self._server_tool)
            self._shown.add(self._server_tool.id)
        self._server_tool = self._server_index = None


def _blocks(delta: Any) -> list[dict[str, Any]]:
    """The signed blocks, by Anthropic's name for them or by OpenRouter's; their parts have the same names."""
    given = _extra(delta, "thinking_blocks") or _extra(delta, "reasoning_details") or ()
    return [block for block in given if isinstance(block, dict)]


def _extra(model: Any, name: str) -> Any:
    """A field that may not be there. Asking pydantic for one that is missing builds an error message: 3 us each."""
    fields = model.__dict__
    return fields[name] if name in fields else (model.__pydantic_extra__ or {}).get(name)


def _usage(usage: Any) -> Usage:
    prompt = getattr(usage, "prompt_tokens_details", None)
    completion = getattr(usage, "completion_tokens_details", None)
    return Usage(
        input_tokens=usage.prompt_tokens or 0,
        output_tokens=usage.completion_tokens or 0,
        cached_tokens=getattr(prompt, "cached_tokens", None) or 0,
        reasoning_tokens=getattr(completion, "reasoning_tokens", None) or 0,
        cost_usd=reported_cost(usage),
    )


def chunk_length(chunk: AnyChunk) -> int:
    """How much this chunk holds."""
    match chunk:
        case TextDelta(text=text) | ReasoningDelta(text=text):
            return len(text)
        case ToolCallDelta(arguments=text):
            return len(text)
        case ProviderToolReport(arguments=arguments, result=result):
            return len(arguments) + len(result)
        case _:
            return 0

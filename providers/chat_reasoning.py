"""Keeps the fields that chat completions servers want back in addition to texts and calls, and sends them back.

- `reasoning_details`, the parts of reasoning with their signatures: OpenRouter (its documentation, "Reasoning Tokens")
  and MiniMax ("OpenAI API compatible", where the request says `reasoning_split`). They arrive in pieces.
- `extra_content` of a call or a message, which holds the thought signature: Gemini's OpenAI endpoint (Gemini API
  documentation, "Thought signatures").
- Plain reasoning, under the name that the server gave it: Groq and Cerebras call it `reasoning`, and refuse
  `reasoning_content`, which others want (Z.ai documentation, "Thinking Mode"; OpenAI's gpt-oss guide).

All of it is kept in opaque blocks of the message (`Reasoning`), with the server's host as their vendor: another server
might reject fields that it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ..decision import AnyChunk, AssistantMessage, Reasoning, ReasoningDelta

PLAIN = "reasoning_content"
"""Field in which plain reasoning is sent if the server's own name for it is not known."""
_TEXTS = {"reasoning.text": "text", "reasoning.summary": "summary"}
"""Types of details that arrive in pieces, and for each the field whose pieces are joined."""


class ReturnedReasoning:
    """Collector of the parts of one response that must be sent back to `vendor`; collects nothing if that is empty.

    returns_text: whether plain reasoning must be sent back, too.
    """

    def __init__(self, vendor: str, returns_text: bool) -> None:
        self.pending = False
        """Whether something has been collected that `flush` has not returned."""
        self._vendor = vendor
        self._returns_text = returns_text
        self._field = ""
        self._details: list[dict[str, Any]] = []
        self._pieces: list[Any] = []
        """Pieces of text received for the last of them since it began."""
        self._texts: list[str] = []

    def add_text(self, text: str, field: str) -> None:
        """Note plain reasoning and the name of the field in which it came."""
        if self._vendor:
            self._texts.append(text)
            if self._returns_text:
                self._field, self.pending = field, True

    def add_details(self, details: Any) -> None:
        """Add pieces of `reasoning_details`."""
        for detail in details if isinstance(details, list) and self._vendor else ():
            if isinstance(detail, dict):
                self._add_detail(detail)
                self.pending = True

    def _add_detail(self, detail: dict[str, Any]) -> None:
        grows = _TEXTS.get(str(detail.get("type")))
        last = self._details[-1] if self._details else {}
        if grows is None or any(last.get(name) != detail.get(name) for name in ("type", "index")):
            self._join_pieces()
            self._details.append(dict(detail))
            return
        self._pieces.append(detail.get(grows) or "")
        last |= {name: value for name, value in detail.items() if value and name != grows}

    def _join_pieces(self) -> None:
        if self._pieces:
            last = self._details[-1]
            grows = _TEXTS[str(last.get("type"))]
            last[grows] = "".join(map(str, (last.get(grows) or "", *self._pieces)))
            self._pieces = []

    def flush(self) -> list[AnyChunk]:
        """Return everything collected as the end of a reasoning block. Call it before any other chunk is emitted."""
        self._join_pieces()
        kept: dict[str, Any] = {"reasoning_details": self._without_text()} if self._details else {}
        if self._field:
            kept["field"] = self._field
        block = self._block(kept, redacted=not self._texts)
        self._details, self._texts, self._field, self.pending = [], [], "", False
        return [block]

    def _without_text(self) -> list[dict[str, Any]]:
        """Return the details without texts that the block itself holds, so that each text is recorded only once."""
        if len(self._details) > 1:
            return self._details
        grows = _TEXTS.get(str(self._details[0].get("type")), "")
        is_known = self._texts and self._details[0].get(grows) == "".join(self._texts)
        return [{name: value for name, value in self._details[0].items() if not (is_known and name == grows)}]

    def extra_content(self, value: Any, of: str) -> list[AnyChunk]:
        """Return the `extra_content` of a call or message (`of`) as a block placed after it."""
        if not self._vendor or not isinstance(value, dict):
            return []
        return [self._block({"extra_content": value, "of": of}, redacted=True)]

    def _block(self, kept: Mapping[str, Any], *, redacted: bool) -> ReasoningDelta:
        return ReasoningDelta(signature=msgspec.json.encode(kept).decode(), redacted=redacted, vendor=self._vendor)


def add_returned(message: AssistantMessage, vendor: str, encoded: dict[str, Any]) -> None:
    """Add to an encoded message the fields that the server `vendor` sent with it and wants back."""
    details: list[dict[str, Any]] = []
    plain: dict[str, str] = {}
    for block in message.reasoning:
        if not vendor or block.vendor != vendor or not block.signature:
            continue
        kept = msgspec.json.decode(block.signature)
        details += [_with_text(detail, block) for detail in kept.get("reasoning_details", ())]
        if field := kept.get("field"):
            plain[field] = plain.get(field, "") + block.text
        if "extra_content" in kept:
            _place_of(kept["of"], block, encoded)["extra_content"] = kept["extra_content"]
    if details or plain:
        encoded.pop(PLAIN, None)
        encoded |= {"reasoning_details": details} if details else plain if message.calls else {}


def _with_text(detail: dict[str, Any], block: Reasoning) -> dict[str, Any]:
    grows = _TEXTS.get(str(detail.get("type")))
    return detail if grows is None or grows in detail else {**detail, grows: block.text}


def _place_of(of: str, block: Reasoning, encoded: dict[str, Any]) -> dict[str, Any]:
    calls: list[dict[str, Any]] = encoded.get("tool_calls", [])
    return calls[block.calls_before - 1] if of == "call" and 0 < block.calls_before <= len(calls) else encoded

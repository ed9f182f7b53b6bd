"""The conformance kit's endpoint in Gemini's wire format, and replies of Gemini's for other tests."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from endstop.providers import Gemini
from endstop.testing.conformance.providers import Endpoint
from endstop.testing.wires import GEMINI

from .endpoint import Reply


class GeminiEndpoint(Endpoint):
    """Plays behaviours as `streamGenerateContent` does, which sends each call in one piece."""

    cannot: ClassVar[frozenset[str]] = frozenset({"fragments", "refusals"})
    wire = GEMINI


def gemini_to(endpoint: GeminiEndpoint) -> Gemini:
    return Gemini("gemini-conformance", api_key=endpoint.key, api_base=endpoint.url, read_timeout=endpoint.timeout)


def event(value: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


def parts(*values: dict[str, Any], **candidate: Any) -> dict[str, Any]:
    """One streamed response with these parts."""
    return {"candidates": [{"content": {"role": "model", "parts": list(values)}, **candidate}]}


def finish(word: str, **usage: int) -> dict[str, Any]:
    return {"candidates": [{"finishReason": word}], **({"usageMetadata": usage} if usage else {})}


def gemini(*values: dict[str, Any], ends: str = "whole") -> Reply:
    """A reply with one event for each value."""
    return Reply(pieces=[event(value) for value in values], ends=ends)

"""Gemini's wire, as far as the endless model speaks it: a request as the other wires have it, and responses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

USAGE = {"promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110}
Call = tuple[str, str, str]
"""The id, name and arguments of a call."""


def as_chat(path: str, body: dict[str, Any]) -> dict[str, Any]:
    """A request as that of chat completions: the model's name is in its path, and has `gemini-` before it."""
    model = path.split("/models/")[1].split(":")[0].removeprefix("gemini-")
    messages: list[dict[str, Any]] = []
    for content in body["contents"]:
        for part in content["parts"]:
            if "functionResponse" in part:
                messages.append({"role": "tool", "content": json.dumps(part["functionResponse"]["response"])})
            else:
                role = "user" if content["role"] == "user" else "assistant"
                messages.append({"role": role, "content": part.get("text", "")})
    return {"model": model, "messages": messages, "stream": ":stream" in path}


def reply(text: str, calls: list[Call]) -> dict[str, Any]:
    """A whole response."""
    return _event([*([{"text": text}] if text else []), *map(_part, calls)], "STOP")


def events(text: str, calls: list[Call], more: list[str]) -> Iterator[tuple[dict[str, Any], bool]]:
    """The events of a response that streams, and whether one follows the calls. more: texts that do."""
    if text:
        yield _event([{"text": text}]), False
    for call in calls:
        yield _event([_part(call)]), False
    for one in more:
        yield _event([{"text": one}]), True
    yield _event([], "STOP"), False


def _part(call: Call) -> dict[str, Any]:
    _, name, arguments = call
    return {"functionCall": {"name": name, "args": json.loads(arguments)}}


def _event(parts: list[dict[str, Any]], finish: str = "") -> dict[str, Any]:
    candidate = {"content": {"role": "model", "parts": parts}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "modelVersion": "m", **({"usageMetadata": USAGE} if finish else {})}

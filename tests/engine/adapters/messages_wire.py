"""Responses of the model on loopback as Anthropic's Messages API streams them, and its requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from endstop.formats.parsing import as_list

USAGE = {"input_tokens": 100, "output_tokens": 10}


def items(messages: list[Any]) -> list[Any]:
    """The messages of a request, with each result as a message of its own, as OpenAI's wires have it."""
    found: list[Any] = []
    for message in messages:
        if message.get("role") == "system":
            continue  # Claude Code has them in the middle, with what hooks said
        content = as_list(message.get("content"))
        results = [block for block in content if block.get("type") == "tool_result"]
        found += [{"role": "tool", "content": block["content"]} for block in results]
        texts = [block for block in content if block.get("type") != "tool_result"]
        if texts or not results:
            found.append({**message, "content": texts} if results else message)
    return found


def offered(body: dict[str, Any], name: str) -> str:
    """The name under which a request offers a tool: Claude Code puts the server's name before that of its tools."""
    return next((one["name"] for one in body.get("tools", []) if one["name"].endswith(f"__{name}")), name)


def events(
    body: dict[str, Any], number: int, text: str, calls: list[tuple[str, str, str]], more: list[str]
) -> Iterator[tuple[dict[str, Any], bool]]:
    """The events of a response: text, calls, and then more text; with each, whether it is of that."""
    message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": body["model"], "content": []}
    head = {**message, "stop_reason": None, "stop_sequence": None, "usage": {**USAGE, "output_tokens": 1}}
    yield {"type": "message_start", "message": head}, False
    blocks = [_text([text])] if text else []
    for id, name, arguments in calls:
        block = {"type": "tool_use", "id": id, "name": offered(body, name), "input": {}}
        pieces = [{"type": "input_json_delta", "partial_json": piece} for piece in (arguments[:5], arguments[5:])]
        blocks.append((block, pieces))
    for place, (block, deltas) in enumerate([*blocks, *([_text(more)] if more else [])]):
        after = place == len(blocks)
        yield {"type": "content_block_start", "index": place, "content_block": block}, False
        for delta in deltas:
            yield {"type": "content_block_delta", "index": place, "delta": delta}, after
        yield {"type": "content_block_stop", "index": place}, False
    delta = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": USAGE}, False
    yield {"type": "message_stop"}, False


def _text(pieces: list[str]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    return {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces]

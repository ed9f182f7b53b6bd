"""What the recorded streams in ../shared say, read naively by walking their events: a second opinion beside providers'.

They are no part of the project. One JSON event a line, in six wire formats; ../shared/tools serves them on loopback.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from endstop.decision.messages import FinishReason

SHARED = Path(__file__).resolve().parents[2] / "shared"
STREAMS = SHARED / "data" / "streams"
ERROR = "error"
"""Stands for a response that is none."""


class Signals(NamedTuple):
    """What ends a response, and what it calls. `finish` is a word of the provider's, of ours, or of an error."""

    finish: str
    calls: tuple[tuple[str, str], ...] = ()
    """Names and arguments of the calls that the client is to run."""
    tools: int = 0
    """How many tools the provider ran itself."""


def events_in(path: Path) -> list[Any]:
    """The JSON events of a chunks file; lines that are none are left out."""
    events = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            events.append(json.loads(line))
        except ValueError:
            continue
    return events


def in_chat(events: Iterable[Any]) -> Signals:
    """OpenAI's chat completions."""
    finish, calls = "", {}
    for choice in (choice for event in events for choice in event.get("choices") or ()):
        finish = choice.get("finish_reason") or finish
        for part in (choice.get("delta") or {}).get("tool_calls") or ():
            name, arguments = calls.get(part.get("index", 0), ("", ""))
            function = part["function"]
            calls[part.get("index", 0)] = name + (function.get("name") or ""), arguments + function["arguments"]
    return Signals(finish, tuple(calls.values()))


def in_anthropic(events: Iterable[Any]) -> Signals:
    """Anthropic's messages; what follows the first message is none of this response."""
    finish, tools, calls = "", 0, {}
    for event in events:
        match event:
            case {"type": "content_block_start", "index": index, "content_block": {"type": "tool_use"} as block}:
                calls[index] = block["name"], json.dumps(block["input"]) if block["input"] else ""
            case {"type": "content_block_start", "content_block": {"type": "server_tool_use" | "mcp_tool_use"}}:
                tools += 1
            case {"type": "content_block_delta", "index": index, "delta": {"partial_json": part}} if index in calls:
                calls[index] = calls[index][0], calls[index][1] + part
            case {"type": "message_delta", "delta": delta}:
                finish = delta.get("stop_reason") or finish
            case {"type": "message_stop"}:
                break
    return Signals(finish, tuple(calls.values()), tools)


def in_responses(events: Iterable[Any]) -> Signals:
    """OpenAI's responses. Shells and patches are the client's to run unless their output stands there, too."""
    finish, items = "", []
    for event in events:
        match event:
            case {"type": "response.output_item.done", "item": item}:
                items.append(item)
            case {"type": "response.completed" | "response.incomplete" | "response.failed", "response": response}:
                finish = response["status"]
                break
    outputs = {item.get("call_id") for item in items if item["type"].endswith("_output")}
    calls, tools = [], 0
    for item in items:
        kind = item["type"]
        own = kind in ("local_shell_call", "shell_call", "apply_patch_call") and item["call_id"] not in outputs
        own = own or kind == "mcp_approval_request" or (kind == "tool_search_call" and item["execution"] == "client")
        if kind == "function_call" or own:
            arguments = item.get("arguments") or ""
            calls.append((item.get("name") or kind, arguments if isinstance(arguments, str) else json.dumps(arguments)))
        elif kind.endswith("_call"):
            tools += 1
    return Signals(finish, tuple(calls), tools)


def in_gemini(events: Iterable[Any]) -> Signals:
    """Gemini's stream of contents, and the newer interactions."""
    finish, calls = "", []
    for event in events:
        finish = (event.get("interaction") or {}).get("status") or finish
        for candidate in event.get("candidates") or ():
            finish = candidate.get("finishReason") or finish
            for part in (candidate.get("content") or {}).get("parts") or ():
                if (call := part.get("functionCall") or {}).get("name"):
                    calls.append((call["name"], json.dumps(call["args"]) if "args" in call else "in parts"))
    return Signals(finish, tuple(calls))


def in_bedrock(events: Iterable[Any]) -> Signals:
    """Amazon's converse stream."""
    finish, calls = "", {}
    for event in events:
        match event:
            case {"contentBlockStart": {"contentBlockIndex": index, "start": {"toolUse": call}}}:
                calls[index] = call["name"], ""
            case {"contentBlockDelta": {"contentBlockIndex": index, "delta": {"toolUse": {"input": part}}}}:
                calls[index] = calls[index][0], calls[index][1] + part
            case {"messageStop": {"stopReason": reason}}:
                finish = reason
    return Signals(finish, tuple(calls.values()))


def in_cohere(events: Iterable[Any]) -> Signals:
    """Cohere's chat, second version."""
    finish, calls = "", {}
    for event in events:
        match event:
            case {"type": "tool-call-start" | "tool-call-delta", "index": index, "delta": {"message": message}}:
                function, (name, arguments) = message["tool_calls"]["function"], calls.get(index, ("", ""))
                calls[index] = name or function["name"], arguments + function.get("arguments", "")
            case {"type": "message-end", "delta": {"finish_reason": reason}}:
                finish = reason
    return Signals(finish, tuple(calls.values()))


READERS = {
    "openai-chat": in_chat,
    "anthropic": in_anthropic,
    "openai-responses": in_responses,
    "gemini": in_gemini,
    "bedrock": in_bedrock,
    "cohere": in_cohere,
    "sse": in_gemini,
}
RIGHT: dict[str, FinishReason] = {
    "stop": "stop",
    "end_turn": "stop",
    "completed": "stop",
    "STOP": "stop",
    "COMPLETE": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "TOOL_CALL": "tool_calls",
    "refusal": "content_filter",
}
"""What a raw finish means. A stop beside calls is tool_calls: some formats have one word for both."""

LAST = {"message_stop", "response.completed", "response.incomplete", "response.failed"}
"""Events that end a response. Some recordings hold several of them; the first is played."""


@cache
def server() -> Any:
    """The module that serves recordings on loopback, from ../shared/tools."""
    spec = importlib.util.spec_from_file_location("serve_fixture", SHARED / "tools" / "serve_fixture.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


def format_of(path: Path) -> str:
    """The wire format of a recording; `sse` for none that is known."""
    return next((kind for event in events_in(path) if (kind := server().wire_format(event)) != "sse"), "sse")


def recorded(path: Path) -> Signals:
    """What stands in a recording."""
    return READERS[format_of(path)](events_in(path))


def right_finish(stands: Signals) -> str:
    """Our word for a recording's finish; one that failed or broke off is an error."""
    finish = RIGHT.get(stands.finish, ERROR)
    return "tool_calls" if finish == "stop" and stands.calls else finish


def reply_of(path: Path) -> Any:
    """The recording as the server's reply, up to the end of its first response."""
    (reply,) = server().load(path)
    ends = (number for number, event in enumerate(events_in(path), 1) if event.get("type") in LAST)
    reply.pieces = reply.pieces[: next(ends, None)]
    return reply

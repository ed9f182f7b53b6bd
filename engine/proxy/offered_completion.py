"""Completion tool for agents that have none: it is offered in their requests, and its call never reaches them.

The first request of a run decides whether it is offered, before the model has said anything, and that holds for the
whole run: adding a tool later would invalidate the prompt cache. The model's report becomes the text of a final
message, which ends a loop that ends without calls.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..decision import AssistantMessage, ToolCall
from ..follow.end_text import COMPLETED
from ..formats.imported_session import ImportOptions
from ..formats.parsing import as_dict, as_list, as_text
from ..tools import finish_task
from .wire import ProxyWire, WireRequest, first_response

OFFERED = finish_task.spec


def completion_names(request: WireRequest, completion: Sequence[str]) -> set[str]:
    """Return the tools of a request that complete a task. completion: their names; if empty, the usual ones."""
    options = ImportOptions(completion=tuple(completion))
    return {tool.name for tool in request.tools if options.tool_kind(tool.name, "") == "completion"}


def lacks_completion(request: WireRequest, completion: Sequence[str]) -> bool:
    """Return whether this request begins a conversation and offers tools, but none that completes a task."""
    taken = any(tool.name == OFFERED.name for tool in request.tools)
    begins = first_response(request.items) == len(request.items) and not request.after
    return begins and bool(request.tools) and not completion_names(request, completion) and not taken


def with_offer(wire: ProxyWire, request: WireRequest) -> bytes:
    """Return the body of a request with the tool added to the others."""
    tools = wire.with_tool(as_list(request.body.get("tools")), OFFERED)
    return msgspec.json.encode({**request.body, "tools": tools})


def reported_text(message: AssistantMessage) -> str | None:
    """Return the report in the response's call of the offered tool; None if there is no such call."""
    call = next((one for one in message.calls if one.name == OFFERED.name), None)
    return None if call is None else _summary(call) or message.text or COMPLETED


def other_calls(message: AssistantMessage) -> bool:
    """Return whether a response also calls tools of the agent."""
    return any(call.name != OFFERED.name for call in message.calls)


def _summary(call: ToolCall) -> str:
    try:
        return as_text(as_dict(msgspec.json.decode(call.arguments or "{}")).get("summary"))
    except (msgspec.DecodeError, RecursionError):
        return ""

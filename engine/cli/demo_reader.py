"""Read a streamed response as the usual agent frameworks do: to its end, and then run every call that it made.

`endstop demo` runs it beside endstop, on the same stream. It uses nothing of endstop.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp


async def read_and_run(url: str, request: Mapping[str, Any], tools: Mapping[str, Callable[..., object]]) -> None:
    """Send a request for a streamed chat completion; when the response has ended, run its calls in their order."""
    calls: dict[int, dict[str, str]] = {}
    async with aiohttp.ClientSession() as session, session.post(url, json=request) as response:
        response.raise_for_status()
        async for line in response.content:
            if line.startswith(b"data: {"):
                delta = json.loads(line.removeprefix(b"data: "))["choices"][0]["delta"]
                for piece in delta.get("tool_calls", ()):
                    call = calls.setdefault(piece["index"], {"name": "", "arguments": ""})
                    for part, text in piece["function"].items():
                        call[part] += text
    for call in calls.values():
        tools[call["name"]](**json.loads(call["arguments"]))

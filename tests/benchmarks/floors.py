"""The floors: agent loops written by hand over aiohttp, with nothing in them that the task does not need.

No events, no record, no limits, no errors handled, one task. `lines` reads line by line and uses the standard
library's json; `bytes` splits raw blocks and uses orjson. Both close the stream as soon as the arguments of the
completion call can be parsed. `deaf` is the control: like `bytes`, but it reads every response to its end and runs
every call in it, as loops do that look for the completion afterwards.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import orjson
from task import add


def described(name: str, description: str, **properties: str) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": {key: {"type": kind} for key, kind in properties.items()},
        "required": list(properties),
    }
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


TOOLS = [
    described("add", "Add two integers.", a="integer", b="integer"),
    described("finish_task", "Call this when the task is finished.", summary="string"),
]


class Floor:
    """One hand-written loop: `lines`, `bytes` or `deaf`."""

    def __init__(self, kind: str, api_base: str) -> None:
        self.url = api_base + "/chat/completions"
        self.by_line = kind == "lines"
        self.cuts = kind != "deaf"
        self.loads = json.loads if self.by_line else orjson.loads

    async def __aenter__(self) -> Floor:
        headers = {"content-type": "application/json", "authorization": "Bearer none"}
        self.http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=None), headers=headers
        )
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.http.close()

    async def run(self, prompt: str) -> str:
        messages: list[dict[str, Any]] = [{"role": "user", "content": prompt}]
        while True:
            text: list[str] = []
            calls: list[dict[str, Any]] = []
            async with self.http.post(self.url, data=self.body(messages)) as response:
                chunks = self.chunks_by_line(response) if self.by_line else self.chunks_by_block(response)
                async for chunk in chunks:
                    for choice in chunk["choices"]:
                        take(choice["delta"], text, calls)
                    if self.cuts and calls and calls[-1]["function"]["name"] == "finish_task":
                        arguments = self.whole(calls[-1]["function"]["arguments"])
                        if arguments is not None:
                            return str(arguments["summary"])
            answer = "".join(text)
            if not calls:
                return answer
            messages.append({"role": "assistant", "content": answer, "tool_calls": calls})
            for call in calls:
                function = call["function"]
                arguments = self.loads(function["arguments"])
                if function["name"] == "finish_task":
                    answer = arguments["summary"]
                    continue
                result = await add(**arguments)
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": str(result)})
            if not self.cuts and any(call["function"]["name"] == "finish_task" for call in calls):
                return answer

    def whole(self, arguments: str) -> dict[str, Any] | None:
        """The arguments, once they can be parsed."""
        if not arguments.endswith("}"):
            return None
        try:
            parsed: dict[str, Any] = self.loads(arguments)
        except ValueError:
            return None
        return parsed

    def body(self, messages: list[dict[str, Any]]) -> bytes:
        request = {
            "model": "bench",
            "stream": True,
            "stream_options": {"include_usage": True},
            "tools": TOOLS,
            "messages": messages,
        }
        return json.dumps(request).encode() if self.by_line else orjson.dumps(request)

    async def chunks_by_line(self, response: aiohttp.ClientResponse) -> AsyncIterator[dict[str, Any]]:
        async for line in response.content:
            if line.startswith(b"data: "):
                if line == b"data: [DONE]\n":
                    return
                yield json.loads(line[6:])

    async def chunks_by_block(self, response: aiohttp.ClientResponse) -> AsyncIterator[dict[str, Any]]:
        rest = b""
        async for block in response.content.iter_any():
            *events, rest = (rest + block).split(b"\n\n")
            for event in events:
                if event == b"data: [DONE]":
                    return
                yield orjson.loads(event[6:])


def take(delta: dict[str, Any], text: list[str], calls: list[dict[str, Any]]) -> None:
    """Add what a delta brings to the response so far."""
    if content := delta.get("content"):
        text.append(content)
    for piece in delta.get("tool_calls") or ():
        if piece["index"] == len(calls):
            function = piece["function"]
            calls.append({"id": piece["id"], "type": "function", "function": function})
        else:
            calls[piece["index"]]["function"]["arguments"] += piece["function"]["arguments"]

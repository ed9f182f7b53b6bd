"""What litellm costs by itself: the loop of the floors, written over `litellm.acompletion`."""

from __future__ import annotations

import json
import os
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # before the import: else it asks the network

import litellm
from floors import TOOLS
from task import add


class BareLiteLLM:
    """No events, no record, no limits; closes the stream once the completion's arguments can be parsed."""

    def __init__(self, api_base: str) -> None:
        litellm.suppress_debug_info = True
        litellm.REPEATED_STREAMING_CHUNK_LIMIT = 10**9
        self.api_base = api_base

    async def __aenter__(self) -> BareLiteLLM:
        return self

    async def __aexit__(self, *exc: object) -> None:
        pass

    async def run(self, prompt: str) -> str:
        messages: list[dict[str, Any]] = [{"role": "user", "content": prompt}]
        while True:
            text, calls = await self.respond(messages)
            for call in calls:
                if call["function"]["name"] == "finish_task":
                    return str(json.loads(call["function"]["arguments"])["summary"])
            messages.append({"role": "assistant", "content": text, "tool_calls": calls})
            for call in calls:
                result = await add(**json.loads(call["function"]["arguments"]))
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": str(result)})

    async def respond(self, messages: list[dict[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
        stream = await litellm.acompletion(
            model="openai/bench",
            api_base=self.api_base,
            api_key="none",
            messages=messages,
            tools=TOOLS,
            stream=True,
            stream_options={"include_usage": True},
            max_retries=0,
            num_retries=0,
        )
        text, calls = "", []
        async for chunk in stream:
            delta = chunk.choices[0].delta
            text += delta.content or ""
            for part in delta.tool_calls or ():
                if part.index == len(calls):
                    function = {"name": part.function.name, "arguments": ""}
                    calls.append({"id": part.id, "type": "function", "function": function})
                calls[part.index]["function"]["arguments"] += part.function.arguments or ""
            if calls and _finishes(calls[-1]["function"]):
                await stream.aclose()
                break
        return text, calls


def _finishes(call: dict[str, str]) -> bool:
    try:
        json.loads(call["arguments"])
    except ValueError:
        return False
    return call["name"] == "finish_task"

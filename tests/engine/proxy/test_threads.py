"""Conversations that Anthropic keeps (`thread`): followed by the id that a request names, stopped, and never broken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from endstop import Until, read_record
from endstop.decision import events as ev
from endstop.replay import replay

from .agents import proxied
from .checked_work import POLICY
from .test_wires import AnthropicProvider, read_anthropic

STREAMS = pytest.mark.parametrize("streams", [True, False], ids=["streamed", "whole"])


class ThreadProvider(AnthropicProvider):
    """Keeps the conversation: each response has an id of its own, from which one request goes on."""

    def whole(self, call: tuple[str, str, str]) -> dict[str, Any]:
        return {**super().whole(call), "id": f"msg_{len(self.requests)}"}

    def results(self, body: dict[str, Any]) -> int:
        before = {"type": "continue", "previous_message_id": f"msg_{len(self.requests) - 1}"}
        assert body["thread"] == ({"type": "create"} if len(self.requests) == 1 else before)
        assert len(body["messages"]) == 1
        return len(self.requests) - 1


async def run_thread(url: str, *, streams: bool, most: int = 9) -> tuple[int, int, str]:
    """An agent that sends only what is new, as the tool runner of Anthropic's client does."""
    tools = [{"name": name, "input_schema": {"type": "object"}} for name in ("work", "finish_task")]
    thread: dict[str, Any] = {"type": "create"}
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    async with aiohttp.ClientSession(headers={"x-api-key": "sk-2"}) as client:
        for number in range(1, most + 1):
            body = {"model": "m", "max_tokens": 9, "thread": thread, "messages": messages, "tools": tools}
            async with client.post(f"{url}/v1/messages", json={**body, "stream": streams}) as reply:
                if reply.status != 200:
                    return number, reply.status, (await reply.json())["error"]["message"]
                message = await read_anthropic(reply) if streams else await reply.json()
            calls = [block for block in message["content"] if block["type"] == "tool_use"]
            results = [{"type": "tool_result", "tool_use_id": call["id"], "content": "ok"} for call in calls]
            thread = {"type": "continue", "previous_message_id": message["id"]}
            messages = [{"role": "user", "content": results}]
    return most, 200, "went on"


@STREAMS
async def test_a_circle_in_a_thread_is_one_run_and_is_stopped(streams: bool, tmp_path: Path) -> None:
    provider = ThreadProvider(same=True)
    async with proxied(provider, tmp_path) as (url, _, proxy):
        requests, status, said = await run_thread(url, streams=streams)
        assert len(proxy.runs) == 1
    spelled = 0 if streams else 1  # the first response is a stream, whose arguments have another space
    assert (requests, status) == (7 + spelled, 400)
    assert said.startswith("endstop stopped this run: the call work")
    (record,) = tmp_path.rglob("*.jsonl")
    (run,) = read_record(record).runs
    results = [event.content for event in run.events if isinstance(event, ev.ToolCallResult)]
    assert results == ["ok"] * (6 + spelled)
    assert (await replay(record)).same


@STREAMS
async def test_a_completion_in_a_thread_is_neither_cut_nor_answered_because_the_thread_would_not_have_it(
    streams: bool, tmp_path: Path
) -> None:
    provider = ThreadProvider()
    async with proxied(provider, tmp_path) as (url, _, proxy):
        assert await run_thread(url, streams=streams, most=5) == (5, 200, "went on")
        assert not proxy.statistics.total.cuts
    assert len(provider.requests) == 5


async def test_the_work_of_a_thread_is_not_checked(tmp_path: Path) -> None:
    checked: list[Any] = []
    until = Until(lambda run: bool(checked.append(run)), folder=tmp_path, from_failing=False)
    records = tmp_path / "records"
    records.mkdir()
    async with proxied(ThreadProvider(), records, policy=POLICY, until=until, workspace=str(tmp_path)) as (url, _, _p):
        await run_thread(url, streams=True, most=4)
    assert not checked


async def test_what_came_before_the_proxy_is_unknown_and_the_rest_of_a_thread_is_followed(tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.Response:
        (message,) = (await request.json())["messages"]
        number = int(message["content"][0]["tool_use_id"][1:]) + 1
        block = {"type": "tool_use", "id": f"c{number}", "name": "work", "input": {"n": number}}
        whole = AnthropicProvider().whole(("", "", "{}"))
        return web.json_response({**whole, "id": f"msg_{number}", "content": [block]})

    provider = ThreadProvider()
    provider.handle = answer  # type: ignore[method-assign, assignment]
    async with proxied(provider, tmp_path) as (url, client, proxy):
        for number in (7, 8, 9):
            thread = {"type": "continue", "previous_message_id": f"msg_{number}"}
            result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": f"r{number}"}
            body = {"model": "m", "thread": thread, "messages": [{"role": "user", "content": [result]}], "tools": []}
            async with client.post(f"{url}/v1/messages", json=body) as reply:
                assert reply.status == 200
        assert len(proxy.runs) == 1
    (record,) = tmp_path.rglob("*.jsonl")
    (run,) = read_record(record).runs
    results = [event.content for event in run.events if isinstance(event, ev.ToolCallResult)]
    assert results[:3] == ["r7", "r8", "r9"]

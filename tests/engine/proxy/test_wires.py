"""The proxy on each wire, with the vendor's own parser and an agent that resends its history; and untouched bytes."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest
from aiohttp import web
from endstop import read_record
from endstop.decision import POLICIES
from endstop.providers.prices import Prices
from endstop.proxy.exchange import EventSplitter
from endstop.proxy.proxy_server import RunFollowers

from ...shared_data import recorded, replies_in, streams
from .agents import AFTER, proxied, proxy_before, serving
from .vendors import CHAT

FOLLOWERS = RunFollowers(policy=POLICIES["agent"], prices=Prices(), completion=("finish_task",))
SUMMARY = "port is 8080"


def sse(events: list[dict[str, Any]]) -> list[bytes]:
    names = (f"event: {event['type']}\n" if "type" in event else "" for event in events)
    return [f"{name}data: {json.dumps(event)}\n\n".encode() for name, event in zip(names, events, strict=True)]


class VendorProvider:
    """Calls `work` twice, then `finish_task` and goes on. requests: bodies that came. sent: events after the call."""

    def __init__(self, *, same: bool = False) -> None:
        self.same = same
        self.requests: list[dict[str, Any]] = []
        self.sent_after = 0

    def call(self, results: int) -> tuple[str, str, str]:
        """Id, name and arguments of the next call."""
        number = len(self.requests)
        if self.same:
            return f"c{number}", "work", '{"n": 1}'
        if results < 2:
            return f"c{number}", "work", json.dumps({"n": results})
        return f"c{number}", "finish_task", json.dumps({"summary": SUMMARY})

    def results(self, body: dict[str, Any]) -> int:
        raise NotImplementedError

    def whole(self, call: tuple[str, str, str]) -> dict[str, Any]:
        raise NotImplementedError

    def events(self, call: tuple[str, str, str]) -> tuple[list[dict[str, Any]], dict[str, Any], list[dict[str, Any]]]:
        """The events up to the end of the call's arguments, one that follows many times, and the last."""
        raise NotImplementedError

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.requests.append(body)
        call = self.call(self.results(body))
        if not body.get("stream"):
            return web.json_response(self.whole(call))
        reply = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await reply.prepare(request)
        begin, more, end = self.events(call)
        await reply.write(b"".join(sse(begin)))
        for _ in range(AFTER if call[1] == "finish_task" else 0):
            await reply.write(b"".join(sse([more])))
            self.sent_after += 1
        await reply.write(b"".join(sse(end)))
        return reply


class AnthropicProvider(VendorProvider):
    """Speaks Anthropic's messages."""

    def results(self, body: dict[str, Any]) -> int:
        return sum(message["role"] == "user" for message in body["messages"]) - 1

    def whole(self, call: tuple[str, str, str]) -> dict[str, Any]:
        block = {"type": "tool_use", "id": call[0], "name": call[1], "input": json.loads(call[2])}
        head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None}
        return {**head, "content": [block], "stop_reason": "tool_use", "usage": {"input_tokens": 9, "output_tokens": 5}}

    def events(self, call: tuple[str, str, str]) -> tuple[list[dict[str, Any]], dict[str, Any], list[dict[str, Any]]]:
        message = {**self.whole(call), "content": [], "stop_reason": None}
        block = {"type": "tool_use", "id": call[0], "name": call[1], "input": {}}
        begin = [
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": block},
            *(delta(0, {"type": "input_json_delta", "partial_json": part}) for part in (call[2][:6], call[2][6:])),
            {"type": "content_block_stop", "index": 0},
            {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
        ]
        end = [
            {"type": "content_block_stop", "index": 1},
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 60}},
            {"type": "message_stop"},
        ]
        return begin, delta(1, {"type": "text_delta", "text": "and on "}), end


def delta(index: int, inside: dict[str, Any]) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": inside}


class ResponsesProvider(VendorProvider):
    """Speaks OpenAI's responses. custom: its calls are of a custom tool."""

    def results(self, body: dict[str, Any]) -> int:
        return sum(item.get("type", "").endswith("_output") for item in body["input"])

    def item(self, call: tuple[str, str, str], status: str = "completed") -> dict[str, Any]:
        head = {"type": "function_call", "id": f"fc_{call[0]}", "status": status}
        return {**head, "call_id": call[0], "name": call[1], "arguments": call[2]}

    def whole(self, call: tuple[str, str, str]) -> dict[str, Any]:
        usage = {"input_tokens": 9, "output_tokens": 5, "total_tokens": 14}
        head = {"id": f"resp_{len(self.requests)}", "object": "response", "created_at": 1, "model": "m"}
        rest = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
        return {**head, **rest, "status": "completed", "output": [self.item(call)], "usage": usage}

    def events(self, call: tuple[str, str, str]) -> tuple[list[dict[str, Any]], dict[str, Any], list[dict[str, Any]]]:
        begun = {**self.whole(call), "status": "in_progress", "output": [], "usage": None}
        arguments = {"type": "response.function_call_arguments.delta", "output_index": 0, "item_id": f"fc_{call[0]}"}
        empty = {**self.item(call, "in_progress"), "arguments": ""}
        begin = [
            {"type": "response.created", "response": begun},
            {"type": "response.output_item.added", "output_index": 0, "item": empty},
            *({**arguments, "delta": part} for part in (call[2][:6], call[2][6:])),
        ]
        done = {"type": "response.output_item.done", "output_index": 0, "item": self.item(call)}
        end = [done, {"type": "response.completed", "response": self.whole(call)}]
        more = {"type": "response.reasoning_text.delta", "output_index": 1, "item_id": "rs_1", "content_index": 0}
        return begin, {**more, "delta": "and on "}, end


Step = tuple[str, list[dict[str, Any]], str]
"""What an agent reads of a response: its text, its calls as items, and the id."""


async def read_anthropic(reply: aiohttp.ClientResponse) -> dict[str, Any]:
    """The message of a stream, as Anthropic's clients put it together; an unfinished one fails."""
    message: dict[str, Any] = {}
    parts: dict[int, str] = {}
    done = False
    async for event in events_of(reply):
        match event["type"]:
            case "message_start":
                message = event["message"]
            case "content_block_start":
                assert event["index"] == len(message["content"])
                message["content"].append(event["content_block"])
            case "content_block_delta":
                inside = event["delta"]
                text = inside.get("partial_json", "") + inside.get("text", "")
                parts[event["index"]] = parts.get(event["index"], "") + text
            case "content_block_stop":
                block = message["content"][event["index"]]
                if block["type"] == "tool_use":
                    block["input"] = json.loads(parts[event["index"]])
                else:
                    block["text"] += parts.get(event["index"], "")
            case "message_delta":
                message["stop_reason"] = event["delta"]["stop_reason"]
            case "message_stop":
                done = True
    assert done
    return message


async def events_of(reply: aiohttp.ClientResponse) -> AsyncIterator[dict[str, Any]]:
    async for line in reply.content:
        if line.startswith(b"data: {"):
            yield json.loads(line[6:])


async def run_anthropic(
    url: str, *, streams: bool, most: int = 12, names: tuple[str, ...] = ("work", "finish_task")
) -> tuple[int, int, str]:
    """An agent whose rule is "no calls: end". Returns requests, status, and what it ended with."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    tools = [{"name": name, "input_schema": {"type": "object"}} for name in names]
    async with aiohttp.ClientSession(headers={"x-api-key": "sk-2", "anthropic-version": "2023-06-01"}) as client:
        for number in range(1, most + 1):
            messages[-1]["cache_control"] = {"type": "ephemeral"}  # the mark moves with the end of the conversation
            body = {"model": "m", "max_tokens": 99, "messages": messages, "stream": streams, "tools": tools}
            async with client.post(f"{url}/v1/messages", json=body) as reply:
                if reply.status != 200:
                    return number, reply.status, (await reply.json())["error"]["code"]
                message = await read_anthropic(reply) if streams else await reply.json()
            del messages[-1]["cache_control"]
            messages.append({"role": "assistant", "content": message["content"]})
            calls = [block for block in message["content"] if block["type"] == "tool_use"]
            if not calls:
                assert message["stop_reason"] == "end_turn"
                return number, 200, message["content"][-1]["text"]
            results = [{"type": "tool_result", "tool_use_id": call["id"], "content": "ok"} for call in calls]
            messages.append({"role": "user", "content": results})
    return most, 200, "went on"


async def run_responses(
    url: str, *, streams: bool, most: int = 12, names: tuple[str, ...] = ("work", "finish_task"), chained: bool = False
) -> tuple[int, int, str]:
    """The same with OpenAI's own client. chained: it names the response before instead of sending all again."""
    items: list[Any] = [{"role": "user", "content": "go"}]
    tools: list[Any] = [
        {"type": "function", "name": name, "parameters": {"type": "object"}, "strict": False} for name in names
    ]
    before: dict[str, Any] = {}
    async with CHAT.client(url, blocks=False) as client:
        for number in range(1, most + 1):
            try:
                if streams:
                    async with client.responses.stream(model="m", input=items, tools=tools, **before) as stream:
                        response: Any = await stream.get_final_response()
                else:
                    response = await client.responses.create(model="m", input=items, tools=tools, **before)
            except openai.APIStatusError as error:
                return number, error.status_code, str(error.code)
            calls = [item for item in response.output if item.type == "function_call"]
            if not calls:
                return number, 200, response.output_text
            results = [{"type": "function_call_output", "call_id": one.call_id, "output": "ok"} for one in calls]
            if chained:
                before, items = {"previous_response_id": response.id}, results
            else:
                items = [*items, *(item.model_dump(exclude_none=True) for item in response.output), *results]
    return most, 200, "went on"


WIRES = [(AnthropicProvider, run_anthropic), (ResponsesProvider, run_responses)]


@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize(("provider", "run"), WIRES)
async def test_a_run_ends_with_its_completion_on_each_wire(
    provider: Callable[[], VendorProvider], run: Any, streams: bool, tmp_path: Path
) -> None:
    vendor = provider()
    async with proxied(vendor, tmp_path) as (url, _, _):
        assert await run(url, streams=streams) == (4, 200, SUMMARY)
    assert len(vendor.requests) == 3
    (record,) = tmp_path.rglob("*.jsonl")
    (ended,) = read_record(record).runs
    assert ended.finished is not None
    assert (ended.finished.outcome.status, ended.finished.outcome.steps) == ("completed", 3)
    assert "sk-" not in record.read_text(encoding="utf-8")


@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize(("provider", "run"), WIRES)
async def test_a_circle_ends_with_an_error_on_each_wire(
    provider: Callable[..., VendorProvider], run: Any, streams: bool, tmp_path: Path
) -> None:
    vendor = provider(same=True)
    async with proxied(vendor, tmp_path) as (url, _, _):
        requests, status, said = await run(url, streams=streams)
    assert (requests, status) == (7, 400)
    assert said == "endstop_stuck"
    assert len(vendor.requests) == 6


@pytest.mark.parametrize(("provider", "run"), WIRES)
async def test_a_stop_as_a_text_is_a_whole_response_on_each_wire(
    provider: Callable[..., VendorProvider], run: Any, tmp_path: Path
) -> None:
    async with proxied(provider(same=True), tmp_path, on_stop="text") as (url, _, _):
        requests, status, said = await run(url, streams=True)
    assert (requests, status) == (7, 200)
    assert said.startswith("[endstop stopped this run: the call ")


@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize(("provider", "run"), WIRES)
async def test_an_agent_without_a_completion_tool_is_offered_one_whose_call_it_never_sees(
    provider: Callable[[], VendorProvider], run: Any, streams: bool, tmp_path: Path
) -> None:
    vendor = provider()
    async with proxied(vendor, tmp_path, offer_completion=True) as (url, _, _):
        assert await run(url, streams=streams, names=("work",)) == (3, 200, SUMMARY)
    assert len(vendor.requests) == 3
    offered = [[tool["name"] for tool in body["tools"]] for body in vendor.requests]
    assert offered == [["work", "finish_task"]] * 3
    (record,) = tmp_path.rglob("*.jsonl")
    (ended,) = read_record(record).runs
    assert ended.finished is not None
    assert (ended.finished.outcome.status, ended.finished.outcome.answer) == ("completed", SUMMARY)


@pytest.mark.parametrize(("provider", "run"), WIRES)
async def test_nothing_is_offered_to_an_agent_that_has_a_completion_tool(
    provider: Callable[[], VendorProvider], run: Any, tmp_path: Path
) -> None:
    vendor = provider()
    async with proxied(vendor, tmp_path, offer_completion=True) as (url, _, _):
        assert await run(url, streams=True) == (4, 200, SUMMARY)
    assert all(len(body["tools"]) == 2 for body in vendor.requests)


class ChainedProvider(ResponsesProvider):
    """Keeps the conversation, and counts the requests that go on from a response of its own."""

    def results(self, body: dict[str, Any]) -> int:
        if "previous_response_id" in body:
            assert body["previous_response_id"] == f"resp_{len(self.requests) - 1}"
        return len(self.requests) - 1


async def test_a_conversation_that_the_provider_keeps_is_followed_and_never_broken(tmp_path: Path) -> None:
    vendor = ChainedProvider()
    async with proxied(vendor, tmp_path) as (url, _, proxy):
        assert await run_responses(url, streams=True, chained=True, most=5) == (5, 200, "went on")
        assert len(proxy.runs) == 1
    assert len(vendor.requests) == 5  # what is cut or answered here, the provider could not go on from
    circle = ChainedProvider(same=True)
    async with proxied(circle, tmp_path) as (url, _, _):
        assert await run_responses(url, streams=True, chained=True) == (7, 400, "endstop_stuck")


class CustomProvider(ResponsesProvider):
    """Calls custom tools, whose input is free text."""

    def results(self, body: dict[str, Any]) -> int:
        return 2  # the first call completes

    def item(self, call: tuple[str, str, str], status: str = "completed") -> dict[str, Any]:
        head = {"type": "custom_tool_call", "id": f"ctc_{call[0]}", "status": status}
        return {**head, "call_id": call[0], "name": call[1], "input": SUMMARY}

    def events(self, call: tuple[str, str, str]) -> tuple[list[dict[str, Any]], dict[str, Any], list[dict[str, Any]]]:
        begin, more, end = super().events(call)
        begin[1]["item"]["input"] = ""
        piece = {"type": "response.custom_tool_call_input.delta", "output_index": 0, "item_id": f"ctc_{call[0]}"}
        return [*begin[:2], {**piece, "delta": SUMMARY[:5]}, {**piece, "delta": SUMMARY[5:]}, end[0]], more, end[1:]


async def test_the_call_of_a_custom_tool_completes_too(tmp_path: Path) -> None:
    vendor = CustomProvider()
    async with (
        proxied(vendor, tmp_path) as (url, _, _),
        CHAT.client(url, blocks=False) as client,
    ):
        tools: list[Any] = [{"type": "custom", "name": "finish_task"}]
        async with client.responses.stream(model="m", input="go", tools=tools) as stream:
            response: Any = await stream.get_final_response()
        (call,) = response.output
        assert (call.type, call.name, call.input) == ("custom_tool_call", "finish_task", SUMMARY)
        assert response.status == "completed"
        asked: list[Any] = [{"role": "user", "content": "go"}, call.model_dump(exclude_none=True)]
        result = {"type": "custom_tool_call_output", "call_id": call.call_id, "output": "ok"}
        answer = await client.responses.create(model="m", input=[*asked, result], tools=tools)
    assert answer.output_text == SUMMARY
    assert len(vendor.requests) == 1


# ---- untouched


def cut_at_random(body: bytes, seed: str) -> list[bytes]:
    chance = random.Random(seed)
    places = sorted(chance.sample(range(len(body) + 1), min(len(body), chance.randint(1, 40))))
    return [body[a:b] for a, b in zip([0, *places], [*places, len(body)], strict=True) if a < b]


@pytest.mark.parametrize("path", recorded(streams(other=True)))
async def test_a_recorded_stream_comes_through_byte_by_byte(path: Path) -> None:
    recorded_body = b"".join(replies_in(path)[0].pieces)
    sent = b""

    async def play(request: web.Request) -> web.StreamResponse:
        await request.read()
        reply = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await reply.prepare(request)
        for piece in cut_at_random(sent, path.name):
            await reply.write(piece)
        return reply

    message = [{"role": "user", "content": "go"}]
    async with (
        serving(play) as upstream,
        aiohttp.ClientSession() as client,
        proxy_before(upstream, FOLLOWERS) as (url, _),
    ):
        for newline in (b"\n", b"\r\n"):
            sent = recorded_body.replace(b"\n", newline)
            for place, field in (("chat/completions", "messages"), ("messages", "messages"), ("responses", "input")):
                body = {"model": "m", field: message, "stream": True}
                async with client.post(f"{url}/v1/{place}", json=body) as reply:
                    assert await reply.read() == sent


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_events_are_found_wherever_the_blocks_are_cut(newline: str) -> None:
    events = [f"event: a{newline}data: {number}{newline}{newline}".encode() for number in range(5)]
    body = b"".join(events) + b"data: rest"
    for size in range(1, len(body)):
        splitter, found, place = EventSplitter(), [], 0
        for begin in range(0, len(body), size):
            block = body[begin : begin + size]
            for event, end in splitter.feed(block):
                place += len(event)
                assert begin + end == place
                found.append(event)
        assert found == events
        assert splitter.end() == b"data: rest"

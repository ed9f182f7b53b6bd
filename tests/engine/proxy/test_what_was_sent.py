"""What a budget counts where a response brings no usage: at least the whole request, with its tools and images."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from endstop.decision import POLICIES, Usage
from endstop.providers.prices import Prices
from endstop.proxy.budget_store import EVERYBODY, BudgetStore
from endstop.proxy.day_budgets import DayBudgets
from endstop.proxy.proxy_server import RunFollowers
from endstop.proxy.statistics_page import Statistics

from .agents import proxy_before, serving

DAY = "2026-01-01"
SYSTEM = "You are careful. " * 400
FINISH = {"name": "finish_task", "description": "Ends the task. " * 100}
PARAMETERS = {"type": "object", "properties": {"summary": {"type": "string"}}}
IMAGE = "iVBORw0KGgo" + "A" * 8_000
CHAT = {
    "model": "m",
    "messages": [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{IMAGE}"}}]},
    ],
    "tools": [{"type": "function", "function": {**FINISH, "parameters": PARAMETERS}}],
}
MESSAGES = {
    "model": "m",
    "max_tokens": 100,
    "system": SYSTEM,
    "messages": [{"role": "user", "content": "Set the port"}],
    "tools": [{**FINISH, "input_schema": PARAMETERS}],
}
RESPONSES = {
    "model": "m",
    "instructions": SYSTEM,
    "input": [{"role": "user", "content": "Set the port"}],
    "tools": [{"type": "function", **FINISH, "parameters": PARAMETERS}],
}
CONTENTS = {
    "systemInstruction": {"parts": [{"text": SYSTEM}]},
    "contents": [{"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": IMAGE}}]}],
    "tools": [{"functionDeclarations": [{**FINISH, "parametersJsonSchema": PARAMETERS}]}],
}
GEMINI = "/v1beta/models/m:streamGenerateContent?alt=sse"
REQUESTS = {
    "/v1/chat/completions": CHAT,
    "/v1/messages": MESSAGES,
    "/v1/responses": RESPONSES,
    GEMINI: CONTENTS,
    GEMINI.removesuffix("?alt=sse"): CONTENTS,
}
PART = {"content": {"role": "model", "parts": [{"text": "It is 8080."}]}, "index": 0}


def sse(*events: dict[str, Any]) -> list[bytes]:
    return [b"data: " + json.dumps(event).encode() + b"\n\n" for event in events]


def choice(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"id": "x", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def completion(arguments: str = '{"summary": "done"}') -> dict[str, Any]:
    function = {"name": "finish_task", "arguments": arguments}
    return choice({"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": function}]})


TEXT = sse(choice({"role": "assistant", "content": "It is 8080."}))
WHOLE = [*TEXT, *sse(choice({}, "stop")), b"data: [DONE]\n\n"]
FAILED = {"type": "response.failed", "response": {"status": "failed", "error": {"message": "out of order"}}}
BLOCK = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
STREAMS: dict[str, tuple[str, list[bytes]]] = {
    "whole, without usage": ("/v1/chat/completions", WHOLE),
    "cut at a completion": ("/v1/chat/completions", sse(completion(), choice({"content": "more"}), choice({}, "stop"))),
    "cut as it repeats itself": ("/v1/chat/completions", sse(*[choice({"content": "again and again. "})] * 400)),
    "broken off after a text": ("/v1/chat/completions", TEXT),
    "broken off before anything": ("/v1/chat/completions", []),
    "an error in the stream": ("/v1/chat/completions", [*TEXT, *sse({"error": {"message": "overloaded"}})]),
    "nonsense": ("/v1/chat/completions", [b"data: {{{\n\n"]),
    "a usage that cannot be": (
        "/v1/chat/completions",
        [*WHOLE[:-1], *sse({"choices": [], "usage": {"prompt_tokens": -5, "completion_tokens": 1.5}}), WHOLE[-1]],
    ),
    "messages, broken off": ("/v1/messages", sse({"type": "message_start", "message": {"id": "m"}}, BLOCK)),
    "responses, failed": ("/v1/responses", sse(FAILED)),
    "contents, broken off": (GEMINI, sse({"candidates": [PART]})),
    "contents, failed": (GEMINI, sse({"candidates": [PART]}, {"error": {"code": 503, "message": "overloaded"}})),
}


class Counted:
    """A proxy with a budget, and what it has counted."""

    def __init__(self, url: str, client: aiohttp.ClientSession, store: BudgetStore, statistics: Statistics) -> None:
        self.url = url
        self._client = client
        self._store = store
        self._statistics = statistics

    async def send(self, path: str, body: dict[str, Any], **options: Any) -> int:
        """Send a request and read what comes. Returns the status."""
        data = json.dumps(body).encode()
        if "headers" in options:
            data = gzip.compress(data)
        try:
            async with self._client.post(self.url + path, data=data, **options) as reply:
                await reply.read()
                return reply.status
        except aiohttp.ClientError:
            return 0

    @property
    def usage(self) -> Usage:
        """What the budget has spent. The metrics have counted the same."""
        spent, counted = self._store.spent(DAY, EVERYBODY), self._statistics.total.usage
        assert (spent.input_tokens, spent.output_tokens) == (counted.input_tokens, counted.output_tokens)
        return spent


@asynccontextmanager
async def counted(handler: Callable[[web.Request], Any], upstream: str = "") -> AsyncIterator[Counted]:
    store, statistics = BudgetStore(), Statistics()
    budgets = DayBudgets({"input_tokens": 1e9}, {}, Prices(), lambda: DAY, store)
    followers = RunFollowers(policy=POLICIES["agent"], prices=Prices(), completion=("finish_task",))
    async with (
        serving(handler) as provider,
        aiohttp.ClientSession() as client,
        proxy_before(upstream or provider, followers, budgets=budgets, statistics=statistics) as (url, _),
    ):
        yield Counted(url, client, store, statistics)


def streaming(pieces: list[bytes], *, breaks: bool) -> Callable[[web.Request], Any]:
    """A provider that streams these pieces. breaks: and then breaks the connection."""

    async def handle(request: web.Request) -> web.StreamResponse:
        await request.read()
        reply = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await reply.prepare(request)
        for piece in pieces:
            await reply.write(piece)
        if breaks and request.transport is not None:
            request.transport.abort()
        return reply

    return handle


def replying(status: int, body: Any = None) -> Callable[[web.Request], Any]:
    async def handle(request: web.Request) -> web.StreamResponse:
        await request.read()
        return web.json_response(body or {"error": {"message": "no"}}, status=status)

    return handle


def tokens(body: dict[str, Any]) -> int:
    """A quarter of the bytes of a request."""
    return len(json.dumps(body).encode()) // 4


@pytest.mark.parametrize("name", STREAMS)
async def test_a_stream_that_reports_no_usage_counts_at_least_its_request(name: str) -> None:
    path, pieces = STREAMS[name]
    body = {**REQUESTS[path], "stream": True}
    async with counted(streaming(pieces, breaks="broken" in name)) as proxy:
        await proxy.send(path, body)
        assert tokens(body) <= proxy.usage.input_tokens <= 1.01 * tokens(body)


async def test_output_that_was_seen_counts_too() -> None:
    for breaks, text in ((True, "".join(f"{number**5:x} " for number in range(2_000))), (False, "again. " * 4_000)):
        async with counted(streaming(sse(choice({"content": text})), breaks=breaks)) as proxy:
            await proxy.send("/v1/chat/completions", {**CHAT, "stream": True})
            assert proxy.usage.output_tokens > 2_000


@pytest.mark.parametrize("path", REQUESTS)
async def test_a_whole_response_without_usage_counts_at_least_its_request(path: str) -> None:
    fields = {
        "id": "x",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "8080"}, "finish_reason": "stop"}],
        "content": [{"type": "text", "text": "8080"}],
        "stop_reason": "end_turn",
        "status": "completed",
        "output": [],
    }
    async with counted(replying(200, fields)) as proxy:
        assert await proxy.send(path, REQUESTS[path]) == 200
        assert proxy.usage.input_tokens >= tokens(REQUESTS[path])


async def test_a_report_that_is_sane_counts_as_reported() -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 3}
    async with counted(
        streaming([*WHOLE[:-1], *sse({"choices": [], "usage": usage}), WHOLE[-1]], breaks=False)
    ) as proxy:
        await proxy.send("/v1/chat/completions", {**CHAT, "stream": True})
        assert proxy.usage == Usage(input_tokens=9, output_tokens=3, cost_usd=0.0)


async def test_input_that_was_reported_before_a_cut_counts_as_reported() -> None:
    start = {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 9, "output_tokens": 1}}}
    call = {"type": "tool_use", "id": "t", "name": "finish_task", "input": {}}
    events = [
        start,
        {"type": "content_block_start", "index": 0, "content_block": call},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "input_json_delta", "partial_json": '{"summary":"x"}'},
        },
        {"type": "content_block_stop", "index": 0},
    ]
    async with counted(streaming(sse(*events), breaks=False)) as proxy:
        await proxy.send("/v1/messages", {**MESSAGES, "stream": True})
        assert proxy.usage.input_tokens == 9


@pytest.mark.parametrize("status", [500, 502, 504])
async def test_a_request_that_the_provider_failed_at_counts(status: int) -> None:
    async with counted(replying(status)) as proxy:
        assert await proxy.send("/v1/chat/completions", CHAT) == status
        assert proxy.usage.input_tokens >= tokens(CHAT)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429])
async def test_a_request_that_was_refused_counts_nothing_so_nobody_spends_with_a_wrong_key(status: int) -> None:
    async with counted(replying(status)) as proxy:
        for body in (CHAT, {**CHAT, "n": 2}):
            assert await proxy.send("/v1/chat/completions", body) == status
        assert proxy.usage.input_tokens == 0


async def test_a_request_that_did_not_reach_the_provider_counts_nothing() -> None:
    async with counted(replying(200), upstream="http://127.0.0.1:9") as proxy:
        for body in (CHAT, {**CHAT, "n": 2}):
            assert await proxy.send("/v1/chat/completions", body) == 502
        assert proxy.usage.input_tokens == 0


@pytest.mark.parametrize("how", ["several choices", "an encoding"])
async def test_a_request_that_is_not_followed_counts_and_is_refused_when_the_budget_is_spent(how: str) -> None:
    encoded = {"headers": {"content-encoding": "gzip"}} if how == "an encoding" else {}
    body = CHAT if encoded else {**CHAT, "n": 2}
    size = tokens(body)
    async with counted(streaming(WHOLE, breaks=False)) as proxy:
        assert await proxy.send("/v1/chat/completions", body, **encoded) == 200
        assert abs(proxy.usage.input_tokens - size) <= 5
        proxy._store._used[(DAY, (EVERYBODY,))] = Usage(input_tokens=10**9)
        assert await proxy.send("/v1/chat/completions", body, **encoded) == 400


@pytest.mark.parametrize(
    ("path", "output"),
    [
        ("/v1/embeddings", 0),
        ("/v1/completions", 500),
        ("/v1beta/models/gemini-3:generateContent", 500),
        ("/v1beta/models/gemini-3:streamGenerateContent", 500),
        ("/model/some.model-v1/invoke", 500),
        ("/v1/chat/completions/", 500),
    ],
)
async def test_what_a_model_works_on_counts_on_every_path(path: str, output: int) -> None:
    body = {"input": "x" * 4_000} if "/model" in path else {"model": "m", "n": 2, "input": "x" * 4_000}
    async with counted(replying(200, {"data": []})) as proxy:
        assert await proxy.send(path, body) == 200
        assert (proxy.usage.input_tokens, proxy.usage.output_tokens) == (tokens(body), output)
        proxy._store._used[(DAY, (EVERYBODY,))] = Usage(input_tokens=10**9)
        assert await proxy.send(path, body) == 400


@pytest.mark.parametrize("path", ["/v1/messages/count_tokens", "/v1/responses/input_tokens", "/v1/files"])
async def test_what_no_model_works_on_is_not_counted(path: str) -> None:
    body = {"purpose": "x" * 4_000} if path == "/v1/files" else {"model": "m", "input": "x" * 4_000}
    async with counted(replying(200, {"data": []})) as proxy:
        assert await proxy.send(path, body) == 200
        assert proxy.usage.input_tokens == 0


async def test_a_request_that_a_budget_cannot_unpack_is_refused() -> None:
    async with counted(replying(200, {"data": []})) as proxy:
        for encoding in ("br", "deflate", "gzip, gzip"):
            assert await proxy.send("/v1/chat/completions", CHAT, headers={"content-encoding": encoding}) == 415
            assert proxy.usage.input_tokens == 0


async def test_an_input_of_no_tokens_counts_as_not_reported() -> None:
    report = {"choices": [], "usage": {"prompt_tokens": 0, "completion_tokens": 0}}
    async with counted(streaming([*WHOLE[:-1], *sse(report), WHOLE[-1]], breaks=False)) as proxy:
        body = {**CHAT, "stream": True}
        assert await proxy.send("/v1/chat/completions", body) == 200
        assert abs(proxy.usage.input_tokens - tokens(body)) <= 5

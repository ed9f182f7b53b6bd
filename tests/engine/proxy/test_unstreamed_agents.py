"""Agents that do not stream: the provider is asked for a stream, which is cut, and they get a whole response."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from endstop import read_record
from endstop.follow import Follower

from .agents import Provider, proxied, run_agent, tool
from .test_response_assemblers import framed
from .test_wires import SUMMARY, AnthropicProvider, ResponsesProvider, VendorProvider, run_anthropic, run_responses

PATIENCE = 30.0
GO = {"model": "m", "messages": [{"role": "user", "content": "go"}], "tools": [tool("work"), tool("finish_task")]}


class ChatProvider(VendorProvider):
    """Speaks OpenAI's chat completions."""

    def results(self, body: dict[str, Any]) -> int:
        return sum(message["role"] == "tool" for message in body["messages"])

    def whole(self, call: tuple[str, str, str]) -> dict[str, Any]:
        function = {"name": call[1], "arguments": call[2]}
        message = {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": call[0], "type": "function", "function": function}],
        }
        head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m"}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "tool_calls"}
        return {**head, "choices": [choice], "usage": {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}}

    def events(self, call: tuple[str, str, str]) -> tuple[list[dict[str, Any]], dict[str, Any], list[dict[str, Any]]]:
        def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
            head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
            return {**head, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]}

        function = {"name": call[1], "arguments": ""}
        begin = [
            chunk({"role": "assistant", "content": None}),
            chunk({"tool_calls": [{"index": 0, "id": call[0], "type": "function", "function": function}]}),
            *(
                chunk({"tool_calls": [{"index": 0, "function": {"arguments": part}}]})
                for part in (call[2][:6], call[2][6:])
            ),
        ]
        usage = {**chunk({}), "choices": [], "usage": self.whole(call)["usage"]}
        return begin, chunk({"content": "and on "}), [chunk({}, "tool_calls"), usage]


async def run_chat(
    url: str, *, streams: bool, names: tuple[str, ...] = ("work", "finish_task")
) -> tuple[int, int, str]:
    """An agent whose rule is "no calls: end". Returns requests, status, and what it ended with."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    async with aiohttp.ClientSession() as client:
        for number in range(1, 9):
            body = {"model": "m", "messages": messages, "stream": streams, "tools": list(map(tool, names))}
            async with client.post(f"{url}/v1/chat/completions", json=body) as reply:
                assert reply.content_type == "application/json"
                message = (await reply.json())["choices"][0]["message"]
            messages.append(message)
            if "tool_calls" not in message:
                return number, reply.status, message["content"]
            messages += [{"role": "tool", "tool_call_id": one["id"], "content": "ok"} for one in message["tool_calls"]]
    return 8, 200, "went on"


WIRES = [
    pytest.param(ChatProvider, run_chat, id="chat"),
    pytest.param(AnthropicProvider, run_anthropic, id="anthropic"),
    pytest.param(ResponsesProvider, run_responses, id="responses"),
]


def endless(provider: type[VendorProvider]) -> Any:
    """A provider whose response goes on for ever behind the call `finish_task`. left: set once it is left."""

    class Endless(provider):  # type: ignore[misc, valid-type]
        def __init__(self) -> None:
            super().__init__()
            self.left = asyncio.Event()

        async def handle(self, request: web.Request) -> web.StreamResponse:
            body = await request.json()
            self.requests.append(body)
            call = self.call(self.results(body))
            begin, more, end = self.events(call)
            reply = web.StreamResponse(headers={"content-type": "text/event-stream"})
            await reply.prepare(request)
            await reply.write(framed(begin))
            if call[1] != "finish_task":
                await reply.write(framed(end))
                return reply
            try:
                with suppress(ConnectionError):
                    while True:
                        await reply.write(framed([more]))
                        await asyncio.sleep(0)
            finally:
                self.left.set()
            return reply

    return Endless()


@pytest.mark.parametrize(("provider", "run"), WIRES)
async def test_a_response_is_cut_at_the_completion_call(
    provider: type[VendorProvider], run: Any, tmp_path: Path
) -> None:
    vendor = endless(provider)
    async with proxied(vendor, tmp_path) as (url, _, proxy):
        async with asyncio.timeout(PATIENCE):
            assert await run(url, streams=False) == (4, 200, SUMMARY)
            await vendor.left.wait()
        assert proxy.statistics.total.cuts == {"completion": 1}
    assert [body["stream"] for body in vendor.requests] == [True] * 3
    (record,) = tmp_path.rglob("*.jsonl")
    (ended,) = read_record(record).runs
    assert ended.finished is not None
    assert (ended.finished.outcome.status, ended.finished.outcome.steps) == ("completed", 3)


@pytest.mark.parametrize(("provider", "run"), WIRES)
async def test_an_offered_completion_is_cut_and_never_seen(
    provider: type[VendorProvider], run: Any, tmp_path: Path
) -> None:
    vendor = endless(provider)
    async with proxied(vendor, tmp_path, offer_completion=True) as (url, _, _):
        async with asyncio.timeout(PATIENCE):
            assert await run(url, streams=False, names=("work",)) == (3, 200, SUMMARY)
            await vendor.left.wait()


REQUESTS: dict[type[VendorProvider], tuple[str, dict[str, Any]]] = {
    ChatProvider: ("chat/completions", GO),
    AnthropicProvider: (
        "messages",
        {
            "model": "m",
            "max_tokens": 9,
            "messages": GO["messages"],
            "tools": [{"name": "finish_task", "input_schema": {"type": "object"}}],
        },
    ),
    ResponsesProvider: (
        "responses",
        {
            "model": "m",
            "input": GO["messages"],
            "tools": [{"type": "function", "name": "finish_task", "parameters": {}}],
        },
    ),
}


@pytest.mark.parametrize("provider", REQUESTS)
async def test_a_response_that_is_not_cut_is_the_one_without_a_stream(
    provider: type[VendorProvider], tmp_path: Path
) -> None:
    path, body = REQUESTS[provider]
    async with (
        proxied(provider(), tmp_path) as (url, client, _),
        client.post(f"{url}/v1/{path}", json=body) as reply,
    ):
        assert (reply.status, reply.content_type) == (200, "application/json")
        assert reply.headers["x-endstop"] == "assembled"
        through = await reply.json()
    plain = provider()
    async with (
        proxied(plain, tmp_path, stream_upstream=False) as (url, client, _),
        client.post(f"{url}/v1/{path}", json=body) as reply,
    ):
        assert "x-endstop" not in reply.headers
        whole = await reply.json()
    if provider is AnthropicProvider:  # its streams have an empty text more, and more tokens
        whole["usage"]["output_tokens"] = 60
        whole["content"].append({"type": "text", "text": ""})
    assert through == whole
    assert plain.requests == [body]


async def test_the_usage_of_a_cut_response_is_estimated_as_in_a_stream(tmp_path: Path) -> None:
    vendor = endless(ChatProvider)
    vendor.call = lambda results: ("c1", "finish_task", json.dumps({"summary": SUMMARY}))
    async with proxied(vendor, tmp_path) as (url, client, proxy):
        async with client.post(f"{url}/v1/chat/completions", json=GO) as reply:
            assert reply.headers["x-endstop"] == "cut"
            response = await reply.json()
        assert proxy.statistics.total.estimated_tokens == response["usage"]["total_tokens"] > 0
    (choice,) = response["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert [call["function"]["name"] for call in choice["message"]["tool_calls"]] == ["finish_task"]
    assert (response["object"], response["id"]) == ("chat.completion", "chatcmpl-1")
    assert vendor.requests[0]["stream_options"] == {"include_usage": True}


# ---- what stays as it is


class Plain:
    """Keeps the bytes of what it is asked, and sends the same response. requests: bodies as they came."""

    BODY = json.dumps({"id": "x", "choices": [{"index": 0, "message": {"content": "hi"}}], "n": 1e3}).encode() + b" \n"

    def __init__(self) -> None:
        self.requests: list[bytes] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(await request.read())
        return web.Response(body=self.BODY, content_type="application/json")


@pytest.mark.parametrize(
    ("fields", "options"),
    [
        ({"tools": [tool("work")]}, {}),
        ({"tools": []}, {}),
        ({"tool_choice": "none"}, {}),
        ({"tool_choice": {"type": "function", "function": {"name": "work"}}}, {}),
        ({"audio": {"voice": "a", "format": "wav"}}, {}),
        ({"n": 2}, {}),
        ({}, {"stream_upstream": False}),
        ({}, {"dry_run": True}),
    ],
)
async def test_where_nothing_could_be_cut_both_bodies_are_untouched(
    fields: dict[str, Any], options: dict[str, Any], tmp_path: Path
) -> None:
    sent = json.dumps({**GO, **fields}, indent=1).encode()
    provider = Plain()
    async with proxied(provider, tmp_path, **options) as (url, client, _):
        headers = {"content-type": "application/json"}
        async with client.post(f"{url}/v1/chat/completions", data=sent, headers=headers) as reply:
            assert await reply.read() == Plain.BODY
            assert "x-endstop" not in reply.headers
    assert provider.requests == [sent]


async def test_a_request_for_a_stream_is_the_agents_but_for_that(tmp_path: Path) -> None:
    provider = Plain()
    odd = b'{"model": "m", "big": 123456789012345678901234567890, "f": 1.0e-7, ' + json.dumps(GO).encode()[1:]
    async with (
        proxied(provider, tmp_path) as (url, client, _),
        client.post(f"{url}/v1/chat/completions", data=odd) as reply,
    ):
        assert await reply.read() == Plain.BODY
    (sent,) = provider.requests
    assert b'"big":123456789012345678901234567890,"f":1.0e-7,' in sent
    assert json.loads(sent) == {**json.loads(odd), "stream": True, "stream_options": {"include_usage": True}}


async def test_a_model_that_answers_whole_is_asked_for_no_stream_again(tmp_path: Path) -> None:
    provider = Plain()
    sent = json.dumps(GO).encode()
    async with proxied(provider, tmp_path) as (url, client, _):
        for _ in range(2):
            async with client.post(f"{url}/v1/chat/completions", data=sent) as reply:
                assert await reply.read() == Plain.BODY
        other = json.dumps({**GO, "model": "another"}).encode()
        async with client.post(f"{url}/v1/chat/completions", data=other) as reply:
            assert await reply.read() == Plain.BODY
    assert [b'"stream":true' in one for one in provider.requests] == [True, False, True]


class Refuses(Provider):
    """Says no to a stream, or to everything. refusal: status and message."""

    def __init__(self, status: int, message: str, *, always: bool = False) -> None:
        super().__init__()
        self.refusal, self.always = (status, message), always
        self.asked: list[bool] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        streams = bool((await request.json()).get("stream"))
        self.asked.append(streams)
        if streams or self.always:
            return web.json_response({"error": {"message": self.refusal[1]}}, status=self.refusal[0])
        return await super().handle(request)


async def test_a_model_that_refuses_to_stream_is_asked_without_and_remembered(tmp_path: Path) -> None:
    provider = Refuses(400, "Unsupported value: 'stream' does not support true with this model.")
    async with proxied(provider, tmp_path) as (url, client, _):
        assert await run_agent(url, client, streams=False) == (4, 200, "port is 8080", "answered")
    assert provider.asked == [True, False, False, False]


@pytest.mark.parametrize(
    ("status", "message", "asked"),
    [
        (400, "the messages are too long", [True, True]),
        (400, "messages[3]: the stream of words is too long", [True, False, True, False]),
        (503, "the stream is overloaded", [True, True]),
    ],
)
async def test_an_error_that_is_not_about_streams_is_passed_on_and_not_remembered(
    status: int, message: str, asked: list[bool], tmp_path: Path
) -> None:
    provider = Refuses(status, message, always=True)
    async with proxied(provider, tmp_path) as (url, client, _):
        for _ in range(2):
            async with client.post(f"{url}/v1/chat/completions", json=GO) as reply:
                assert reply.status == status
                assert await reply.json() == {"error": {"message": message}}
    assert provider.asked == asked


# ---- what goes wrong


class Sends:
    """Sends these bytes as a stream, and breaks off if it should. requests: whether each asked for a stream."""

    def __init__(self, body: bytes, *, breaks: bool = False) -> None:
        self.body, self.breaks = body, breaks
        self.asked: list[bool] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        streams = bool((await request.json()).get("stream"))
        self.asked.append(streams)
        if not streams:
            return web.Response(body=Plain.BODY, content_type="application/json")
        reply = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await reply.prepare(request)
        await reply.write(self.body)
        if self.breaks and request.transport is not None:
            request.transport.abort()
        return reply


BEGUN = framed(ChatProvider().events(("c1", "work", '{"n": 1}'))[0][:3])


async def post(url: str, client: aiohttp.ClientSession) -> tuple[int, Any, Any]:
    async with client.post(f"{url}/v1/chat/completions", json=GO) as reply:
        return reply.status, await reply.json(), reply.headers.get("x-endstop")


@pytest.mark.parametrize("breaks", [True, False])
async def test_a_response_that_breaks_off_is_an_error_that_clients_retry(breaks: bool, tmp_path: Path) -> None:
    provider = Sends(BEGUN, breaks=breaks)
    async with proxied(provider, tmp_path) as (url, client, proxy):
        for _ in range(2):
            status, _, mark = await post(url, client)
            assert (status, mark) == (502, "error")
        assert len(proxy.runs) == 1  # the second is another attempt at the same step
    assert provider.asked == [True, True]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ({"message": "slow down", "type": "rate_limit_error", "code": "rate_limit_exceeded"}, 429),
        ({"message": "The server had an error", "type": "server_error"}, 502),
        ({"message": "no such thing", "type": "invalid_request_error"}, 400),
    ],
)
async def test_an_error_in_the_stream_is_an_error_of_http(error: dict[str, Any], status: int, tmp_path: Path) -> None:
    provider = Sends(BEGUN + framed([{"error": error}]))
    async with proxied(provider, tmp_path) as (url, client, _):
        assert await post(url, client) == (status, {"error": error}, None)


@pytest.mark.parametrize("body", [b"data: no json\n\n", b"no stream at all, but text", framed([{"hello": 1}])])
async def test_a_stream_that_cannot_be_put_together_is_asked_for_without_one(body: bytes, tmp_path: Path) -> None:
    provider = Sends(body)
    async with proxied(provider, tmp_path) as (url, client, _):
        for _ in range(2):
            status, response, mark = await post(url, client)
            assert (status, response, mark) == (200, json.loads(Plain.BODY), None)
    assert provider.asked == [True, False, False]


async def test_a_call_that_was_cut_off_is_asked_for_once_more_and_the_next_response_streams(tmp_path: Path) -> None:
    path, body = REQUESTS[AnthropicProvider]
    begin, _, end = AnthropicProvider().events(("c1", "work", '{"text": "and so"}'))
    provider = Sends(framed([*begin, *end]).replace(b'and so\\"}', b"and so"))
    async with proxied(provider, tmp_path) as (url, client, _):
        for _ in range(2):
            async with client.post(f"{url}/v1/{path}", json=body) as reply:
                assert (reply.status, await reply.read()) == (200, Plain.BODY)
    assert provider.asked == [True, False, True, False]


async def test_a_follower_that_fails_in_the_middle_leaves_the_response_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(Follower, "chunk", fail)
    async with proxied(ChatProvider(), tmp_path) as (url, client, _):
        status, response, mark = await post(url, client)
    provider = ChatProvider()
    provider.requests.append({})
    assert (status, response, mark) == (200, provider.whole(provider.call(0)), "assembled")


async def test_a_response_that_repeats_itself_is_cut_with_an_error_that_is_not_retried(tmp_path: Path) -> None:
    vendor = endless(ChatProvider)
    repeats: Callable[..., Any] = lambda call: ([vendor_more], vendor_more, [])  # noqa: E731
    vendor_more = ChatProvider().events(("c", "work", "{}"))[1]
    vendor.events, vendor.call = repeats, lambda results: ("c", "finish_task", "")
    async with proxied(vendor, tmp_path) as (url, client, proxy):
        async with asyncio.timeout(PATIENCE):
            status, response, mark = await post(url, client)
            await vendor.left.wait()
        assert (status, response["error"]["code"], mark) == (400, "endstop_repetition", "stopped")
        assert proxy.statistics.total.cuts == {"repetition": 1}


async def test_the_provider_is_left_when_the_agent_leaves_before_it_has_the_response(tmp_path: Path) -> None:
    vendor = endless(ChatProvider)
    started = asyncio.Event()
    text = ChatProvider().events(("c", "work", "{}"))[1]

    def begin(call: Any) -> Any:
        started.set()
        return [], {**text, "choices": []}, []  # nothing that would be cut

    vendor.events, vendor.call = begin, lambda results: ("c", "finish_task", "")
    async with proxied(vendor, tmp_path) as (url, client, proxy):
        asking = asyncio.create_task(post(url, client))
        async with asyncio.timeout(PATIENCE):
            await started.wait()
            asking.cancel()
            await vendor.left.wait()
            await proxy.idle()
    (record,) = tmp_path.rglob("*.jsonl")
    assert "the agent left before the response was whole" in record.read_text(encoding="utf-8")

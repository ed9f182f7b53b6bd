"""The proxy before a provider that never stops, with agents that resend their history, over real HTTP on loopback."""

from __future__ import annotations

import asyncio
import gzip
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from endstop import read_record
from endstop.decision import POLICIES, Facts, Policy, Rule
from endstop.decision.events import ResponseFinished
from endstop.follow import Follower
from endstop.process.tokens import Tokens
from endstop.providers.prices import Prices
from endstop.proxy import Proxy, ProxyOptions
from endstop.proxy.exchange import LARGEST_FOLLOWED
from endstop.proxy.proxy_server import RunFollowers, proxy_runner
from endstop.records.recorder import RecordWriter
from endstop.testing import FakeClock
from msgspec.structs import replace
from yarl import URL

from .agents import AFTER, Provider, listening, proxied, proxy_before, run_agent, said, serving, tool
from .raw_http import raw_request

FOLLOWERS = RunFollowers(policy=POLICIES["agent"], prices=Prices(), completion=("finish_task",))
PATIENCE = 30.0


@pytest.mark.parametrize("streams", [True, False])
async def test_a_run_ends_with_its_completion_and_the_provider_hears_no_more(streams: bool, tmp_path: Path) -> None:
    provider = Provider()
    async with proxied(provider, tmp_path) as (url, client, _):
        ended = await run_agent(url, client, streams=streams)
    assert ended == (4, 200, "port is 8080", "answered")
    assert len(provider.requests) == 3
    (record,) = tmp_path.rglob("*.jsonl")
    (run,) = read_record(record).runs
    assert run.finished is not None
    assert (run.finished.outcome.status, run.finished.outcome.steps) == ("completed", 3)
    assert "sk-1" not in record.read_text(encoding="utf-8")


@pytest.mark.parametrize("streams", [True, False])
async def test_a_circle_ends_with_an_error_that_is_not_retried(streams: bool, tmp_path: Path) -> None:
    provider = Provider(same=True)
    async with proxied(provider, tmp_path) as (url, client, _):
        assert await run_agent(url, client, streams=streams) == (7, 400, "endstop_stuck", "stopped")
    assert len(provider.requests) == 6


async def test_a_stop_can_be_a_text_that_says_so(tmp_path: Path) -> None:
    async with proxied(Provider(same=True), tmp_path, on_stop="text") as (url, client, _):
        requests, status, text, mark = await run_agent(url, client, streams=True)
    assert (requests, status, mark) == (7, 200, "stopped")
    assert text.startswith("[endstop stopped this run: the call ")


async def test_a_dry_run_changes_nothing_and_says_what_it_would_do(tmp_path: Path) -> None:
    provider = Provider()
    async with proxied(provider, tmp_path, dry_run=True) as (url, client, _):
        assert await run_agent(url, client, streams=True, most=6) == (6, 200, "went on", None)
    assert len(provider.requests) == 6
    assert provider.sent_after >= AFTER


async def test_agents_with_the_same_first_message_are_two_runs(tmp_path: Path) -> None:
    async with proxied(Provider(), tmp_path) as (url, client, proxy):
        first = await run_agent(url, client, streams=True)
        second = await run_agent(url, client, streams=True)
        assert first == second
        assert len(proxy.runs) == 2
    assert len(list(tmp_path.rglob("*.jsonl"))) == 2


async def test_a_run_is_idle_from_the_end_of_its_response_on(tmp_path: Path) -> None:
    clock = FakeClock()

    class Slow(Provider):
        async def handle(self, request: web.Request) -> web.StreamResponse:
            await clock.advance(50)  # longer than a run may be idle
            return await super().handle(request)

    provider = Slow()
    async with serving(provider.handle) as upstream, aiohttp.ClientSession() as client:
        proxy = Proxy(ProxyOptions(upstream=upstream, idle_seconds=40), FOLLOWERS.open, clock)
        await proxy.open()
        async with listening(proxy_runner(proxy)) as url:
            assert await run_agent(url, client, streams=True) == (4, 200, "port is 8080", "answered")
            assert len(proxy.runs) == 1
            await clock.advance(41)
            async with client.post(f"{url}/v1/embeddings") as reply:
                assert reply.status == 200
            assert len(proxy.runs) == 0
        await proxy.close()


async def test_what_is_not_understood_is_passed_through(tmp_path: Path) -> None:
    async with proxied(Provider(), tmp_path) as (url, client, proxy):
        async with client.get(URL(f"{url}/v1/models?a=%2F", encoded=True)) as reply:
            assert reply.headers["x-seen"] == "/v1/models?a=%2F"
        async with client.post(f"{url}/v1/embeddings", data=b"\x00\x01") as reply:
            assert await reply.read() == b"\x00\x01"
        async with client.post(f"{url}/v1/chat/completions", data=b"no json") as reply:
            assert reply.status == 500  # what the provider made of it
        assert len(proxy.runs) == 0


async def test_a_response_that_cannot_be_followed_is_passed_on_and_the_next_request_tells_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Follower, "chunk", fail)
    provider = Provider()
    async with proxied(provider, tmp_path) as (url, client, _):
        assert await run_agent(url, client, streams=True) == (4, 200, "port is 8080", "answered")
    assert provider.sent_after == AFTER


async def test_a_follower_that_fails_lets_the_agent_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Follower, "messages", fail)
    monkeypatch.setattr(Follower, "prompt", fail)
    provider = Provider()
    async with proxied(provider, tmp_path) as (url, client, _):
        assert await run_agent(url, client, streams=True, most=6) == (6, 200, "went on", None)
    assert len(provider.requests) == 6


def fail(*_: Any, **__: Any) -> None:
    raise RuntimeError("broken")


async def test_a_provider_that_is_down_is_said() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "go"}]}
    async with (
        proxy_before("http://127.0.0.1:9", FOLLOWERS) as (url, _),
        aiohttp.ClientSession() as client,
        client.post(f"{url}/v1/chat/completions", json=body) as reply,
    ):
        assert reply.status == 502
        assert "Cannot connect" in (await reply.json())["error"]["message"]


class FailsFirst(Provider):
    """Refuses each second request."""

    times = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.times += 1
        if self.times % 2:
            return web.json_response({"error": {"message": "overloaded"}}, status=503)
        return await super().handle(request)


async def test_an_agent_that_tries_again_goes_on_in_the_same_run(tmp_path: Path) -> None:
    provider = FailsFirst()
    async with proxied(provider, tmp_path) as (url, client, proxy):
        messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
        statuses = []
        while len(statuses) < 10:
            body = {"model": "m", "messages": messages, "stream": True, "tools": [tool("work"), tool("finish_task")]}
            async with client.post(f"{url}/v1/chat/completions", json=body) as reply:
                statuses.append(reply.status)
                if reply.status != 200:
                    continue
                message = await said(reply, True)
            messages.append(message)
            if "tool_calls" not in message:
                break
            messages += [{"role": "tool", "tool_call_id": one["id"], "content": "ok"} for one in message["tool_calls"]]
        assert len(proxy.runs) == 1
    assert message["content"] == "port is 8080"
    assert statuses == [503, 200, 503, 200, 503, 200, 200]
    (record,) = tmp_path.rglob("*.jsonl")
    (run,) = read_record(record).runs
    assert run.finished is not None
    assert (run.finished.outcome.status, run.finished.outcome.steps) == ("completed", 3)


PREFILLED = {"role": "assistant", "content": "The port is"}
UNKNOWN = {"role": "user", "content": "ERROR! Your patch is empty."}
KNOWN = {"role": "user", "content": "Your output was not formatted correctly."}


@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize(
    ("more", "mark"),
    [([UNKNOWN], None), ([], "answered"), ([KNOWN], "answered")],
    ids=["another prompt", "nothing", "words of a loop"],
)
async def test_an_agent_that_goes_on_after_its_completion_is_answered(
    more: list[dict[str, Any]], mark: str | None, streams: bool, tmp_path: Path
) -> None:
    """The first request after the completion may be answered here. What follows goes to the provider."""
    provider = Provider()
    async with proxied(provider, tmp_path) as (url, client, _):
        messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
        marks, statuses = [], []
        for number in range(8):
            body = {"model": "m", "messages": messages, "stream": streams, "tools": [tool("work"), tool("finish_task")]}
            async with client.post(f"{url}/v1/chat/completions", json=body) as reply:
                statuses.append(reply.status)
                marks.append(reply.headers.get("x-endstop"))
                message = await said(reply, streams)
            messages.append(message)
            calls = message.get("tool_calls", [])
            messages += [{"role": "tool", "tool_call_id": call["id"], "content": "ok"} for call in calls]
            if number == 2:
                assert calls[0]["function"]["name"] == "finish_task"
                messages += more
            elif not calls:
                messages.append(KNOWN if number % 2 else UNKNOWN)
    assert statuses == [200] * 8
    assert marks[3] == (mark if mark or streams else "cut")
    assert len(provider.requests) >= 5


async def test_a_text_at_the_end_of_a_first_request_ends_nothing(tmp_path: Path) -> None:
    """Some agents begin the model's response for it, and some resend a history in which they went on after texts."""
    provider = Provider()
    announced = {"role": "assistant", "content": "I will now run the tests."}
    call = {"id": "c1", "type": "function", "function": {"name": "work", "arguments": "{}"}}
    worked = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "ok"},
    ]
    async with proxied(provider, tmp_path) as (url, client, _):
        for history in ([PREFILLED], [*worked, announced, KNOWN, announced, KNOWN], [*worked, PREFILLED, KNOWN]):
            messages = [{"role": "user", "content": "go"}, *history]
            body = {"model": "m", "messages": messages, "tools": [tool("work"), tool("finish_task")]}
            async with client.post(f"{url}/v1/chat/completions", json=body) as reply:
                assert (reply.status, reply.headers["x-endstop"]) == (200, "assembled")
    assert len(provider.requests) == 3


@pytest.mark.parametrize("header", [{}, {"x-endstop-session": "mine"}])
async def test_a_stopped_request_that_is_sent_again_is_stopped_again(header: dict[str, str], tmp_path: Path) -> None:
    provider = Provider(same=True)
    async with proxied(provider, tmp_path) as (url, client, _):
        client.headers.update(header)
        await run_agent(url, client, streams=True)
        again = {"model": "m", "messages": circle(provider), "tools": [tool("work"), tool("finish_task")]}
        async with client.post(f"{url}/v1/chat/completions", json=again) as reply:
            assert reply.status == 404
    assert len(provider.requests) == 6


def circle(provider: Provider) -> list[dict[str, Any]]:
    """The messages with which the agent made its last request, which was stopped."""
    last = provider.requests[-1]["messages"]
    number = len(provider.requests)
    function = {"name": "work", "arguments": json.dumps({"n": 1})}
    call = {"id": f"c{number}", "type": "function", "function": function}
    asked = {"role": "assistant", "content": "", "tool_calls": [call]}
    return [*last, asked, {"role": "tool", "tool_call_id": call["id"], "content": "ok"}]


def choice(delta: dict[str, Any]) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "finish_reason": None if delta else "tool_calls"}


class SaysFirst:
    """Says something and completes, and calls `work` beside it if it is to."""

    def __init__(self, *, beside: bool) -> None:
        self.beside = beside
        self.requests: list[dict[str, Any]] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(await request.json())
        calls = [("work", "{}"), ("finish_task", '{"summary": "all done"}')][0 if self.beside else 1 :]
        pieces = [
            {"index": place, "id": f"c{place}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for place, (name, arguments) in enumerate(calls)
        ]
        deltas: list[dict[str, Any]] = [{"content": "I am done."}, *({"tool_calls": [piece]} for piece in pieces), {}]
        chunks = [{"id": "x", "model": "m", "choices": [choice(delta)]} for delta in deltas]
        reply = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await reply.prepare(request)
        body = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)
        for place in range(0, len(body), 11):
            await reply.write(body[place : place + 11])
        return reply


@pytest.mark.parametrize("beside", [True, False])
async def test_what_was_said_before_the_offered_tool_stays_and_other_calls_run(beside: bool, tmp_path: Path) -> None:
    provider = SaysFirst(beside=beside)
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    async with proxied(provider, tmp_path, offer_completion=True) as (url, client, _):
        body = {"model": "m", "messages": messages, "stream": True, "tools": [tool("work")]}
        async with client.post(f"{url}/v1/chat/completions", json=body) as reply:
            message = await said(reply, True)
        if not beside:
            assert message == {"role": "assistant", "content": "I am done.\n\nall done"}
            return
        assert message["content"] == "I am done."
        assert [call["function"]["name"] for call in message["tool_calls"]] == ["work"]
        messages += [message, {"role": "tool", "tool_call_id": "c0", "content": "ok"}]
        async with client.post(f"{url}/v1/chat/completions", json=body) as reply:
            assert (await said(reply, True))["content"] == "all done"
            assert reply.headers["x-endstop"] == "answered"
    assert len(provider.requests) == 1


async def test_nothing_is_offered_in_the_middle_of_a_conversation_or_without_tools(tmp_path: Path) -> None:
    provider = Provider()
    asked = {"role": "user", "content": "go"}
    answered = {"role": "assistant", "content": "hello"}
    async with proxied(provider, tmp_path, offer_completion=True) as (url, client, _):
        for body in (
            {"messages": [asked, answered, asked], "tools": [tool("work")]},
            {"messages": [asked]},
        ):
            async with client.post(f"{url}/v1/chat/completions", json={"model": "m", **body}) as reply:
                assert reply.status == 200
    assert [len(body.get("tools", [])) for body in provider.requests] == [1, 0]


class Endless:
    """Streams text for ever. closed: set when its reader has left."""

    def __init__(self) -> None:
        self.closed = asyncio.Event()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        await request.read()
        reply = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await reply.prepare(request)
        chunk = {"id": "x", "choices": [{"index": 0, "delta": {"content": "word "}}]}
        try:
            with suppress(ConnectionError):
                while True:
                    await reply.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
                    await asyncio.sleep(0)
        finally:
            self.closed.set()
        return reply


async def test_a_provider_is_left_as_soon_as_the_agent_has_left(tmp_path: Path) -> None:
    provider = Endless()
    async with proxied(provider, tmp_path) as (url, client, proxy):
        body = {"model": "m", "messages": [{"role": "user", "content": "go"}], "stream": True}
        reply = await client.post(f"{url}/v1/chat/completions", json=body)
        await reply.content.readany()
        reply.close()
        async with asyncio.timeout(PATIENCE):
            await provider.closed.wait()
            await proxy.idle()
    (record,) = tmp_path.rglob("*.jsonl")
    assert "the agent left in the middle of the response" in record.read_text(encoding="utf-8")


class HoldsOn(Provider):
    """Sends a response whole, and then does not end it."""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        await super().handle(request)
        await asyncio.Event().wait()
        raise AssertionError


async def test_a_response_whose_agent_leaves_at_its_last_mark_is_whole(tmp_path: Path) -> None:
    """OpenAI's client closes the connection once it has read `[DONE]`."""
    async with proxied(HoldsOn(), tmp_path) as (url, client, proxy):
        messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
        for number in range(2):
            body = {"model": "m", "messages": messages, "stream": True, "tools": [tool("work"), tool("finish_task")]}
            reply = await client.post(f"{url}/v1/chat/completions", json=body)
            while b"[DONE]" not in await reply.content.readline():
                pass
            reply.close()
            async with asyncio.timeout(PATIENCE):
                await proxy.idle()
            function = {"name": "work", "arguments": json.dumps({"n": number})}
            call = {"id": f"c{number + 1}", "type": "function", "function": function}
            result = {"role": "tool", "tool_call_id": call["id"], "content": "ok"}
            messages += [{"role": "assistant", "content": "", "tool_calls": [call]}, result]
        assert len(proxy.runs) == 1
    (record,) = tmp_path.rglob("*.jsonl")
    (run,) = read_record(record).runs
    assert run.finished is not None
    assert (run.finished.outcome.steps, run.finished.outcome.requests) == (2, 2)
    responses = [event.message.calls for event in run.events if isinstance(event, ResponseFinished)]
    assert [[call.name for call in calls] for calls in responses] == [["work"], ["work"]]


async def test_a_request_too_large_to_follow_is_passed_on_in_blocks(tmp_path: Path) -> None:
    seen = 0

    async def count(request: web.Request) -> web.Response:
        nonlocal seen
        async for block in request.content.iter_any():
            seen += len(block)
        return web.json_response({"length": request.headers.get("content-length")})

    class Counts(Provider):
        handle = staticmethod(count)  # type: ignore[assignment]

    async def blocks() -> Any:
        for _ in range(100):
            yield bytes(2**20)

    assert LARGEST_FOLLOWED < 100 * 2**20
    async with proxied(Counts(), tmp_path) as (url, client, proxy):
        async with client.post(f"{url}/v1/chat/completions", data=blocks()) as reply:
            assert reply.status == 200
        assert seen == 100 * 2**20
        assert len(proxy.runs) == 0


async def test_a_compressed_request_is_passed_on_as_it_is(tmp_path: Path) -> None:
    packed = gzip.compress(json.dumps({"messages": [{"role": "user", "content": "go"}]}).encode())

    async def echo(request: web.Request) -> web.Response:
        raw = await request.content.read()  # this server unpacks what it is sent
        return web.json_response({"encoding": request.headers["content-encoding"], "body": json.loads(raw)})

    class Echo(Provider):
        handle = staticmethod(echo)  # type: ignore[assignment]

    async with proxied(Echo(), tmp_path) as (url, client, _):
        headers = {"content-encoding": "gzip"}
        async with client.post(f"{url}/v1/chat/completions", data=packed, headers=headers) as reply:
            assert (await reply.json())["body"]["messages"][0]["content"] == "go"


@pytest.mark.parametrize("break_at", ["open", "write"])
async def test_agents_never_notice_that_records_cannot_be_written(
    break_at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(RecordWriter, {"open": "_open", "write": "_write_pending"}[break_at], full)
    provider = Provider()
    async with proxied(provider, tmp_path) as (url, client, _):
        assert await run_agent(url, client, streams=True) == (4, 200, "port is 8080", "answered")
    assert len(provider.requests) == 3


async def test_the_proxys_own_token_is_asked_for_and_never_passed_on(tmp_path: Path) -> None:
    provider = Provider()
    tokens = Tokens({"me": "own-token"})
    async with (
        serving(provider.handle) as upstream,
        aiohttp.ClientSession() as client,
        proxy_before(upstream, FOLLOWERS, tokens=tokens) as (url, _),
    ):
        key = {"authorization": "Bearer sk-1"}
        async with client.post(f"{url}/v1/embeddings", headers=key) as reply:
            assert reply.status == 401
            assert "x-endstop-token" in (await reply.json())["error"]["message"]
        async with client.post(f"{url}/v1/embeddings", headers={**key, "x-endstop-token": "own-token"}) as reply:
            assert reply.status == 200
    (seen,) = provider.headers
    names = {name.lower() for name in seen}
    assert "x-endstop-token" not in names
    assert seen["Authorization"] == "Bearer sk-1"


async def test_cookies_of_one_agent_are_not_sent_for_another(tmp_path: Path) -> None:
    seen = []

    async def handle(request: web.Request) -> web.Response:
        seen.append(request.headers.get("cookie"))
        reply = web.Response(headers={"set-cookie": "a=1"})
        reply.headers.add("set-cookie", "b=2")
        return reply

    class Cookies(Provider):
        async def handle(self, request: web.Request) -> web.StreamResponse:
            return await handle(request)

    async with proxied(Cookies(), tmp_path) as (url, _, _):
        for _ in range(2):
            async with aiohttp.ClientSession() as client, client.get(f"{url}/x") as reply:
                assert reply.headers.getall("set-cookie") == ["a=1", "b=2"]
    assert seen == [None, None]


async def test_what_is_no_request_for_a_provider_is_refused_with_a_sentence(tmp_path: Path) -> None:
    async with proxied(Provider(), tmp_path) as (url, _, _):
        for line in (b"GET http://elsewhere/x HTTP/1.1", b"GET @elsewhere/x HTTP/1.1"):
            answer = await raw_request(url, line + b"\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert b" 400 " in answer.splitlines()[0]
        upgrade = (
            b"GET /v1/realtime HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\n"
        )
        answer = await raw_request(url, upgrade + b"Sec-WebSocket-Key: a\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 501")


async def test_old_and_unusual_requests_get_what_the_provider_says(tmp_path: Path) -> None:
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "go"}], "stream": True}).encode()
    head = b"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n" % len(body)
    async with proxied(Provider(), tmp_path) as (url, client, _):
        answer = await raw_request(url, b"POST /chat/completions HTTP/1.0\r\n" + head + b"\r\n" + body)
        assert b" 200 " in answer.splitlines()[0]
        assert answer.endswith(b"data: [DONE]\n\n")
        waits = b"Expect: 100-continue\r\nConnection: close\r\n\r\n"
        answer = await raw_request(url, b"POST /chat/completions HTTP/1.1\r\n" + head + waits + body)
        assert answer.startswith(b"HTTP/1.1 100")
        assert b"data: [DONE]" in answer
        async with client.head(f"{url}/v1/models") as reply:
            assert (reply.status, reply.headers["x-seen"], await reply.read()) == (200, "/v1/models", b"")
        async with client.options(f"{url}/v1/models") as reply:
            assert reply.status == 200


async def test_a_proxy_before_itself_says_so() -> None:
    own: list[str] = []

    async def forward(request: web.Request) -> web.StreamResponse:
        headers = {"x-endstop-via": request.headers["x-endstop-via"]}
        async with aiohttp.ClientSession() as client, client.get(f"{own[0]}{request.path}", headers=headers) as reply:
            return web.Response(status=reply.status, body=await reply.read(), content_type="application/json")

    async with serving(forward) as between, proxy_before(between, FOLLOWERS) as (url, _):
        own.append(url)
        async with aiohttp.ClientSession() as client, client.get(f"{url}/v1/models") as reply:
            assert reply.status == 508
            assert "the proxy itself" in (await reply.json())["error"]["message"]


def raising_rule(steps: int) -> Rule:
    """A rule that raises once a run has this many steps."""

    def judge(facts: Facts, policy: Policy) -> None:
        if facts.steps >= steps:
            raise RuntimeError("broken")

    return Rule("rule", "raises", "Raises.", (), judge)


@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize("steps", [0, 1, 2])
async def test_a_policy_that_raises_in_the_middle_of_a_run_lets_it_go_on_and_is_said(
    steps: int, streams: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The run that begins anew behind it fails as well: each request says so, from the step on at which it is known."""
    rule = raising_rule(steps)
    policy = replace(POLICIES["agent"], rules=("raises", *POLICIES["agent"].rules))

    class Followers:
        def open(self, agent: str) -> Follower:
            return Follower(policy, completion=("finish_task",), rules=[rule], speaks=False)

    provider = Provider()
    marks = []
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    followers: Any = Followers()
    async with (
        serving(provider.handle) as upstream,
        aiohttp.ClientSession() as client,
        proxy_before(upstream, followers) as (url, _),
    ):
        for _ in range(5):
            body = {"model": "m", "messages": messages, "stream": streams, "tools": [tool("work"), tool("finish_task")]}
            async with client.post(f"{url}/v1/chat/completions", json=body) as reply:
                assert reply.status == 200
                marks.append(reply.headers.get("x-endstop-following"))
                message = await said(reply, streams)
            messages.append(message)
            messages += [{"role": "tool", "tool_call_id": one["id"], "content": "ok"} for one in message["tool_calls"]]
        async with client.get(f"{url}/endstop/metrics") as reply:
            metrics = await reply.text()
        async with client.get(f"{url}/endstop/") as reply:
            assert "runs that could no longer be followed" in await reply.text()
    assert len(provider.requests) == 5
    first = max(steps, 1)
    assert marks[first:] == ["failed"] * (5 - first)
    assert f"endstop_proxy_unfollowed_runs_total {5 - first}" in metrics
    assert "a run can no longer be followed" in caplog.text

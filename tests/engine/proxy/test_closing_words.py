"""At a limit that the user has set: the model's closing words in place of an error, on each wire and by each client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest
from aiohttp import web
from endstop import Limits, Policy, read_record
from endstop.decision.policy import Deadlines
from endstop.providers.prices import Prices
from endstop.proxy.day_budgets import DayBudgets
from endstop.replay import replay

anthropic = pytest.importorskip(
    "anthropic", reason="Anthropic's client is not installed: `pip install .[test]` brings it"
)

from .agents import Provider, proxied, run_agent, said, tool  # noqa: E402
from .gemini_client import GeminiError  # noqa: E402
from .test_wires import run_responses  # noqa: E402
from .vendors import TEXT, WIRES, Vendors, Wire  # noqa: E402
from .vendors import run_agent as run_vendors_agent  # noqa: E402

LIMITED = Policy(limits=Limits(steps=3))
PROMPT = LIMITED.prompts.closing
REFUSALS = (openai.BadRequestError, anthropic.BadRequestError, GeminiError)
BLOCKS = pytest.mark.parametrize("blocks", [False, True], ids=["async", "sync"])
STREAMS = pytest.mark.parametrize("streams", [True, False], ids=["streamed", "whole"])
ON_WIRES = pytest.mark.parametrize("wire", WIRES, ids=lambda wire: type(wire).__name__)


@BLOCKS
@STREAMS
@ON_WIRES
async def test_a_limit_ends_an_agent_with_the_models_closing_words(
    wire: Wire, streams: bool, blocks: bool, tmp_path: Path
) -> None:
    vendors = Vendors("worker")
    async with proxied(vendors, tmp_path, policy=LIMITED) as (url, _, proxy):
        run = await run_vendors_agent(wire, url, streams=streams, blocks=blocks)
        assert run[:2] == (4, TEXT)
        assert proxy.statistics.total.requests == {"followed": 3, "stopped": 1}
    assert "endstop-" in str(run.seen[-1])
    *_, before, last = vendors.requests
    assert len(vendors.requests) == 4
    assert last["tools"] == before["tools"]
    assert wire.allows_no_call(last)
    assert PROMPT in json.dumps(last)
    (record,) = tmp_path.rglob("*.jsonl")
    (ended,) = read_record(record).runs
    assert ended.finished is not None
    outcome = ended.finished.outcome
    assert (outcome.stop_reason, outcome.steps, outcome.answer, outcome.answer_from) == (
        "step_limit",
        3,
        TEXT,
        "closing",
    )
    assert (await replay(record)).same


@BLOCKS
@STREAMS
@ON_WIRES
async def test_a_model_that_calls_all_the_same_ends_with_an_error_that_is_not_retried(
    wire: Wire, streams: bool, blocks: bool, tmp_path: Path
) -> None:
    vendors = Vendors("stubborn")
    async with proxied(vendors, tmp_path, policy=LIMITED) as (url, _, _):
        with pytest.raises(REFUSALS) as caught:
            await run_vendors_agent(wire, url, streams=streams, blocks=blocks)
    assert len(vendors.requests) == 4
    assert "endstop_step_limit" in str(caught.value)
    assert caught.value.response.headers["x-endstop"] == "stopped"


class Closing(Provider):
    """Another call each time; to the request that allows none it answers with these replies, one after the other."""

    def __init__(self, *replies: web.Response) -> None:
        super().__init__()
        self.replies = list(replies)
        self.asked = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if body.get("tool_choice") != "none":
            return await super().handle(request)
        self.asked += 1
        self.requests.append(body)
        return self.replies.pop(0)


def completion(text: str | None, *names: str) -> web.Response:
    calls = [{"id": name, "type": "function", "function": {"name": name, "arguments": "{}"}} for name in names]
    message = {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}
    usage = {"prompt_tokens": 70, "completion_tokens": 9, "total_tokens": 79}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    return web.json_response({"id": "x", "model": "m", "choices": [choice], "usage": usage})


def broken_stream() -> web.Response:
    begun = {"id": "x", "choices": [{"index": 0, "delta": {"content": "I have "}}]}
    failed = {"error": {"message": "the model crashed", "type": "server_error"}}
    events = "".join(f"data: {json.dumps(event)}\n\n" for event in (begun, failed))
    return web.Response(text=events, content_type="text/event-stream")


@pytest.mark.parametrize(
    "reply",
    [
        web.json_response({"error": {"message": "overloaded"}}, status=503),
        web.json_response({"error": {"message": "tool_choice is not supported"}}, status=400),
        completion(None, "work"),
        completion("  "),
        broken_stream(),
        web.Response(text="<html>"),
    ],
    ids=["overloaded", "refused", "only a call", "blank", "breaks off", "no response"],
)
async def test_without_closing_words_the_agent_gets_the_error(reply: web.Response, tmp_path: Path) -> None:
    provider = Closing(reply)
    async with proxied(provider, tmp_path, policy=Policy(limits=Limits(steps=1))) as (url, client, _):
        assert await run_agent(url, client, streams=False) == (2, 400, "endstop_step_limit", "stopped")
        again = await run_agent(url, client, streams=False, prompt="another task")
        assert again[2] != "endstop_step_limit" or provider.asked == 2
    ends = [run.finished for path in tmp_path.rglob("*.jsonl") for run in read_record(path).runs]
    assert {end.outcome.stop_reason for end in ends if end} == {"step_limit"}


async def test_calls_beside_the_words_never_reach_the_agent_and_usage_does(tmp_path: Path) -> None:
    provider = Closing(completion("I looked twice.", "work"))
    async with proxied(provider, tmp_path, policy=Policy(limits=Limits(steps=1))) as (url, client, _):
        messages = await one_step(url, client)
        async with client.post(f"{url}/v1/chat/completions", json=request(messages)) as reply:
            answer = await reply.json()
            assert reply.headers["x-endstop"] == "closing"
    assert answer["choices"][0] == {
        "index": 0,
        "message": {"role": "assistant", "content": "I looked twice."},
        "finish_reason": "stop",
    }
    assert answer["usage"] == {"prompt_tokens": 70, "completion_tokens": 9, "total_tokens": 79}


def request(messages: Sequence[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": messages, "tools": [tool("work"), tool("finish_task")], **more}


async def one_step(url: str, client: aiohttp.ClientSession) -> list[dict[str, Any]]:
    """The conversation after the first response and its result."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    async with client.post(f"{url}/v1/chat/completions", json=request(messages)) as reply:
        messages.append(await said(reply, False))
    results = [{"role": "tool", "tool_call_id": call["id"], "content": "ok"} for call in messages[-1]["tool_calls"]]
    return messages + results


async def test_an_agent_that_asks_again_gets_errors_and_the_provider_is_asked_once(tmp_path: Path) -> None:
    provider = Closing(completion("I looked."))
    nudge = {"role": "user", "content": "Your output was not formatted correctly."}  # SWE-agent's own words
    async with proxied(provider, tmp_path, policy=Policy(limits=Limits(steps=1))) as (url, client, _):
        messages, marks = await one_step(url, client), []
        for number in range(5):
            async with client.post(f"{url}/v1/chat/completions", json=request(messages)) as reply:
                marks.append((reply.status, reply.headers["x-endstop"]))
            if number >= 2:  # a loop that wants something else than a text
                messages += [{"role": "assistant", "content": "I looked."}, nudge]
        assert marks == [(200, "closing"), (400, "stopped"), *[(404, "stopped")] * 3]
        assert provider.asked == 1
        messages.append({"role": "user", "content": "Now look into the other file."})
        async with client.post(f"{url}/v1/chat/completions", json=request(messages)) as reply:
            assert reply.headers["x-endstop"] == "assembled"
            assert (await said(reply, False))["tool_calls"]
    (record,) = tmp_path.rglob("*.jsonl")
    assert [run.finished.outcome.stop_reason for run in read_record(record).runs if run.finished][:1] == ["step_limit"]


async def test_the_tool_that_was_offered_is_among_the_tools(tmp_path: Path) -> None:
    provider = Closing(completion("I looked."))
    async with proxied(provider, tmp_path, policy=Policy(limits=Limits(steps=1)), offer_completion=True) as (
        url,
        client,
        _,
    ):
        messages = [{"role": "user", "content": "go"}]
        body = {"model": "m", "messages": messages, "tools": [tool("work")], "stream": True}
        async with client.post(f"{url}/v1/chat/completions", json=body) as reply:
            message = await said(reply, True)
        body["messages"] = [*messages, message, {"role": "tool", "tool_call_id": "c1", "content": "ok"}]
        async with client.post(f"{url}/v1/chat/completions", json=body) as reply:
            assert (await said(reply, True))["content"] == "I looked."
    first, last = provider.requests
    assert last["tools"] == first["tools"]
    assert [one["function"]["name"] for one in last["tools"]] == ["work", "finish_task"]


async def test_a_request_without_tools_chooses_none(tmp_path: Path) -> None:
    """OpenAI refuses a `tool_choice` without tools."""
    asked: list[dict[str, Any]] = []

    class Talks:
        async def handle(self, request: web.Request) -> web.StreamResponse:
            asked.append(await request.json())
            return completion("I looked.")

    call = {"id": "c1", "type": "function", "function": {"name": "work", "arguments": "{}"}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "ok"},
    ]
    async with (
        proxied(Talks(), tmp_path, policy=Policy(limits=Limits(steps=1))) as (url, client, _),
        client.post(f"{url}/v1/chat/completions", json={"model": "m", "messages": messages}) as reply,
    ):
        assert reply.headers["x-endstop"] == "closing"
        assert (await said(reply, False))["content"] == "I looked."
    (body,) = asked
    assert body.keys() == {"model", "messages"}
    assert body["messages"][-1] == {"role": "user", "content": PROMPT}


async def test_a_provider_that_does_not_answer_is_left_at_the_deadline(tmp_path: Path) -> None:
    class Hangs(Closing):
        async def handle(self, request: web.Request) -> web.StreamResponse:
            if (await request.json()).get("tool_choice") == "none":
                await asyncio.Event().wait()
            return await super().handle(request)

    policy = Policy(limits=Limits(steps=1), deadlines=Deadlines(closing=0.05))
    async with proxied(Hangs(), tmp_path, policy=policy) as (url, client, _):
        assert await run_agent(url, client, streams=False) == (2, 400, "endstop_step_limit", "stopped")
    (record,) = tmp_path.rglob("*.jsonl")
    assert "no closing words arrived within 0.05 s" in record.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "policy"),
    [
        ({"dry_run": True}, Policy(limits=Limits(steps=2))),
        ({}, Policy(limits=Limits(steps=2), closing=False)),
    ],
    ids=["dry run", "policy without closing"],
)
async def test_who_does_not_want_them_is_not_asked(options: dict[str, Any], policy: Policy, tmp_path: Path) -> None:
    provider = Provider()
    async with proxied(provider, tmp_path, policy=policy, **options) as (url, client, proxy):
        ended = await run_agent(url, client, streams=False, most=3)
        would = proxy.statistics.total.would
    assert not any("tool_choice" in body for body in provider.requests)
    if options:
        assert (ended[2], would) == ("went on", {"step_limit": 1})
    else:
        assert ended == (3, 400, "endstop_step_limit", "stopped")


async def test_a_budget_that_is_spent_has_no_room_for_them(tmp_path: Path) -> None:
    provider = Closing()
    budgets = DayBudgets({"output_tokens": 1.0}, {}, Prices(), lambda: "2026-01-01")
    limited = Policy(limits=Limits(steps=1))
    async with proxied(provider, tmp_path, policy=limited, budgets=budgets) as (url, client, _):
        assert await run_agent(url, client, streams=False) == (2, 400, "endstop_step_limit", "stopped")
    assert provider.asked == 0


@STREAMS
async def test_a_conversation_that_the_provider_keeps_goes_on_after_them(streams: bool, tmp_path: Path) -> None:
    vendors = Vendors("worker")
    responses = next(wire for wire in WIRES if wire.path == "/responses")
    async with proxied(vendors, tmp_path, policy=Policy(limits=Limits(steps=1))) as (url, _, _):
        assert await run_responses(url, streams=streams, chained=True) == (2, 200, TEXT)
    _, last = vendors.requests
    assert last["tool_choice"] == responses.no_calls
    assert last["previous_response_id"].startswith("resp_")
    assert [item.get("type", item.get("role")) for item in last["input"]] == ["function_call_output", "user"]


async def test_an_agent_that_leaves_meanwhile_ends_its_run(tmp_path: Path) -> None:
    asked = asyncio.Event()

    class Hangs(Closing):
        async def handle(self, request: web.Request) -> web.StreamResponse:
            if (await request.json()).get("tool_choice") == "none":
                asked.set()
                await asyncio.Event().wait()
            return await super().handle(request)

    async with proxied(Hangs(), tmp_path, policy=Policy(limits=Limits(steps=1))) as (url, client, proxy):
        messages = await one_step(url, client)
        leaving = asyncio.create_task(client.post(f"{url}/v1/chat/completions", json=request(messages)))
        await asked.wait()
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        async with asyncio.timeout(10):
            await proxy.idle()
        async with client.post(f"{url}/v1/chat/completions", json=request(messages)) as reply:
            assert (reply.status, reply.headers["x-endstop"]) == (400, "stopped")

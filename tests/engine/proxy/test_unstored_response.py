"""Agents whose conversation is stored at the provider (`previous_response_id`), behind `endstop proxy --until`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import openai
import pytest
from aiohttp import web
from endstop import Until
from endstop.proxy.unstored_response import UnstoredResponse, unstored_response
from endstop.proxy.wire import WireRequest

pytest.importorskip("anthropic", reason="Anthropic's client is not installed: `pip install .[test]` brings it")

from .agents import proxied
from .checked_work import GOAL, POLICY, STREAMS, recorded, until
from .vendors import RESPONSES, TEXT, Vendors, sse

MANY = 20_000
SAID = "The task is complete"
Say = Callable[[list[Any]], tuple[str, tuple[str, str, str] | None]]


class Storing(Vendors):
    """Stores each response that it has sent whole, unless told not to, and refuses what does not fit to those.

    say: text and call of the next response, from the conversation. endless: number of the request whose response is
    `MANY` events longer. began: set once these come. conversations: of the responses so far, by id.
    """

    def __init__(self, say: Say, *, endless: int = 0) -> None:
        super().__init__("ordinary")
        self.say, self.endless = say, endless
        self.conversations: dict[str, list[Any]] = {}
        self.began = asyncio.Event()

    async def handle(self, request: Any) -> Any:
        body = await request.json()
        self.requests.append(body)
        given = body["input"]
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given
        previous = body.get("previous_response_id")
        if previous is not None and previous not in self.conversations:
            return refused(f"Previous response with id '{previous}' not found.")
        items = [*self.conversations.get(previous or "", []), *items]
        called = [item["call_id"] for item in items if item.get("type") == "function_call"]
        returned = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
        if sorted(called) != sorted(returned):
            return refused(f"No tool output found for function calls {set(called) ^ set(returned)}")
        number = len(self.requests)
        whole = RESPONSES.whole(str(number), *self.say(items))
        if not body.get("stream"):
            self._store(body, whole, items)
            return web.json_response(whole)
        reply = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await reply.prepare(request)
        with suppress(ConnectionError):
            begin, end = RESPONSES.events(whole)
            for event in begin:
                await reply.write(sse(event))
            for _ in range(MANY if number == self.endless else 0):
                self.began.set()
                await reply.write(sse(RESPONSES.more(whole)).replace(b"check again", uuid4().hex.encode()))
                await asyncio.sleep(0)
            for event in end:
                await reply.write(sse(event))
            self._store(body, whole, items)
        return reply

    def _store(self, body: dict[str, Any], whole: dict[str, Any], items: list[Any]) -> None:
        if body.get("store") is not False:
            self.conversations[whole["id"]] = [*items, *whole["output"]]


def refused(message: str) -> web.Response:
    error = {"message": message, "type": "invalid_request_error", "param": "previous_response_id", "code": None}
    return web.json_response({"error": error}, status=400)


class Agent:
    """An agent that sends only what is new, and ends at a response without calls. text: what it ended with."""

    def __init__(self, url: str, work: Path, *, streams: bool, **fields: Any) -> None:
        self.url, self.work, self.streams, self.fields = url, work, streams, fields
        self.previous: str | None = None
        self.requests = 0

    async def run(self, prompt: str) -> str:
        items: list[Any] = [{"role": "user", "content": prompt}]
        async with RESPONSES.client(self.url, blocks=False) as client:
            while True:
                response = await self._ask(client, items)
                self.requests += 1
                self.previous = response.id
                calls = [item for item in response.output if item.type == "function_call"]
                if not calls or self.requests > 20:
                    return response.output_text
                with self.work.open("a") as opened:
                    opened.write("line\n" * sum(one.name == "work" for one in calls))
                items = [{"type": "function_call_output", "call_id": one.call_id, "output": "ok"} for one in calls]

    async def _ask(self, client: openai.AsyncOpenAI, items: list[Any]) -> Any:
        tools: list[Any] = [
            {"type": "function", "name": name, "parameters": {"type": "object"}, "strict": False}
            for name in ("work", "finish_task")
        ]
        asked = {"model": "m", "input": items, "tools": tools, **self.fields}
        if self.previous is not None:
            asked["previous_response_id"] = self.previous
        if not self.streams:
            return await client.responses.create(**asked)
        async with client.responses.stream(**asked) as stream:
            async for _ in stream:
                pass
            return await stream.get_final_response()


def hasty(items: list[Any]) -> tuple[str, tuple[str, str, str] | None]:
    """Work once, say that it is done, and work again when told that it is not."""
    last = json.dumps(items[-1])
    if "function_call_output" in last and "Not accepted" not in last:
        return TEXT, None
    return "", (f"call_{len(items)}", "work", "{}")


def claiming(items: list[Any]) -> tuple[str, tuple[str, str, str] | None]:
    """The same with completion calls."""
    text, call = hasty(items)
    return ("", (f"call_{len(items)}", "finish_task", json.dumps({"summary": TEXT}))) if text else ("", call)


def working(items: list[Any]) -> tuple[str, tuple[str, str, str] | None]:
    """Work for ever, but for a prompt about something else."""
    if "something else" in json.dumps(items[-1]):
        return "Something else, then.", None
    return "", (f"call_{len(items)}", "work", "{}")


@STREAMS
@pytest.mark.parametrize("say", [hasty, claiming])
async def test_an_end_that_comes_too_early_goes_on_from_the_response_just_received(
    say: Say, streams: bool, work: Path, records: Path
) -> None:
    vendors = Storing(say)
    async with proxied(vendors, records, policy=POLICY, until=until(work), workspace=str(work.parent)) as (url, _, _p):
        agent = Agent(url, work, streams=streams)
        await agent.run("go")
    assert work.read_text() == "line\n" * GOAL
    told = [body for body in vendors.requests if "Not accepted" in json.dumps(body)]
    assert len(told) == GOAL - 1
    assert [len(body["input"]) for body in vendors.requests[1:]] == [1] * (len(vendors.requests) - 1)
    _, outcome = recorded(records)
    assert (outcome.stop_reason, outcome.work) == ("until_met", "checked")


@STREAMS
async def test_an_agent_goes_on_from_an_end_that_the_proxy_wrote(streams: bool, work: Path, records: Path) -> None:
    async def check(run: Any) -> bool:
        return len(work.read_text().splitlines()) >= GOAL

    vendors = Storing(working)
    quick = Until(check, folder=work.parent, from_failing=False)
    async with proxied(vendors, records, policy=POLICY, until=quick, workspace=str(work.parent)) as (url, _, _p):
        agent = Agent(url, work, streams=streams)
        ended = await agent.run("go")
        assert SAID in ended
        known = len(vendors.requests)
        assert await agent.run("something else") == "Something else, then."
        assert await agent.run("something else again") == "Something else, then."
    first, second = vendors.requests[known:]
    conversation = vendors.conversations[str(agent.previous)]
    assert first.get("previous_response_id") in (None, *vendors.conversations)
    assert SAID in json.dumps(first["input"])
    assert second["previous_response_id"] in vendors.conversations  # its answer is stored, so no more is added
    assert len(second["input"]) == 1
    assert json.dumps(conversation).count(SAID) == 1
    assert json.dumps(conversation).count('"role": "user"') == 3


@STREAMS
@pytest.mark.parametrize("endless", [1, 2])
async def test_an_agent_goes_on_from_a_response_that_the_check_has_cut(
    endless: int, streams: bool, work: Path, records: Path
) -> None:
    async def check(run: Any) -> bool:
        if agent.requests < endless - 1:
            return False
        await vendors.began.wait()
        return True

    def talking(items: list[Any]) -> tuple[str, tuple[str, str, str] | None]:
        if len(vendors.requests) < endless:
            return working(items)
        return ("Something else, then." if "something else" in json.dumps(items[-1]) else TEXT), None

    vendors = Storing(talking, endless=endless)
    agent = Agent("", work, streams=streams)
    slow = Until(check, folder=work.parent, from_failing=True)
    async with proxied(vendors, records, policy=POLICY, until=slow, workspace=str(work.parent)) as (url, _, proxy):
        agent.url = url
        with anyio.fail_after(60):
            ended = await agent.run("go")
            assert SAID in ended
            assert dict(proxy.statistics.total.cuts) == {"check": 1}
            assert await agent.run("something else") == "Something else, then."
    assert len(vendors.requests) == endless + 1
    last = vendors.requests[-1]
    assert ended in json.dumps(last["input"]).replace("\\n", "\n").replace('\\"', '"')
    assert last.get("previous_response_id") == (None if endless == 1 else "resp_1")


async def test_a_conversation_whose_responses_are_not_stored_goes_on_with_all_that_is_new(
    work: Path, records: Path
) -> None:
    vendors = Storing(hasty)
    async with proxied(vendors, records, policy=POLICY, until=until(work), workspace=str(work.parent)) as (url, _, _p):
        agent = Agent(url, work, streams=True)
        agent.previous = "resp_0"
        vendors.conversations["resp_0"] = [{"role": "user", "content": "before"}]
        agent.fields = {"store": False}
        with pytest.raises(openai.BadRequestError, match="not found"):
            await agent.run("go")  # its second request names a response that is not stored: the provider says so
        vendors.requests.clear()
        agent.previous, vendors.say = "resp_0", lambda items: (TEXT, None)
        assert TEXT in await agent.run("answer")
    assert {body["previous_response_id"] for body in vendors.requests} == {"resp_0"}
    assert "Not accepted" in json.dumps(vendors.requests[1])
    assert len(vendors.requests[1]["input"]) == 3  # the prompt, the text that is handed back, and why


async def test_an_id_of_the_proxy_that_it_no_longer_knows_is_the_providers_to_refuse(work: Path, records: Path) -> None:
    vendors = Storing(working)
    async with proxied(vendors, records, policy=POLICY, until=until(work), workspace=str(work.parent)) as (url, _, _p):
        agent = Agent(url, work, streams=True)
        agent.previous = "endstop-0123456789ab"
        with pytest.raises(openai.BadRequestError, match="endstop-0123456789ab"):
            await agent.run("go")


def asked(items: list[Any], **fields: Any) -> WireRequest:
    return WireRequest(
        model="m",
        streams=True,
        system="",
        items=items,
        tools=(),
        body={"input": items, **fields},
        after=fields.get("previous_response_id", ""),
    )


def test_a_conversation_that_the_agent_keeps_itself_needs_nothing() -> None:
    prompt, answer = {"role": "user", "content": "go"}, {"role": "assistant", "content": "done"}
    whole, unstored = asked([prompt, answer, prompt]), asked([prompt], store=False)
    assert unstored_response(whole, whole, "id", "text") is None
    assert unstored_response(unstored, unstored, "id", "text") is None


def test_a_request_goes_on_from_the_latest_response_that_the_provider_has() -> None:
    prompt = {"role": "user", "content": "go"}
    request = asked([prompt], previous_response_id="resp_1")
    kept = unstored_response(request, request, "endstop-1", "text")
    assert kept == UnstoredResponse("endstop-1", "resp_1", (prompt, {"role": "assistant", "content": "text"}))
    body, items = kept.continued({"input": [], "previous_response_id": "endstop-1"}, [prompt])
    assert body == {"input": [], "previous_response_id": "resp_1"}
    assert items == [prompt, {"role": "assistant", "content": "text"}, prompt]

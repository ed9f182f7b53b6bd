"""What an agent gets of a response beside which its work is checked: cut once the check is met, and else whole."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
import anyio
import pytest
from endstop import Until
from endstop.decision import events as ev
from endstop.replay import replay

pytest.importorskip("anthropic", reason="Anthropic's client is not installed: `pip install .[test]` brings it")

from .agents import proxied
from .checked_work import ON_WIRES, POLICY, STREAMS, recorded
from .vendors import CHAT, MESSAGES, TEXT, Vendors, Wire, run_agent, sse

SAID = "The task is complete"
MANY = 20_000
"""Events of a response that nothing cuts."""
PING = {"type": "ping"}


class Beside(Vendors):
    """Calls `work` once. Its next response is a text or another call, and goes on until its client leaves.

    began: set once that response has begun. sent: events of it after that. left: set once its client has left.
    """

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.began, self.left = asyncio.Event(), asyncio.Event()
        self.sent = 0

    def _response(self, wire: Wire, body: dict[str, Any]) -> dict[str, Any]:
        results = wire.results(body)
        call = (f"call_{results}", "work", json.dumps({"n": results}))
        return wire.whole(str(results), *(("", call) if self.kind == "caller" or not results else (TEXT, None)))

    async def _stream(self, wire: Wire, whole: dict[str, Any], reply: Any) -> None:
        if len(self.requests) == 1:
            await super()._stream(wire, whole, reply)
            return
        *begin, _ = wire.events(whole)
        for event in (one for group in begin for one in group):
            await reply.write(sse(event))
        self.began.set()
        more = sse(PING if wire is MESSAGES and self.kind == "caller" else wire.more(whole))
        try:
            for _ in range(MANY):
                await reply.write(more.replace(b"check again", uuid4().hex.encode()))
                self.sent += 1
                await asyncio.sleep(0)
        finally:
            self.left.set()


def until_streaming(vendors: Beside, work: Path, *, met: bool = True, events: int = 0) -> Until:
    """A check of the work that ends once the response beside it has begun and has sent this many events."""

    async def check(run: Any) -> bool:
        if not work.read_text():
            return False
        await vendors.began.wait()
        while vendors.sent < events:
            await asyncio.sleep(0)
        return met

    return Until(check, folder=work.parent, from_failing=False)


@STREAMS
@ON_WIRES
@pytest.mark.parametrize("kind", ["talker", "caller"])
async def test_a_response_is_cut_once_the_check_beside_it_is_met_and_ends_the_agent(
    kind: str, wire: Wire, streams: bool, work: Path, records: Path
) -> None:
    vendors = Beside(kind)
    until = until_streaming(vendors, work, events=20)
    async with proxied(vendors, records, policy=POLICY, until=until, workspace=str(work.parent)) as (url, _, proxy):
        with anyio.fail_after(60):
            run = await run_agent(wire, url, streams=streams, blocks=False)
            await vendors.left.wait()
        assert dict(proxy.statistics.total.cuts) == {"check": 1}
    assert SAID in run.text
    assert (TEXT in run.text) == (kind == "talker")
    assert (run.requests, len(vendors.requests)) == (2, 2)
    assert work.read_text() == "line\n"  # the call of the cut response never ran
    events, outcome = recorded(records)
    assert (outcome.status, outcome.stop_reason, outcome.work) == ("completed", "until_met", "checked")
    responses = [event for event in events if isinstance(event, ev.ResponseFinished)]
    assert [event.cut_for for event in responses] == ["", "check"]
    assert responses[1].usage.estimated
    results = [event.status for event in events if isinstance(event, ev.ToolCallResult)]
    assert results == ["ok", "skipped"][: 1 + (kind == "caller")]
    assert outcome.saved is not None
    assert outcome.saved.cuts == 1
    (record,) = records.rglob("*.jsonl")
    assert (await replay(record)).same


class Ending(Beside):
    """The same, but its responses end once `told` is set."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.told = asyncio.Event()

    async def _stream(self, wire: Wire, whole: dict[str, Any], reply: Any) -> None:
        if len(self.requests) > 1:
            self.began.set()
            await self.told.wait()
        await Vendors._stream(self, wire, whole, reply)


@ON_WIRES
async def test_calls_that_waited_for_a_check_that_is_not_met_reach_the_agent_as_they_came(
    wire: Wire, work: Path, records: Path
) -> None:
    vendors = Beside("caller")
    until = until_streaming(vendors, work, met=False, events=20)
    seen: list[Any] = []
    async with proxied(vendors, records, policy=POLICY, until=until, workspace=str(work.parent)) as (url, _, _p):
        running = asyncio.ensure_future(run_agent(wire, url, streams=True, blocks=False, seen=seen))
        with anyio.fail_after(60):
            while "call_1" not in json.dumps(seen) and '"n": 1' not in json.dumps(seen):
                await asyncio.sleep(0.001)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        with anyio.fail_after(60):
            await vendors.left.wait()
    assert len(vendors.requests) == 2


async def test_a_thought_is_passed_on_to_its_signature_before_the_response_is_cut(work: Path, records: Path) -> None:
    class Thinker(Beside):
        async def _stream(self, wire: Wire, whole: dict[str, Any], reply: Any) -> None:
            if len(self.requests) == 1:
                await Vendors._stream(self, wire, whole, reply)
                return
            begun = {**whole, "content": [], "stop_reason": None}
            block = {"type": "thinking", "thinking": "", "signature": ""}
            at = {"type": "content_block_delta", "index": 0}
            thought = sse({**at, "delta": {"type": "thinking_delta", "thinking": "hm "}})
            await reply.write(sse({"type": "message_start", "message": begun}))
            await reply.write(sse({"type": "content_block_start", "index": 0, "content_block": block}))
            await reply.write(thought)
            self.began.set()
            for _ in range(50):
                await reply.write(thought)
                await asyncio.sleep(0)
            await checked.wait()
            for _ in range(50):
                await reply.write(thought)
                await asyncio.sleep(0)
            await reply.write(sse({**at, "delta": {"type": "signature_delta", "signature": "signed"}}))
            await reply.write(sse({"type": "content_block_stop", "index": 0}))
            try:
                for _ in range(MANY):
                    await reply.write(sse(PING))
                    await asyncio.sleep(0)
            finally:
                self.left.set()

    vendors, checked = Thinker("talker"), asyncio.Event()

    async def check(run: Any) -> bool:
        if work.read_text():
            await vendors.began.wait()
            checked.set()
        return bool(work.read_text())

    until = Until(check, folder=work.parent, from_failing=False)
    async with proxied(vendors, records, policy=POLICY, until=until, workspace=str(work.parent)) as (url, _, _p):
        with anyio.fail_after(60):
            run = await run_agent(MESSAGES, url, streams=True, blocks=False)
            await vendors.left.wait()
    thought, said = run.seen[-1]["content"]
    assert (thought["thinking"], thought["signature"]) == ("hm " * 101, "signed")
    assert SAID in said["text"]


async def test_work_that_has_changed_since_the_check_began_cuts_nothing(work: Path, records: Path) -> None:
    vendors = Ending("talker")

    async def check(run: Any) -> bool:
        if not work.read_text():
            return False
        if not vendors.told.is_set():
            await vendors.began.wait()
            (work.parent / "other.txt").write_text("changed by something else, while the check ran")
            asyncio.get_running_loop().call_later(0, vendors.told.set)
            return True
        return False

    until = Until(check, folder=work.parent, from_failing=False)
    async with proxied(vendors, records, policy=POLICY, until=until, workspace=str(work.parent)) as (url, _, proxy):
        with anyio.fail_after(60):
            run = await run_agent(CHAT, url, streams=True, blocks=False)
        assert not proxy.statistics.total.cuts
    assert run.text.endswith(TEXT)
    _, outcome = recorded(records)
    assert (outcome.stop_reason, outcome.work) == ("completion_rejected", "wrong")


@ON_WIRES
async def test_a_provider_that_breaks_off_while_the_check_runs_breaks_the_response_off_and_leaves_no_check(
    wire: Wire, work: Path, records: Path
) -> None:
    class Breaking(Beside):
        async def _stream(self, wire: Wire, whole: dict[str, Any], reply: Any) -> None:
            if not self.began.is_set() and len(self.requests) > 1:
                *begin, _ = wire.events(whole)
                await reply.write(sse(begin[0][0]))
                self.began.set()
                reply._req.transport.abort()
                return
            await Vendors._stream(self, wire, whole, reply)

    vendors, ended = Breaking("caller"), asyncio.Event()

    async def check(run: Any) -> bool:
        try:
            await (asyncio.sleep(0) if not work.read_text() else anyio.sleep_forever())
        finally:
            if work.read_text():
                ended.set()
        return False

    until = Until(check, folder=work.parent, from_failing=False)
    async with proxied(vendors, records, policy=POLICY, until=until, workspace=str(work.parent)) as (url, _, proxy):
        with anyio.fail_after(60), pytest.raises(Exception, match=r".*"):
            await run_agent(wire, url, streams=True, blocks=False)
        with anyio.fail_after(60):
            await proxy.idle()
        assert not ended.is_set()  # the check of the work goes on: the agent may try again
    assert ended.is_set()
    (record,) = records.rglob("*.jsonl")
    assert b"ATTEMPT_FAILED" in record.read_bytes()


async def leave_in_response(wire: Wire, url: str, begun: asyncio.Event, left: asyncio.Event) -> None:
    """Run an agent, cancel it when `begun` is set, and wait until the provider is left too."""
    running = asyncio.ensure_future(run_agent(wire, url, streams=True, blocks=False))
    with anyio.fail_after(60):
        await begun.wait()
        running.cancel()
        await left.wait()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_an_agent_that_leaves_while_the_check_runs_leaves_the_provider_too(work: Path, records: Path) -> None:
    vendors = Beside("talker")
    until = until_streaming(vendors, work, events=10**9)
    async with proxied(vendors, records, policy=POLICY, until=until, workspace=str(work.parent)) as (url, _, proxy):
        await leave_in_response(CHAT, url, vendors.began, vendors.left)
        with anyio.fail_after(60):
            await proxy.idle()
        assert not proxy.statistics.total.cuts


async def test_the_same_request_again_after_the_cut_is_an_error_that_says_why(work: Path, records: Path) -> None:
    vendors = Beside("talker")
    until = until_streaming(vendors, work, events=5)
    async with proxied(vendors, records, policy=POLICY, until=until, workspace=str(work.parent)) as (url, client, _p):
        with anyio.fail_after(60):
            await run_agent(CHAT, url, streams=True, blocks=False)
        again = vendors.requests[-1]
        for status in (400, 404, 404):
            async with client.post(f"{url}/v1/chat/completions", json=again) as reply:
                assert (reply.status, reply.headers["x-endstop"]) == (status, "stopped")
                error = (await reply.json())["error"]
            assert error["code"] == "endstop_until_met"
            assert "passes" in error["message"]
    assert len(vendors.requests) == 2


async def test_a_cut_response_says_so_in_a_comment(work: Path, records: Path) -> None:
    vendors = Beside("caller")
    until = until_streaming(vendors, work, events=5)
    async with proxied(vendors, records, policy=POLICY, until=until, workspace=str(work.parent)) as (url, client, _p):
        first = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "go"}], "tools": [TOOL]}
        await _read(client, url, first)
        call = {"id": "call_0", "type": "function", "function": {"name": "work", "arguments": '{"n": 0}'}}
        items = [*first["messages"], {"role": "assistant", "tool_calls": [call]}]  # type: ignore[misc]
        work.write_text("line\n")
        items.append({"role": "tool", "tool_call_id": "call_0", "content": "ok"})
        with anyio.fail_after(60):
            text = await _read(client, url, {**first, "messages": items})
    assert ": endstop cut this response" in text
    assert '"tool_calls":[' not in text
    assert text.endswith("data: [DONE]\n\n")


TOOL = {"type": "function", "function": {"name": "work", "parameters": {"type": "object"}}}


async def _read(client: aiohttp.ClientSession, url: str, body: dict[str, Any]) -> str:
    async with client.post(f"{url}/v1/chat/completions", json=body) as reply:
        assert reply.status == 200
        return await reply.text()


class Waiting(Vendors):
    """Calls `work`, then ends with a text; a text that is handed back is followed by a response that does not end.

    asked: set once that response has begun. left: set once its client has left it.
    """

    def __init__(self) -> None:
        super().__init__("ordinary")
        self.asked, self.left = asyncio.Event(), asyncio.Event()

    def _response(self, wire: Wire, body: dict[str, Any]) -> dict[str, Any]:
        results = wire.results(body)
        return wire.whole(str(results), *((TEXT, None) if results else ("", ("call_0", "work", "{}"))))

    async def _stream(self, wire: Wire, whole: dict[str, Any], reply: Any) -> None:
        if len(self.requests) < 3:
            await super()._stream(wire, whole, reply)
            return
        await reply.write(sse(wire.events(whole)[0][0]))
        self.asked.set()
        try:
            await anyio.sleep_forever()
        finally:
            self.left.set()


@ON_WIRES
async def test_an_agent_that_leaves_in_a_response_that_was_handed_back_leaves_the_provider_too(
    wire: Wire, work: Path, records: Path
) -> None:
    vendors = Waiting()
    until = Until(lambda run: False, folder=work.parent, from_failing=False)
    async with proxied(vendors, records, policy=POLICY, until=until, workspace=str(work.parent)) as (url, _, proxy):
        await leave_in_response(wire, url, vendors.asked, vendors.left)
        with anyio.fail_after(60):
            await proxy.idle()
    assert len(vendors.requests) == 3
    (record,) = records.rglob("*.jsonl")
    assert b"the agent left in the middle of the response" in record.read_bytes()


async def test_an_agent_that_leaves_while_its_end_is_checked_is_not_asked_for(work: Path, records: Path) -> None:
    vendors = Waiting()
    seen: list[Any] = []

    async def check(run: Any) -> bool:
        if work.read_text():
            await anyio.sleep_forever()
        return False

    until = Until(check, folder=work.parent, from_failing=False)
    async with proxied(vendors, records, policy=POLICY, until=until, workspace=str(work.parent)) as (url, _, proxy):
        running = asyncio.ensure_future(run_agent(CHAT, url, streams=True, blocks=False, seen=seen))
        with anyio.fail_after(60):
            while TEXT not in json.dumps(seen):
                await asyncio.sleep(0.001)
            running.cancel()
            await proxy.idle()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert len(vendors.requests) == 2


@STREAMS
@ON_WIRES
async def test_two_responses_at_once_of_one_conversation_are_two_runs_that_both_end(
    wire: Wire, streams: bool, work: Path, records: Path
) -> None:
    vendors = Vendors("ordinary")
    until = Until(lambda run: len(work.read_text().splitlines()) >= 4, folder=work.parent, from_failing=False)
    async with (
        proxied(vendors, records, policy=POLICY, until=until, workspace=str(work.parent)) as (url, client, _p),
        asyncio.timeout(60),
    ):
        agents = [run_agent(wire, url, streams=streams, blocks=False) for _ in range(2)]
        runs = await asyncio.gather(*agents)
        ends = {run.requests - 1 for run in runs}  # the request that has ended a run is not answered again
        again = next(body for body in vendors.requests if wire.results(body) and wire.results(body) not in ends)
        at = f"{url}/v1{wire.path}"
        replies = await asyncio.gather(*(_whole(client, at, again) for _ in range(2)))
    assert all(SAID in run.text or TEXT in run.text for run in runs)
    assert [status for status, _ in replies] == [200, 200]
    assert len({record.name for record in records.rglob("*.jsonl")}) >= 2


async def _whole(client: aiohttp.ClientSession, url: str, body: dict[str, Any]) -> tuple[int, str]:
    async with client.post(url, json={**body, "stream": False}) as reply:
        return reply.status, await reply.text()


@STREAMS
async def test_a_check_that_cannot_run_keeps_nothing_from_the_agent(
    streams: bool,
    work: Path,
    records: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    vendors = Vendors("finisher")
    until = Until("/no/such/command", folder=work.parent, from_failing=False)
    async with proxied(vendors, records, policy=POLICY, until=until, workspace=str(work.parent)) as (url, _, _p):
        run = await run_agent(CHAT, url, streams=streams, blocks=False)
    assert run.text in (TEXT, "went on")
    assert "finish_task" in json.dumps(run.seen)
    assert "a check failed, and counts as no answer" in caplog.text + "".join(capsys.readouterr())

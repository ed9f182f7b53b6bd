"""Compares where recorded sessions stop: by the backtest of their records, told to a follower, and through the proxy.

python tests/benchmarks/followed_decisions.py FOLDER [--sessions 100]

FOLDER holds sessions of other loops in any format that `endstop import` reads. Of each, the first run counts. The
proxy stands before a provider on loopback that answers each request with the recorded response, and an agent resends
its history as chat completions; every second session streams.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from endstop.analysis.policy_simulation import backtest
from endstop.decision import AssistantMessage, Event, Stop, ToolResult, UserMessage
from endstop.decision.events import MessageAdded, ResponseFinished, RunStarted, ToolCallResult
from endstop.follow import Follower
from endstop.follow.follower import followed_policy
from endstop.formats import ImportOptions, events_of, find_sessions
from endstop.formats.export_openai import to_openai_messages
from endstop.proxy import Proxy, ProxyOptions
from endstop.testing import FakeClock

Stopped = tuple[int, str] | None
"""Steps and reason of a run's end; None if it went on to the recorded end."""
POLICY = followed_policy("agent", speaks=False)


def first_run(events: list[Event]) -> list[Event]:
    """The events of a session's first run."""
    begins = [place for place, event in enumerate(events) if isinstance(event, RunStarted)]
    return events[: begins[1] if len(begins) > 1 else len(events)]


def stop_of_backtest(events: list[Event]) -> Stopped:
    (result,) = backtest(events, [POLICY])
    (finding,) = result.findings
    return None if finding.stops is None else (finding.stops.steps, finding.stop_reason)


def turns(events: list[Event]) -> Iterator[tuple[list[Any], AssistantMessage]]:
    """Each recorded response, with the messages that came since the one before."""
    before: list[Any] = []
    for event in events:
        match event:
            case RunStarted():
                before.append(UserMessage(event.prompt or "go"))
            case MessageAdded():
                before.append(UserMessage(event.text))
            case ToolCallResult():
                before.append(ToolResult(event.call_id, event.name, event.content, event.status, event.images))
            case ResponseFinished():
                yield before, event.message
                before = []
            case _:
                pass


def new_follower(started: RunStarted) -> Follower:
    """A follower that knows what the session's import knows of its tools."""
    return Follower("agent", tools=started.tools, speaks=False, clock=FakeClock())


def stop_of_follower(events: list[Event]) -> Stopped:
    """Where a follower stops that is told each step."""
    started = events[0]
    assert isinstance(started, RunStarted)
    follower = new_follower(started)
    for before, message in [*turns(events), ([], None)]:
        for one in before:
            match one:
                case ToolResult():
                    follower.result(one)
                case UserMessage() if follower.facts.steps:
                    follower.said(one.text)
                case UserMessage():
                    follower.prompt(one.text, one.images)
        if follower.facts.steps:
            follower.decide()
            if follower.outcome is not None:
                return follower.outcome.steps, follower.outcome.stop_reason
        if message is not None:
            follower.response(message.text, message.calls)
    return None


class Recorded:
    """A provider that answers with the next recorded response."""

    def __init__(self) -> None:
        self.replies: Iterator[AssistantMessage] = iter(())

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.json()
        message = to_openai_messages([next(self.replies)])[0]
        finish = "tool_calls" if message.get("tool_calls") else "stop"
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": finish}
            return web.json_response({"id": "x", "model": "m", "choices": [choice]})
        calls = [{"index": place, **call} for place, call in enumerate(message.get("tool_calls", ()))]
        deltas = [({"content": message.get("content") or ""}, None), ({"tool_calls": calls} if calls else {}, None)]
        events = [
            {"id": "x", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": end}]}
            for delta, end in [*deltas, ({}, finish)]
        ]
        data = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
        return web.Response(body=data.encode(), headers={"content-type": "text/event-stream"})


async def serve(handler: Any) -> tuple[web.AppRunner, str]:
    app = web.Application(client_max_size=2**28)
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return runner, f"http://127.0.0.1:{runner.addresses[0][1]}"


async def stop_of_proxy(events: list[Event], streams: bool, provider: Recorded, upstream: str) -> Stopped:
    """Where the proxy's follower stops. An agent resends its history until it is answered by the proxy itself."""
    started = events[0]
    assert isinstance(started, RunStarted)
    followers: list[Follower] = []

    def open_follower(agent: str) -> Follower:
        followers.append(new_follower(started))
        return followers[-1]

    pairs = list(turns(events))
    provider.replies = iter([message for _, message in pairs])
    proxy = Proxy(ProxyOptions(upstream=upstream), open_follower)
    await proxy.open()
    runner, url = await serve(proxy.handle)
    tools = [
        {"type": "function", "function": {"name": tool.name, "parameters": dict(tool.parameters)}}
        for tool in started.tools
    ]
    history: list[Any] = []
    try:
        async with aiohttp.ClientSession() as client:
            for before, message in pairs:
                history += to_openai_messages(before)
                body = {"model": "m", "messages": history, "tools": tools, "stream": streams}
                async with client.post(f"{url}/v1/chat/completions", json=body) as reply:
                    await reply.read()
                ended = next((one.outcome for one in followers if one.outcome is not None), None)
                if ended is not None:
                    return ended.steps, ended.stop_reason
                history += to_openai_messages([message])
    finally:
        await proxy.close()
        await runner.cleanup()
    ended, last = followers[0].outcome, followers[0].decision  # the end of the recording: what the last step amounts to
    if ended is None or (isinstance(last, Stop) and last.rule == "followed"):
        return None  # no rule of the policy ends it there
    return ended.steps, ended.stop_reason


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sessions", type=int, default=100)
    args = parser.parse_args()
    found = [one.session for one in find_sessions(args.folder) if hasattr(one, "session")]
    found = found[:: max(1, len(found) // args.sessions)][: args.sessions]
    provider, same, reasons = Recorded(), Counter(), Counter()
    runner, upstream = await serve(provider.handle)
    for number, session in enumerate(found):
        events = first_run(events_of(session, f"s{number}", "import", ImportOptions()))
        expected = stop_of_backtest(events)
        told, proxied = stop_of_follower(events), await stop_of_proxy(events, number % 2 == 1, provider, upstream)
        same["follower"] += told == expected
        same["proxy"] += proxied == expected
        reasons[expected[1] if expected else "went on"] += 1
        if not expected == told == proxied:
            print(f"{session.id or number}: backtest {expected}, follower {told}, proxy {proxied}")
    await runner.cleanup()
    print(f"{len(found)} sessions: follower the same in {same['follower']}, proxy in {same['proxy']}; {dict(reasons)}")


if __name__ == "__main__":
    asyncio.run(main())

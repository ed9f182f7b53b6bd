"""Runs that are ended at any point by somebody else, and what must hold of their records whenever that was."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from endstop import Engine, Run, Tool, read_record
from endstop.decision import events as ev
from endstop.providers import Provider
from endstop.replay import replay


async def broken_promises(path: Path, last: int | None = None) -> list[str]:
    """What a record breaks of the promises; empty if nothing. last: the number of the last event before the cancel."""
    record = read_record(path)
    broken = [f"damaged lines {record.damaged}"] if record.damaged else []
    for run in record.runs:
        broken += _broken_by(run.events)
        late = [e.step for e in run.events if isinstance(e, ev.StepStarted) and last is not None and e.seq > last]
        if late:
            broken.append(f"steps begun after the cancel: {late}")
    report = await replay(record)
    if not report.same:
        broken.append(f"replay: {[run.divergence for run in report.runs]}")
    return broken


def _broken_by(events: Sequence[ev.Event]) -> list[str]:
    broken: list[str] = []
    kinds = [type(event) for event in events]
    if kinds.count(ev.RunFinished) != 1 or kinds[-1] is not ev.RunFinished:
        broken.append("it has not exactly one terminal event, the last")
    results = Counter(event.call_id for event in events if isinstance(event, ev.ToolCallResult))
    calls = {call.id for event in events if isinstance(event, ev.ResponseFinished) for call in event.message.calls}
    if any(results[call] != 1 for call in calls):
        broken.append(f"calls {calls} with results {dict(results)}")
    if kinds.count(ev.StepStarted) != kinds.count(ev.StepFinished):
        broken.append("a step was not closed")
    begun = {event.attempt for event in events if isinstance(event, ev.AttemptStarted)}
    ended = {event.attempt for event in events if isinstance(event, ev.AttemptFailed | ev.ResponseFinished)}
    if begun != ended:
        broken.append(f"attempts {begun} begun, {ended} ended")
    if ev.CompletionAccepted in kinds:
        after = kinds[kinds.index(ev.CompletionAccepted) :]
        if ev.ToolExecutionStarted in after or ev.StepStarted in after:
            broken.append("something began after the accepted completion")
        (last,) = events[-1:]
        if not isinstance(last, ev.RunFinished) or last.outcome.status != "completed":
            broken.append(f"accepted, and yet {last}")
    return broken


class Turns:
    """Lets so many turns of the event loop pass, again and again, so that points in a run can be counted."""

    def __init__(self) -> None:
        self.passed = 0
        self.most: int | None = None

    async def pass_by(self) -> None:
        """Until the most have passed."""
        while self.most is None or self.passed < self.most:
            await asyncio.sleep(0)
            self.passed += 1


def tools(turns: int = 8) -> list[Tool]:
    """Tools that take a few turns of the loop."""

    async def look(n: int) -> str:
        for _ in range(turns):
            await asyncio.sleep(0)
        return f"seen {n}"

    async def put(n: int) -> str:
        for _ in range(turns):
            await asyncio.sleep(0)
        return f"put {n}"

    return [Tool(look, description="Look.", reads=True), Tool(put, description="Put.")]


async def cancelled_after(engine: Engine, path: Path, turns: int) -> tuple[Run, int | None]:
    """A run that is cancelled after so many turns of the loop, and the number of its last event then."""
    last: int | None = None
    async with engine.start("go", record=path) as run:
        for _ in range(turns):
            if run.finished:
                break
            await asyncio.sleep(0)
        else:
            last = run.bus.last
            run.cancel("test")
        await run.wait()
    return run, last


async def turns_of(engine: Engine, path: Path) -> int:
    """How many turns of the loop a whole run takes."""
    turns = Turns()
    counting = asyncio.ensure_future(turns.pass_by())
    await engine.run("go", record=path)
    counting.cancel()
    path.unlink()
    return turns.passed


SCRIPT: list[list[tuple[str, dict[str, Any]]]] = [
    [("look", {"n": 1}), ("look", {"n": 2})],
    [("put", {"n": 1}), ("look", {"n": 3}), ("put", {"n": 2})],
    [("look", {"n": 4}), ("finish_task", {"summary": "done"})],
]


def _event(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    chunk = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return f"data: {json.dumps(chunk)}\n\n".encode()


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            size = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
            asked = json.loads(await reader.readexactly(size))
            step = sum(message["role"] == "assistant" for message in asked["messages"])
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
            pieces = []
            for index, (name, arguments) in enumerate(SCRIPT[min(step, 2)]):
                said = {"name": name, "arguments": json.dumps(arguments)}
                calls = [{"index": index, "id": f"c{step}{index}", "type": "function", "function": said}]
                pieces.append(_event({"role": "assistant", "tool_calls": calls}))
            pieces += [_event({}, "tool_calls"), b"data: [DONE]\n\n"]
            for piece in pieces:
                writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                await writer.drain()
                await asyncio.sleep(0)
            writer.write(b"0\r\n\r\n")
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    except asyncio.CancelledError:  # asyncio's streams say so loudly, on 3.11, if it goes through
        pass
    finally:
        writer.close()


@asynccontextmanager
async def endpoint() -> AsyncIterator[str]:
    """A chat-completions endpoint on loopback that plays `SCRIPT`, chunk by chunk; gives its URL."""
    server = await asyncio.start_server(_serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    finally:
        server.close()


async def cancels(provider: Provider, folder: Path, points: int, seed: int) -> Counter[str]:
    """Cancel so many runs, each at a random point; how they ended, and what was broken."""
    from random import Random

    random, tally = Random(seed), Counter[str]()
    async with Engine(provider, tools=tools()) as engine:
        await turns_of(engine, folder / "warm.jsonl")
        most = 1.2 * await turns_of(engine, folder / "whole.jsonl")
        for _ in range(points):
            path = folder / "r.jsonl"
            path.unlink(missing_ok=True)
            run, last = await cancelled_after(engine, path, random.randrange(int(most)))
            # The loop turns while it waits for a socket, too, and so more often on a busy machine. One in five cancels
            # is to come too late: then they come anywhere in a run.
            most *= 0.96 if last is None else 1.01
            tally[run.outcome.stop_reason] += 1
            for broken in await broken_promises(path, last):
                tally[f"BROKEN {broken}"] += 1
    return tally

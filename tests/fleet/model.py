"""A model that outlives everybody who asks it: `python model.py SIDE_LOG [HOST]` prints the port that it listens on.

It speaks OpenAI's streamed chat completions and plays the script of the session that asks (`script.py`). Which step
is due it takes from the request alone: from the number of results in it. It notes in the side log, a line each:

    begun   a request has come; `step` is which one is due, `number` which request of all it is, `by` who asks: the
            name in its address, http://.../as/NAME/v1
    whole   its response has been sent to the last byte
    lost    its reader had left before
    torn    a request that no run may send: calls without results, doubled results, or results where no step ends
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import time
from itertools import count
from pathlib import Path
from typing import Any

from aiohttp import web
from script import Script, script_of


class Model:
    """Answers, and notes what it answers."""

    def __init__(self, side_log: Path) -> None:
        self._gates = side_log.parent
        self._log = os.open(side_log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._numbers = count(1)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """One response."""
        body = await request.json()
        number, by = next(self._numbers), request.match_info["name"]
        place = _place(body["messages"])
        if isinstance(place, str):
            self._note("torn", who=place, number=number, by=by, messages=body["messages"])
            return web.json_response({"error": {"message": f"no run may ask this: {place}"}}, status=400)
        script, step, heard = place
        about = {"who": script.who, "step": step, "number": number, "by": by}
        self._note("begun", **about, heard=heard)
        try:
            response = await self._stream(request, script, step, number)
        except (asyncio.CancelledError, ConnectionError):
            self._note("lost", **about)
            raise
        self._note("whole", **about)
        return response

    async def _stream(self, request: web.Request, script: Script, step: int, number: int) -> web.StreamResponse:
        stream = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await stream.prepare(request)
        for place, delta in enumerate(_deltas(script, step, number)):
            if place == 1 and step == script.hold:
                await self._gate(script.who)
            await stream.write(_line({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}))
            await asyncio.sleep(script.pace)
        await stream.write(_line({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}))
        await stream.write(_line({"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 20}}))
        await stream.write(b"data: [DONE]\n\n")
        await stream.write_eof()
        return stream

    async def _gate(self, who: str) -> None:
        while not (self._gates / f"go-{who}").exists():
            await asyncio.sleep(0.005)

    def _note(self, what: str, **about: Any) -> None:
        line = {"t": time.monotonic_ns(), "what": what, **about}
        os.write(self._log, json.dumps(line).encode() + b"\n")


def _place(messages: list[dict[str, Any]]) -> tuple[Script, int, list[str]] | str:
    """The script that is played, the step that is due, and what else the user has said; or what is wrong."""
    script: Script | None = None
    heard: list[str] = []
    results = 0
    opened: set[str] = set()
    for message in messages:
        match message["role"]:
            case "user":
                found = script_of(_text(message))
                if found is not None:
                    script, heard, results = found, [], 0
                else:
                    heard.append(_text(message))
            case "assistant":
                opened = {call["id"] for call in message.get("tool_calls") or ()}
            case "tool":
                if message["tool_call_id"] not in opened:
                    return f"{script and script.who}: a result without a call"
                opened.discard(message["tool_call_id"])
                results += 1
        if opened and message["role"] == "user":
            return f"{script and script.who}: a call without a result"
    if script is None or opened:
        return f"{script and script.who}: no script, or calls without results"
    step = script.step(results)
    return f"{script.who}: after {results} results no step is due" if step is None else (script, step, heard)


def _text(message: dict[str, Any]) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _deltas(script: Script, step: int, number: int) -> list[dict[str, Any]]:
    """A response, piece by piece. The ids of its calls name the response, so that no two of them share an id."""
    deltas: list[dict[str, Any]] = [{"content": f"word {place} of step {step} "} for place in range(script.chunks)]
    for index, name in enumerate(script.calls(step)):
        arguments = json.dumps(script.arguments(step, name))
        half = len(arguments) // 2
        head = {"id": f"call_{step}_{index}_{number}", "type": "function", "function": {"name": name, "arguments": ""}}
        rest = [{"function": {"arguments": piece}} for piece in (arguments[:half], arguments[half:])]
        deltas += [{"tool_calls": [{"index": index, **piece}]} for piece in (head, *rest)]
    return deltas


def _line(chunk: dict[str, Any]) -> bytes:
    whole = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "scripted", **chunk}
    return b"data: " + json.dumps(whole).encode() + b"\n\n"


async def main(side_log: str, host: str = "127.0.0.1") -> None:
    """Answer until the process is ended."""
    logging.getLogger("aiohttp").setLevel(logging.CRITICAL)  # it complains of each reader that was killed
    app = web.Application(client_max_size=1 << 24)
    app.router.add_post("/as/{name}/v1/chat/completions", Model(Path(side_log)).answer)
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, host, 0, backlog=1024).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

"""A provider on loopback with the four wires, whose model follows the script of a scenario.

It knows the step by the conversation alone, reports tokens that no estimate meets, and answers what agents ask beside
their loop: titles, routers, checks for loops, lists of models, counts of tokens.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal

from aiohttp import web

from .scenarios import ANSWER, Fault, Scenario, Toolbox
from .schemas import fitting
from .wires import Question, Reply, Text, Tokens, Wire, wire_of

LATE = (0.0, 0.005, 0.05)
"""Seconds from the last event of a stream to its end, one after the other."""
PAUSE, SILENCE = 0.7, 8.0
"""Seconds between the events of a slow response, and before its last part."""
SUMMARY = """<state_snapshot>
The user wants the word one in the file one.txt, and read back. Parts were counted, one command for each part so far.
No file is written yet. What is left: count the parts that are missing, then say that the file is written.
</state_snapshot>"""
"""What the model says to a request for a summary of the conversation."""
_SUMMARY_WORDS = ("detailed summary of", "CONTEXT CHECKPOINT COMPACTION. ", "generate the <state_snapshot>")
SLOW_EVENTS = 6
"""Events of a slow response that a pause follows."""


@dataclass
class Answered:
    """A request to a model, and what it got."""

    wire: str
    step: int
    side: bool
    """Whether it is no request of the agent's loop."""
    tokens: Tokens
    late: float
    """Seconds from the last event to the end of the stream."""
    streamed: bool
    counted: bool
    """Whether the response says its tokens: a stream of chat completions does if it was asked to."""
    status: int = 200
    ended: Literal["whole", "broken", "left"] = "left"
    """Whether all was sent, the provider broke off, or the agent left."""
    body: str = ""
    """The request's body."""


@dataclass
class ScriptedProvider:
    """Plays one scenario to one agent."""

    scenario: Scenario
    late: tuple[float, ...] = LATE
    answered: list[Answered] = field(default_factory=list)
    other: list[str] = field(default_factory=list)
    """Methods and paths of requests that ask no model."""
    _seen: Counter[int] = field(default_factory=Counter)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer a request."""
        raw = await request.read()
        wire = wire_of(request.path_qs)
        if request.method != "POST" or wire is None:
            self.other.append(f"{request.method} {request.path}")
            return self._answer_other(request.path, raw)
        if request.headers.get("content-encoding") == "gzip":
            raw = gzip.decompress(raw)
        body = json.loads(raw)
        question = wire.read(request.path_qs, body)
        text = raw.decode(errors="replace")
        tools = Toolbox(question.tools, text)
        late = self.late[len(self.answered) % len(self.late)] if question.streamed else 0.0
        counted = not question.streamed or question.usage_wanted or wire.name != "chat"
        summary = self.scenario.full_at > 0 and _asks_for_summary(body)
        side = summary or not tools.works
        tokens = self._tokens(raw, side)
        said = Answered(wire.name, question.steps, side, tokens, late, question.streamed, counted, body=text)
        self.answered.append(said)
        fault = self._fault(said)
        if fault and fault.kind == "refuse":
            said.status, said.ended = fault.status, "whole"
            return _refusal(wire, fault.status)
        reply = self._reply(request, body, question, tools, said, SUMMARY if summary else ANSWER)
        if question.streamed:
            return await self._stream(request, wire, reply, question, said, fault)
        return await self._send_whole(request, wire, reply, said, fault)

    def _fault(self, said: Answered) -> Fault | None:
        """Return what happens to this request instead of a response, or in its middle."""
        fault = self.scenario.fault
        if said.side or fault is None or said.step != 1:
            return None
        self._seen[said.step] += 1
        return fault if fault.always or self._seen[said.step] == 1 else None

    def _reply(
        self, request: web.Request, body: Any, question: Question, tools: Toolbox, said: Answered, beside: str
    ) -> Reply:
        """beside: what is said to a request that is none of the loop."""
        number = sum(one.side == said.side for one in self.answered)
        if not said.side:
            step = number - 1 if self.scenario.full_at else question.steps
            parts = self.scenario.script(step, tools)
        elif question.schema:
            parts = [Text(json.dumps(fitting(question.schema, "Write a file")))]
        else:
            parts = [Text(beside)]
        model = body.get("model") or request.path.rpartition("/")[2].partition(":")[0]
        kind = "side" if said.side else "step"
        return Reply(f"{kind}{question.steps:03}n{number:03}", model, tuple(parts), said.tokens)

    def _tokens(self, raw: bytes, side: bool) -> Tokens:
        """Return what a response costs: as much as fills any agent's context, where the scenario says so."""
        tokens = _tokens(raw)
        full = not side and sum(not one.side for one in self.answered) + 1 == self.scenario.full_at
        return Tokens(self.scenario.full_with + tokens.input, tokens.output) if full else tokens

    async def _send_whole(
        self, request: web.Request, wire: Wire, reply: Reply, said: Answered, fault: Fault | None
    ) -> web.StreamResponse:
        body = json.dumps(wire.whole(reply)).encode()
        if self._is_slow(said):
            await asyncio.sleep(SILENCE)
        response = web.StreamResponse(headers={"content-type": "application/json", "x-request-id": reply.id})
        response.content_length = len(body)
        await response.prepare(request)
        if fault:
            await response.write(body[: len(body) // 2])
            _break_off(request, said)
            return response
        await response.write(body)
        await response.write_eof()
        said.ended = "whole"
        return response

    async def _stream(
        self,
        request: web.Request,
        wire: Wire,
        reply: Reply,
        question: Question,
        said: Answered,
        fault: Fault | None,
    ) -> web.StreamResponse:
        headers = {"content-type": wire.content_type(question), "cache-control": "no-cache", "x-request-id": reply.id}
        response = web.StreamResponse(headers=headers)
        await response.prepare(request)
        events = list(wire.events(reply, question))
        breaks_at = len(events) // 2 if fault else -1
        try:
            for number, event in enumerate(events):
                if number == breaks_at:
                    _break_off(request, said)
                    return response
                if self._is_slow(said):
                    last = number == len(events) - 1
                    await asyncio.sleep(SILENCE if last else PAUSE if number < SLOW_EVENTS else 0)
                await response.write(event)
            said.ended = "whole"
            await asyncio.sleep(said.late)
            await response.write_eof()
        except ConnectionError:
            pass
        return response

    def _is_slow(self, said: Answered) -> bool:
        return self.scenario.slow and not said.side and said.step == 0

    def _answer_other(self, path: str, raw: bytes) -> web.Response:
        if path.endswith("/count_tokens"):
            return web.json_response({"input_tokens": _tokens(raw).input})
        if path.endswith(":countTokens"):
            return web.json_response({"totalTokens": _tokens(raw).input})
        if path.endswith("/models"):
            model = {"id": "model", "object": "model", "owned_by": "nobody", "created": 1_700_000_000}
            return web.json_response({"object": "list", "data": [model]})
        return web.json_response({"error": {"message": f"nothing is at {path}"}}, status=404)


def _asks_for_summary(body: Any) -> bool:
    """Return whether a summary of the conversation is asked for, in words of the agents; notes may follow."""
    said = next((body[name] for name in ("messages", "input", "contents") if isinstance(body.get(name), list)), [])
    return any(words in json.dumps(said[-2:]) for words in _SUMMARY_WORDS)


def _tokens(raw: bytes) -> Tokens:
    """Return numbers of tokens that follow from the request's bytes, and from nothing that could be estimated."""
    digest = hashlib.sha256(raw).digest()
    return Tokens(20_000 + int.from_bytes(digest[:2]) % 50_000, 500 + int.from_bytes(digest[2:4]) % 5_000)


def _refusal(wire: Wire, status: int) -> web.Response:
    message = "Too many requests: try again in 1 s" if status == 429 else "The request is refused (by the script)"
    headers = {"retry-after": "1"} if status == 429 else {}
    return web.json_response(wire.error(status, message), status=status, headers={"x-request-id": "refused", **headers})


def _break_off(request: web.Request, said: Answered) -> None:
    said.ended = "broken"
    if request.transport is not None:
        request.transport.abort()

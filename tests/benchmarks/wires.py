"""Measures what a step and a chunk cost on each wire of ours, beside chat completions, in one run.

    python tests/benchmarks/wires.py [--rounds 9] [--page FILE]

A server in a process of its own says the same on each wire: texts in pieces, a call of a tool in each step, the
completion in the last. CPU is this process's alone. Ratios are taken within a round, in turning order, and the table
shows the median of the rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from endstop import Engine, tool
from endstop.decision import Limits, Policy
from endstop.providers import Anthropic, Gemini, OpenAICompatible, OpenAIResponses, Provider
from run import ROOT, Process, say
from table import commit, machine, write_page
from task import add

STEPS, PIECES = 10, 4_000
"""Steps of a session in the measurement of steps; pieces of text in that of chunks."""
FEW = 10
"""In the measurement of steps each step has so many pieces of text."""
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
Call = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Wire:
    """A wire: how it is reached, by what its requests are known, and the events of a response."""

    make: Callable[[str], Provider]
    path: str
    """Part of the path that only its requests have."""
    events: Callable[[Sequence[str], Call, int], Iterator[bytes]]
    """From pieces of text, a call, and the number of the step."""


def chat(texts: Sequence[str], call: Call, step: int) -> Iterator[bytes]:
    """A streamed chat completion."""
    head = {"id": "chatcmpl-bench", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "bench"}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        return _data({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    name, arguments = call
    begun = {"index": 0, "id": f"call_{step}", "type": "function", "function": {"name": name, "arguments": ""}}
    yield chunk({"role": "assistant", "content": ""})
    yield from (chunk({"content": text}) for text in texts)
    yield chunk({"tool_calls": [begun]})
    for piece in _pieces(arguments):
        yield chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
    yield chunk({}, "tool_calls")
    yield _data({**head, "choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 20}})
    yield b"data: [DONE]\n\n"


def messages(texts: Sequence[str], call: Call, step: int) -> Iterator[bytes]:
    """A streamed message of Anthropic's."""
    name, arguments = call
    usage = {"input_tokens": 100, "output_tokens": 1}
    begun = {"type": "tool_use", "id": f"toolu_{step}", "name": name, "input": {}}
    yield _named(
        {"type": "message_start", "message": {"id": "msg", "role": "assistant", "content": [], "usage": usage}}
    )
    yield _named({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})
    for text in texts:
        yield _named({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}})
    yield _named({"type": "content_block_stop", "index": 0})
    yield _named({"type": "content_block_start", "index": 1, "content_block": begun})
    for piece in _pieces(arguments):
        delta = {"type": "input_json_delta", "partial_json": piece}
        yield _named({"type": "content_block_delta", "index": 1, "delta": delta})
    yield _named({"type": "content_block_stop", "index": 1})
    end = {"stop_reason": "tool_use", "stop_sequence": None}
    yield _named({"type": "message_delta", "delta": end, "usage": {"output_tokens": 20}})
    yield _named({"type": "message_stop"})


def generate_content(texts: Sequence[str], call: Call, step: int) -> Iterator[bytes]:
    """A streamed response of Gemini's, each event with the fields that the vendor sends."""
    counts = {"promptTokenCount": 100, "totalTokenCount": 120, "thoughtsTokenCount": 5}
    details = [{"modality": "TEXT", "tokenCount": 100}]

    def event(part: dict[str, Any], tokens: int, **end: Any) -> bytes:
        candidate = {"content": {"parts": [part], "role": "model"}, **end, "index": 0}
        usage = {**counts, "candidatesTokenCount": tokens, "promptTokensDetails": details}
        named = {"modelVersion": "gemini-3-pro-preview", "responseId": "r5TbaN2mJqWdkdUP1Kq4oQg"}
        return _data({"candidates": [candidate], "usageMetadata": usage, **named})

    name, arguments = call
    yield from (event({"text": text}, number % 20) for number, text in enumerate(texts))
    yield event({"functionCall": {"name": name, "args": arguments}, "thoughtSignature": "c2ln" * 50}, 20)
    yield event({"text": ""}, 20, finishReason="STOP")


def responses(texts: Sequence[str], call: Call, step: int) -> Iterator[bytes]:
    """A streamed response of OpenAI's Responses API."""
    name, arguments = call
    said = {"id": "msg_0ca3f598125653cf01693c1f2ba6408195b1", "type": "message", "role": "assistant"}
    called = {"id": "fc_0ca3f598125653cf01693c1f26c80881959e", "type": "function_call", "name": name}
    called |= {"call_id": f"call_{step}"}
    whole = {**said, "content": [{"type": "output_text", "text": "".join(texts), "annotations": []}]}
    done = {**called, "arguments": json.dumps(arguments), "status": "completed"}

    def event(kind: str, index: int, **fields: Any) -> bytes:
        return _named({"type": f"response.{kind}", "sequence_number": 4, "output_index": index, **fields})

    def delta(kind: str, index: int, id: str, piece: str) -> bytes:
        return event(kind, index, item_id=id, content_index=0, delta=piece, logprobs=[], obfuscation="Yk3kq8Wd1")

    yield event("output_item.added", 0, item={**said, "content": [], "status": "in_progress"})
    yield from (delta("output_text.delta", 0, said["id"], text) for text in texts)
    yield event("output_item.done", 0, item={**whole, "status": "completed"})
    yield event("output_item.added", 1, item={**called, "arguments": "", "status": "in_progress"})
    for piece in _pieces(arguments):
        yield delta("function_call_arguments.delta", 1, called["id"], piece)
    yield event("output_item.done", 1, item=done)
    response = {"status": "completed", "output": [whole, done], "usage": {"input_tokens": 100, "output_tokens": 20}}
    yield _named({"type": "response.completed", "response": response})


WIRES = {
    "chat completions": Wire(lambda url: OpenAICompatible("bench", url, api_key="none"), "/chat/completions", chat),
    "OpenAI's Responses": Wire(
        lambda url: OpenAIResponses("bench", api_base=url, api_key="none"), "/responses", responses
    ),
    "Anthropic": Wire(lambda url: Anthropic("bench", api_base=url, api_key="none"), "/messages", messages),
    "Gemini": Wire(lambda url: Gemini("bench", api_base=url, api_key="none"), ":streamGenerate", generate_content),
}
FIRST = "chat completions"
"""The wire that the others are compared with."""


def _data(value: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n"


def _named(value: dict[str, Any]) -> bytes:
    return f"event: {value['type']}\n".encode() + _data(value)


def _pieces(arguments: dict[str, Any]) -> list[str]:
    text = json.dumps(arguments)
    return [text[at : at + 8] for at in range(0, len(text), 8)]


# ---- the server


async def serve() -> None:
    """Print a port, then answer until killed. The number of pieces and steps stand in the path of a request."""
    server = await asyncio.start_server(_answer_all, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def _answer_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the requests of one connection: one session after the other."""
    replies: dict[str, list[bytes]] = {}
    number = 0
    while True:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        length = next(int(line[15:]) for line in head.split("\r\n") if line.lower().startswith("content-length:"))
        await reader.readexactly(length)
        path = head.split()[1]
        if path not in replies:
            replies[path] = _replies(path)
        for write in (replies[path][number % len(replies[path])],):
            writer.write(write)
        number += 1
        await writer.drain()


def _replies(path: str) -> list[bytes]:
    """The responses of a session, each as the bytes of a body in which every event is a chunk of HTTP."""
    wire = next(wire for wire in WIRES.values() if wire.path in path)
    steps, pieces = map(int, path.split("/")[1].split("x"))
    texts = [f" word{number % 89}" for number in range(pieces)]
    bodies = []
    for step in range(steps):
        last = step == steps - 1
        call: Call = ("finish_task", {"summary": "All is added."}) if last else ("add", {"a": step, "b": 1})
        frames = [b"%x\r\n%b\r\n" % (len(event), event) for event in wire.events(texts, call, step)]
        bodies.append(HEAD + b"".join(frames) + b"0\r\n\r\n")
    return bodies


# ---- the measurement


async def cpu_seconds(wire: Wire, server: str, steps: int, pieces: int, sessions: int) -> float:
    """CPU of so many sessions, after one that is not counted."""
    provider = wire.make(f"{server}/{steps}x{pieces}/v1")
    engine = Engine(provider, tools=[tool(add)], policy=Policy(limits=Limits(steps=1000)), system="")
    async with engine:
        await _session(engine)
        began = time.process_time()
        for _ in range(sessions):
            await _session(engine)
        return time.process_time() - began


async def _session(engine: Engine) -> None:
    outcome = await engine.run("Add the numbers, then finish.")
    if outcome.stop_reason != "completed":
        raise RuntimeError(f"{outcome.stop_reason}: {outcome.detail}")


Round = dict[str, tuple[float, float]]
"""By wire: milliseconds of a step, microseconds of a chunk."""


def once(number: int, server: str) -> Round:
    """One round, each wire in its turn."""
    names = [*WIRES]
    turn = number % len(names)
    done: Round = {}
    for name in (*names[turn:], *names[:turn]):
        wire = WIRES[name]
        step = asyncio.run(cpu_seconds(wire, server, STEPS, FEW, 20)) / 20 / STEPS * 1e3
        chunk = asyncio.run(cpu_seconds(wire, server, 1, PIECES, 4)) / 4 / PIECES * 1e6
        done[name] = step, chunk
    say("  " + ", ".join(f"{name} {step:.3f} ms {chunk:.2f} µs" for name, (step, chunk) in done.items()))
    return done


def table(rounds: Sequence[Round]) -> str:
    """The table of the wires."""
    lines = ["| wire | CPU of a step | x | CPU of a chunk | x |", "|---|--:|--:|--:|--:|"]
    for name in WIRES:
        step, chunk = (median(done[name][figure] for done in rounds) for figure in (0, 1))
        steps, chunks = (median(done[name][figure] / done[FIRST][figure] for done in rounds) for figure in (0, 1))
        lines.append(f"| {name} | {step:.2f} ms | {steps:.2f} | {chunk:.2f} µs | {chunks:.2f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--page", type=Path, default=ROOT / "docs/explanation/performance.md")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.serve:
        asyncio.run(serve())
        return
    began, load, state = time.monotonic(), os.getloadavg()[0], commit(ROOT)
    with Process(Path(sys.argv[0]).name, "--serve") as process:
        server = f"http://127.0.0.1:{process.line().strip()}"
        rounds = [once(number, server) for number in range(chosen.rounds)]
    command = f"python tests/benchmarks/wires.py --rounds {chosen.rounds}"
    text = f"{machine(state, command, len(rounds), load, time.monotonic() - began)}\n\n{table(rounds)}"
    write_page(chosen.page, text, "wires")
    print(text)


if __name__ == "__main__":
    main()

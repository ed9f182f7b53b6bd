"""What of ours reads what others wrote, each as a function for `check_fuzzed_inputs`, with inputs that it can read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
from endstop import Redaction, WrongUse, read_record
from endstop.cli.factory import load_policy
from endstop.decision import events as ev
from endstop.decision.call_arguments import ArgumentsBuffer
from endstop.decision.call_effects import call_effect
from endstop.decision.call_results import call_end, has_passed
from endstop.decision.confirmation import parse_reply
from endstop.decision.echoes import is_echo
from endstop.decision.novelty import essential_text
from endstop.decision.policy import Echo
from endstop.decision.shell_commands import shell_effect
from endstop.decision.text_kinds import classify_text
from endstop.formats import export_atif, export_openai, export_otlp, find_sessions
from endstop.formats.importer import ImportedRecord, Importer, RecordFolder
from endstop.http.problems import HttpError
from endstop.providers.error_replies import build_error, parse_error_body
from endstop.providers.errors import ProviderError
from endstop.providers.sse_decoder import SSEDecoder
from endstop.proxy.anthropic_wire import ANTHROPIC as PROXY_ANTHROPIC
from endstop.proxy.chat_wire import CHAT as PROXY_CHAT
from endstop.proxy.gemini_wire import GEMINI as PROXY_GEMINI
from endstop.proxy.responses_wire import RESPONSES as PROXY_RESPONSES
from endstop.proxy.wire import ReportedError, read_messages
from endstop.replay import replay
from endstop.testing.faults.fuzzed_responses import example_responses
from endstop.testing.wires import ANTHROPIC, CHAT, GEMINI, RESPONSES
from endstop.tools.yaml import tools_from_yaml
from endstop.web.ag_ui.request import read_input
from endstop.web.otlp_route import _decode
from endstop.web.schemas import (
    AnswersRequest,
    ApprovalRequest,
    CancelRequest,
    MessageRequest,
    RunRequest,
    SessionRequest,
    decode_body,
    read_answers,
    read_approval,
    read_checked_prompt,
)

from ...shared_data import SHARED
from ..formats import (
    heard,
    test_anthropic,
    test_broken_files,
    test_cline,
    test_openai_agents,
    test_opencode,
    test_swe_agent,
    test_tau_bench,
)

RECORDS = Path(__file__).parents[2] / "records"
LARGEST = 12_000
"""Bytes of an example."""


@dataclass(frozen=True)
class Target:
    """One function that reads."""

    name: str
    read: Callable[[bytes], object]
    examples: tuple[bytes, ...]
    raises: tuple[type[Exception], ...]
    share: int
    """Of a million inputs."""

    def __str__(self) -> str:
        return self.name


def targets(folder: Path) -> Iterator[Target]:
    """All of them. folder: for their files."""
    (folder / "handlers.py").write_text("def handle(place='', deep=False): ...\n")
    yield Target("record", _RecordReader(folder), _short_records(), (WrongUse,), 40_000)
    yield Target("session", _SessionImporter(folder), _sessions(folder), (WrongUse,), 80_000)
    yield Target("policy", _file_reader(folder / "policy.toml", _policy), _policies(), (WrongUse,), 50_000)
    yield Target("tools", _file_reader(folder / "tools.yaml", tools_from_yaml), _tools(), (WrongUse,), 30_000)
    yield Target("error reply", _error_reply, _error_bodies(), (), 50_000)
    yield Target("request body", _request_body, _bodies(), (HttpError, WrongUse), 50_000)
    yield Target("AG-UI request", read_input, _ag_ui(), (WrongUse,), 40_000)
    yield Target("spans", _spans, _span_bodies(), (HttpError,), 50_000)
    yield Target("proxied request", _proxied_request, _proxied_requests(), (ValueError,), 40_000)
    yield Target("proxied response", _proxied_response, _streams(), (ValueError, ReportedError, ProviderError), 40_000)
    yield Target("events", _events, _streams(), (ProviderError,), 25_000)
    yield Target("arguments", _arguments, _argument_texts(), (), 30_000)
    yield Target("texts", _texts, _TEXTS, (), 20_000)
    yield Target("redaction", _redacted, _TEXTS, (), 15_000)


# ---- records and sessions


class _RecordReader:
    """Reads a record and replays it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "fuzzed.jsonl"

    def __call__(self, data: bytes) -> None:
        self._path.write_bytes(data)
        record = read_record(self._path)
        asyncio.run(replay(record))


class _SessionImporter:
    """Imports the sessions of a file, and reads the records that come of it."""

    def __init__(self, folder: Path) -> None:
        self._path, self._records = folder / "fuzzed.json", folder / "imported"

    def __call__(self, data: bytes) -> None:
        self._path.write_bytes(data)
        folder = RecordFolder(self._records, replace=True)
        for found in Importer(folder).import_all(find_sessions(self._path)):
            if isinstance(found, ImportedRecord):
                read_record(found.record)


def _short_records() -> tuple[bytes, ...]:
    found = sorted(RECORDS.glob("*.jsonl"), key=lambda path: path.stat().st_size)
    return tuple(path.read_bytes() for path in found if 1000 < path.stat().st_size < LARGEST)


def _sessions(folder: Path) -> tuple[bytes, ...]:
    """A session of each format, two databases, and sessions of others where there are any."""
    events = [event for run in read_record(RECORDS / "greeting.jsonl").runs for event in run.events]
    whole = [export.export("s", events)[0] for export in (export_openai, export_atif, export_otlp)]
    others = sorted((SHARED / "data" / "foreign_made").glob("*"))
    return (
        *map(msgspec.json.encode, (*whole, *_OF_FORMATS)),
        *map(test_broken_files.content, test_broken_files.COMPARED),
        test_opencode.make_database(folder / "opencode.db").read_bytes(),
        test_openai_agents.make_database(folder / "agents.db", {"a": test_openai_agents.ITEMS}).read_bytes(),
        *(path.read_bytes() for path in others if path.stat().st_size < LARGEST),
    )


_OF_FORMATS = (
    test_anthropic.SESSION,
    [test_cline.reply(test_cline.streamed("Look.", test_cline.DONE, prompt_tokens=9, completion_tokens=7))],
    test_tau_bench.result(heard.user("a"), heard.says(None, heard.call("c", "find")), heard.answer("c", "b")),
    test_swe_agent.trajectory(
        test_swe_agent.shown("Fix the bug"),
        test_swe_agent.used("Look.", "c1", "open", '{"path":"a"}'),
        test_swe_agent.observed("c1", "[File: a]"),
        test_swe_agent.acted("Hand in.", "submit"),
    ),
)
"""Sessions of the formats of which `COMPARED` has none."""


# ---- settings


def _file_reader(path: Path, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    def write_and_read(data: bytes) -> object:
        path.write_bytes(data)
        return read(path)

    return write_and_read


def _policy(path: Path) -> object:
    return load_policy(str(path), closing=True)


def _policies() -> tuple[bytes, ...]:
    return (
        b'base = "agent"\nname = "mine"\n[limits]\nsteps = 20\nseconds = 60.0\ncost_usd = 1\n[patience]\nechoes = 2\n',
        b'base = "strict"\nrecommended = "open_search"\nrules = ["completion_accepted"]\nguards = []\n',
    )


def _tools() -> tuple[bytes, ...]:
    return (
        b"""tools:
  - name: look
    description: Look at a place.
    parameters:
      place: string
      deep: {type: boolean, description: whether to look twice}
    reads: true
    timeout: 5
    handler: handlers.py:handle
  - name: stop
    description: Stop.
    kind: completion
    handler: handlers.py:handle
""",
    )


# ---- requests and replies


def _error_reply(data: bytes) -> None:
    parsed = parse_error_body(data, {"retry-after": data[:20].decode("latin-1")})
    build_error(parsed, status=429, headers={"retry-after-ms": data[-9:].decode("latin-1")})


def _error_bodies() -> tuple[bytes, ...]:
    errors = (
        {"error": {"message": "Slow down.", "type": "rate_limit", "code": 429, "param": None}},
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded."}, "request_id": "r"},
        {"error": {"code": 429, "message": "Quota.", "status": "X", "details": [{"@type": "a", "retryDelay": "7s"}]}},
        [{"error": {"message": "a"}}],
        {"detail": [{"loc": ["body"], "msg": "wrong", "type": "value_error"}]},
    )
    return (*(json.dumps(error).encode() for error in errors), b"<html><body>Bad gateway</body></html>", b"upstream")


def _request_body(data: bytes) -> None:
    """As each kind of body; what one refuses, another may take."""
    refused: Exception | None = None
    for kind in (SessionRequest, RunRequest, MessageRequest, AnswersRequest, ApprovalRequest, CancelRequest):
        try:
            body = decode_body(data, kind)
            if isinstance(body, SessionRequest | RunRequest):
                read_checked_prompt(body.prompt, 1000)
            elif isinstance(body, MessageRequest):
                read_checked_prompt(body.text, 1000)
            elif isinstance(body, AnswersRequest):
                read_answers(body, 1000)
            elif isinstance(body, ApprovalRequest):
                read_approval(body, 1000)
            return
        except (HttpError, WrongUse) as error:
            refused = error
    assert refused is not None
    raise refused


def _bodies() -> tuple[bytes, ...]:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    bodies = (
        {"prompt": "Look.", "agent": "a", "history": [{"role": "user", "content": "x"}], "metadata": {"a": 1}},
        {"prompt": [{"type": "text", "text": "Look."}, image]},
        {"text": "more"},
        {"answers": [{"call_id": "c", "text": "yes"}, {"call_id": "d", "approved": False, "reason": "no"}]},
        {"call_id": "c", "approved": True, "arguments": {"a": 1}},
        {"cause": "user"},
    )
    return tuple(json.dumps(body).encode() for body in bodies)


def _ag_ui() -> tuple[bytes, ...]:
    said = {"id": "m", "role": "user", "content": "Look."}
    parts = {"id": "n", "role": "user", "content": [{"type": "text", "text": "a"}, {"type": "binary", "mimeType": "b"}]}
    given = {"threadId": "t", "runId": "r", "state": {}, "tools": [], "context": [], "forwardedProps": {"agent": "a"}}
    answered = {"id": "o", "role": "tool", "toolCallId": "c", "content": "yes"}
    resume = [{"interruptId": "c", "status": "resolved", "payload": {"approved": True}}]
    bodies = ({"messages": [said]}, {"messages": [said, answered]}, {"messages": [said], "resume": resume})
    with_context = {"messages": [parts, said], "context": [{"description": "d", "value": "v"}]}
    return tuple(json.dumps(given | body).encode() for body in (*bodies, with_context))


def _spans(data: bytes) -> None:
    _decode(data, as_protobuf=not data.lstrip().startswith(b"{"))


def _span_bodies() -> tuple[bytes, ...]:
    events = [event for run in read_record(RECORDS / "greeting.jsonl").runs for event in run.events]
    assert isinstance(events[0], ev.RunStarted)
    as_json = msgspec.json.encode(export_otlp.export("s", events[:40])[0])
    inner = b"\x0a\x10" + b"\x01" * 16 + b"\x12\x08" + b"\x02" * 8 + b"\x2a\x04chat\x39" + b"\x01" * 8
    span = b"\x12" + bytes([len(inner)]) + inner
    scope = b"\x12" + bytes([len(span)]) + span
    return as_json, b"\x0a" + bytes([len(scope)]) + scope


def _proxied_request(data: bytes) -> None:
    try:
        body = msgspec.json.decode(data)
    except RecursionError:
        raise ValueError("too deep") from None
    if not isinstance(body, dict):
        raise ValueError("no object")
    for wire in (PROXY_CHAT, PROXY_ANTHROPIC, PROXY_RESPONSES, PROXY_GEMINI):
        if wire.items in body:
            read_messages(wire.read(body, "/models/m:generateContent").items)


def _proxied_requests() -> tuple[bytes, ...]:
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    said = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": [{"type": "text", "text": "a"}]}]
    turns = [{"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c"}]
    item = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": "a"}
    parts = {"functionCall": {"name": "look", "args": {}}}, {"functionResponse": {"name": "look", "response": {"a": 1}}}
    contents = [{"parts": [part], "role": role} for part, role in zip(parts, ("model", "user"), strict=True)]
    declared = [{"functionDeclarations": [{"name": "look"}]}]
    bodies = (
        {"model": "m", "stream": True, "messages": [*said, *turns], "tools": [tool]},
        {"model": "m", "system": [{"type": "text", "text": "s"}], "messages": said[1:], "tools": [{"name": "look"}]},
        {"model": "m", "input": [*said, item, output], "previous_response_id": "r", "tools": [{"type": "function"}]},
        {"model": "m", "input": "Look.", "conversation": {"id": "x"}},
        {"contents": contents, "tools": declared, "systemInstruction": {"parts": {}}},
    )
    return tuple(json.dumps(body).encode() for body in bodies)


def _proxied_response(data: bytes) -> None:
    """As the response of each wire."""
    found = next((w for w, mark in _MARKS if mark in data[:200]), PROXY_CHAT)
    assembler = found.open_assembler()
    for at in range(0, len(data), 100):
        assembler.feed(data[at : at + 100])
    assembler.response()


_MARKS = ((PROXY_ANTHROPIC, b"message_start"), (PROXY_RESPONSES, b"response."), (PROXY_GEMINI, b"candidates"))


def _streams() -> tuple[bytes, ...]:
    return tuple(body for wire in (CHAT, ANTHROPIC, RESPONSES, GEMINI) for body in example_responses(wire))


# ---- pieces of responses, and texts


def _events(data: bytes) -> None:
    """At once and in small blocks, which must give the same."""
    assert _decoded([data]) == _decoded([data[at : at + 7] for at in range(0, len(data), 7)])


def _decoded(blocks: list[bytes]) -> list[bytes]:
    decoder = SSEDecoder()
    return [event for block in blocks for event in decoder.feed(block)] + decoder.end()


def _arguments(data: bytes) -> None:
    """At once and in small pieces, which must give the same."""
    text = data.decode("utf-8", "replace")
    assert _collected([text]) == _collected([text[at : at + 3] for at in range(0, len(text), 3)])


def _collected(pieces: list[str]) -> tuple[str, bool]:
    buffer = ArgumentsBuffer()
    for piece in pieces:
        buffer.feed(piece)
    buffer.finish()
    return buffer.text, buffer.whole


def _argument_texts() -> tuple[bytes, ...]:
    whole = json.dumps({"command": "ls", "cells": [{"a": '"}'}, []]})
    return tuple(text.encode() for text in (whole, "{}" + whole, f"{whole}\n{whole}", json.dumps(whole), "{}", " { } "))


def _texts(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    classify_text(text)
    is_echo(text, Echo())
    parse_reply(text)
    call_end(text)
    has_passed(text)
    essential_text(text)
    shell_effect(text)
    call_effect("bash", json.dumps({"command": text}))


def _redacted(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    assert isinstance(_REDACTION(text), str)


_REDACTION = Redaction()
_TEXTS = (
    b"Okay, I understand. I could not find it. Shall I go on?\n- [x] one\n- [ ] two: 3 of 4\n```\ncode\n```\n",
    b'cd /tmp && cat <<\'EOF\' > a.txt\nline\nEOF\ngrep -rn "x" . | sort > out.csv; python -c \'open("b", "w")\'\n',
    b'Traceback (most recent call last):\n  File "a.py", line 3, in f\nValueError: no\nexit code: 1\n(venv) a@b:~$ ',
    b"password = hunter2!x\nAuthorization: Bearer abcdefghijklmnop.eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln\n",
)

"""What of the package reads foreign text, each as a function of one text, and the texts that all of them are given."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from endstop import Redaction, WrongUse, read_record
from endstop.analysis.tested_commands import read_script
from endstop.base.sanitize import sanitize
from endstop.cli.factory import load_policy
from endstop.decision import Assembler, FinishReport, Policy, ReasoningDelta, TextDelta, ToolCallDelta, ToolSpec
from endstop.decision.call_arguments import ArgumentsBuffer
from endstop.decision.call_effects import call_effect
from endstop.decision.call_results import call_end, has_passed, ran_out_of_time, still_runs
from endstop.decision.confirmation import parse_reply
from endstop.decision.degeneration import find_repetition
from endstop.decision.delta_merger import DeltaMerger
from endstop.decision.echoes import is_announcement, is_echo
from endstop.decision.messages import AssistantMessage
from endstop.decision.novelty import distinct_lines, essential_text, says_nothing_found, without_line_numbers
from endstop.decision.policy import Echo
from endstop.decision.program_text import code_effect
from endstop.decision.shell_commands import shell_effect
from endstop.decision.text_kinds import classify_text
from endstop.decision.written_files import files_in_code, files_in_output
from endstop.follow.followed_response import FollowedResponse
from endstop.formats import find_sessions
from endstop.formats.agent_notes import split_words
from endstop.formats.importer import Importer, RecordFolder
from endstop.http.problems import HttpError
from endstop.providers import Anthropic, Gemini, OpenAICompatible, OpenAIResponses
from endstop.providers.error_replies import build_error, parse_error_body
from endstop.providers.errors import ProviderError
from endstop.providers.sse_decoder import SSEDecoder
from endstop.proxy.anthropic_wire import ANTHROPIC
from endstop.proxy.chat_wire import CHAT
from endstop.proxy.exchange import EventSplitter
from endstop.proxy.responses_wire import RESPONSES
from endstop.proxy.wire import ReportedError
from endstop.testing.faults.fuzzed_responses import read_response
from endstop.testing.wires import WIRES, WireFormat
from endstop.web.otlp_route import _decode
from endstop.work.summary_lines import read_summary

from .families import Family

BLOCK = 500
"""Bytes of a block of a stream."""
PIECE = 3
"""Characters of a delta."""


class Reader(NamedTuple):
    """One function that reads, and the modules whose patterns give the families that it is tried on."""

    name: str
    read: Callable[[str], object]
    modules: tuple[str, ...] = ()
    share: float = 1.0
    """Of the length that others are given: it is that much slower for good reasons, as it writes what it reads."""


COMMON = tuple(
    Family(begins, piece)
    for begins in ("", '{"a":"', '[{"a":"', "[", '{"a":1}', "data: ", "data: {}\n\n", "event: error\n", "```\n", '"')
    for piece in (
        '\\"',
        "\\",
        "\\\\",
        " ",
        "\n",
        "\r",
        "\r\n",
        "{}",
        "{",
        "[",
        "]",
        '{"a":',
        '"',
        '""',
        '{"a":1}',
        '{"a": 1}\n',
        ": x\n",
        "data: x\n",
        "data:\n",
        "event: error\n",
        "\n ",
        "\t",
        "a",
        "a ",
        "0",
        "0 ",
        "a\n",
        "\\u00",
        "\\ud83d",
        "<a>",
        "</a",
        "<",
        "(",
        "'",
        "`",
        "```\n",
        "é",
        "中",
    )
)
"""Families that no pattern gives: the signs of JSON, of streams and of fences."""


def readers(folder: Path) -> Iterator[Reader]:
    """All of them. folder: for their files."""
    yield from _text_readers()
    yield from _stream_readers()
    yield from _file_readers(folder)


# ---- texts


def _text_readers() -> Iterator[Reader]:
    endless = Echo(shorter_than=10**9, announcements=("next I will",))
    calls: dict[str, Callable[[str], object]] = {
        "classify_text": classify_text,
        "is_echo": lambda text: is_echo(f"Okay, I understand. {text}", endless),
        "is_announcement": lambda text: is_announcement(text, endless),
        "parse_reply": parse_reply,
        "call_end": lambda text: (call_end(text), call_end(text, effect="checks"), call_end(text, effect="reads")),
        "has_passed": has_passed,
        "checks": lambda text: (read_summary(text), read_script("test_a.py", text), read_script("test.sh", text)),
        "out of time": lambda text: (ran_out_of_time(text, True), ran_out_of_time(text, False), still_runs(text)),
        "novelty": lambda text: (
            distinct_lines(text),
            essential_text(text),
            says_nothing_found(text),
            without_line_numbers(text),
        ),
        "files_in_output": lambda text: files_in_output(text, "{}"),
        "files_in_code": files_in_code,
        "code_effect": code_effect,
        "shell_effect": shell_effect,
        "patch": lambda text: call_effect("apply_patch", json.dumps({"input": text})),
        "editor": lambda text: call_effect("edit", json.dumps({"command": "create", "path": text})),
        "repetition": lambda text: [
            find_repetition(part, text, Policy().degeneration) for part in ("text", "arguments")
        ],
        "sanitize": sanitize,
        "split_words": lambda text: split_words([text]),
        "error reply": lambda text: build_error(
            parse_error_body(text.encode("utf-8", "replace"), {"retry-after": text[:99]}), status=429
        ),
        "error message": lambda text: build_error(
            parse_error_body(json.dumps({"error": {"message": text}})), status=400
        ),
    }
    modules = ("endstop.decision.", "endstop.providers.error", "endstop.base.sanitize", "endstop.formats.agent_notes")
    short = (
        "is_echo",
        "is_announcement",
        "parse_reply",
    )  # bounded by a policy, and typed by a user
    for name, read in calls.items():
        yield Reader(name, read, modules, 0.4 if name in short else 1.0)
    yield Reader("redaction", Redaction(), ("endstop.records.",))


# ---- streams


def _pieces(text: str) -> Iterator[str]:
    return (text[at : at + PIECE] for at in range(0, len(text), PIECE))


def _blocks(data: bytes) -> list[bytes]:
    return [data[at : at + BLOCK] for at in range(0, len(data), BLOCK)]


def _arguments(text: str) -> None:
    for begins in ("", '{"a":1}', "{}"):
        buffer = ArgumentsBuffer()
        buffer.feed(begins)
        for piece in _pieces(text):
            buffer.feed(piece)
        buffer.finish()
        assert isinstance(buffer.text, str)


def _deltas(text: str) -> list[list[Any]]:
    kinds = (TextDelta, ReasoningDelta, lambda piece: ToolCallDelta(0, "c", "finish", piece))
    return [[kind(piece) for piece in _pieces(text)] for kind in kinds]  # type: ignore[operator]


def _followed(text: str) -> None:
    finish = ToolSpec(name="finish", description="", parameters={"type": "object"}, kind="completion")
    for deltas in _deltas(text):
        response = FollowedResponse(1, "1.1", Policy(), {"finish": finish}, set(), lambda event: None, cuts=True)
        for delta in deltas:
            response.feed(delta)
        response.finish("stop", "stop", None, 0, "m")


def _assembled(text: str) -> None:
    for deltas in _deltas(text):
        assembler, merger = Assembler(1, "1.1", set()), DeltaMerger()
        for at in range(0, len(deltas), 20):
            for chunk in merger.merge(deltas[at : at + 20]):
                assembler.feed(chunk)
        assembler.feed(FinishReport("stop", "stop"))
        assert isinstance(assembler.message, AssistantMessage)


def _decode_events(text: str) -> None:
    decoder = SSEDecoder()
    try:
        for block in _blocks(text.encode("utf-8", "replace")):
            decoder.feed(block)
        decoder.end()
    except ProviderError:
        return


def _split_events(text: str) -> None:
    splitter = EventSplitter()
    for block in _blocks(text.encode("utf-8", "replace")):
        splitter.feed(block)


@lru_cache(maxsize=1)
def _bodies(wire: WireFormat, text: str) -> list[bytes]:
    """A text in deltas of each kind, as bytes: made once, since to make them is not what is measured."""
    kinds = 2 if wire.name == "gemini" else 3  # which sends arguments as JSON, in one piece
    ends = FinishReport("stop", "completed")
    return [b"".join(wire.stream([*deltas, ends])) for deltas in _deltas(text)[:kinds]]


def _proxied(open_assembler: Callable[[], Any], body: bytes) -> None:
    assembler = open_assembler()
    try:
        for block in _blocks(body):
            assembler.feed(block)
        assembler.response()
    except (ValueError, ReportedError, ProviderError):
        return


def _stream_readers() -> Iterator[Reader]:
    modules = (
        "endstop.providers.sse",
        "endstop.providers.gemini",
        "endstop.proxy.",
        "endstop.decision.call_arguments",
        "endstop.decision.degeneration",
    )
    yield Reader("arguments in pieces", _arguments, modules)
    yield Reader("followed deltas", _followed, modules, 0.3)
    yield Reader("assembled deltas", _assembled, modules, 0.5)
    yield Reader("SSE decoder", _decode_events, modules)
    yield Reader("proxy's splitter", _split_events, modules)
    providers = (
        OpenAICompatible("m", "http://127.0.0.1/v1"),
        OpenAIResponses("m", api_key="none"),
        Anthropic("m", api_key="none"),
        Gemini("m", api_key="none"),
    )
    for provider in providers:
        path = provider.url.partition("?")[0]
        wire = next(wire for wire in WIRES if path.endswith(wire.path))

        def raw(text: str, provider: Any = provider) -> object:
            return read_response(provider.open_parser, _blocks(text.encode("utf-8", "replace")))

        def spoken(text: str, provider: Any = provider, wire: Any = wire) -> None:
            for body in _bodies(wire, text):
                read_response(provider.open_parser, _blocks(body))

        yield Reader(f"{wire.name}: body", raw, modules)
        yield Reader(f"{wire.name}: deltas", spoken, modules, 0.1)
    for proxied, name in ((CHAT, "chat"), (ANTHROPIC, "anthropic"), (RESPONSES, "responses")):
        wire = next(wire for wire in WIRES if wire.name == name)

        def assembled(text: str, proxied: Any = proxied, wire: Any = wire) -> None:
            for body in _bodies(wire, text):
                _proxied(proxied.open_assembler, body)

        yield Reader(f"proxy, {name}: deltas", assembled, modules, 0.1)


# ---- files


def _file_readers(folder: Path) -> Iterator[Reader]:
    path = folder / "growth.json"
    records = RecordFolder(folder / "records", replace=True)

    def imported(text: str) -> None:
        path.write_bytes(text.encode("utf-8", "replace"))
        try:
            list(Importer(records).import_all(find_sessions(path)))
        except WrongUse:
            return

    def written(name: str, read: Callable[[Path], object]) -> Callable[[str], None]:
        def reads(text: str) -> None:
            file = folder / name
            file.write_bytes(text.encode("utf-8", "replace"))
            try:
                read(file)
            except WrongUse:
                return

        return reads

    def spans(text: str, as_protobuf: bool) -> None:
        try:
            _decode(text.encode("utf-8", "replace"), as_protobuf=as_protobuf)
        except HttpError:
            return

    formats = ("endstop.formats.", "endstop.decision.call_results")
    yield Reader("session file", imported, ("endstop.formats.",))
    for name, made in _SESSIONS.items():
        yield Reader(f"import: {name}", lambda text, made=made: imported(made(text)), formats, 0.2)  # type: ignore[misc]
    begins = (Path(__file__).parents[1] / "records" / "greeting.jsonl").read_text().split("\n", 1)[0]
    yield Reader("record", written("growth.jsonl", lambda file: asyncio.run(_read_record(file))), ("endstop.records.",))
    yield Reader(
        "record's lines", lambda text: written("growth.jsonl", read_record)(f"{begins}\n{text}"), ("endstop.records.",)
    )
    yield Reader("policy file", written("growth.toml", lambda file: load_policy(str(file), closing=True)), (), 0.2)
    yield Reader("OTLP, JSON", lambda text: spans(text, False))
    yield Reader("OTLP, protobuf", lambda text: spans(text, True))


async def _read_record(file: Path) -> object:
    return read_record(file)


def _lines(*values: Any) -> str:
    return "\n".join(map(json.dumps, values))


_SESSIONS: dict[str, Callable[[str], str]] = {
    "chat": lambda text: json.dumps(
        {
            "messages": [
                {"role": "user", "content": text},
                {
                    "role": "assistant",
                    "content": text,
                    "tool_calls": [{"id": "c", "type": "function", "function": {"name": "bash", "arguments": text}}],
                },
                {"role": "tool", "tool_call_id": "c", "content": text},
            ]
        }
    ),
    "Codex": lambda text: _lines(
        {
            "timestamp": "2026-01-01T00:00:00Z",
            "type": "session_meta",
            "payload": {"id": "a", "cwd": "/", "originator": "x", "cli_version": "1"},
        },
        *(
            {"timestamp": "2026-01-01T00:00:00Z", "type": "response_item", "payload": item}
            for item in (
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]},
                {"type": "function_call", "call_id": "c", "name": "shell", "arguments": text},
                {"type": "function_call_output", "call_id": "c", "output": text},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]},
            )
        ),
    ),
    "ShareGPT": lambda text: json.dumps(
        [
            {
                "id": "s",
                "conversations": [
                    {"from": "human", "value": text},
                    {"from": "gpt", "value": text},
                    {"from": "tool", "value": text},
                ],
            }
        ]
    ),
    "mini-SWE-agent": lambda text: json.dumps(
        {
            "info": {"exit_status": text, "submission": text},
            "trajectory_format": "mini-swe-agent-1",
            "messages": [
                {"role": "system", "content": text},
                {"role": "user", "content": text},
                {"role": "assistant", "content": text},
                {"role": "user", "content": text},
            ],
        }
    ),
    "SWE-agent": lambda text: json.dumps(
        {
            "environment": "e",
            "trajectory": [{"action": text, "observation": text, "response": text, "thought": text}],
            "history": [{"role": "system", "content": text}, {"role": "user", "content": text}],
            "info": {"exit_status": text},
        }
    ),
    "Claude Code": lambda text: _lines(
        *(
            {
                "type": kind,
                "sessionId": "s",
                "uuid": str(number),
                "parentUuid": str(number - 1) if number else None,
                "timestamp": "2026-01-01T10:00:00Z",
                "message": {"role": kind, "content": content},
            }
            for number, (kind, content) in enumerate(
                [
                    ("user", text),
                    (
                        "assistant",
                        [
                            {"type": "text", "text": text},
                            {"type": "tool_use", "id": "c", "name": "Bash", "input": {"command": text}},
                        ],
                    ),
                    ("user", [{"type": "tool_result", "tool_use_id": "c", "content": text}]),
                ]
            )
        )
    ),
}
"""Sessions with one text in all their places, by the program that writes such."""

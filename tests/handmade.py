"""Records written by hand, as an importer would write a session from elsewhere: no streams, few decisions, no usage."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from endstop import read_record
from endstop.records.format import encode_line
from msgspec.structs import replace

Line = dict[str, Any]
Call = tuple[str, dict[str, Any]]

READ: Call = ("read_file", {"path": "a.txt"})
FINISH: Call = ("finish_task", {"summary": "The port is set."})
TOOLS = (
    {"name": "read_file", "description": "Read.", "parameters": {}},
    {"name": "finish_task", "description": "Finish.", "parameters": {}, "kind": "completion"},
    {"name": "ask_user", "description": "Ask.", "parameters": {}, "kind": "question"},
)


def write(path: Path, *events: Line | Sequence[Line], session: str = "s") -> Path:
    """A record of these events, numbered within each run."""
    lines: list[Line] = [{"type": "HEADER", "format": "endstop-record", "version": "1.0", "session_id": session}]
    number = 0
    for event in _flat(events):
        number = 1 if event["type"] == "RUN_STARTED" else number + 1
        lines.append({**event, "seq": number, "t": 10 * number})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def write_whole(record: Path) -> Path:
    """Write a record anew as version 1.0 does: nothing is left out of its lines."""
    read = read_record(record)
    lines: list[Any] = [replace(read.header, version="1.0")]
    for run in read.runs:
        lines += [*run.events, *run.after_cut]
    record.write_bytes(b"".join(encode_line(line) + b"\n" for line in lines))
    return record


def _flat(events: Iterable[Line | Sequence[Line]]) -> Iterable[Line]:
    for event in events:
        if isinstance(event, dict):
            yield event
        else:
            yield from _flat(event)


def started(run: str = "run_a", *, prompt: str = "Set the port", **fields: Any) -> list[Line]:
    """A run and its only round begin."""
    given = {"policy": {"name": "agent"}, "model": "elsewhere", "tools": TOOLS, **fields}
    return [
        {"type": "RUN_STARTED", "run_id": run, "session_id": "s", "prompt": prompt, **given},
        {"type": "ROUND_STARTED", "round": 1},
    ]


def step(
    number: int, *calls: Call, text: str = "", finish: str = "", results: bool = True, status: str = "ok"
) -> list[Line]:
    """A step whose response stands there as a whole, and what its calls returned."""
    made = [(f"c{number}.{place}", name, json.dumps(arguments)) for place, (name, arguments) in enumerate(calls)]
    message = {
        "role": "assistant",
        "text": text,
        "calls": [{"id": id, "name": name, "arguments": arguments} for id, name, arguments in made],
    }
    answers = [
        {"type": "TOOL_CALL_RESULT", "call_id": id, "name": name, "content": f"result of {id}", "status": status}
        for id, name, _ in made
    ]
    return [
        {"type": "STEP_STARTED", "step": number, "round": 1},
        {"type": "ATTEMPT_STARTED", "attempt": f"{number}.1"},
        {
            "type": "RESPONSE_FINISHED",
            "step": number,
            "attempt": f"{number}.1",
            "message": message,
            "finish": finish or ("tool_calls" if calls else "stop"),
        },
        *(answers if results else ()),
        {"type": "STEP_FINISHED", "step": number},
    ]


def steps(first: int, last: int) -> list[Line]:
    """Steps that each read another file."""
    return [line for number in range(first, last + 1) for line in step(number, ("read_file", {"path": f"{number}"}))]


def stopped(reason: str, **fields: Any) -> Line:
    """A decision to stop."""
    decision = {"do": "stop", "rule": "theirs", "reason": reason, **fields}
    return {"type": "DECISION_MADE", "round": 1, "decision": decision}


def finished(reason: str, status: str, steps: int, run: str = "run_a", **fields: Any) -> Line:
    """The run's end."""
    outcome = {"run_id": run, "session_id": "s", "status": status, "stop_reason": reason, "steps": steps, **fields}
    return {"type": "RUN_FINISHED", "outcome": outcome}

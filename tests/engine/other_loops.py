"""A recorded session of another loop, whose calls end in every way that a result can tell."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from endstop.decision import Event
from endstop.formats import FORMATS, ImportOptions, events_of
from endstop.records.recorder import RecordWriter

CALLS: tuple[tuple[str, dict[str, Any], str, str], ...] = (
    ("bash", {"command": "ls"}, "a.py\nb.py", "unknown"),
    ("bash", {"command": "cat a.py"}, "<returncode>0</returncode>\nx = 1", "succeeded"),
    ("bash", {"command": "grep -n y a.py"}, "<returncode>1</returncode>\n<output>\n</output>", "nothing_found"),
    ("bash", {"command": "pytest"}, "<returncode>1</returncode>\n1 failed", "failed"),
    ("read_file", {"path": "a.py"}, "x = 1", "unknown"),
    ("edit_file", {"path": "a.py"}, "The file a.py has been edited.", "succeeded"),
    (
        "bash",
        {"command": "python3 b.py > out.txt"},
        "Traceback (most recent call last):\n  boom\nKeyError: 1",
        "failed",
    ),
    ("bash", {"command": "python3 b.py"}, "Saved to plot.png", "unknown"),
)
"""Tool, arguments, result, and how the call ended."""
ENDS = [end for *_, end in CALLS]
FAILED = sum(end in ("failed", "nothing_found") for end in ENDS)
CHANGED = ["a.py"]
"""The files that they changed; a program says that it saved `plot.png`, too."""
SESSION = "session"


def events_of_calls(calls: Sequence[tuple[str, dict[str, Any], str, str]] = CALLS) -> list[Event]:
    """The session as it is imported."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Mend a.py"}]
    for number, (name, arguments, result, _) in enumerate(calls):
        call = {"id": f"c{number}", "function": {"name": name, "arguments": json.dumps(arguments)}}
        messages += [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": result},
        ]
    messages.append({"role": "assistant", "content": "It is mended."})
    (session,) = FORMATS["openai"].sessions(messages)
    return events_of(session, SESSION, "openai", ImportOptions())


def record_of_calls(path: Path, calls: Sequence[tuple[str, dict[str, Any], str, str]] = CALLS) -> Path:
    """The record of that session."""
    writer = RecordWriter(path, SESSION, "", "test")
    for event in events_of_calls(calls):
        writer.write(event)
    writer.close()
    return path

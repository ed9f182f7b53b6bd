"""What a call of `endstop hook` costs an agent: a whole process, at the first, the 100th and the 2,000th event.

    python tests/benchmarks/hook_calls.py [--times 20]

Each measured process gets a copy of the session as it is after the events before, which are made in this process.
Events are those of Claude Code before and after a tool, in turn, of calls that each do something new. Beside them: an
event in which nothing is done, which is what Python and the imports of the shortest way take, and `python -c pass`.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from endstop.agent_hook.handler import answer_event
from endstop.cli.hook_options import add_options, read_settings

EVENTS = (1, 2, 99, 100, 1_999, 2_000)
HOOK = (str(Path(sys.executable).with_name("endstop")), "hook", "--record")
NOTHING = b'{"hook_event_name": "Notification", "session_id": "measured", "cwd": "/"}'


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--times", type=int, default=20, help="processes of each row (default %(default)s)")
    times = parser.parse_args().times
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    print(f"medians of {times} processes, in ms\n\n| | wall time | CPU |\n| --- | --: | --: |")
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        _row("`python -c pass`", [_took((sys.executable, "-c", "pass"), b"", environment) for _ in range(times)])
        _row("an event that says nothing", [_measured(place, NOTHING, environment) for _ in range(times)])
        session = place / "session"
        for number in range(1, max(EVENTS) + 1):
            event = _event(number, place)
            if number in EVENTS:
                taken = [_measured(place, event, environment) for _ in range(times)]
                _row(f"event {number:,}, {'before' if number % 2 else 'after'} a tool", taken)
            answer_event(event, _settings(session), {})


def _event(number: int, place: Path) -> bytes:
    """Return the JSON of an event: a call is begun by an odd one, and ended by the next."""
    call = (number + 1) // 2
    said: dict[str, Any] = {
        "session_id": "measured",
        "cwd": str(place),
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": f"sed -n {call}p part{call % 7}.txt"},
        "tool_use_id": f"toolu_{call}",
    }
    if number % 2 == 0:
        said["hook_event_name"] = "PostToolUse"
        said["tool_response"] = {"stdout": f"line {call} has {call * 7919} words, and this is new", "stderr": ""}
    return json.dumps(said).encode()


def _settings(folder: Path) -> Any:
    """Return what the command's options give."""
    parser = argparse.ArgumentParser()
    add_options(parser)
    return read_settings(parser.parse_args(["--record", str(folder)]))


def _measured(place: Path, event: bytes, environment: dict[str, str]) -> tuple[float, float]:
    """Return the wall time and the CPU of a process that handles an event in a copy of the session."""
    copy = place / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    if (place / "session").exists():
        shutil.copytree(place / "session", copy)
    return _took((*HOOK, str(copy)), event, environment)


def _took(words: Sequence[str], given: bytes, environment: dict[str, str]) -> tuple[float, float]:
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(words, input=given, env=environment, capture_output=True, check=True)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    assert not done.stderr, done.stderr.decode()
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu


def _row(name: str, taken: Sequence[tuple[float, float]]) -> None:
    wall, cpu = (median(one[part] for one in taken) * 1_000 for part in (0, 1))
    print(f"| {name} | {wall:.0f} | {cpu:.0f} |", flush=True)


if __name__ == "__main__":
    main()

"""`main()` called within a process leaves it as it was: descriptors, threads, signal handlers, stdout and stderr."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

RECORD = Path(__file__).parents[2] / "records" / "both.jsonl"
CALLS = """
import gc, json, os, shutil, signal, sys, threading
from endstop.cli.main import main

def state():
    gc.collect()
    files = sorted(os.readlink(f"/proc/self/fd/{fd}").split(":")[0] for fd in os.listdir("/proc/self/fd")
                   if os.path.exists(f"/proc/self/fd/{fd}"))
    threads = [thread.name for thread in threading.enumerate() if thread.name != "endstop output"]
    handlers = [str(signal.getsignal(one)) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    return [files, threads, handlers, os.fstat(1).st_ino, os.fstat(2).st_ino]

states = []
for number in range(3):
    for left in ("out", "out.json", "out.html"):
        shutil.rmtree(left, ignore_errors=True) if os.path.isdir(left) else os.path.exists(left) and os.unlink(left)
    try:
        main(sys.argv[1:])
    except SystemExit:
        pass
    sys.stdout.flush()
    states.append(state())
with open("states.json", "w") as file:
    json.dump(states, file)
"""


def states_after(folder: Path, *words: object) -> list[Any]:
    command = [sys.executable, "-c", CALLS, *map(str, words)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found: list[Any] = json.loads((folder / "states.json").read_text())
    return found


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="descriptors are counted in /proc")
@pytest.mark.parametrize(
    "words",
    [
        ("audit", RECORD),
        ("report", RECORD),
        ("replay", RECORD),
        ("backtest", RECORD, "--policy", "strict"),
        ("export", "openai", RECORD, "-o", "out.json"),
        ("export", "html", RECORD, "-o", "out.html"),
        ("redact", RECORD, "-o", "out"),
        ("replay", "missing.jsonl"),
        ("no-such-command",),
    ],
    ids=lambda words: " ".join(str(word) for word in words[:2]).replace(str(RECORD), "RECORD"),
)
def test_a_command_leaves_nothing_open(words: tuple[object, ...], tmp_path: Path) -> None:
    first, *others = states_after(tmp_path, *words)
    assert others == [first, first]


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="descriptors are counted in /proc")
def test_stdout_is_given_back_when_the_command_ends(tmp_path: Path) -> None:
    code = (
        "from endstop.cli.main import main\n"
        f"main(['audit', {str(RECORD)!r}, '--json'])\n"
        "print('printed afterwards', flush=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.stdout.endswith("}\nprinted afterwards\n")

"""How fast `endstop view` is over many records: the list, the text search, a long session, and memory.

    python tests/benchmarks/view.py RECORDS [--sessions 10 1000 10000] [--folder /tmp/view]

RECORDS are records to copy: each copy gets ids of its own, and a few words that no other copy has. The viewer runs as
a process with an index of its own, which is empty at first. Times are of requests over loopback. The long session has
1,000 steps, made by the engine with a scripted model.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

from endstop import Engine, Limits, Policy, Tool
from endstop.providers import Scripted, call
from endstop.records.files import find_records
from endstop.tools import finish_task

SEARCHES = (
    *("error", "traceback most recent", "import os", "file", "the", "con", "edit_file", '"no such file"', "return"),
    *("permission denied", "test_", "customer", "zebra", "copy_7 marker", "assert", "json", "https", "def", "a"),
)  # fmt: skip
ROUNDS = 5
STEPS = 1000


def copy_records(sources: list[Path], sessions: int, folder: Path) -> int:
    """Make so many records; returns their bytes."""
    shutil.rmtree(folder, ignore_errors=True)
    size = 0
    for number in range(sessions):
        text = sources[number % len(sources)].read_text(encoding="utf-8")
        copy = number // len(sources)
        ids = set(re.findall(r'"(?:session_id|run_id)":"([^"]+)"', text))
        for id in ids:
            text = text.replace(f'"{id}"', f'"{id}_{copy}"')
        text = text.replace('"prompt":"', f'"prompt":"copy_{copy} marker_{number}: ', 1)
        target = folder / f"{number // 500:03}" / f"{number:06}.jsonl"
        target.parent.mkdir(parents=True, exist_ok=True)
        size += target.write_bytes(text.encode())
    return size


async def record_long_session(path: Path) -> str:
    """A session of `STEPS` steps; returns its id."""

    async def look(n: int) -> str:
        return f"{n}: " + "a line of some output\n" * 20

    script = [[f"I look at {n}.", call("look", n=n)] for n in range(STEPS - 1)]
    policy = Policy(limits=Limits(steps=STEPS + 1))
    engine = Engine(
        Scripted(*script, call("finish_task", summary="all seen")),
        tools=[Tool(look, description="Look."), finish_task],
        policy=policy,
    )
    session = engine.session(record=path)
    outcome = await session.run("Look at everything")
    assert outcome.status == "completed", outcome
    return str(session.id)


class Viewer:
    """A viewer in a process of its own."""

    def __init__(self, folder: Path, index: Path) -> None:
        command = [sys.executable, "-m", "endstop.cli.main", "view", str(folder), "--port", "0", "--index", str(index)]
        self.began = time.perf_counter()
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().rsplit(" ", 1)[1].strip()

    def get(self, path: str) -> Any:
        with urlopen(self.url + path) as reply:
            return json.loads(reply.read())

    def until(self, path: str, key: str) -> float:
        """Seconds since the start until `key` is null."""
        while self.get(path)[key] is not None:
            time.sleep(0.05)
        return time.perf_counter() - self.began

    def megabytes(self) -> float:
        """The largest memory of the process so far."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()


def timed(viewer: Viewer, path: str) -> float:
    began = time.perf_counter()
    viewer.get(path)
    return 1000 * (time.perf_counter() - began)


def time_stream(viewer: Viewer, session: str) -> tuple[float, float]:
    """Milliseconds to the first event of a session, and to the last."""
    began = time.perf_counter()
    first = 0.0
    with urlopen(f"{viewer.url}/sessions/{session}/events") as reply:
        for line in reply:
            if line.startswith(b"data: "):
                first = first or time.perf_counter() - began
                if b'"type":"RUN_FINISHED"' in line:
                    break
    return 1000 * first, 1000 * (time.perf_counter() - began)


def percentiles(times: list[float]) -> dict[str, float]:
    return {"p50": round(statistics.median(times), 1), "p95": round(sorted(times)[int(0.95 * (len(times) - 1))], 1)}


def measure(sources: list[Path], sessions: int, folder: Path) -> Iterator[tuple[str, Any]]:
    """The figures for so many sessions."""
    records, index = folder / "records", folder / "index.sqlite"
    for path in folder.glob("index.sqlite*"):
        path.unlink()
    yield "sessions", sessions
    yield "records_mb", round(copy_records(sources, sessions, records) / 1e6, 1)
    long = asyncio.run(record_long_session(records / "long.jsonl"))
    os.sync()
    viewer = Viewer(records, index)
    try:
        yield "listening_s", round(time.perf_counter() - viewer.began, 2)
        while not viewer.get("/sessions?limit=1")["sessions"]:
            time.sleep(0.01)
        yield "first_list_s", round(time.perf_counter() - viewer.began, 2)
        yield "whole_list_s", round(viewer.until("/sessions?limit=1", "reading"), 2)
        yield "text_index_s", round(viewer.until("/sessions?limit=1&q=zebra", "searching"), 1)
        yield "text_index_mb", round(sum(path.stat().st_size for path in folder.glob("index.sqlite.texts*")) / 1e6, 1)
        yield "list_ms", percentiles([timed(viewer, "/sessions?limit=50") for _ in range(20)])
        yield "filtered_ms", percentiles([timed(viewer, "/sessions?limit=50&sort=tokens&errors=1") for _ in range(20)])
        paths = [f"/sessions?limit=50&q={quote(text)}" for text in SEARCHES] * ROUNDS
        searched = [timed(viewer, path) for path in paths]
        yield "search_ms", percentiles(searched)
        yield "slowest_search_ms", round(max(searched), 1)
        first, last = zip(*(time_stream(viewer, long) for _ in range(5)), strict=True)
        yield "first_event_of_1000_steps_ms", round(statistics.median(first), 1)
        yield "last_event_of_1000_steps_ms", round(statistics.median(last), 1)
        yield "request_of_step_1000_ms", round(timed(viewer, f"/sessions/{long}/request?run=1&step=1000"), 1)
        yield "memory_mb", round(viewer.megabytes())
    finally:
        viewer.stop()
    again = Viewer(records, index)
    try:
        yield "second_start_whole_list_s", round(again.until("/sessions?limit=1", "reading"), 2)
        yield "second_start_search_s", round(again.until("/sessions?limit=1&q=zebra", "searching"), 2)
    finally:
        again.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", nargs="+")
    parser.add_argument("--sessions", type=int, nargs="+", default=[10, 1000, 10_000])
    parser.add_argument("--folder", type=Path, default=Path("/tmp/view"))
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    sources = [path for path in find_records(args.records) if path.suffix == ".jsonl"]
    for sessions in args.sessions:
        for name, figure in measure(sources, sessions, args.folder):
            print(f"{name:32} {figure}", flush=True)
        print(flush=True)


if __name__ == "__main__":
    main()

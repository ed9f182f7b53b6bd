"""Measures the import of other loops' sessions beside a bare parse of the same bytes, and records beside their input.

    python tests/benchmarks/session_imports.py [FILE_OR_FOLDER ...] [--times 5] [--json]

Each FILE_OR_FOLDER is a row; the one that is always there is a transcript of the shape of Claude Code's, made here
(2,000 responses with results of 2.5 kB on average). An import reads, writes records to a temporary folder and closes
them, as `endstop import auto` does, in one process; the parse is `orjson.loads` of each file, or of each line of JSON
Lines. Processor time of this process, the best of several times. The stages are measured one on top of the other:
values (files to decoded JSON), sessions (a format's reading of them), events (each step judged), records (no redaction,
encoding, writing).
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import orjson
from endstop.formats import FoundSession, ImportOptions, Unreadable, find_sessions
from endstop.formats.file_values import read_values
from endstop.formats.importer import ImportedRecord, Importer, RecordFolder
from endstop.formats.session_files import list_files, part_owner
from endstop.formats.to_events import write_events

RESPONSES, RESULT_BYTES = 2_000, 2_500


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        made = write_transcript(Path(folder, "claude_like.jsonl"))
        rows = [measure(path, args.times) for path in (made, *args.paths)]
    if args.json:
        print(json.dumps(rows, indent=2))
        return
    print("| data | MB | steps | orjson ms | values | sessions | events | records | import / orjson | bytes / input |")
    print("| --- | --: | --: | --: | --: | --: | --: | --: | --: | --: |")
    for row in rows:
        stages = " | ".join(f"{row[name]:.0f}" for name in ("values", "sessions", "events", "records"))
        print(
            f"| {row['data']} | {row['bytes'] / 1e6:.2f} | {row['steps']:,} | {row['orjson']:.1f} | {stages} "
            f"| {row['ratio']:.1f} | {row['records_bytes'] / row['bytes']:.2f} |"
        )


def measure(path: Path, times: int) -> dict[str, Any]:
    """A row: milliseconds of each stage beyond the stage before it, and bytes."""
    texts = [file.read_bytes() for file in files_of(path)]
    parse = best(lambda: [parse_bare(text) for text in texts], times)
    values = best(lambda: [read_all(file) for file in files_of(path)], times)
    sessions = best(lambda: list(find_sessions(path)), times)
    events = best(lambda: write_all(path), times)
    whole = best(lambda: import_all(path), times)
    steps, size = import_all(path)
    return {
        "data": path.stem,
        "bytes": sum(map(len, texts)),
        "steps": steps,
        "orjson": parse,
        "values": values,
        "sessions": sessions - values,
        "events": events - sessions,
        "records": whole - events,
        "ratio": whole / parse,
        "records_bytes": size,
    }


def best(work: Callable[[], object], times: int) -> float:
    """Milliseconds of processor time, the least of several times."""
    took = []
    for _ in range(times):
        began = time.process_time()
        work()
        took.append(time.process_time() - began)
    return min(took) * 1000


def files_of(path: Path) -> list[Path]:
    return [file for file, _ in list_files(path)]


def parse_bare(text: bytes) -> None:
    """Parse a file as JSON, or else its lines; what is no JSON is passed over."""
    with suppress(ValueError):
        orjson.loads(text)
        return
    for line in text.splitlines():
        with suppress(ValueError):
            orjson.loads(line)


def read_all(path: Path) -> None:
    with open(path, "rb") as file, suppress(Unreadable):
        for _ in read_values(file, part_owner):
            pass


def write_all(path: Path) -> None:
    for found in find_sessions(path):
        if isinstance(found, FoundSession):
            write_events(found.session, found.id, found.format, ImportOptions(), lambda event: None)


def import_all(path: Path) -> tuple[int, int]:
    """Import into a folder that is deleted at once. Returns the number of steps and the bytes of all records."""
    with tempfile.TemporaryDirectory() as folder:
        results = list(Importer(RecordFolder(folder)).import_all(find_sessions(path)))
        steps = sum(one.steps for one in results if isinstance(one, ImportedRecord))
        return steps, sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())


# ---- a transcript of the shape of Claude Code's


def write_transcript(path: Path) -> Path:
    """Write a transcript of one session, the same each time."""
    with open(path, "w", encoding="utf-8") as file:
        for number, line in enumerate(transcript(Random(20))):
            stamp = f"2026-01-01T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}.000Z"
            whole = {"uuid": f"u{number}", "parentUuid": f"u{number - 1}" if number else None, "sessionId": "session",
                     "timestamp": stamp, "version": "2.0.0", "cwd": "/work", "gitBranch": "main", **line}  # fmt: skip
            file.write(json.dumps(whole) + "\n")
    return path


def transcript(random: Random) -> Iterator[dict[str, Any]]:
    words = [f"{random.choice('abcdefgh')}{number:x}" for number in range(4_000)]
    yield {"type": "user", "message": {"role": "user", "content": "Mend the failing tests."}}
    for step in range(RESPONSES):
        id, call = f"msg_{step}", f"toolu_{step:024}"
        usage = {"input_tokens": 9, "cache_read_input_tokens": 900 * step, "output_tokens": 120}
        name, arguments = random.choice([("Read", {"file_path": f"/work/{random.choice(words)}.py"}),
                                         ("Bash", {"command": f"grep -rn {random.choice(words)} src | head -50"}),
                                         ("Edit", {"file_path": "/work/a.py", "old_string": random.choice(words),
                                                   "new_string": " ".join(random.choices(words, k=40))})])  # fmt: skip
        for block in ({"type": "text", "text": " ".join(random.choices(words, k=30))},
                      {"type": "tool_use", "id": call, "name": name, "input": arguments}):  # fmt: skip
            message = {"id": id, "role": "assistant", "model": "m", "content": [block], "usage": usage,
                       "stop_reason": "tool_use"}  # fmt: skip
            yield {"type": "assistant", "message": message}
        lines = random.randrange(2 * RESULT_BYTES // 50)
        result = "\n".join(f"{line}: {' '.join(random.choices(words, k=10))}" for line in range(lines))
        block = {"type": "tool_result", "tool_use_id": call, "content": result}
        yield {"type": "user", "message": {"role": "user", "content": [block]}}
    text = [{"type": "text", "text": "The tests pass now."}]
    message = {"id": "last", "role": "assistant", "model": "m", "content": text, "stop_reason": "end_turn"}
    yield {"type": "assistant", "message": message}


if __name__ == "__main__":
    main()

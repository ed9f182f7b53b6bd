"""Measures the records of live runs beside what they record.

    python tests/benchmarks/record_sizes.py [RECORD ...]

Each row is one record. *Input* is what came into the run, in bytes of UTF-8, each text once: prompt, system prompt,
tools (names, descriptions, schemas), texts, reasoning, names and ids of calls, arguments, results. *Stream* is the
bytes of the HTTP bodies that brought the responses, up to the cut; only a run of the mock provider has them. The runs:
the benchmark of a step (`worker.py`: 19 chunks of six letters, results of two digits), a long text, and sessions as
`records.py` plays them (calls of four tools, results of 200 to 1,500 letters). Below, the lines of each record by type.
With RECORDs, these are the rows instead.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from endstop import read_record
from endstop.decision import events as ev
from mock_provider import planned
from records import _play
from task import Scenario
from worker import Bench

HERE = Path(__file__).parent
SCENARIOS = {
    "20 steps of 19 chunks, all at once": Scenario(steps=20, chunks=10),
    "20 steps of 19 chunks, one every 20 ms": Scenario(steps=20, chunks=10, delay=20),
    "a text of 4,000 chunks, all at once": Scenario(chunks=4000),
    "a text of 400 chunks, one every 10 ms": Scenario(chunks=400, delay=10),
}
SESSIONS = {"50 steps of 16 deltas, results of 200 to 1,500": 16, "50 steps of 60 deltas, the same results": 60}
SHOWN = 8
"""How many types of lines are listed of a record."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("records", nargs="*", type=Path)
    given = parser.parse_args()
    if given.records:
        show([(path.name, path, 0) for path in given.records])
        return
    with tempfile.TemporaryDirectory() as folder:
        show([*asyncio.run(live(Path(folder))), *played(Path(folder))])


async def live(folder: Path) -> list[tuple[str, Path, int]]:
    """The records of runs over HTTP, with the bytes of their streams."""
    provider = subprocess.Popen(
        [sys.executable, HERE / "mock_provider.py"], cwd=HERE, stdout=subprocess.PIPE, text=True
    )
    rows = []
    try:
        assert provider.stdout is not None
        bench = Bench("endstop", f"http://127.0.0.1:{provider.stdout.readline().strip()}")
        contender: Any = bench.contender
        async with contender:
            for number, (name, scenario) in enumerate(SCENARIOS.items()):
                await bench.play(bench.scenario(scenario.steps, scenario.chunks, scenario.delay))
                path = folder / f"live_{number}.jsonl"
                path.write_bytes(Path(contender.folder.name, f"{contender.runs}.jsonl").read_bytes())
                rows.append((name, path, streamed(scenario)))
    finally:
        provider.kill()
        provider.wait()
    return rows


def streamed(scenario: Scenario) -> int:
    """Bytes of a session's responses, without HTTP's chunks around them."""
    plans = [planned(scenario, turns) for turns in range(scenario.steps)]
    writes = [write for plan in plans for write in plan.writes[: plan.call_whole or None]]
    return sum(len(line) + 2 for write in writes for line in write.split(b"\r\n") if line.startswith(b"data: "))


def played(folder: Path) -> Iterator[tuple[str, Path, int]]:
    for name, parts in SESSIONS.items():
        path = folder / f"played_{parts}.jsonl"
        asyncio.run(_play(path, "done", 50, parts, random.Random(1)))
        yield name, path, 0


def came_in(path: Path) -> Counter[str]:
    """Bytes of the input of a record's runs, by kind."""
    sizes: Counter[str] = Counter()
    for event in (event for run in read_record(path).runs for event in run.events):
        match event:
            case ev.RunStarted():
                sizes["prompts"] += size(event.prompt or "", event.system)
                sizes["tools"] += sum(
                    size(tool.name, tool.description, msgspec.json.encode(tool.parameters)) for tool in event.tools
                )
            case ev.MessageAdded(text=text):
                sizes["prompts"] += size(text)
            case ev.ResponseFinished(message=message):
                sizes["texts"] += size(message.text, *(block.text + block.signature for block in message.reasoning))
                sizes["calls"] += sum(size(call.id, call.name, call.arguments) for call in message.calls)
            case ev.ToolCallResult(content=content):
                sizes["results"] += size(content)
            case _:
                pass
    return sizes


def size(*texts: str | bytes) -> int:
    return sum(len(text if isinstance(text, bytes) else text.encode()) for text in texts)


def show(rows: list[tuple[str, Path, int]]) -> None:
    print(
        "| record | bytes | input | prompts, tools, texts, calls, results | record / input | stream | record / stream |"
    )
    print("| --- | --: | --: | --- | --: | --: | --: |")
    for name, path, stream in rows:
        written, sizes = path.stat().st_size, came_in(path)
        kinds = ", ".join(f"{sizes[kind]:,}" for kind in ("prompts", "tools", "texts", "calls", "results"))
        beside = f"{stream:,} | {written / stream:.2f}" if stream else "- | -"
        ratio = written / max(1, sizes.total())
        print(f"| {name} | {written:,} | {sizes.total():,} | {kinds} | {ratio:.2f} | {beside} |")
    for name, path, _ in rows:
        lines: Counter[str] = Counter()
        counts: Counter[str] = Counter()
        for line in path.read_bytes().splitlines(keepends=True):
            kind = json.loads(line)["type"]
            lines[kind] += len(line)
            counts[kind] += 1
        print(f"\n{name}: bytes of lines")
        for kind, number in lines.most_common(SHOWN):
            print(f"  {kind:<24} {number:>8,}  {number / lines.total():>4.0%}  {number / counts[kind]:>7,.0f} a line")


if __name__ == "__main__":
    main()

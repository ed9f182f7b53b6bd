"""A folder of records to measure with: our own engine plays a few sessions, and each file is one of them, renamed.

    python tests/benchmarks/records.py FOLDER [--sessions 10000] [--steps 50] [--parts 16] [--zst]
    python tests/benchmarks/records.py FILE --bytes 1000000000
    python tests/benchmarks/records.py FILE --line 200000000
    python tests/benchmarks/records.py FILE --calls 1000000

The folder is new or empty; its files lie in folders of a thousand. Sessions have `--steps` steps of `--parts` parts of
a stream each (the golden records of a real model have 16 a step) and end in the ways of `KINDS`, by turns. All comes
from `--seed`: the same arguments make the same files.

The second form makes one record of one run with so many bytes, the third one with a single line of so many, the
fourth one with so many calls, in steps of a thousand.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import msgspec
from endstop import Engine, Hooks, Runtime, tool
from endstop.decision import AssistantMessage, Limits, Policy, Price, Repetition, ToolCall, Usage, UsageReport
from endstop.decision import events as ev
from endstop.hooks import Accept, Reject
from endstop.providers import Prices, Scripted, call, say
from endstop.records.compression import create_file
from endstop.records.format import Header
from endstop.records.reader import read_record

KINDS = ("done", "late", "done", "text", "limit", "done", "premature", "repeats", "rejected", "done")
"""How sessions end, by turns, at their last step unless said otherwise.

done: the work is completed, and passes. text: a plain answer, and passes. premature: completed, and does not pass.
limit: the limit of steps. repeats: the same call with the same result for the last 15 steps, up to the limit.
rejected: a completion at three fifths of the way is handed back by a gate; passes.
late: under `strict`, the work was done at three fifths, told in plain text, and the run went on; passes.
"""
VARIANTS = 3
"""Sessions of each kind that are really played."""
MODELS = ("gpt-4o-mini", "claude-haiku-4-5", "qwen-3-32b")
PRICES = Prices({name: Price(input=0.5 * n, output=2.0 * n) for n, name in enumerate(MODELS, 1)}, listed=False)
EPOCH = datetime(2026, 1, 5, tzinfo=UTC)
SESSION = "session_%012d"
RUN = "run_%012d"
VOCABULARY = """
    the port server config value file reads default test fails because handler returns none instead of list so
    change line in settings module then run suite again check output error path user request response timeout retry
    cache index table row column query update delete insert schema version release branch commit merge
"""
WORDS = VOCABULARY.split()


class Ticking:
    """A clock that goes on by a few milliseconds whenever somebody looks at it."""

    def __init__(self, chance: random.Random) -> None:
        self._now = 0.0
        self._chance = chance

    def now(self) -> float:
        self._now += self._chance.uniform(0.001, 0.04)
        return self._now

    def wall(self) -> datetime:
        return EPOCH

    async def sleep(self, seconds: float) -> None:
        self._now += seconds

    def deadline(self, seconds: float | None) -> anyio.CancelScope:
        return anyio.CancelScope()


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """One session as it was played, under names that are as long as those that take their place."""

    kind: str
    content: bytes
    session_id: bytes
    run_id: bytes

    def renamed(self, number: int) -> bytes:
        """Return the same record under names of its own, begun at a time of its own."""
        began = (EPOCH + timedelta(seconds=97 * number)).isoformat(timespec="milliseconds")
        content = self.content.replace(self.session_id, (SESSION % number).encode())
        content = content.replace(self.run_id, (RUN % number).encode())
        return content.replace(EPOCH.isoformat(timespec="milliseconds").encode(), began.encode())


def templates(steps: int, parts: int, seed: int) -> list[Template]:
    """The sessions that are really played: VARIANTS of each kind, in the order of KINDS."""
    played: dict[tuple[str, int], Template] = {}
    with tempfile.TemporaryDirectory(prefix="endstop-records-") as folder:
        for kind in dict.fromkeys(KINDS):
            for variant in range(VARIANTS):
                path = Path(folder, f"{kind}{variant}.jsonl")
                played[kind, variant] = asyncio.run(
                    _play(path, kind, steps, parts, random.Random(f"{seed}{path.name}"))
                )
    return [played[kind, variant] for variant in range(VARIANTS) for kind in KINDS]


async def _play(path: Path, kind: str, steps: int, parts: int, chance: random.Random) -> Template:
    number = chance.randrange(10**6)
    engine = Engine(
        Scripted(*_script(kind, steps, parts, chance), model=chance.choice(MODELS)),
        tools=_tools(chance),
        policy=_policy(kind, steps),
        hooks=Hooks(evaluate=_evaluator(kind, chance), gates=[_second_time()] if kind == "rejected" else []),
        prices=PRICES,
        runtime=Runtime(clock=Ticking(chance)),
    )
    prompt = f"Task {number}: {_text(chance, 400)}"
    outcome = await engine.session(SESSION % 0, record=path).run(prompt)
    if outcome.steps != steps:
        raise RuntimeError(f"{kind}: {outcome.steps} steps instead of {steps}: {outcome.detail}")
    return Template(
        kind=kind,
        content=path.read_bytes(),
        session_id=(SESSION % 0).encode(),
        run_id=outcome.run_id.encode(),
    )


def _policy(kind: str, steps: int) -> Policy:
    limits = Limits(steps=steps if kind in ("limit", "repeats") else 2 * steps)
    repetition = Repetition(stop_at=None) if kind == "repeats" else Repetition()
    if kind == "late":
        return Policy(name="strict", text="nudge", completion="required", limits=limits)
    return Policy(limits=limits, repetition=repetition)


def _script(kind: str, steps: int, parts: int, chance: random.Random) -> Iterator[Any]:
    context = 1500
    for step in range(1, steps + 1):
        last = step == steps
        done_once = step == max(1, steps * 3 // 5)
        if (last and kind == "text") or (done_once and kind == "late"):
            chunks = say(f"Done. {_text(chance, 300)}", parts)
        elif (last and kind not in ("limit", "repeats")) or (done_once and kind == "rejected"):
            chunks = call("finish_task", id=f"call_{step:06d}", pieces=parts, summary=_text(chance, 250))
        elif kind == "repeats" and step > steps - 15:
            chunks = call("read_file", id=f"call_{step:06d}", pieces=parts, path="src/same.py", start_line=1)
        else:
            chunks = _work(step, parts, chance)
        used = chance.randrange(60, 400)
        context += used + 300
        usage = Usage(input_tokens=context, output_tokens=used, cached_tokens=context // 2)
        yield [chunks, UsageReport(usage)]


def _work(step: int, parts: int, chance: random.Random) -> list[Any]:
    """A sentence in some of the steps, and one call."""
    talk = parts // 3 if chance.random() < 0.4 else 0
    spoken = say(_text(chance, 90), talk) if talk else []
    name = chance.choice(("read_file", "read_file", "edit_file", "run_command", "search_files"))
    given: dict[str, Any] = {"path": f"src/{chance.choice(WORDS)}_{step}.py"}
    if name == "edit_file":
        given |= {"old": _text(chance, 80), "new": _text(chance, 100)}
    elif name == "run_command":
        given = {"command": f"pytest -q tests/test_{chance.choice(WORDS)}.py -k {chance.choice(WORDS)}_{step}"}
    elif name == "search_files":
        given = {"pattern": f"{chance.choice(WORDS)}_{step}"}
    return [*spoken, *call(name, id=f"call_{step:06d}", pieces=max(1, parts - talk - 4), **given)]


def _tools(chance: random.Random) -> list[Any]:
    same = _text(chance, 500)

    @tool
    async def read_file(path: str, start_line: int = 1) -> str:
        """Read a text file of the workspace, whole or from a line on."""
        return same if path == "src/same.py" else _text(chance, chance.randrange(200, 1500))

    @tool
    async def edit_file(path: str, old: str, new: str) -> str:
        """Replace one passage of a text file of the workspace."""
        return f"{path}: one passage replaced"

    @tool
    async def search_files(pattern: str) -> str:
        """Search the text files of the workspace."""
        return "\n".join(f"src/{chance.choice(WORDS)}.py:{n}: {pattern}" for n in range(chance.randrange(1, 12)))

    @tool
    async def run_command(command: str) -> str:
        """Run a command in the workspace."""
        return f"{_text(chance, chance.randrange(100, 800))}\n{chance.randrange(50)} passed"

    return [read_file, edit_file, search_files, run_command]


def _evaluator(kind: str, chance: random.Random) -> Any:
    passes = {"premature": False, "repeats": False, "limit": chance.random() < 0.5}.get(kind, True)

    def evaluator(evaluated: Any) -> bool:
        return passes

    return evaluator


def _second_time() -> Any:
    asked = []

    def tests_pass(completion: Any, progress: Any) -> Any:
        asked.append(completion)
        return Accept() if len(asked) > 1 else Reject("2 tests fail")

    return tests_pass


def _text(chance: random.Random, length: int) -> str:
    words = []
    while length > 0:
        words.append(chance.choice(WORDS))
        length -= len(words[-1]) + 1
    return " ".join(words)


# ---- files


def write_folder(
    folder: Path, sessions: int, steps: int = 50, parts: int = 16, seed: int = 1, zst: bool = False
) -> int:
    """Fill a folder; gives the bytes that were written."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise SystemExit(f"{folder} is not empty: name a new folder")
    played = templates(steps, parts, seed)
    written = 0
    for number in range(sessions):
        template = played[number % len(played)]
        place = folder / f"{number // 1000:03d}"
        place.mkdir(exist_ok=True)
        path = place / f"{number:06d}-{template.kind}.jsonl{'.zst' if zst else ''}"
        with create_file(path) as file:
            file.write(template.renamed(number))
        written += path.stat().st_size
    return written


def write_big(path: Path, size: int, parts: int = 16, seed: int = 1) -> None:
    """One record of one run of so many bytes: the steps of a played session again and again, numbered on."""
    with tempfile.TemporaryDirectory(prefix="endstop-records-") as folder:
        played = Path(folder, "r.jsonl")
        asyncio.run(_play(played, "limit", 200, parts, random.Random(seed)))
        record = read_record(played)
        header, events = played.read_bytes().split(b"\n", 1)[0], record.runs[0].events
    first = next(n for n, event in enumerate(events) if isinstance(event, ev.RoundStarted))
    last = next(n for n, event in enumerate(events) if isinstance(event, ev.StageFinished) and n > first)
    with open(path, "wb", buffering=1 << 20) as file:
        file.write(header + b"\n")
        file.write(_lines(events[:first]))
        seq, t = events[first].seq, events[first].t
        span = events[last].t - events[first].t
        while file.tell() < size:
            moved = [_moved(event, seq - events[first].seq, t - events[first].t) for event in events[first:last]]
            file.write(_lines(moved))
            seq, t = seq + len(moved), t + span
        file.write(_lines([_moved(event, seq - events[last].seq, t - events[last].t) for event in events[last:]]))


def _moved(event: Any, by: int, later: int) -> Any:
    return msgspec.structs.replace(event, seq=event.seq + by, t=event.t + later)


def write_line(path: Path, size: int) -> None:
    """A record with a result of so many bytes in one line."""
    _write_made(path, [[ev.ToolCallResult(call_id="c", name="read_file", content="x" * size, fingerprint="f")]])


def write_calls(path: Path, calls: int, a_step: int = 1000) -> None:
    """A record with so many calls, a thousand a step."""

    def steps() -> Iterator[list[Any]]:
        for step in range(1, -(-calls // a_step) + 1):
            ids = [f"c{step}.{n}" for n in range(min(a_step, calls - (step - 1) * a_step))]
            made = tuple(ToolCall(id, "read_file", '{"path":"a.py"}') for id in ids)
            message = AssistantMessage(calls=made)
            yield [
                ev.StepStarted(step=step, round=1),
                ev.AttemptStarted(attempt=f"{step}.1"),
                *(ev.ToolCallStart(attempt=f"{step}.1", call_id=id, name="read_file") for id in ids),
                ev.ResponseFinished(step=step, attempt=f"{step}.1", message=message, finish="tool_calls"),
                *(ev.ToolCallResult(call_id=id, name="read_file", content="ok", fingerprint=id) for id in ids),
                ev.StepFinished(step=step),
            ]

    _write_made(path, steps())


def _write_made(path: Path, blocks: Any) -> None:
    seq = 1
    started = ev.RunStarted(run_id=RUN % 0, session_id=SESSION % 0, prompt="go", policy=Policy(), seq=1)
    with open(path, "wb", buffering=1 << 20) as file:
        file.write(_lines([Header(session_id=SESSION % 0), started]))
        for block in blocks:
            file.write(_lines([_moved(event, seq := seq + 1, seq) for event in block]))


def _lines(events: list[Any]) -> bytes:
    return msgspec.json.Encoder().encode_lines(events)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("place", type=Path, metavar="FOLDER or FILE")
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--parts", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--zst", action="store_true", help="compressed records")
    parser.add_argument("--bytes", type=int, help="one record of so many bytes")
    parser.add_argument("--line", type=int, help="one record with a line of so many bytes")
    parser.add_argument("--calls", type=int, help="one record with so many calls")
    given = parser.parse_args()
    began = time.perf_counter()
    one = given.bytes or given.line or given.calls
    if one and given.place.is_dir():
        raise SystemExit(f"{given.place} is a folder: name a file")
    if given.bytes:
        write_big(given.place, given.bytes, given.parts, given.seed)
    elif given.line:
        write_line(given.place, given.line)
    elif given.calls:
        write_calls(given.place, given.calls)
    else:
        written = write_folder(given.place, given.sessions, given.steps, given.parts, given.seed, given.zst)
        print(f"{given.sessions:,} records, {written / 1e6:,.0f} MB in {time.perf_counter() - began:.1f} s")
        return
    print(f"{given.place.stat().st_size / 1e6:,.0f} MB in {time.perf_counter() - began:.1f} s")


if __name__ == "__main__":
    main()

"""Counts what somebody reads who wants to know the loop: files that one tool call enters, lines, words of resume.

    python tests/benchmarks/loop_size.py [--root ROOT]

Files: a run with one call, whose events go to a record. From the model's first chunk to the line that holds the call's
result, each Python function that is entered in any thread is noted (`sys.setprofile`), and the files of endstop among
them are counted. A coroutine that only goes on after it waited is counted apart. Once with a provider that plays a
script, once over a real wire, from the request on, once for a call whose process was killed before it began.

Lines: of the files that lead from a session to its decision. Words: occurrences of `WORDS` in each file of
`engine/`, not of its packages, in code and prose, within longer words, too. ROOT: another checkout, whose files are
counted for lines and words; what is traced is always the endstop of this Python.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import endstop.decision
import endstop.providers
from endstop import Engine, read_record, tool
from endstop.decision.events import AttemptStarted, ToolCallResult
from endstop.providers import OpenAICompatible, Scripted, call, say
from endstop.records.recorder import RecordWriter
from task import Scenario, add

HERE = Path(__file__).resolve().parent
LOOP = ("session", "run", "loop", "response", "tool_calls", "tool_execution", "hook_runner", "event_log")
PURE = "decision/decide.py"
WORDS = re.compile(r"resum(?:ed?|ing|es)|replay|killed|interrupt", re.IGNORECASE)
FOLDERS = {
    Path(package.__file__ or "").resolve().parent: name
    for name, package in (("decision", endstop.decision), ("providers", endstop.providers), ("engine", endstop))
}
"""Where the packages are installed, and where they stand in the project. What is in two of them is in the first."""


class Trace:
    """Notes the files whose functions are entered between `start` and `stop`."""

    def __init__(self, *, from_attempt: bool = False) -> None:
        self.files: set[str] = set()
        self.went_on: set[str] = set()
        """Files of which functions went on, whether one was entered or not."""
        self._from_attempt = from_attempt

    def begins(self) -> None:
        """A request is made: the trace of a wire starts."""
        if self._from_attempt:
            self.start()

    def start(self) -> None:
        """Begin to note them, in this thread and in those that begin from now on."""
        if not self.went_on:
            threading.setprofile(self._note)
            sys.setprofile(self._note)

    def stop(self) -> None:
        """Note no more."""
        sys.setprofile(None)
        threading.setprofile(None)

    def _note(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            code = frame.f_code
            self.went_on.add(code.co_filename)
            if frame.f_lasti < 0 or code.co_code[frame.f_lasti + 1] == 0:  # RESUME 0: the beginning of a function
                self.files.add(code.co_filename)

    @property
    def ours(self) -> list[str]:
        """Those of endstop that were entered, sorted."""
        return ours(self.files)


def ours(files: set[str]) -> list[str]:
    """Files of endstop among these, sorted, by their place in the project."""
    resolved = [Path(name).resolve() for name in files if not name.startswith("<")]
    return sorted({found for path in resolved if (found := place(path)) is not None})


def place(path: Path) -> str | None:
    """A file's place in the project; None for one of something else."""
    for folder, home in FOLDERS.items():
        if path.is_relative_to(folder):
            return "/".join((home, *path.relative_to(folder).parts))
    return None


class Until:
    """A journal that writes a record, and ends the trace once the record holds the result of a call."""

    def __init__(self, path: Path, trace: Trace) -> None:
        self.path = str(path)
        self._writer = RecordWriter(path, "s", "", "")
        self._trace = trace

    def write(self, event: Any) -> None:
        """Write it."""
        if isinstance(event, AttemptStarted):
            self._trace.begins()
        self._writer.write(event)
        if isinstance(event, ToolCallResult):
            self._trace.stop()

    async def flush(self) -> None:
        """Hand everything to the operating system."""
        self._writer.flush()

    def close(self) -> None:
        """Close the file."""
        self._writer.close()


class First:
    """Stands before the first chunk of a script: the trace begins."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    async def wait(self) -> None:
        """Begin."""
        self._trace.start()


async def scripted(folder: Path) -> Trace:
    """A run of a script."""
    trace = Trace()
    script = [First(trace), say("I add.", 3), call("add", a=1, b=2, pieces=3)]
    engine = Engine(Scripted(script, "Done."), tools=[tool(add)])
    await engine.session("s", record=Until(folder / "scripted.jsonl", trace)).run("Add")
    return trace


async def resumed(folder: Path) -> Trace:
    """The same run, killed before its call began, from its beginning in the next process."""
    path = folder / "whole.jsonl"
    engine = Engine(Scripted([call("add", id="a", a=1, b=2)], "Done."), tools=[tool(add)])
    await engine.run("Add", record=path)
    lines = path.read_bytes().splitlines(keepends=True)
    answered = next(n for n, line in enumerate(lines) if b'"RESPONSE_FINISHED"' in line)
    path.write_bytes(b"".join(lines[: answered + 1]))
    trace = Trace()
    session = engine.with_provider(Scripted("Done.")).session("s", record=Until(path, trace))
    session.load(read_record(path).runs)
    trace.start()
    async with session.start_resumed() as run:
        await run.wait()
    return trace


async def wired(folder: Path) -> Trace:
    """A run over loopback: from the first event that is a chunk."""
    trace = Trace(from_attempt=True)
    command = [sys.executable, str(HERE / "mock_provider.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            url = f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
            engine = Engine(OpenAICompatible("bench", url, api_key="none"), tools=[tool(add)])
            prompt = Scenario(session="size", steps=2, chunks=10).prompt
            await engine.session("s", record=Until(folder / "wired.jsonl", trace)).run(prompt)
        finally:
            server.kill()
    return trace


def lines_of(path: Path) -> int:
    return path.read_bytes().count(b"\n")


def show(title: str, trace: Trace) -> None:
    print(f"\n{title}: {len(trace.ours)} files")
    for name in trace.ours:
        print(f"    {name}")
    print("  waited in, and not entered: " + (", ".join(sorted(set(ours(trace.went_on)) - set(trace.ours))) or "none"))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--root", type=Path, default=HERE.parents[1])
    root: Path = parser.parse_args().root
    ways: dict[str, Callable[[Path], Any]] = {
        "one call, from its first chunk to its result in the record (a script)": scripted,
        "the same over a real wire, from the request on": wired,
        "the same call in a resumed run, from the beginning of the run": resumed,
    }
    with tempfile.TemporaryDirectory() as folder:
        for title, way in ways.items():
            show(title, asyncio.run(way(Path(folder))))
    files = [root / "engine" / f"{name}.py" for name in LOOP] + [root / PURE]
    counted = {path.relative_to(root).as_posix(): lines_of(path) for path in files if path.exists()}
    print("\nlines from session to decision")
    for name, lines in counted.items():
        print(f"    {lines:6} {name}")
    own, all_lines = sum(counted.values()) - counted.get(PURE, 0), sum(counted.values())
    print(f"    {own:6} in the {len(counted) - 1} of engine/, {all_lines} with decide")
    words = {path.name: len(WORDS.findall(path.read_text())) for path in sorted((root / "engine").glob("*.py"))}
    found = {name: number for name, number in words.items() if number}
    print(f"\nwords of resume and replay in engine/*.py: {sum(found.values())} in {len(found)} of {len(words)} files")
    for name, number in sorted(found.items(), key=lambda pair: -pair[1]):
        print(f"    {number:6} {name}")


if __name__ == "__main__":
    main()

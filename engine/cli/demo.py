"""`endstop demo`: one streamed response, read at once by a usual reader and by endstop. What both did is counted."""

from __future__ import annotations

import argparse
import asyncio
import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..analysis.policy_simulation import backtest
from ..analysis.summary import RunSummary
from ..decision import Outcome, WrongUse
from ..process.shutdown import INTERRUPT_EXIT_CODE, run_to_end
from ..process.streams import StdStreams
from ..records.scan import scan
from .commands import add_command
from .views.plain import speaks_unicode
from .views.select import can_draw
from .views.styled_lines import Line, Shade, plain_text, wrap
from .views.text import counted, ending_of

if TYPE_CHECKING:
    from .demo_sides import DemoSides
    from .demo_stream import DemoStream

FOLDER = Path(__file__).parent
READER = FOLDER / "demo_reader.py"
RECORDINGS = FOLDER / "recordings"
USUAL, STOPPED = RECORDINGS / "usual_loop.jsonl", RECORDINGS / "endstop.jsonl"
MODEL = "Qwen2.5-Coder-1.5B-Instruct"
"""The recorded model; the records themselves have only the name it had at its server."""
FRAMEWORKS = "openai-agents, pydantic-ai and langgraph"
"""Frameworks that were measured with a stream of this form; tests/engine/cli/test_demo.py compares the figures."""
NOT_STOPPED = 1
WIDEST = 100
_DIFF_SHADES: dict[str, Shade] = {"+": "good", "-": "bad"}

_EXIT_CODES = {
    0: "done",
    NOT_STOPPED: "endstop did not end with the first finish_task",
    2: "usage error, or no connection on loopback",
    130: "interrupted",
}
_EXAMPLES = (
    ("See it; 12 seconds", "endstop demo"),
    ("See it slower", "endstop demo --speed 0.5"),
)


def add_to(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = add_command(
        commands,
        "demo",
        command,
        exit_codes=_EXIT_CODES,
        examples=_EXAMPLES,
    )
    parser.add_argument(
        "--speed", type=float, default=1.0, metavar="N", help="how many times as fast, 0.1 to 1000 (default: 1)"
    )


def command(args: argparse.Namespace) -> int:
    """Show the demo and return the exit code. Raises WrongUse."""
    if not 0.1 <= args.speed <= 1000:
        raise WrongUse(f"--speed {args.speed:g}: use a number from 0.1 to 1000")
    std_streams = StdStreams()
    with tempfile.TemporaryDirectory(prefix="endstop-demo-") as folder:
        try:
            return run_to_end(_show(std_streams, Path(folder), args.speed))
        except KeyboardInterrupt:
            return INTERRUPT_EXIT_CODE


async def _show(std_streams: StdStreams, folder: Path, speed: float) -> int:
    from .demo_sides import DemoSides
    from .demo_stream import PACE
    from .views.demo import ASCII, UNICODE, side_lines, watch

    sides = DemoSides(folder, lambda: asyncio.sleep(PACE / speed))
    width = _width(std_streams)
    _print(std_streams, head(sides.stream, PACE / speed, width))
    watching: asyncio.Task[None] | None = None
    if can_draw(std_streams.stderr):
        watching = asyncio.create_task(watch(std_streams.stderr, sides.progress), name="endstop demo: progress")
    try:
        outcome = await sides.read()
    except OSError as error:
        raise WrongUse(f"the demo needs connections to 127.0.0.1: {error}") from None
    finally:
        if watching is not None:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
    progress = sides.progress()
    _print(std_streams, side_lines(progress, width, UNICODE if speaks_unicode() else ASCII))
    _print(std_streams, explained(sides, outcome, *recorded_runs(), width))
    stopped = outcome.stop_reason == "completed" and not progress[-1].calls
    return 0 if stopped else NOT_STOPPED


def head(stream: DemoStream, pace: float, width: int, reader: Path = READER) -> Iterator[Line]:
    """Yield lines that say what is read, and by whom. pace: seconds between two chunks; reader: its path as shown."""
    from .demo_stream import MADE_BY, TASK

    yield from _wrapped(f"Task: {TASK}", width, "strong")
    yield from _paragraph(
        f"One streamed response, {MADE_BY}: {counted(len(stream.events), 'chunk')}, one every {pace * 1000:g} ms, "
        "served on 127.0.0.1 and read twice at once. The server counts the chunks; calls are those that change the "
        "file.",
        width,
    )
    yield from _paragraph(
        f"The usual reader is a few lines. {FRAMEWORKS} read such a stream as it does: 192 or 193 chunks, 10 calls "
        "(docs/explanation/performance.md).",
        width,
    )
    for row in _path_rows(reader, width):
        yield [(row, "quiet")]
    yield []


def explained(sides: DemoSides, outcome: Outcome, usual: RunSummary, stopped: RunSummary, width: int) -> Iterator[Line]:
    """Yield lines that say what the calls did, how endstop's run ended, what was recorded, and what to try next."""
    reader, ours = sides.files.values()
    yield from _paragraph(f"What the {counted(reader.calls_after, 'call')} did to config.ini:", width)
    yield from ([(f"    {line}", _DIFF_SHADES.get(line[0]))] for line in reader.changed_after_finish())
    ending = ending_of(outcome)
    port = next((line for line in ours.text.splitlines() if line.startswith("port")), "no port")
    said = "; ".join(filter(None, (f"{ending.title} ({port})", ending.work)))
    yield from _paragraph(f"endstop: {said}. --gate runs a check of yours.", width)
    yield from _paragraph(
        f'Recorded before with {MODEL}: {counted(usual.end.steps, "step")} in a loop that asks "What is the next '
        "step?\" after each (endstop's engine, its stopping off; a limit ended it), "
        f"{counted(stopped.end.steps, 'step')} in endstop: {RECORDINGS.name}/ beside the reader.",
        width,
    )
    yield []
    yield [("Try next: endstop proxy --upstream URL", None)]
    yield [("          endstop audit --last", None)]


def _path_rows(path: Path, width: int) -> Iterator[str]:
    """Yield the path in rows that end at a separator where it is too long for one."""
    row = ""
    for part in re.findall(r"[^/\\]*[/\\]?", str(path)):
        if row and len(row + part) > width:
            yield row
            row = ""
        row += part
    yield row


def recorded_runs() -> tuple[RunSummary, RunSummary]:
    """Return the recorded run of the loop that does not stop, and that of endstop."""
    usual, stopped = (next(iter(backtest(scan(path), []))).digest for path in (USUAL, STOPPED))
    return usual, stopped


def _paragraph(text: str, width: int) -> Iterator[Line]:
    yield []
    yield from _wrapped(text, width)


def _wrapped(text: str, width: int, shade: Shade | None = None) -> Iterator[Line]:
    yield from ([(row, shade)] for row in wrap(text, width))


def _width(std_streams: StdStreams) -> int:
    from .views.terminal import Terminal

    return max(20, min(WIDEST, Terminal(std_streams.stdout).size.width - 1))


def _print(std_streams: StdStreams, lines: Iterable[Line]) -> None:
    """Print lines as the answer: with their shades in a terminal, else plain. Only the terminal breaks a long path."""
    if can_draw(std_streams.stdout):
        from .views.terminal import print_styled

        print_styled(std_streams.stdout, lines)
    else:
        std_streams.write_answer("".join(f"{plain_text(line)}\n" for line in lines))

"""`endstop demo`: one small model with one task, in the usual loop and in endstop, side by side."""

from __future__ import annotations

import argparse
import difflib
import tempfile
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from shlex import quote
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

from ..analysis.policy_simulation import backtest
from ..analysis.summary import RunSummary
from ..decision import WrongUse
from ..process.shutdown import INTERRUPT_EXIT_CODE, run_to_end
from ..process.streams import StdStreams
from ..records.reader import read_record
from ..records.scan import scan
from ..replay import ReplayReport, replay
from .commands import add_command
from .factory import build_workspace_tools
from .replay import DIVERGED
from .views.select import can_draw
from .views.text import counted, duration

if TYPE_CHECKING:
    from .views.demo import DemoSide

RECORDINGS = Path(__file__).parent / "recordings"
USUAL, STOPPED = RECORDINGS / "usual_loop.jsonl", RECORDINGS / "endstop.jsonl"
MODEL = "Qwen2.5-Coder-1.5B-Instruct"
"""The recorded model; the records themselves have only the name it had at its server."""
FILES = {"config.ini": "[server]\nhost = localhost\nport = 3000\ndebug = false\n"}
"""The files of the recorded task."""
SPEED = 12.0

_EXIT_CODES = {0: "done", 1: "the engine decided differently from the record", 2: "usage error", 130: "interrupted"}
_EXAMPLES = (
    ("See it, faster than it was recorded", "endstop demo"),
    ("See it at another speed", "endstop demo --speed 4"),
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
        "--speed", type=float, default=SPEED, metavar="N", help="how many times as fast as recorded (default: 12)"
    )


def command(args: argparse.Namespace) -> int:
    """Show the demo and return the exit code. Raises WrongUse."""
    if not 0.1 <= args.speed <= 1000:
        raise WrongUse(f"--speed {args.speed:g}: use a number from 0.1 to 1000")
    from .views.demo import as_text, play  # brings rich

    std_streams = StdStreams()
    sides = read_sides()
    if can_draw(std_streams.stderr):
        try:
            play(std_streams.stderr, sides, args.speed)
        except KeyboardInterrupt:
            return INTERRUPT_EXIT_CODE
    else:
        std_streams.write_answer(as_text(sides))
    with tempfile.TemporaryDirectory(prefix="endstop-demo-") as folder:
        report, change = _replayed(Path(folder))
    std_streams.write_answer("\n".join(_explained(_summary(USUAL), _summary(STOPPED), report, change)) + "\n")
    return 0 if report.same else DIVERGED


def read_sides() -> tuple[DemoSide, DemoSide]:
    """Read both recorded runs for playback."""
    from .views.demo import DemoSide

    usual, stopped = (read_record(path).runs[0].events for path in (USUAL, STOPPED))
    return (
        DemoSide("the usual loop", "endstop's engine, its stopping switched off: only a limit ends it", usual),
        DemoSide("endstop", "the same model, the same task", stopped),
    )


def _summary(path: Path) -> RunSummary:
    (result,) = backtest(scan(path), [])
    return result.digest


def _replayed(folder: Path) -> tuple[ReplayReport, list[str]]:
    """Replay endstop's side with tools that work on files in this folder: the replay, and what it changed there."""
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    reports: list[ReplayReport] = []

    async def run() -> int:
        reports.append(await replay(STOPPED, live_tools=True, tools=build_workspace_tools(str(folder), False, ())))
        return 0

    run_to_end(run())
    return reports[0], list(_difference(folder))


def _difference(folder: Path) -> Iterator[str]:
    for path in sorted(folder.iterdir()):
        before, now = FILES.get(path.name), path.read_text(encoding="utf-8")
        if now != before:
            names = "/dev/null" if before is None else path.name, path.name
            yield from difflib.unified_diff((before or "").splitlines(), now.splitlines(), *names, "", "", 1, "")


def _explained(usual: RunSummary, stopped: RunSummary, report: ReplayReport, change: Sequence[str]) -> Iterator[str]:
    """Yield lines that say what was shown, what was recorded, what was live, and what to try next."""
    if usual.done is not None:
        after = usual.end.since(usual.done)
        used = after.usage.input_tokens + after.usage.output_tokens
        yield from _paragraph(
            f"The usual loop went on for {counted(after.steps, 'step')}, {used:,} tokens and {duration(after.ms)} "
            "after the model had reported the task as done. endstop stopped inside that report, after "
            f"{counted(stopped.end.steps, 'step')} and {duration(stopped.end.ms)}."
        )
    yield from _paragraph("What the model changed, on both sides alike:")
    yield from (f"    {line}" for line in change)
    yield from _paragraph(
        "The port of this task is in config.ini: the model is wrong. Stopping in time does not make a model right, so "
        'endstop says "reported by the agent, not checked". Your own check (--gate) would have rejected the report.'
    )
    decisions = counted(sum(run.decisions for run in report.runs), "decision")
    same = "the same as recorded" if report.same else "NOT the same as recorded"
    yield from _paragraph(
        f"Recorded: both runs, of {MODEL} on a laptop's processor. After each step the usual loop asks it "
        '"What is the next step?", as many loops do. Happened just now: the change above, by tools that worked on a '
        f"temporary folder, and {decisions} of the engine on endstop's side, {same}."
    )
    yield from _paragraph("Try next:")
    for what, command in (
        ("Put this in front of an agent that you have", "endstop proxy --upstream URL"),
        ("See what the newest session of an agent on this machine did", "endstop audit --last"),
        ("See the run of the usual loop, step by step", f"endstop audit {quote(str(USUAL))}"),
    ):
        yield from textwrap.wrap(f"# {what}", _columns(), initial_indent="  ", subsequent_indent="  # ")
        yield f"  {command}"


def _paragraph(text: str) -> Iterator[str]:
    yield ""
    yield from textwrap.wrap(text, _columns(), break_long_words=False)


def _columns() -> int:
    return max(20, min(100, get_terminal_size().columns - 1))

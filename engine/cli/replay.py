"""`endstop replay`: run a record through the engine again, and compare every decision."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from shutil import get_terminal_size
from types import TracebackType
from typing import Any

from ..decision import WrongUse
from ..process.shutdown import ShutdownSignals, run_to_end
from ..process.streams import StdStreams
from ..records.reader import SessionRecord, read_record
from ..records.recorder import is_being_written
from ..replay import ReplayedRun, ReplayReport, replay_runs
from ..replay.diff import EventAddress
from ..tools.tool import Tool
from .commands import add_command
from .factory import build_workspace_tools, load_tools
from .options import add_output, add_tools
from .views.plain import WIDTH
from .views.replay import ReplayNotes, as_json, as_text, is_same
from .views.replay_stepper import (
    KeyReader,
    ReplayDisplay,
    ReplayStepper,
    RestartFrom,
    check_terminal,
    event_id,
    find_event,
)
from .views.run_view import RunView
from .views.select import choose_view
from .views.text import Recorded

DIVERGED = 1

_LISTS = {
    "keys of --step": {
        "Enter, space": "make the next step",
        "n": "go on to the next decision",
        "r": "go on to the next run",
        "g NUMBER": "go to a step, also back",
        "m": "show the messages of the step's request",
        "e": "switch explanations of decisions on or off",
        "q": "quit",
    }
}
_EXIT_CODES = {0: "the same", 1: "a divergence", 2: "usage error", 130: "cancelled"}
_EXAMPLES = (
    ("Check that every decision is the same today", "endstop replay run.jsonl"),
    ("Walk through it, with each rule that was considered", "endstop replay run.jsonl --step --explain"),
)


def add_to(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = add_command(
        commands,
        "replay",
        command,
        lists=_LISTS,
        exit_codes=_EXIT_CODES,
        examples=_EXAMPLES,
    )
    parser.add_argument("record", metavar="RECORD", help="a file written by `endstop run --record`")
    looking = parser.add_argument_group("watching")
    looking.add_argument("--step", action="store_true", help="stop before each step and wait for a key")
    looking.add_argument(
        "--from",
        dest="beginning",
        metavar="SEQ",
        help="show the replay from this event on; RUN_ID:SEQ or RUN_NUMBER:SEQ if there are several runs",
    )
    looking.add_argument("--pace", action="store_true", help="replay at the recorded speed")
    looking.add_argument(
        "--explain", action="store_true", help="show each decision with every rule that was considered"
    )
    tools = parser.add_argument_group("tools")
    tools.add_argument(
        "--live-tools", action="store_true", help="run the tools again instead of using their recorded results"
    )
    add_tools(tools, "the folder for live workspace tools", "also let live tools run commands in the workspace")
    output = parser.add_argument_group("output")
    add_output(output, "print the result as one JSON object", "show only the result")


def command(args: argparse.Namespace) -> int:
    """Replay a record and return the exit code. Raises WrongUse."""
    std_streams = StdStreams()
    if not args.live_tools and (args.tools or args.workspace or args.allow_run):
        raise WrongUse("--tools, --workspace and --allow-run need --live-tools")
    if args.step:
        if args.quiet:
            raise WrongUse("--step shows each step and --quiet shows nothing: leave out one of them")
        check_terminal(std_streams.stderr)
    tools = [*load_tools(args.tools), *build_workspace_tools(args.workspace, args.allow_run, args.env)]
    writing = is_being_written(args.record)
    record = read_record(args.record)
    beginning = None if args.beginning is None else find_event(record, args.beginning)
    return run_to_end(_replay(_ReplayRequest(args, record, tools, beginning, writing), std_streams))


@dataclass(frozen=True, slots=True)
class _ReplayRequest:
    """What to replay, and how."""

    options: argparse.Namespace
    record: SessionRecord
    tools: Sequence[Tool]
    beginning: EventAddress | None
    being_written: bool


async def _replay(wanted: _ReplayRequest, std_streams: StdStreams) -> int:
    args, record, beginning = wanted.options, wanted.record, wanted.beginning
    view = choose_view(
        std_streams,
        quiet=args.quiet,
        explain=args.explain,
        saved=lambda: shown.saved(),
        recorded=Recorded(args.record),
    )
    early_exit = _EarlyExit()
    keys: KeyReader | None = None
    shown = ReplayDisplay(view)
    if args.step:
        shown = ReplayStepper(view, record, explain=args.explain, live=args.live_tools, leave=early_exit.leave)
        keys = KeyReader(shown.press, view.restore_terminal)
    runs: list[ReplayedRun] = []
    # No run is attached to the signals: leaving a replay loses nothing.
    with ShutdownSignals(_ViewWithKeys(view, keys)), closing(view), keys or nullcontext(), early_exit:
        await _play(wanted, shown, runs)
    unseen = beginning is not None and not (args.quiet or shown.begun or early_exit.left)
    missing = tuple(record.missing)
    report = ReplayReport(path=record.path, runs=tuple(runs), damaged=tuple(record.damaged), missing=missing)
    around = ReplayNotes(
        left_at=shown.at if early_exit.left and isinstance(shown, ReplayStepper) else "",
        diverged=early_exit.left and bool(shown.diverged),
        not_reached=event_id(record, beginning) if beginning is not None and unseen else "",
        being_written=wanted.being_written,
        shown=shown.diverged if view.shows_answer else (),
    )
    if args.json:
        std_streams.write_answer(as_json(report, around))
    else:
        terminal = std_streams.stdout_is_terminal
        std_streams.write_answer(as_text(report, around, _width(std_streams), in_terminal=terminal))
    return 0 if is_same(report, around) else DIVERGED


async def _play(wanted: _ReplayRequest, shown: ReplayDisplay, runs: list[ReplayedRun]) -> None:
    """Replay the record; start again from an earlier event whenever the user goes back to one."""
    args, beginning = wanted.options, wanted.beginning
    while True:
        played = replay_runs(
            wanted.record,
            pace=args.pace,
            tools=wanted.tools,
            live_tools=args.live_tools,
            watcher=None if args.quiet else shown,
            watch_from=beginning,
        )
        try:
            async for run in played:
                runs.append(run)
            return
        except RestartFrom as back:
            beginning = back.to
            runs.clear()


class _EarlyExit:
    """A context that `leave` ends immediately by cancelling the task; the CancelledError stays inside the context."""

    def __init__(self) -> None:
        self.left = False
        self._task = asyncio.current_task()

    def leave(self) -> None:
        """Cancel what runs in the context."""
        if not self.left and self._task is not None:
            self.left = True
            self._task.cancel()

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if not (self.left and self._task is not None and isinstance(error, asyncio.CancelledError)):
            return False
        self._task.uncancel()
        return True


class _ViewWithKeys:
    """The view that `ShutdownSignals` gets: it also restores the terminal settings that the keys changed."""

    def __init__(self, view: RunView, keys: KeyReader | None) -> None:
        self._view = view
        self._keys = keys

    def show_stopping(self) -> None:
        """Show that the replay is being stopped."""
        self._view.show_stopping()

    def restore_terminal(self) -> None:
        """Make the terminal usable at once."""
        if self._keys is not None:
            self._keys.restore()
        self._view.restore_terminal()


def _width(std_streams: StdStreams) -> int:
    """Return the width, in columns, of the terminal that the result is printed to."""
    try:
        return os.get_terminal_size(std_streams.stdout).columns
    except OSError:
        return get_terminal_size((WIDTH, 24)).columns

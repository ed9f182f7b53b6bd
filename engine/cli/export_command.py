"""`endstop export`: a record as other programs read sessions."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ..decision import Event, WrongUse
from ..formats import export_atif as to_atif
from ..formats import export_openai as to_openai
from ..formats.export_losses import UNTOLD
from ..process.streams import Channels
from ..records.reader import read_record
from .options import parser_of

_EXPORT_HELP = "write a record as other programs read sessions"
_EXPORT_EPILOG = """\
  openai   OpenAI's messages: one JSON object with `messages`, which `endstop import openai` reads again
  atif     a trajectory of the Agent Trajectory Interchange Format, version 1.7 (Harbor, Terminal-Bench)

What the export cannot carry is listed.

examples:
  endstop export openai run.jsonl
  endstop export atif run.jsonl -o trajectory.json

exit codes: 0 exported, 2 wrong use
"""

Export = Callable[[str, Sequence[Event]], tuple[dict[str, Any], Counter[str]]]
EXPORTS: dict[str, Export] = {"openai": to_openai.exported, "atif": to_atif.exported}


def add_to(commands: Any) -> None:
    """Add `export` to the parser's subcommands."""
    add_export(commands)


def add_export(commands: Any) -> None:
    """Add `export` to the parser's subcommands."""
    parser = parser_of(commands, "export", _EXPORT_HELP, export_record, _EXPORT_EPILOG)
    parser.add_argument("format", metavar="FORMAT", choices=tuple(EXPORTS), help="openai or atif")
    parser.add_argument("record", metavar="RECORD", help="a file written by `endstop run --record` or `endstop import`")
    parser.add_argument("-o", "--output", metavar="FILE", help="where to write it (default: stdout)")
    parser.add_argument("--force", action="store_true", help="write over the file if it is there already")
    parser.add_argument("--quiet", action="store_true", help="do not list what the format has no place for")


def export_record(given: argparse.Namespace) -> int:
    """Export; gives the exit code. Raises WrongUse."""
    channels = Channels()
    record = read_record(given.record)
    events = [event for run in record.runs for event in run.events]
    whole, left_out = EXPORTS[given.format](record.header.session_id, events)
    text = _encode(whole)
    if given.output is None:
        channels.answer(text.decode())
    else:
        _write(given.output, text, given.force, given.record)
    if not given.quiet:
        for kind, times in left_out.items():
            print(f"left out: {times:,} {UNTOLD[kind]}", file=sys.stderr)
    if record.damaged:
        print(f"left out: {len(record.damaged):,} lines of the record that could not be read", file=sys.stderr)
    if record.missing:
        print(f"left out: {len(record.missing):,} attachments that could not be found", file=sys.stderr)
    return 0


def _encode(whole: dict[str, Any]) -> bytes:
    """The export as one line of JSON."""
    return msgspec.json.encode(whole) + b"\n"


def _write(output: str, text: bytes, force: bool, record: str) -> None:
    path = Path(output)
    if path.is_dir():
        raise WrongUse(f"-o {output} is a folder: name a file in it")
    if path.exists() and os.path.samefile(path, record):
        raise WrongUse(f"-o {output} is the record itself: name another file")
    try:
        with open(path, "wb" if force else "xb") as file:
            file.write(text)
    except FileExistsError:
        raise WrongUse(f"-o {output} exists already: name another file, or write over it with --force") from None
    except OSError as error:
        raise WrongUse(f"cannot write {output}: {error.strerror}") from None

"""`endstop redact`: copies of records without secrets and personal data."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from ..base.sanitize import one_line
from ..decision import WrongUse
from ..process.streams import StdStreams
from ..records.event_redaction import RedactionCounts, redact_file
from ..records.files import find_records
from ..records.parallel import FileFailure, map_files
from ..records.redaction import Redaction
from .commands import add_command
from .options import add_record_paths, add_redaction, build_redaction
from .views.tables import progress
from .views.text import counted

FAILED = 1
_ABOUT = """
Keys, tokens, private keys, passwords in URLs, e-mail addresses and card numbers become [redacted:KIND:MARK] in every
text of users, models and tools; the same text always gets the same mark. Use --word for names and other text that no
pattern finds. Read the copies before you share them: no search finds everything. Images are not changed.

A copy replays like its record. It has the same file name, in the same folder structure.
"""
_EXIT_CODES = {0: "all copies were written", 1: "some were not", 2: "usage error"}
_EXAMPLES = (
    ("Copy all records of a folder", "endstop redact records/ -o clean/"),
    (
        "Also hide a name, and the numbers of tickets",
        """endstop redact run.jsonl -o clean/ --word "Jane Doe" --pattern ticket='T-[0-9]+'""",
    ),
)


def add_to(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = add_command(
        commands,
        "redact",
        command,
        about=_ABOUT,
        exit_codes=_EXIT_CODES,
        examples=_EXAMPLES,
    )
    hidden = parser.add_argument_group("what is hidden")
    output = add_record_paths(parser).output
    output.add_argument("-o", "--output", required=True, metavar="DIR", help="the folder for the copies")
    add_redaction(hidden, None)
    parser.set_defaults(redact=True)


def command(args: argparse.Namespace) -> int:
    """Write redacted copies and return the exit code. Raises WrongUse."""
    std_streams = StdStreams()
    redaction = build_redaction(args)
    assert redaction is not None
    targets = _targets(args.records, Path(args.output))
    work = partial(_copy, targets=targets, redaction=redaction)
    written: dict[str, RedactionCounts] = {}
    failed: dict[str, str] = {}
    with progress(args, "redacting") as on_progress:
        for path, result in map_files(work, list(targets), processes=args.processes, progress=on_progress):
            if isinstance(result, FileFailure):
                failed[str(path)] = result.message
            else:
                written[str(path)] = result
    for name, why in failed.items():
        print(f"not written: {one_line(name, 200)}: {one_line(why, 300)}", file=sys.stderr)
    for name, copy in written.items():
        for line in _notes(copy):
            print(f"{one_line(name, 200)}: {line}", file=sys.stderr)
    if args.json:
        whole = {"folder": args.output, "written": written, "failed": failed}
        std_streams.write_answer(msgspec.json.encode(whole).decode() + "\n")
    else:
        std_streams.write_answer(f"{counted(len(written), 'record')} redacted into {args.output}\n")
    return FAILED if failed else 0


def _copy(path: Path, targets: dict[Path, Path], redaction: Redaction) -> RedactionCounts:
    targets[path].parent.mkdir(parents=True, exist_ok=True)
    return redact_file(path, targets[path], redaction)


def _targets(places: Sequence[str], output: Path) -> dict[Path, Path]:
    """Return the path of each record's copy. Raises WrongUse if two copies would have the same path."""
    targets: dict[Path, Path] = {}
    taken: dict[Path, Path] = {}
    for place in places:
        if Path(place).is_dir() and output.resolve().is_relative_to(Path(place).resolve()):
            raise WrongUse(f"{output} is inside {place}, so the copies would be read as records: name another folder")
        for path in find_records([place]):
            target = output / (path.relative_to(place) if Path(place).is_dir() else path.name)
            other = taken.setdefault(target, path)
            if other != path:
                raise WrongUse(f"{other} and {path} would both be written to {target}: use two output folders")
            targets[path] = target
    return targets


def _notes(result: RedactionCounts) -> list[str]:
    notes = []
    if result.left_out:
        notes.append(f"left out {counted(result.left_out, 'line')} that could not be read")
    if result.missing:
        notes.append(f"{counted(result.missing, 'attachment')} not found")
    return notes

"""`endstop export html`: sessions as pages to send, each in one file that needs no server and no network."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from ..base.sanitize import one_line
from ..decision import POLICIES, Policy, WrongUse
from ..formats import ImportOptions, find_sessions
from ..formats.imported_session import describe_losses
from ..formats.importer import ImportedRecord, Importer, RecordFolder, record_name
from ..html_export.recorded_session import embed_record, subagent_records
from ..html_export.session_html import EmbeddedSession, session_html
from ..process.streams import StdStreams
from ..records.event_redaction import redact_file
from ..records.files import RECORD_SUFFIXES
from ..records.reader import is_record
from ..records.redaction import Redaction
from ..viewer.catalog import REDACTED
from .audit import choose_session
from .factory import load_policy_of_runs
from .options import build_redaction
from .output_file import write_file
from .views.text import counted

MOST_BYTES = 100_000_000
"""The most events that a page holds: browsers hold a text of at most 256 to 512 MB, and requests take as much again."""
MAILED_BYTES = 20_000_000
"""Many mail servers take no larger file."""


class _Source(NamedTuple):
    """The source of an export: a record, possibly a copy of the named file, and in words what the copy leaves out."""

    record: Path
    file: Path
    """The file that was named."""
    losses: Sequence[str] = ()


def export_pages(args: argparse.Namespace) -> int:
    """Write a page of each session and return the exit code. Raises WrongUse for the first that cannot be written."""
    std_streams = StdStreams()
    is_folder = args.output is not None and (os.path.isdir(args.output) or args.output.endswith(os.sep))
    targets = _targets(args.records, args.output, is_folder)
    redaction = build_redaction(args)
    policies = [*POLICIES.values(), *map(load_policy_of_runs, args.policy)]
    for named, target in zip(args.records, targets, strict=True):
        with TemporaryDirectory(prefix="endstop-export-") as folder:
            source = _source(args, named, Path(folder))
            sessions = list(_sessions(source, Path(folder), redaction, policies))
        notices = list(_notices(source, sessions, redaction is not None))
        held = sum(len(event) for session in sessions for event in session.events)
        if held > MOST_BYTES:
            raise WrongUse(
                f"{named}: its page would hold {held / 1e6:,.0f} MB, and browsers do not show more than "
                f"{MOST_BYTES / 1e6:.0f} MB in one file: read it with `endstop view {named}`"
            )
        pieces = list(session_html(sessions, notices=notices))
        size = sum(map(len, pieces))
        if target is None:
            std_streams.write_answer(b"".join(pieces).decode("utf-8", "replace"))
        else:
            if is_folder:
                _make_folder(args.output)
            write_file(target, pieces, args.force, named)
            std_streams.write_answer(f"{target}: {_size_words(size)}, {_held_words(sessions)}\n")
        if not args.quiet:
            for line in (*notices, *_advice(size, redaction is not None)):
                print(f"{one_line(named, 200)}: {one_line(line, 400)}", file=sys.stderr)
    return 0


def _targets(named: Sequence[str], output: str | None, is_folder: bool) -> list[str | None]:
    """Return the file of each page; None for stdout. Raises WrongUse if two pages have the same file."""
    if output is not None and not is_folder:
        if len(named) > 1:
            what = "stdout takes" if output == "-" else f"-o {output} is one file, and takes"
            folder = "pages" if output == "-" else output
            raise WrongUse(f"{what} one page, not {len(named)}: name a folder, as in -o {folder}/, or leave out -o")
        return [None if output == "-" else output]
    targets: dict[str, str] = {}
    for name in named:
        target = os.path.join(output or "", f"{_stem(name)}.html")
        if target in targets:
            raise WrongUse(
                f"{targets[target]} and {name} would both be written to {target}: export one after the other"
            )
        targets[target] = name
    return list(targets)


def _make_folder(folder: str) -> None:
    """Make the folder of the pages if it is not there. Raises WrongUse if that fails."""
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise WrongUse(f"cannot make the folder {folder}: {error.strerror}") from None


def _stem(name: str) -> str:
    """Return a file's name without the ending that marks it as a record."""
    base = os.path.basename(os.path.abspath(name))
    ending = next((ending for ending in reversed(RECORD_SUFFIXES) if base.endswith(ending)), None)
    return base.removesuffix(ending) if ending is not None else os.path.splitext(base)[0]


# ---- what is exported


def _source(args: argparse.Namespace, named: str, folder: Path) -> _Source:
    """Return the named record, or one converted from a session of another agent. Raises WrongUse if neither exists."""
    path = Path(named)
    if not path.exists():
        raise WrongUse(f"{named}: no such file")
    if path.is_file() and is_record(named):
        return _Source(path, path)
    found = choose_session(named, args.session, find_sessions(named, "auto"), "exporting")
    options = ImportOptions(completion=tuple(args.completion))
    importer = Importer(RecordFolder(folder / "imported"), options)
    result = next(iter(importer.import_all([found])))
    if not isinstance(result, ImportedRecord):
        raise WrongUse(f"{named}: {one_line(result.why, 400)}")
    return _Source(Path(result.record), path, list(describe_losses(result.lost)))


def _sessions(
    source: _Source, folder: Path, redaction: Redaction | None, policies: Sequence[Policy]
) -> Iterator[EmbeddedSession]:
    """Yield the sessions of the page: the record's and its sub-agents'.

    Raises WrongUse if the record cannot be read.
    """
    for number, record in enumerate([source.record, *subagent_records(source.record)]):
        copy = record
        if redaction is not None:
            copy = folder / f"redacted-{number}" / record_name(record.name)
            copy.parent.mkdir()
            redact_file(record, copy, redaction)
        yield embed_record(copy, record if number else source.file, policies)


# ---- messages


def _notices(source: _Source, sessions: Sequence[EmbeddedSession], redacted: bool) -> Iterator[str]:
    """Yield what a reader of the page should know about it."""
    if redacted:
        yield "Texts that look like secrets were replaced, as by [redacted:email:3f9a1c]. No search finds everything."
    for number, session in enumerate(sessions):
        of = "record of a sub-agent" if number else "record"
        yield from (f"Of the {of}: {notice}." for notice in session.notices if not (redacted and notice == REDACTED))
    for words in source.losses:
        yield f"Imported without {words}."


def _advice(size: int, redacted: bool) -> Iterator[str]:
    if not redacted:
        yield "the page holds all that the record holds, prompts and results included: read it before you send it"
    if size > MAILED_BYTES:
        yield "many mail servers take no file of this size: compress it, which makes it several times smaller"


def _size_words(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 1e6 else f"{size / 1e3:,.0f} kB"


def _held_words(sessions: Sequence[EmbeddedSession]) -> str:
    others = len(sessions) - 1
    steps = counted(sessions[0].summary.steps, "step")
    return f"{steps} and {counted(others, 'session')} of sub-agents" if others else steps

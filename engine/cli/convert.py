"""`endstop import` and `endstop export`: sessions of other agents to records, and records to other formats."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import IO, Any

import msgspec

from ..analysis.label_files import Label
from ..analysis.labels import Labels, LabelStatistics, RunNames, unmatched_warning
from ..base.sanitize import one_line
from ..decision import Event, WrongUse
from ..formats import export_atif as to_atif
from ..formats import export_openai as to_openai
from ..formats import export_otlp as to_otlp
from ..formats.exports import EXPORT_LOSSES
from ..formats.imported_session import ImportedSession, ImportedVerdict, ImportOptions, describe_losses
from ..formats.importer import ImportedRecord, Importer, RecordFolder, RecordNames, total_losses
from ..formats.parallel_import import ImportPlan, import_files
from ..formats.session_files import AUTO, FORMATS, FoundSession, SkippedSession, find_sessions, find_sessions_in_stream
from ..process.streams import StdStreams
from ..records.reader import read_record
from .commands import add_command
from .options import (
    add_finish_words,
    add_labels,
    add_output,
    add_redaction,
    add_user_policy,
    build_redaction,
    parse_finish_words,
)
from .output_file import write_file
from .views.tables import progress
from .views.text import counted

_IMPORT_ABOUT = """
JSON and JSON Lines are detected, and a file may hold many sessions. Each session becomes one record in DIR, named after
its id. Existing records are kept unless --force is given. Whatever the import cannot keep is listed.

--labels says which sessions were good: a report of SWE-bench, an object of ids, CSV or JSON Lines with an id
(session_id, instance_id, run_id, id, or task_id and trial), a verdict (resolved, good, correct, passed, verdict, label
or reward) and perhaps a model. A reward is good from 1.0 on. An id is the session's own, or the name of its file.
"""
_IMPORT_EXIT_CODES = {0: "imported, or nothing new", 2: "usage error, or nothing could be imported"}
_IMPORT_EXAMPLES = (
    ("Import a file, whose format is recognised", "endstop import auto sessions.jsonl -o records"),
    ("Import all files of a folder", "endstop import swe-agent trajectories/ -o records"),
    (
        "Name the tools that complete the task and that ask the user",
        "endstop import openai log.json -o records --completion hand_in --question ask_boss",
    ),
    (
        "Name the model, and say which sessions were good",
        "endstop import swe-agent gpt-4o/trajs/ -o records/gpt-4o --model gpt-4o --labels gpt-4o/results.json",
    ),
)
SHOWN = 5
"""How many skipped sessions are listed; `--json` lists all."""
_EXPORT_ABOUT = """
Whatever the format cannot express is listed.

A page holds everything that the record holds. --redact hides keys, tokens, e-mail addresses and card numbers.
"""
_EXPORT_LISTS = {
    "formats": {
        "html": "a page of each session in one file to send to somebody: what `endstop view` shows, without a server. "
        "RECORD may also be a transcript of another agent, as for `endstop audit`",
        "openai": "OpenAI's messages: one JSON object with `messages`, which `endstop import openai` reads",
        "atif": "a trajectory of the Agent Trajectory Interchange Format, version 1.7 (Harbor, Terminal-Bench)",
        "otlp": "spans of OpenTelemetry in OTLP/JSON, by its conventions for AI, which `endstop import otlp` reads",
    }
}
_EXPORT_EXIT_CODES = {0: "exported", 2: "usage error"}
_EXPORT_EXAMPLES = (
    ("Write a page to send to somebody, without secrets", "endstop export html run.jsonl --redact"),
    ("The same of a transcript", "endstop export html ~/.claude/projects/app/session.jsonl -o session.html"),
    ("Print a record as messages", "endstop export openai run.jsonl"),
    ("Write a trajectory to a file", "endstop export atif run.jsonl -o trajectory.json"),
)

HTML = "html"
Export = Callable[[str, Sequence[Event]], tuple[dict[str, Any], Counter[str]]]
EXPORTS: dict[str, Export] = {"openai": to_openai.export, "atif": to_atif.export, "otlp": to_otlp.export}


def add_to(commands: Any) -> None:
    """Add `import` and `export` to the parser's subcommands."""
    add_import(commands)
    add_export(commands)


def add_import(commands: Any) -> None:
    """Add `import` to the parser's subcommands."""
    parser = add_command(
        commands,
        "import",
        import_sessions,
        about=_IMPORT_ABOUT,
        lists={"formats": {name: FORMATS[name].description for name in sorted(FORMATS)}},
        exit_codes=_IMPORT_EXIT_CODES,
        examples=_IMPORT_EXAMPLES,
    )
    parser.add_argument(
        "format",
        metavar="FORMAT",
        choices=(*sorted(FORMATS), AUTO),
        help="the format, as listed below; auto: detected from the data",
    )
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="files, folders (searched recursively), or - for stdin"
    )
    meaning = parser.add_argument_group("what the sessions mean")
    reading, output = parser.add_argument_group("reading"), parser.add_argument_group("output")
    output.add_argument("-o", "--output", required=True, metavar="DIR", help="the folder to write the records to")
    meaning.add_argument(
        "--completion",
        action="append",
        default=[],
        metavar="NAME",
        help="the tool that reports the work as done (default: guessed from the names); repeatable",
    )
    meaning.add_argument(
        "--question",
        action="append",
        default=[],
        metavar="NAME",
        help="the tool that asks the user (default: guessed from the names); repeatable",
    )
    add_finish_words(meaning)
    meaning.add_argument("--model", metavar="NAME", default="", help="the model of the sessions (default: as recorded)")
    add_labels(meaning, "written into the records as verdicts")
    output.add_argument("--compress", action="store_true", help="write compressed records (.jsonl.zst)")
    output.add_argument("--force", action="store_true", help="replace existing records")
    reading.add_argument("--processes", type=int, metavar="N", help="worker processes (default: one per core)")
    add_redaction(parser.add_argument_group("redaction"), "the records")
    add_output(output, "print the result as one JSON object", "show only the result and the sessions that were skipped")


def import_sessions(args: argparse.Namespace) -> int:
    """Import sessions and return the exit code. Raises WrongUse."""
    std_streams = StdStreams()
    options = ImportOptions(
        completion=tuple(args.completion),
        question=tuple(args.question),
        finish_words=parse_finish_words(args),
        model=args.model,
    )
    with _opened_stdin(args) as stdin:
        labels = SessionLabels(args.labels, options)
        labels.join(_found(args.files, args.format, stdin))
        folder = RecordFolder(args.output, compress=args.compress, replace=args.force, redact=build_redaction(args))
        with progress(args, "importing") as on_progress:
            if stdin is None:
                plan = ImportPlan(folder=folder, options=options, format=args.format, complete=labels.complete)
                files = [Path(file) for file in args.files]
                results, tools = import_files(plan, files, processes=args.processes, progress=on_progress)
            else:
                importer = Importer(folder, options, labels.complete)
                results, tools = list(importer.import_all(_found(args.files, args.format, stdin))), importer.tool_names
    imported = [result for result in results if isinstance(result, ImportedRecord)]
    skipped = [result for result in results if isinstance(result, SkippedSession) and not labels.come_from(result)]
    nothing_new = not imported and _all_known(skipped)
    unused = options.unmatched_names(tools)
    if not (args.quiet and args.json):  # the JSON has all of it
        for line in (*_report_lines(imported, skipped, unused, args.quiet), *labels.lines()):
            print(line, file=sys.stderr)
    if args.json:
        std_streams.write_answer(_as_json(args.output, imported, skipped, unused, labels.statistics))
    elif imported:
        std_streams.write_answer(_summary(args.output, imported) + "\n")
    elif nothing_new:
        std_streams.write_answer(f"nothing new: {_there(skipped)}, in {args.output}\n")
    if not (imported or nothing_new):
        raise WrongUse(_why_nothing(skipped))
    return 0


@contextmanager
def _opened_stdin(args: argparse.Namespace) -> Iterator[IO[bytes] | None]:
    """Yield stdin as a stream; with labels, a copy that can be read twice. None if no file is `-`."""
    if "-" not in args.files:
        yield None
        return
    if sys.stdin is None:
        raise WrongUse("-: stdin is closed")
    if args.labels is None:
        yield sys.stdin.buffer
        return
    with TemporaryFile() as copy:
        copyfileobj(sys.stdin.buffer, copy, 1024 * 1024)
        yield copy


def _found(files: list[str], format: str, stdin: IO[bytes] | None) -> Iterator[FoundSession | SkippedSession]:
    for file in files:
        if file != "-":
            yield from find_sessions(file, format)
        elif stdin is not None:
            if stdin is not sys.stdin.buffer:
                stdin.seek(0)
            yield from find_sessions_in_stream(stdin, format)


class SessionLabels:
    """The labels of an import: all sessions are joined with them first, so that nothing is written if one is wrong."""

    def __init__(self, file: str | None, options: ImportOptions) -> None:
        self._labels = Labels.read(file) if file is not None else None
        self._file = file or ""
        self._options = options
        self._by_name: dict[str, Label] = {}

    @property
    def statistics(self) -> LabelStatistics | None:
        """How many labels match a session; None without labels."""
        return None if self._labels is None else self._labels.statistics

    def join(self, found: Iterable[FoundSession | SkippedSession]) -> None:
        """Find the label of each session. Raises WrongUse as `Labels.label_for` does, or if no label matches one.

        Sessions are identified by the names of their records. `found` is not read without labels.
        """
        if self._labels is None:
            return
        names = RecordNames()
        for one in found:
            if isinstance(one, FoundSession):
                name = names.assign(one.id)
                label = self._labels.label_for(self._names_of(one.session, name), one.source, _session_words(one, name))
                if label is not None:
                    self._by_name[name] = label
        self._labels.check_used()

    def _names_of(self, session: ImportedSession, name: str) -> RunNames:
        judged = session.verdict
        return RunNames(
            run_id="",
            session_id=name,
            model=self._options.model or session.model,
            source=session.source,
            verdict="not_run" if judged is None else "passed" if judged.passed else "failed",
        )

    def complete(self, name: str, session: ImportedSession) -> None:
        """Add its label to a session without its own verdict, and the label's model where none is recorded."""
        label = self._by_name.get(name)
        if label is None:
            return
        session.model = session.model or label.model
        if session.verdict is None:
            details = {"id": label.id, "label": label.value}
            file = os.path.basename(os.path.abspath(self._file))
            session.verdict = ImportedVerdict(passed=label.good, name=f"label:{file}", details=details)

    def come_from(self, skipped: SkippedSession) -> bool:
        """Return whether this is the file of labels, which may be in the folder of sessions."""
        return bool(self._file) and os.path.abspath(skipped.source) == os.path.abspath(self._file)

    def lines(self) -> Iterator[str]:
        """Yield how many sessions the labels call good, bad or neither, and the labels that match no session."""
        statistics = self.statistics
        if statistics is None:
            return
        good, bad = (sum(label.good is wanted for label in self._by_name.values()) for wanted in (True, False))
        none = f"; {counted(statistics.unlabelled, 'session')} without a label" if statistics.unlabelled else ""
        yield f"labels: {good:,} good, {bad:,} bad{none}"
        if (warning := unmatched_warning(statistics)) is not None:
            yield f"warning: {warning}"


def _session_words(one: FoundSession, name: str) -> str:
    """Return the name by which errors refer to a session to import; no other session has it."""
    return f"{_place_words(one.source, one.place)} (session {name})"


def _summary(folder: str, imported: list[ImportedRecord]) -> str:
    formats = Counter(result.format for result in imported)
    named = ", ".join(formats) if len(formats) == 1 else ", ".join(f"{n} {name}" for name, n in formats.items())
    runs, steps = sum(result.runs for result in imported), sum(result.steps for result in imported)
    sessions = counted(len(imported), "session")
    return f"{sessions} ({named}; {counted(runs, 'run')}, {counted(steps, 'step')}) imported into {folder}"


def _report_lines(
    imported: list[ImportedRecord], skipped: list[SkippedSession], unused: list[str], quiet: bool
) -> Iterator[str]:
    """Yield all messages other than the result. Skipped sessions are reported even if `quiet`: no record shows them."""
    yield from _skipped_lines(skipped, bool(imported))
    if not quiet:
        yield from _kept_and_ignored_lines(skipped)
        yield from _lost_lines(imported)
        yield from _unknown_tool_lines(unused)


def _skipped_lines(skipped: list[SkippedSession], imported: bool) -> Iterator[str]:
    """Yield a line for each session that could not be converted."""
    failed = [result for result in skipped if not (result.aside or result.known)]
    if not imported and len(failed) == 1:
        failed = []  # it is the reason that `_why_nothing` gives
    for result in failed[:SHOWN]:
        yield f"skipped: {_where(result)}: {one_line(result.why, 300)}"
    if len(failed) > SHOWN:
        yield f"skipped: {len(failed) - SHOWN} more (--json lists them)"


def _kept_and_ignored_lines(skipped: list[SkippedSession]) -> Iterator[str]:
    aside = [result for result in skipped if result.aside]
    known = [result for result in skipped if result.known]
    if known:
        sessions = counted(len(known), "session")
        yield f"kept: existing records of {sessions} (--force replaces them)"
    if aside:
        yield f"ignored: {counted(len(aside), 'file')} without sessions, such as {_where(aside[0])}"


def _where(result: SkippedSession) -> str:
    return _place_words(result.source, result.place)


def _place_words(source: str, place: str) -> str:
    source = one_line(source, 200)
    return f"{source}, {place}" if place else source


def _lost_lines(imported: list[ImportedRecord]) -> Iterator[str]:
    yield from (f"lost: {words}" for words in describe_losses(total_losses(imported)))


def _unknown_tool_lines(unused: list[str]) -> Iterator[str]:
    for name in unused:
        yield f"note: no session has a tool called {one_line(name, 60)!r}"


def _all_known(skipped: list[SkippedSession]) -> bool:
    """Return whether there are sessions, and the records of all of them."""
    sessions = [result for result in skipped if not result.aside]
    return bool(sessions) and all(result.known for result in sessions)


def _there(skipped: list[SkippedSession]) -> str:
    known = sum(result.known for result in skipped)
    return f"{counted(known, 'session')} {'is' if known == 1 else 'are'} there already"


def _why_nothing(skipped: list[SkippedSession]) -> str:
    if not skipped:
        return "nothing was imported: no files were found"
    sessions = [result for result in skipped if not result.aside]
    if not sessions:
        return f"nothing was imported: {counted(len(skipped), 'file')} without sessions that endstop reads"
    first = next((result for result in skipped if not (result.aside or result.known)), skipped[0])
    return f"nothing was imported: {_where(first)}: {one_line(first.why, 300)}"


def _as_json(
    folder: str,
    imported: list[ImportedRecord],
    skipped: list[SkippedSession],
    unused: list[str],
    labels: LabelStatistics | None,
) -> str:
    whole = {
        "imported": len(imported),
        "folder": folder,
        "runs": sum(result.runs for result in imported),
        "steps": sum(result.steps for result in imported),
        "lost": dict(total_losses(imported)),
        "sessions": imported,
        "skipped": skipped,
        "unknown_tools": unused,
        "labels": labels,
    }
    return msgspec.json.encode(whole).decode() + "\n"


# ---- export


def add_export(commands: Any) -> None:
    """Add `export` to the parser's subcommands."""
    parser = add_command(
        commands,
        "export",
        export_record,
        about=_EXPORT_ABOUT,
        lists=_EXPORT_LISTS,
        exit_codes=_EXPORT_EXIT_CODES,
        examples=_EXPORT_EXAMPLES,
    )
    formats = (HTML, *EXPORTS)
    parser.add_argument("format", metavar="FORMAT", choices=formats, help="the format: html, openai, atif or otlp")
    parser.add_argument(
        "records",
        nargs="+",
        metavar="RECORD",
        help="a file written by `endstop run --record` or `endstop import`; html takes several, and transcripts, too",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help=(
            "the file to write (default: stdout; NAME.html here for html, which also takes - for stdout, "
            "or a folder, which is made if it ends in /)"
        ),
    )
    parser.add_argument("--force", action="store_true", help="overwrite the file if it exists")
    parser.add_argument("--quiet", action="store_true", help="do not list what the format cannot express")
    page = parser.add_argument_group("for html")
    add_user_policy(page)
    page.add_argument(
        "--session", metavar="ID", help="the session of a transcript that holds several (default: the first)"
    )
    page.add_argument(
        "--completion",
        action="append",
        default=[],
        metavar="NAME",
        help="the tool of a transcript that reports the work as done; repeatable",
    )
    add_redaction(page, "the page")


def export_record(args: argparse.Namespace) -> int:
    """Export a record, or sessions as pages, and return the exit code. Raises WrongUse."""
    if args.format == HTML:
        from .export_html import export_pages

        return export_pages(args)
    if len(args.records) > 1:
        raise WrongUse(f"{args.format} takes one record, not {len(args.records)}: export one after the other")
    if args.session is not None or args.completion or build_redaction(args) is not None:
        raise WrongUse(f"--session, --completion and redaction are for html: {args.format} exports a record as it is")
    std_streams = StdStreams()
    record = read_record(args.records[0])
    events = [event for run in record.runs for event in run.events]
    whole, left_out = EXPORTS[args.format](record.header.session_id, events)
    text = _encode(whole)
    if args.output is None:
        std_streams.write_answer(text.decode())
    else:
        write_file(args.output, [text], args.force, args.records[0])
    if not args.quiet:
        for kind, times in left_out.items():
            print(f"left out: {counted(times, EXPORT_LOSSES[kind])}", file=sys.stderr)
    if record.damaged:
        print(
            f"left out: {counted(len(record.damaged), 'line(s) of the record that could not be read')}", file=sys.stderr
        )
    if record.missing:
        files = counted(len(record.missing), "attachment(s) that could not be found")
        print(f"left out: {files}", file=sys.stderr)
    return 0


def _encode(whole: dict[str, Any]) -> bytes:
    """Encode the export as one line of JSON."""
    return msgspec.json.encode(whole) + b"\n"

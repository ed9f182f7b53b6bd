"""`endstop report`: metrics of many records, and the changes that they suggest."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from ..analysis.labels import Labels
from ..analysis.report import DEFAULT_SESSIONS, Report, digest_index, report_records
from ..analysis.scoring import Ratings, read_ratings
from ..decision import WrongUse
from ..http.document_page import report_html
from ..process.streams import StdStreams
from ..records.files import find_records
from ..records.index import Index
from ..records.parallel import FileFailure, ProgressCallback, map_files
from .commands import add_command
from .options import add_indexed_records, add_labels, read_labels
from .output_file import check_page, write_page
from .views.report import render_report
from .views.report_page import SessionSection, read_section, report_page
from .views.tables import indexed, print_parts, progress, warn_of_unmatched
from .views.text import counted
from .views.view_links import DEFAULT_VIEW, ViewLinks

_ABOUT = """
Ratings are CSV with a header line, or JSON Lines. A line has the id of a session or a run (session_id, session, run_id,
run or id) and a rating (good, bad, pass, fail, yes, no, 0 to 1, or with a scale: 4.5/5, or 4.5 and a `scale` of 5), a
kind of task, or both:

  session_id,rating,kind
  session_1,good,look_up
"""
_EXIT_CODES = {0: "done", 2: "usage error, or no record could be read"}
_EXAMPLES = (
    ("Summarize all records of a folder", "endstop report records/"),
    ("Write a page with the most interesting sessions", "endstop report records/ --html report.html"),
    (
        "Compare policies, with what users said of the sessions",
        "endstop report before/ after/ --baseline agent --ratings ratings.csv",
    ),
)
MOST_SESSIONS = 5000


def add_to(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = add_command(
        commands,
        "report",
        command,
        about=_ABOUT,
        exit_codes=_EXIT_CODES,
        examples=_EXAMPLES,
    )
    reading, output = add_indexed_records(parser)
    output.add_argument("--html", metavar="FILE", help="also write an HTML page, with the most interesting sessions")
    output.add_argument(
        "--sessions",
        type=int,
        default=DEFAULT_SESSIONS,
        metavar="N",
        help=f"how many sessions to show on the page, the most interesting ones (default {DEFAULT_SESSIONS})",
    )
    output.add_argument(
        "--view",
        default=DEFAULT_VIEW,
        metavar="URL",
        help=f"where links of the page lead: the address of `endstop view` over these records (default {DEFAULT_VIEW})",
    )
    reading.add_argument("--baseline", metavar="NAME", help="compare the other policies in the records with this one")
    add_labels(reading, "in addition to what the records say")
    reading.add_argument("--ratings", metavar="FILE", help="a file with the users' ratings of sessions and runs")


def command(args: argparse.Namespace) -> int:
    """Make the report and return the exit code. Raises WrongUse."""
    if not 0 <= args.sessions <= MOST_SESSIONS:
        raise WrongUse(f"--sessions is {args.sessions}: use 0 to {MOST_SESSIONS:,}")
    std_streams = StdStreams()
    links = ViewLinks(args.view, shlex.join(args.records))
    paths = find_records(args.records)
    ratings = read_ratings(args.ratings) if args.ratings is not None else Ratings()
    labels = read_labels(args)
    if args.html is not None:
        check_page(args.html, paths)
    with indexed(args, digest_index) as index, progress(args, "reading") as on_progress:
        report = report_records(
            paths,
            ratings=ratings,
            labels=labels,
            baseline=args.baseline,
            sessions=args.sessions,
            index=index,
            processes=args.processes,
            progress=on_progress,
        )
    if not report.sessions:
        raise WrongUse(f"none of {counted(len(report.bad), 'file')} can be read as a record: {report.bad[0].why}")
    warn_of_unmatched(report.labels, args.quiet)
    written = _write_page(args, report, ratings, labels, links) if args.html is not None else ""
    if args.json:
        std_streams.write_answer(msgspec.json.encode(report).decode() + "\n")
    else:
        print_parts(std_streams, render_report(report, written))
    return 0


def _write_page(
    args: argparse.Namespace, report: Report, ratings: Ratings, labels: Labels | None, links: ViewLinks
) -> str:
    """Write the page, completely or not at all, and return where it is. Raises WrongUse if it cannot be written."""
    with progress(args, "drawing") as on_progress:
        sections = _sections(report, args.processes, on_progress)
    page = report_page(report, sections, ratings, labels, links)
    return f"{write_page(args.html, page)}, with {counted(len(sections), 'session')}."


def _sections(
    report: Report, processes: int | None = None, on_progress: ProgressCallback | None = None
) -> list[SessionSection]:
    """Return the sessions that the page lists."""
    paths = [Path(chosen.record) for chosen in report.telling]
    sections = []
    read = map_files(read_section, paths, processes=processes, progress=on_progress)
    for chosen, (_, found) in zip(report.telling, read, strict=True):
        if not isinstance(found, FileFailure):  # its record was removed after the report was made
            sections.append(SessionSection(chosen, *found))
    return sections


def served_report(paths: Sequence[Path], index: Index | None = None, processes: int | None = None) -> str:
    """Return the page over these records as `--html` writes it without further options, for a viewer to serve."""
    report = report_records(paths, index=index, processes=processes)
    sections = _sections(report, processes)
    return report_html(report_page(report, sections, Ratings(), viewer=ViewLinks("./"))).html

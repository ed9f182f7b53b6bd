"""`endstop audit`: what happened in one session, and when each policy would have ended it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ..analysis.audit import Audit, audit
from ..base.sanitize import one_line
from ..decision import POLICIES, Policy, WrongUse
from ..formats import FORMATS, FoundSession, ImportOptions, SkippedSession, events_of, find_sessions
from ..formats.known_places import Place, describe_not_left, known_places, newest_session
from ..formats.session_files import AUTO
from ..process.streams import StdStreams
from ..records.reader import is_record
from ..records.scan import scan
from .commands import add_command
from .factory import load_policy_of_runs
from .views.audit import render_audit
from .views.tables import print_parts
from .views.text import counted

_ABOUT = """
TRANSCRIPT is a record, or a transcript of another agent in any format that `endstop import` reads: a file, packed or
not, a database, or a folder that a format reads as one. --last shows the newest session that Claude Code, Codex and
others have left below your home folder, or below the folder that is named.
"""
_EXIT_CODES = {0: "done", 2: "usage error, or no session could be read"}
_EXAMPLES = (
    ("Look at a record", "endstop audit run.jsonl"),
    ("Look at the newest session of another agent on this machine", "endstop audit --last"),
    ("Ask when another policy would have ended it", "endstop audit trajectory.traj --policy strict"),
    (
        "Choose one of several sessions, and name the tool that completes the task",
        "endstop audit sessions.jsonl --session task-7 --completion hand_in",
    ),
)


def add_to(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = add_command(
        commands,
        "audit",
        command,
        about=_ABOUT,
        exit_codes=_EXIT_CODES,
        examples=_EXAMPLES,
    )
    parser.add_argument(
        "transcript", metavar="TRANSCRIPT", nargs="?", help="a record, or a transcript of another agent"
    )
    reading = parser.add_argument_group("reading")
    reading.add_argument(
        "--last", action="store_true", help="the newest session below TRANSCRIPT, or where agents keep theirs"
    )
    reading.add_argument(
        "--session", metavar="ID", help="the session to show if there are several (default: the first)"
    )
    reading.add_argument(
        "--format", choices=(*FORMATS, AUTO), default=AUTO, help="the format of a transcript (default: detected)"
    )
    reading.add_argument(
        "--completion",
        action="append",
        default=[],
        metavar="NAME",
        help="the tool that reports the work as done; repeatable",
    )
    parser.add_argument(
        "--policy",
        action="append",
        default=[],
        metavar="P",
        help="the policy to test: chat, agent, strict, or a TOML file; repeatable (default: these three)",
    )
    output = parser.add_argument_group("output")
    output.add_argument("--every-step", action="store_true", help="show every step of long runs")
    output.add_argument("--json", action="store_true", help="print one JSON object")


def command(args: argparse.Namespace) -> int:
    """Show the audit and return the exit code. Raises WrongUse."""
    std_streams = StdStreams()
    policies = [load_policy_of_runs(name) for name in args.policy or POLICIES]
    result = _audit_last(args, policies) if args.last else _audit_named(args, policies)
    if args.json:
        std_streams.write_answer(msgspec.json.encode(result).decode() + "\n")
    else:
        print_parts(std_streams, render_audit(result, args.every_step))
    return 0


def _audit_named(args: argparse.Namespace, policies: Sequence[Policy]) -> Audit:
    """Return the audit of the named transcript. Raises WrongUse if it does not exist or has no session."""
    if args.transcript is None:
        raise WrongUse("name a transcript, or --last for the newest session on this machine")
    if not Path(args.transcript).exists():
        raise WrongUse(f"{args.transcript}: no such file")
    if Path(args.transcript).is_file() and is_record(args.transcript):
        return audit(scan(args.transcript), policies)
    chosen = choose_session(args.transcript, args.session, find_sessions(args.transcript, args.format), "showing")
    return _audit_session(args, chosen, policies)


def _audit_last(args: argparse.Namespace, policies: Sequence[Policy]) -> Audit:
    """Return the audit of the newest session and print where it was found.

    Raises WrongUse, with the places searched, if there is none.
    """
    if args.session is not None:
        raise WrongUse("--last and --session name two sessions: leave one of them out")
    named = None if args.transcript is None else Place(Path(args.transcript))
    newest = newest_session([named] if named else known_places(Path.home(), os.environ), args.format)
    searched = "; ".join(_searched_words(place, files) for place, files in newest.searched if files or named)
    if newest.found is None:
        places = ", ".join(str(place.path) for place, _ in newest.searched)
        missing = "" if named else f"; {describe_not_left()}"
        raise WrongUse(f"no session found: looked below {one_line(places, 2000)}; name a folder or a file{missing}")
    found = newest.found
    where = f"{found.source}, {found.place}" if found.place else found.source
    missing = describe_not_left({place.program for place, files in newest.searched if place.path.parent.exists()})
    print(f"endstop: searched {one_line(searched, 1000)}", file=sys.stderr)
    print(f"endstop: the newest session is {one_line(found.id, 200)} ({one_line(where, 400)})", file=sys.stderr)
    if missing:
        print(f"endstop: {missing}", file=sys.stderr)
    return _audit_session(args, found, policies)


def _searched_words(place: Place, files: int) -> str:
    program = f"{place.program}, " if place.program else ""
    return f"{place.path} ({program}{counted(files, 'file')})"


def _audit_session(args: argparse.Namespace, chosen: FoundSession, policies: Sequence[Policy]) -> Audit:
    """Return the audit of a session of another agent."""
    session = chosen.session
    events = events_of(session, chosen.id, chosen.format, ImportOptions(completion=tuple(args.completion)))
    return audit(events, policies, dict(session.losses))


def choose_session(
    transcript: str, wanted: str | None, results: Iterable[FoundSession | SkippedSession], doing: str
) -> FoundSession:
    """Return the session with the id `wanted`, or the first one, with a note if there are several.

    doing: what the caller does with it, such as "showing". Raises WrongUse if there is none.
    """
    chosen: FoundSession | None = None
    ids: list[str] = []
    why = "it holds no session"
    for result in results:
        if isinstance(result, SkippedSession):
            why = why if ids else result.why
            continue
        ids.append(result.id)
        if result.id == wanted:
            return result
        if chosen is None and (wanted is None or wanted in result.id):
            chosen = result
    if not ids:
        raise WrongUse(f"{transcript}: {one_line(why, 400)}")
    if chosen is None:
        raise WrongUse(f"{transcript} has no session {wanted!r}; it has {', '.join(ids[:10])}")
    if wanted is None and len(ids) > 1:
        holds = f"{transcript} holds {counted(len(ids), 'session')}"
        print(f"endstop: {holds}; {doing} the first, {chosen.id}; choose another with --session", file=sys.stderr)
    return chosen

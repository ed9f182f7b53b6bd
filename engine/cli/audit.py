"""`endstop audit`: what happened in one session, and when each policy would have ended it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from .._sanitize import one_line
from ..analysis.audit import Audit, audit
from ..decision import POLICIES, Policy, WrongUse
from ..formats import FORMATS, FoundSession, ImportOptions, SkippedSession, events_of, find_sessions
from ..formats.session_files import AUTO
from ..process.streams import StdStreams
from ..records.reader import is_record
from ..records.scan import scan
from .factory import load_policy
from .options import add_command
from .views.audit import render_audit
from .views.tables import print_parts
from .views.text import counted

_HELP = "show what happened in one session: when the work was done, what came after, what would have ended it"
_EPILOG = """\
TRANSCRIPT is a record, or a transcript of another agent in any format that `endstop import` reads.

examples:
  endstop audit run.jsonl
  endstop audit trajectory.traj --policy strict
  endstop audit sessions.jsonl --session task-7 --completion hand_in

exit codes: 0 done, 2 usage error, or no session could be read
"""


def add_to(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = add_command(commands, "audit", _HELP, command, _EPILOG)
    parser.add_argument("transcript", metavar="TRANSCRIPT", help="a record, or a transcript of another agent")
    parser.add_argument("--session", metavar="ID", help="the session to show if there are several (default: the first)")
    parser.add_argument(
        "--format", choices=(*FORMATS, AUTO), default=AUTO, help="the format of a transcript (default: detected)"
    )
    parser.add_argument(
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
    parser.add_argument("--every-step", action="store_true", help="show every step of long runs")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def command(args: argparse.Namespace) -> int:
    """Show the audit and return the exit code. Raises WrongUse."""
    std_streams = StdStreams()
    policies = [load_policy(name, closing=True) for name in args.policy or POLICIES]
    if not Path(args.transcript).is_file():
        raise WrongUse(f"{args.transcript}: no such file")
    result = audit(scan(args.transcript), policies) if is_record(args.transcript) else _audit_transcript(args, policies)
    if args.json:
        std_streams.write_answer(msgspec.json.encode(result).decode() + "\n")
    else:
        print_parts(std_streams, render_audit(result, args.every_step))
    return 0


def _audit_transcript(args: argparse.Namespace, policies: Sequence[Policy]) -> Audit:
    """The audit of a transcript of another agent."""
    chosen = _choose_session(args, find_sessions(args.transcript, args.format))
    session = chosen.session
    events = events_of(session, chosen.id, chosen.format, ImportOptions(completion=tuple(args.completion)))
    return audit(events, policies, dict(session.losses))


def _choose_session(args: argparse.Namespace, results: Iterable[FoundSession | SkippedSession]) -> FoundSession:
    """The session to show. Raises WrongUse if there is none."""
    chosen: FoundSession | None = None
    ids: list[str] = []
    why = "it holds no session"
    for result in results:
        if isinstance(result, SkippedSession):
            why = why if ids else result.why
            continue
        ids.append(result.id)
        if result.id == args.session:
            return result
        if chosen is None and (args.session is None or args.session in result.id):
            chosen = result
    if not ids:
        raise WrongUse(f"{args.transcript}: {one_line(why, 400)}")
    if chosen is None:
        raise WrongUse(f"{args.transcript} has no session {args.session!r}; it has {', '.join(ids[:10])}")
    if args.session is None and len(ids) > 1:
        holds = f"{args.transcript} holds {counted(len(ids), 'session')}"
        print(f"endstop: {holds}; showing the first, {chosen.id}; choose another with --session", file=sys.stderr)
    return chosen

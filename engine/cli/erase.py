"""`endstop erase`: the deletion of all that store, queue and archive have of an owner."""

from __future__ import annotations

import argparse
from typing import Any

from ..decision import WrongUse
from ..store.base import LEASE
from .commands import add_command
from .options import add_output, add_queue_place, add_store
from .question_prompt import is_interactive

WAIT_SECONDS = 30.0
_ABOUT = """
OWNER is a name in the file of `endstop serve --tokens`, written exactly so; '' is whose sessions were started without
tokens. Take the owner's tokens out of that file first and restart the servers, so that nothing new comes. Give --store,
--queue and --archive as the servers and workers have them; these may go on working.

Sessions go with their runs, events, messages and sub-agents; received spans are sessions, too. Sessions that run are
cancelled, and get --wait seconds to end. Those that still run then are left and named: run the command again. Nothing
of other owners is touched. Logs, backups, records of the proxy and what tools wrote are not reached.
"""
_EXIT_CODES = {
    0: "all is gone, or with --dry-run: all was counted",
    1: "something is left: a session that runs on, or what a store, a queue or an archive failed to delete",
    2: "usage error, nothing of this owner there, or nobody who said yes: nothing was deleted",
    130: "interrupted by Ctrl-C: run it again, and it goes on",
}
_EXAMPLES = (
    (
        "Count what there is of Alice",
        "endstop erase alice --store postgresql://127.0.0.1/endstop --archive s3://my-bucket/sessions --dry-run",
    ),
    (
        "Erase it without a question, in a script",
        "endstop erase alice --store postgresql://127.0.0.1/endstop --archive s3://my-bucket/sessions --yes",
    ),
)


def add_to(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = add_command(
        commands, "erase", command, about=_ABOUT, exit_codes=_EXIT_CODES, examples=_EXAMPLES, variables=True
    )
    parser.add_argument("owner", metavar="OWNER", help="whose data is to go")
    places = parser.add_argument_group("where it is")
    add_store(places, "the store: a file, or a postgresql:// URL (default: sessions.db in the state folder)")
    add_queue_place(places, "the queue of the workers: dbos (default: in the database of --store, if it is there)")
    places.add_argument(
        "--archive", metavar="A", help="the archive of the servers: a folder, or s3://BUCKET/PREFIX (default: none)"
    )
    how = parser.add_argument_group("how")
    how.add_argument("--dry-run", action="store_true", help="count what there is, and change nothing")
    how.add_argument("--yes", action="store_true", help="do not ask; needed where there is no terminal")
    how.add_argument(
        "--wait",
        type=float,
        default=WAIT_SECONDS,
        metavar="S",
        help=f"seconds that running sessions get to end once they are cancelled (default {WAIT_SECONDS:g})",
    )
    add_output(parser.add_argument_group("output"), "print the result as one JSON object", "show only the result")
    parser.set_defaults(max_running_everywhere=None, max_running_each=None, lease=LEASE)  # as `build_queue` reads them


def command(args: argparse.Namespace) -> int:
    """Erase the owner's data and return the exit code. Raises WrongUse."""
    _check(args)
    from .owner_erasure import erase_owner

    return erase_owner(args)


def _check(args: argparse.Namespace) -> None:
    if not 0 <= args.wait < float("inf"):
        raise WrongUse(f"--wait is {args.wait:g}: use seconds, 0 or more")
    try:
        args.owner.encode()
    except UnicodeEncodeError:
        raise WrongUse("OWNER is not text in UTF-8") from None
    if not (args.yes or args.dry_run or is_interactive()):
        raise WrongUse("erase asks first, and there is no terminal: give --yes, or --dry-run to see what there is")

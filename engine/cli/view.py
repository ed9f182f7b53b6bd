"""`endstop view`: the web page over records."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..analysis.report import digest_index
from ..decision import POLICIES, WrongUse
from ..process.daemon import new_event_loop
from ..process.shutdown import run_to_end
from ..process.tokens import Tokens
from ..viewer.catalog import Catalog
from ..viewer.text_index import TextIndex
from .commands import add_command
from .factory import load_policy_of_runs
from .options import add_allowed_hosts, add_index, add_reading, add_user_policy, allowed_hosts
from .report import served_report

PORT = 8644
_ABOUT = """
Nothing is changed: the viewer only reads. Records that are still written are followed, and files that are added or
removed appear and vanish. It listens on this machine only, unless it has --tokens.
"""
_EXIT_CODES = {
    0: "stopped by SIGTERM",
    2: "usage error, such as a port in use or a path that does not exist",
    130: "stopped by Ctrl-C",
}
_EXAMPLES = (
    ("Look at all records of a folder", "endstop view records/"),
    ("Open the browser, too", "endstop view records/ archive/old.jsonl.zst --open"),
    ("Listen on any free port", "endstop view run.jsonl --port 0"),
)


def add_to(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = add_command(commands, "view", command, about=_ABOUT, exit_codes=_EXIT_CODES, examples=_EXAMPLES)
    server = parser.add_argument_group("server")
    server.add_argument("--host", default="127.0.0.1", metavar="H", help="the address to listen on (default 127.0.0.1)")
    server.add_argument(
        "--port", type=int, default=PORT, metavar="N", help=f"the port to listen on (default {PORT}; 0: any free port)"
    )
    server.add_argument("--open", action="store_true", help="open the page in the browser")
    server.add_argument("--tokens", metavar="FILE", help="a file of bearer tokens, with a line OWNER:TOKEN for each")
    add_allowed_hosts(server)
    add_user_policy(parser)
    add_index(add_reading(parser))


def command(args: argparse.Namespace) -> int:
    """Serve until a signal and return the exit code. Raises WrongUse."""
    from ..viewer.viewer_app import ViewerOptions
    from ..viewer.viewer_server import ViewerServer

    _check(args)
    policies = [*POLICIES.values(), *map(load_policy_of_runs, args.policy)]
    with _text_index_place(args) as place:
        catalog = Catalog(args.records, index_place="" if args.no_index else args.index, processes=args.processes)
        texts = TextIndex(catalog.readable_files, place=place, processes=args.processes)
        catalog.on_change = texts.update
        server = ViewerServer(
            catalog=catalog,
            options=ViewerOptions(
                tokens=Tokens.from_environment() if args.tokens is None else Tokens.from_file(args.tokens),
                hosts=allowed_hosts(args),
                policies=policies,
                report=partial(_report, args.index, args.no_index, args.processes),
                texts=texts,
            ),
            host=args.host,
            port=args.port,
            opens_browser=args.open,
        )
        return run_to_end(server.serve(), new_event_loop())


@contextmanager
def _text_index_place(args: argparse.Namespace) -> Iterator[Path | None]:
    """Yield the file of the text index: in the cache folder, next to `--index`, or a temporary one."""
    if not args.no_index:
        yield None if args.index is None else Path(f"{args.index}.texts")
        return
    with TemporaryDirectory(prefix="endstop-view-", ignore_cleanup_errors=True) as folder:
        yield Path(folder, "texts.sqlite")


def _check(args: argparse.Namespace) -> None:
    for name in args.records:
        try:
            Path(name).stat()
        except OSError as error:
            raise WrongUse(f"{name}: {(error.strerror or str(error)).lower()}") from None
    if not 0 <= args.port <= 65535:
        raise WrongUse(f"--port is {args.port}: use 0 to 65535")
    if args.processes is not None and args.processes < 1:
        raise WrongUse(f"--processes is {args.processes}: use 1 or more")
    if args.index is not None and args.no_index:
        raise WrongUse("--index and --no-index: give one of the two")


def _report(index: str | None, no_index: bool, processes: int | None, paths: Sequence[Path]) -> str:
    """Render the HTML report over these records."""
    if no_index:
        return served_report(paths, None, processes)
    with digest_index(index) as cached:
        return served_report(paths, cached, processes)

"""`endstop serve`: the HTTP server, with or without worker processes."""

from __future__ import annotations

import argparse
import os
from typing import Any

from ..base.state_folder import state_folder
from ..decision import WrongUse
from ..engine import Engine
from ..process.daemon import new_event_loop
from ..process.shutdown import run_to_end
from .agent import build_engine, chosen_policy
from .commands import add_command
from .options import (
    add_agent,
    add_allowed_hosts,
    add_lease,
    add_log_format,
    add_queue,
    add_redaction,
    add_store,
    allowed_hosts,
    build_redaction,
    read_store,
)
from .until_options import client_until
from .worker import require_queue

PORT = 8642
GRACE_SECONDS = 10.0
MAX_RUNNING = 1000
RATE = 100.0
ANSWER_SECONDS = 10.0
_ABOUT = """
Without tokens, the server listens on this machine only. Tokens come from --tokens, a file with a line OWNER:TOKEN for
each owner, or from the environment variable ENDSTOP_TOKEN, if there is only one. Without --model, the server shows
stored sessions and starts none.
"""
_EXIT_CODES = {
    0: "stopped by SIGTERM; sessions still running after --grace were cancelled",
    2: "usage error, such as a port in use, a store that cannot be opened, or no token for --host",
    130: "stopped by Ctrl-C; a second Ctrl-C exits at once",
}
_EXAMPLES = (
    (
        "Serve an agent on this machine, with its page",
        "endstop serve --model anthropic/claude-sonnet-4-5 --workspace .",
    ),
    (
        "Serve to others, who send tokens, and keep sessions for 30 days",
        "endstop serve --model openai/gpt-5 --host 0.0.0.0 --tokens tokens.txt --keep-days 30",
    ),
    (
        "Keep sessions for 30 days in the database, and after that in a bucket",
        "endstop serve --model openai/gpt-5 --keep-days 30 --archive s3://my-bucket/sessions",
    ),
    ("Show stored sessions, and start none", "endstop serve --store sessions.db"),
)


def add_to(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = add_command(
        commands,
        "serve",
        command,
        about=_ABOUT,
        exit_codes=_EXIT_CODES,
        examples=_EXAMPLES,
        variables=True,
    )
    server = parser.add_argument_group("server")
    server.add_argument("--host", default="127.0.0.1", metavar="H", help="the address to listen on (default 127.0.0.1)")
    server.add_argument(
        "--port", type=int, default=PORT, metavar="N", help=f"the port to listen on (default {PORT}; 0: any free port)"
    )
    add_store(
        server, "where to store sessions: a file, or a postgresql:// URL (default: sessions.db in the state folder)"
    )
    server.add_argument("--tokens", metavar="FILE", help="a file of bearer tokens, with a line OWNER:TOKEN for each")
    add_allowed_hosts(server)
    server.add_argument(
        "--cors",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="also allow requests from pages of this origin; repeatable",
    )
    server.add_argument(
        "--grace",
        type=float,
        default=GRACE_SECONDS,
        metavar="S",
        help=f"seconds that running sessions get to end when the server stops (default {GRACE_SECONDS:g})",
    )
    server.add_argument(
        "--answer-timeout",
        type=float,
        default=ANSWER_SECONDS,
        metavar="S",
        help=f"seconds after which a request is given up (503) while the store or the queue does not answer "
        f"(default {ANSWER_SECONDS:g})",
    )
    server.add_argument("--keep-days", type=float, metavar="N", help="delete ended sessions after this many days")
    server.add_argument("--keep-sessions", type=int, metavar="N", help="keep only this many ended sessions, the latest")
    server.add_argument(
        "--archive",
        metavar="A",
        help="where the record of a session is put before it is deleted: a folder, or s3://BUCKET/PREFIX (with "
        "?endpoint=URL&region=NAME for a service other than Amazon's); if that fails, the session stays",
    )
    server.add_argument(
        "--max-running",
        type=int,
        default=MAX_RUNNING,
        metavar="N",
        help=f"sessions that may run at once (default {MAX_RUNNING})",
    )
    server.add_argument(
        "--rate",
        type=float,
        default=RATE,
        metavar="N",
        help=f"requests per second for each owner, or without tokens for each address (default {RATE:g}; 0: no limit)",
    )
    server.add_argument(
        "--otlp",
        action="store_true",
        help="receive spans of agents that run elsewhere at /v1/traces (OTLP), keep and show their sessions, and raise "
        "an alarm where --policy would have stopped one as stuck or over a limit",
    )
    server.add_argument("--no-page", action="store_true", help="do not serve the web page")
    server.add_argument("--quiet", action="store_true", help="do not log requests")
    add_log_format(server)
    fleet = parser.add_argument_group("several processes")
    fleet.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="run sessions in N worker processes, which share a queue with every other `endstop worker` on the "
        "same --store; 0: only in those",
    )
    add_queue(fleet)
    add_lease(fleet)
    add_agent(parser, serves=True)
    add_redaction(parser.add_argument_group("redaction"), "the store")


def command(args: argparse.Namespace) -> int:
    """Serve until a signal and return the exit code. Raises WrongUse."""
    args.store = read_store(args)
    if args.workers is not None:
        require_queue(args.queue)
    from ..service.span_receiver import Receiving
    from ..web.server import HttpServer
    from .worker_process import build_queue, keep_workers_alive

    _check(args)
    server = HttpServer(
        agents=_agents(args),
        host=args.host,
        port=args.port,
        store=args.store if args.store is not None else default_store(),
        tokens=args.tokens,
        cors=args.cors,
        hosts=allowed_hosts(args),
        grace=args.grace,
        keep_days=args.keep_days,
        keep_sessions=args.keep_sessions,
        archive=args.archive,
        max_running=args.max_running,
        max_running_each=args.max_running_each if args.workers is None else None,
        rate=args.rate or None,
        page=not args.no_page,
        quiet=args.quiet,
        log_format=args.log_format,
        answer_seconds=args.answer_timeout,
        lease=args.lease,
        queue=None if args.workers is None else build_queue(args),
        workers=lambda died: keep_workers_alive(args, args.workers or 0, died),
        allow_until=client_until(args),
        receiving=Receiving(policy=chosen_policy(args), redact=build_redaction(args)) if args.otlp else None,
    )
    return run_to_end(server.serve(), new_event_loop())


def _agents(args: argparse.Namespace) -> dict[str, Engine]:
    """Return the engine as the agent `default`; no agent without a model."""
    if not (args.model or args.api_base or args.provider):
        return {}
    return {"default": build_engine(args)}


def _check(args: argparse.Namespace) -> None:
    if not 0 <= args.port <= 65535:
        raise WrongUse(f"--port is {args.port}: use 0 to 65535")
    if args.max_running_each is not None and args.max_running_each < 1:
        raise WrongUse(f"--max-running-each is {args.max_running_each}: use 1 or more")
    if args.workers is not None and args.workers < 0:
        raise WrongUse(f"--workers is {args.workers}: use 0 or more")
    if args.workers and not (args.model or args.api_base or args.provider):
        raise WrongUse("--workers needs a model: give one with --model")
    if args.otlp and args.workers is not None:
        raise WrongUse("--otlp and --workers do not go together: one process has to see all spans of a session")
    if args.archive is not None and args.keep_days is None and args.keep_sessions is None:
        raise WrongUse(
            "--archive gets sessions when they are deleted, and none is: give --keep-days or --keep-sessions, too"
        )
    if args.store is not None and not args.store.strip():
        raise WrongUse("--store is empty: give a file or a URL")
    if not args.answer_timeout > 0:
        raise WrongUse(f"--answer-timeout is {args.answer_timeout:g}: use seconds, more than 0")
    if args.rate < 0:
        raise WrongUse(f"--rate is {args.rate:g}: use 0 or more")


def default_store() -> str:
    """Return the path of the user's session database; creates its folder. Raises WrongUse if that fails."""
    folder = state_folder(os.environ)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise WrongUse(f"cannot create {folder}: {error.strerror}; choose another place with --store") from None
    return str(folder / "sessions.db")

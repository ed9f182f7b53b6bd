"""`endstop worker`: a process that takes sessions from the queue and runs them."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from typing import Any

from ..decision.errors import missing_extra
from .commands import add_command
from .options import add_agent, add_lease, add_log_format, add_queue, add_redaction, add_store, read_store

MAX_RUNNING = 100
GRACE_SECONDS = 10.0
QUEUES = {"dbos": ("dbos", "dbos"), "temporal": ("temporalio", "temporal,postgres")}
"""Beginnings of `--queue`: the package that each needs, and the extras that bring all that a worker with it needs."""
_ABOUT = """
Give all workers the same model, tools and policy. `endstop serve --workers 0` on the same --store accepts requests and
shows the sessions.
"""
_EXIT_CODES = {
    0: "stopped by SIGTERM; sessions still running after --grace go on in another worker",
    2: "usage error, such as a store that is not PostgreSQL, an unreachable queue, or the schema of a newer endstop",
    130: "stopped by Ctrl-C; a second Ctrl-C exits at once",
}
_EXAMPLES = (
    (
        "Run sessions of a shared database",
        "endstop worker --store postgresql://127.0.0.1/endstop --model anthropic/claude-sonnet-4-5",
    ),
    (
        "Accept requests for them, on another machine",
        "endstop serve --store postgresql://127.0.0.1/endstop --workers 0 --model anthropic/claude-sonnet-4-5",
    ),
)


def add_to(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = add_command(
        commands,
        "worker",
        command,
        about=_ABOUT,
        exit_codes=_EXIT_CODES,
        examples=_EXAMPLES,
        variables=True,
    )
    worker = parser.add_argument_group("worker")
    add_store(worker, "the postgresql:// URL of the database that all workers share")
    worker.add_argument(
        "--max-running",
        type=int,
        default=MAX_RUNNING,
        metavar="N",
        help=f"sessions that this worker may run at once (default {MAX_RUNNING})",
    )
    add_queue(worker)
    add_lease(worker)
    worker.add_argument(
        "--grace",
        type=float,
        default=GRACE_SECONDS,
        metavar="S",
        help=f"seconds that running sessions get to end when the worker stops, before other workers take them over "
        f"(default {GRACE_SECONDS:g})",
    )
    add_log_format(worker)
    health = parser.add_argument_group("health")
    health.add_argument(
        "--health-port",
        type=int,
        metavar="N",
        help="answer at this port: /health (the process lives) and /ready (its store and its queue answer); 0: any "
        "free port (default: no port)",
    )
    health.add_argument(
        "--health-host", default="127.0.0.1", metavar="H", help="the address of that port (default 127.0.0.1)"
    )
    add_agent(parser, serves=True)
    add_redaction(parser.add_argument_group("redaction"), "the store")


def command(args: argparse.Namespace) -> int:
    """Run sessions from the queue until a signal, and return the exit code. Raises WrongUse."""
    args.store = read_store(args)
    require_queue(args.queue)
    from .worker_process import run_worker

    return run_worker(args)


def require_queue(queue: str) -> None:
    """Raise WrongUse if a package that `--queue` needs is not installed.

    This is checked before anything of the server is imported, so that one line installs everything that a worker needs.
    """
    name = queue.partition(":")[0]
    if name in QUEUES and find_spec(QUEUES[name][0]) is None:
        package, extras = QUEUES[name]
        raise missing_extra(f"workers with the queue {name} need {package}, which is not installed", extras)

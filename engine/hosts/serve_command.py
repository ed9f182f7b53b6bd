"""`endstop serve`: the server, ready to use."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from ...decision import WrongUse
from ..engine import Engine
from .chosen import engine_of
from .leaving import run_to_end
from .options import (
    add_ending,
    add_model,
    add_presets,
    add_redaction,
    add_sampling,
    add_tools,
    parser_of,
)

PORT = 8642
GRACE_SECONDS = 10.0
MAX_RUNNING = 1000
RATE = 100.0
_HELP = "serve sessions over HTTP, with a page that shows them live"
_EPILOG = """\
exit codes:
  0    stopped by SIGTERM; running sessions got --grace and ended as cancelled
  2    wrong use: a port in use, a store that cannot be opened, no token for other machines
  130  stopped by Ctrl-C; a second one leaves at once

It answers at this machine only, unless people show a token: a file for --tokens has a line OWNER:TOKEN for each, or
the environment has ENDSTOP_TOKEN for one. Without --model it shows what is stored and starts nothing.
"""


def add_to(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = parser_of(commands, "serve", _HELP, command, _EPILOG)
    server = parser.add_argument_group("server")
    server.add_argument("--host", default="127.0.0.1", metavar="H", help="where to listen (default 127.0.0.1)")
    server.add_argument("--port", type=int, default=PORT, metavar="N", help=f"default {PORT}; 0 for any that is free")
    server.add_argument(
        "--store",
        metavar="S",
        help="where sessions are kept: a file, or a postgresql:// URL (default: sessions.db in the state folder)",
    )
    server.add_argument("--tokens", metavar="FILE", help="who may ask: a line OWNER:TOKEN for each")
    server.add_argument(
        "--cors", action="append", default=[], metavar="ORIGIN", help="whose web pages may ask, too; repeatable"
    )
    server.add_argument(
        "--grace",
        type=float,
        default=GRACE_SECONDS,
        metavar="S",
        help=f"seconds that running sessions get to end at a stop (default {GRACE_SECONDS:g})",
    )
    server.add_argument("--keep-days", type=float, metavar="N", help="forget ended sessions after so many days")
    server.add_argument("--keep-sessions", type=int, metavar="N", help="keep so many ended sessions, the latest")
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
        help=f"requests a second of each owner, or without tokens each address (default {RATE:g}; 0: any number)",
    )
    server.add_argument("--no-page", action="store_true", help="show no page")
    server.add_argument("--quiet", action="store_true", help="log no requests")
    model = parser.add_argument_group("model")
    add_model(model)
    add_sampling(model)
    tools = parser.add_argument_group("tools")
    add_tools(tools)
    add_presets(tools)
    add_ending(parser.add_argument_group("when to stop"))
    kept = parser.add_argument_group("what is kept")
    add_redaction(kept, "the store")


def command(given: argparse.Namespace) -> int:
    """Serve until a signal; gives the exit code. Raises WrongUse."""
    from .web.serving import Serving, new_loop

    _check(given)
    serving = Serving(
        agents=_agents(given),
        host=given.host,
        port=given.port,
        store=given.store if given.store is not None else default_store(),
        tokens=given.tokens,
        cors=given.cors,
        grace=given.grace,
        keep_days=given.keep_days,
        keep_sessions=given.keep_sessions,
        max_running=given.max_running,
        rate=given.rate or None,
        page=not given.no_page,
        quiet=given.quiet,
    )
    return run_to_end(serving.serve(), new_loop())


def default_store() -> str:
    """Where sessions are kept if nothing else was said: in the user's state folder, which is made."""
    state = os.environ.get("XDG_STATE_HOME", "")
    folder = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    folder /= "endstop"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise WrongUse(f"no sessions can be kept in {folder}: {error.strerror}; name a place with --store") from None
    return str(folder / "sessions.db")


def _agents(given: argparse.Namespace) -> dict[str, Engine]:
    """The engine under its name; none if no model was named."""
    if not (given.model or given.api_base or given.provider):
        return {}
    return {"default": engine_of(given)}


def _check(given: argparse.Namespace) -> None:
    if not 0 <= given.port <= 65535:
        raise WrongUse(f"--port is {given.port}: use 0 to 65535")
    if given.rate < 0:
        raise WrongUse(f"--rate is {given.rate:g}: use 0 or more")
    if given.store is not None and not given.store.strip():
        raise WrongUse("--store is empty: name a file or a URL")

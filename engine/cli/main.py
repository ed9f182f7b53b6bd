"""`endstop`: what people and scripts type. Each subcommand is a file of its own in this folder.

stdout is the answer or the one JSON object; everything else goes to stderr. Exit code 2 is wrong use, before the
first request.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import threading
import traceback
from collections.abc import Sequence

from .._version import __version__
from ..decision import WrongUse
from ..decision.errors import error_text
from ..process.shutdown import EXIT_CODE, leave_hanging_threads
from ..process.streams import open_what_is_closed
from .arguments import WRONG_USE, Parser
from .concealment import conceal

COMMANDS = ("run", "race", "replay", "report", "backtest", "audit", "import", "export", "redact", "serve", "worker")
"""Each is a module here that brings `add_to(commands)` and, through it, `command(given) -> int`."""

MODULES = {"import": "convert", "export": "export_command"}
"""Those that do not have their command's name."""

RUNS = frozenset({"run", "race", "replay", "serve", "worker"})
"""Those in whose process a model's commands are started."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit code. A console script: it may end the process if a tool of it hangs."""
    others = threading.enumerate()
    open_what_is_closed()
    words = sys.argv[1:] if argv is None else argv
    given = _parser(words).parse_args(words)
    if words[0] in RUNS:
        conceal()
    code = exit_code_of(given)
    leave_hanging_threads(code, others)
    return code


def _parser(words: Sequence[str]) -> Parser:
    """The parser of the command that is meant, so that one need not wait for the others; of all, if none is."""
    parser = Parser(prog="endstop", description="The agent loop that knows when to stop.", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"endstop {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name in words[:1] if words[:1] and words[0] in COMMANDS else COMMANDS:
        importlib.import_module(f".{MODULES.get(name, name)}", __package__).add_to(commands)
    return parser


# What became of a command, as its exit code; what went wrong is said on stderr.

CRASHED = 4


def exit_code_of(given: argparse.Namespace) -> int:
    """Run the command that was given."""
    try:
        code: int = given.command(given)
        return code
    except WrongUse as error:
        print(f"endstop: {error}", file=sys.stderr)
        return WRONG_USE
    except KeyboardInterrupt:
        print("endstop: interrupted", file=sys.stderr)
        return EXIT_CODE
    except OSError as error:
        print(f"endstop: {error}", file=sys.stderr)
        return CRASHED
    except Exception as error:
        print(f"endstop: internal error: {error_text(error)}", file=sys.stderr)
        traceback.print_exc()
        return CRASHED


if __name__ == "__main__":
    sys.exit(main())

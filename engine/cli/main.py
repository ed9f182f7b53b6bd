"""`endstop`: what people and scripts type. Each subcommand is a file of its own in this folder.

stdout is the answer or the one JSON object; everything else goes to stderr. Exit code 2 is wrong use, before the
first request.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Sequence

from .._version import __version__
from ..process.shutdown import leave_hanging_threads
from ..process.streams import open_what_is_closed
from .arguments import Parser
from .concealment import conceal
from .exit_codes import exit_code_of

MODULES = {
    **{name: name for name in ("run", "race", "replay", "report", "backtest", "audit")},
    "import": "convert",
    "export": "convert",
    **{name: name for name in ("redact", "serve", "worker")},
}
"""The module of each command, in this package. Its `add_to(commands)` adds the command's parser."""

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
    modules = [MODULES[words[0]]] if words and words[0] in MODULES else dict.fromkeys(MODULES.values())
    for module in modules:
        importlib.import_module(f".{module}", __package__).add_to(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""The `endstop` command: parses the command line and runs a subcommand, each in a module of its own.

stdout gets the answer or one JSON object, and stderr everything else. See `exit_codes.py` for the exit codes.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import sys
import threading
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from .._version import __version__
from ..process.shutdown import exit_despite_hanging_threads
from ..process.streams import reopen_closed_streams
from .exit_codes import WRONG_USE, run_command
from .hardening import harden_process

MODULES = {
    **{name: name for name in ("run", "race", "replay", "report", "backtest", "fit", "audit", "view")},
    "import": "convert",
    "export": "convert",
    **{name: name for name in ("redact", "serve", "worker", "proxy", "demo")},
}
"""The module of each command, in this package. Its `add_to(commands)` adds the command's parser."""

RUNS = frozenset({"run", "race", "replay", "serve", "worker"})
"""Commands whose process may start other programs for a model, and so is protected from them (`harden_process`)."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code. Ends the process itself if a thread of a tool hangs."""
    others = threading.enumerate()
    reopen_closed_streams()
    words = sys.argv[1:] if argv is None else argv
    args = _parser(words).parse_args(words)
    if words[0] in RUNS:
        harden_process()
    code = run_command(args)
    exit_despite_hanging_threads(code, others)
    return code


def _parser(words: Sequence[str]) -> Parser:
    """A parser of the command in `words`; of all commands, which takes longer to import, if it is none of them."""
    parser = Parser(prog="endstop", description="The agent loop that knows when to stop.", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"endstop {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    modules = [MODULES[words[0]]] if words and words[0] in MODULES else dict.fromkeys(MODULES.values())
    for module in modules:
        importlib.import_module(f".{module}", __package__).add_to(commands)
    return parser


class Parser(argparse.ArgumentParser):
    """An argument parser that suggests corrections for misspelt commands, options and values.

    argparse itself does so only from Python 3.14 on. The parsers of subcommands are of this class, too.
    """

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse as argparse does, but report unknown arguments here, where the options of the subcommand are known."""
        parsed, left = super().parse_known_args(args, namespace)
        if left:
            self.error(self._unrecognized(left))
        return parsed, left

    def error(self, message: str) -> NoReturn:
        """Print the error in one line and exit."""
        print(f"{self.prog}: {' '.join(message.split())}; see `{self.prog} --help`", file=sys.stderr)
        sys.exit(WRONG_USE)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            known = [str(choice) for choice in action.choices]
            hint = _suggestion(str(value), known) or f" (choose from {', '.join(known)})"
            raise argparse.ArgumentError(action, f"invalid choice: {value!r}{hint}")

    def _unrecognized(self, left: Sequence[str]) -> str:
        options = [word for word in left if word.startswith("-") and word != "-"]
        if not options:
            return f"unrecognized arguments: {' '.join(left)} (put text with spaces in quotes)"
        hints = (_suggestion(word.partition("=")[0], self._option_string_actions) for word in options)
        words = [f"{word}{hint}" for word, hint in zip(options, hints, strict=True)]
        return f"unrecognized arguments: {' '.join(words)}"


def _suggestion(word: str, known: Iterable[str]) -> str:
    """A suggestion, `" (did you mean '--model'?)"`; empty if nothing is similar."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


if __name__ == "__main__":
    sys.exit(main())

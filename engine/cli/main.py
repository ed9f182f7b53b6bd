"""The `endstop` command: parses the command line and runs a subcommand, each in its own module (`commands.py`).

stdout gets the answer or one JSON object, and stderr everything else. `exit_codes.py` has the exit codes.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence

from ..process.shutdown import exit_despite_hanging_threads
from ..process.streams import reopen_closed_streams, std_streams_given_back
from .commands import build_parser
from .exit_codes import run_command
from .hardening import harden_process

RUNS = frozenset({"run", "race", "replay", "serve", "worker"})
"""Commands whose process may start other programs for a model, and so is protected from them (`harden_process`)."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command within this process and return its exit code. Leaves stdout and stderr unchanged.

    Ends the process itself if a thread of a tool hangs.
    """
    with std_streams_given_back():
        return run_command_line(argv)


def run_command_line(argv: Sequence[str] | None = None) -> int:
    """Do the same as `main` in a process that does nothing else, whose later output is not part of the answer."""
    others = threading.enumerate()
    reopen_closed_streams()
    words = sys.argv[1:] if argv is None else argv
    if words[:1] == ["help"]:  # as `git help COMMAND`
        words = [*words[1:2], "--help"]
    args = build_parser(words).parse_args(words)
    if words[0] in RUNS:
        harden_process()
    code = run_command(args)
    exit_despite_hanging_threads(code, others)
    return code


if __name__ == "__main__":
    sys.exit(run_command_line())

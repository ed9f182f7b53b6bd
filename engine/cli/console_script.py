"""The entry point of the `endstop` script, which imports the command line late, so that Ctrl-C can end the imports."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line and return its exit code; 130 after Ctrl-C, also while Python still imports."""
    words = sys.argv[1:]
    try:
        if words[:1] == ["hook"] and not {"--help", "-h"} & {*words} and not _is_terminal():
            from .hook_options import answer_agent  # an agent waits for it at each of its events

            return answer_agent(words[1:])
        from .main import run_command_line

        return run_command_line()
    except KeyboardInterrupt:
        print("endstop: interrupted", file=sys.stderr)
        return 1 if words[:1] == ["hook"] else 130  # agents take other codes than 0 and 1 for a denial


def _is_terminal() -> bool:
    """Return whether a person sits at stdin."""
    return sys.stdin is not None and sys.stdin.isatty()

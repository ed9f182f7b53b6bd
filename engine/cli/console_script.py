"""The entry point of the `endstop` script, which imports the command line late, so that Ctrl-C can end the imports."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line and return its exit code; 130 after Ctrl-C, also while Python still imports."""
    try:
        words = sys.argv[1:]
        if words[:1] == ["hook"] and not {"--help", "-h"} & {*words} and not sys.stdin.isatty():
            from .hook_options import answer_agent  # an agent waits for it at each of its events

            return answer_agent(words[1:])
        from .main import run_command_line

        return run_command_line()
    except KeyboardInterrupt:
        print("endstop: interrupted", file=sys.stderr)
        return 130

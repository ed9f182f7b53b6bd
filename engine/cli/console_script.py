"""The entry point of the `endstop` script, which imports the command line late, so that Ctrl-C can end the imports."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line and return its exit code; 130 after Ctrl-C, also while Python still imports."""
    try:
        from .main import run_command_line

        return run_command_line()
    except KeyboardInterrupt:
        print("endstop: interrupted", file=sys.stderr)
        return 130

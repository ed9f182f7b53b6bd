"""What the `endstop` script calls. It imports the command line itself, so that Ctrl-C can end the imports, too."""

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

"""What became of a command, as its exit code; what went wrong is said on stderr."""

from __future__ import annotations

import argparse
import sys
import traceback

from ..decision import WrongUse
from ..decision.errors import error_text
from ..process.interrupts import EXIT_CODE
from .arguments import WRONG_USE

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

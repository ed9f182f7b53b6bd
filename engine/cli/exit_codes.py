"""The exit codes of the commands, and the errors that they print to stderr."""

from __future__ import annotations

import argparse
import sys
import traceback

from ..decision import Outcome, Status, WrongUse
from ..decision.errors import error_text
from ..process.shutdown import INTERRUPT_EXIT_CODE
from .variables import with_variables

WRONG_USE = 2
"""The exit code for a mistake on the command line, or anything else that cannot work: nothing was run."""

CRASHED = 4
"""The exit code after an error of the operating system, or a bug."""

EXIT_CODES: dict[Status, int] = {
    "completed": 0,
    "exhausted": 3,
    "failed": 4,
    "awaiting_input": 5,
    "cancelled": 130,
}
EVALUATION_FAILED = 6
"""The exit code for a run that completed and failed its evaluation."""


def run_command(args: argparse.Namespace) -> int:
    """Run the command of these arguments and return its exit code."""
    try:
        code: int = args.command(args)
        return code
    except WrongUse as error:
        print(f"endstop: {with_variables(str(error), getattr(args, 'from_variables', {}))}", file=sys.stderr)
        return WRONG_USE
    except KeyboardInterrupt:
        print("endstop: interrupted", file=sys.stderr)
        return INTERRUPT_EXIT_CODE
    except OSError as error:
        print(f"endstop: {error}", file=sys.stderr)
        return CRASHED
    except Exception as error:
        print(f"endstop: internal error: {error_text(error)}", file=sys.stderr)
        traceback.print_exc()
        return CRASHED


def exit_code(outcome: Outcome) -> int:
    """Return the exit code for the outcome of a run."""
    if outcome.status == "completed" and outcome.verdict == "failed":
        return EVALUATION_FAILED
    return WRONG_USE if outcome.never_started else EXIT_CODES[outcome.status]

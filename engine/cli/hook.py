"""`endstop hook`: the program that a coding agent starts at its events (`hook_options.py` has its options)."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from ..decision import WrongUse
from .commands import add_command
from .hook_options import add_options, answer_stdin, read_settings

_ABOUT = """
Claude Code, Codex, Qwen Code, Gemini CLI and Cursor start it at their own events, with JSON on stdin, and read its
answer on stdout. An agent that goes in a circle is told, then denied the call that goes on with it, then ended where
that can be done; with --until it is sent on at its end while the check is not met. The JSON says which agent and which
event it is. Whatever goes wrong, nothing is answered and the agent goes on: hook.log in the folder of records says why.
"""
_EXIT_CODES = {
    0: "at every event, whatever happened",
    1: "at an event, with wrong options: the agent goes on, and nothing is followed",
    2: "usage error of a person",
}
_EXAMPLES = (
    ("At each event of an agent: record, tell, deny, end", "endstop hook"),
    ("Do not let it end while the tests fail", "endstop hook --until 'pytest -q' --guard 'tests/**'"),
    ("Only watch", "endstop hook --watch --record records"),
)


def add_to(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = add_command(commands, "hook", command, about=_ABOUT, exit_codes=_EXIT_CODES, examples=_EXAMPLES)
    add_options(parser)


def command(args: argparse.Namespace) -> int:
    """Answer the event on stdin. Raises WrongUse for wrong options, and if a person started it in a terminal."""
    settings = read_settings(args)
    if sys.stdin.isatty():
        raise WrongUse(
            "an agent starts this command at its events, with JSON on stdin: put it into the agent's configuration of "
            "hooks, as docs/guides/hook.md shows for each agent"
        )
    return answer_stdin(settings)

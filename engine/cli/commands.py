"""The commands of `endstop`: the table of them, and the parser of the command line.

A command's module, which imports what the command needs, is imported only when its parser is needed: help on all
commands comes from the table alone.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, NamedTuple

from ..base.version import __version__
from .parser import Example, Parser
from .variables import ABOUT as ABOUT_VARIABLES


class CommandEntry(NamedTuple):
    """A command as it is known before its module is imported."""

    module: str
    """In this package. Its `add_to(commands)` adds the parsers of its commands."""
    help: str
    """What the command does, in one line."""


HEADINGS = {
    "run agents": {
        "run": CommandEntry("run", "run an agent on a prompt until the work is done"),
        "race": CommandEntry("race", "run several models on one prompt, side by side; the first good completion wins"),
        "demo": CommandEntry(
            "demo", "show what endstop does: one response read by a usual reader and by endstop, and counted"
        ),
    },
    "serve": {
        "serve": CommandEntry("serve", "serve sessions over HTTP, with a web page that shows them live"),
        "worker": CommandEntry("worker", "run sessions from the queue of a shared store"),
        "proxy": CommandEntry(
            "proxy", "put a proxy before an agent's provider, which cuts, stops and records its runs"
        ),
        "erase": CommandEntry("erase", "delete all that servers and workers have stored of one owner"),
        "hook": CommandEntry("hook", "answer a coding agent at its own events: tell it, deny it, end it, send it on"),
    },
    "look at recorded sessions": {
        "view": CommandEntry("view", "show records in the browser: search, filter, read each session step by step"),
        "audit": CommandEntry(
            "audit", "show what happened in one session: when the work was done, and what came after"
        ),
        "report": CommandEntry(
            "report", "summarize many records: endings, steps, waste, false positives and negatives, cost"
        ),
        "replay": CommandEntry(
            "replay", "replay a record through the engine and check that every decision is the same"
        ),
    },
    "choose a policy": {
        "backtest": CommandEntry("backtest", "test other stopping policies on recorded sessions, without a model"),
        "fit": CommandEntry("fit", "choose a policy's thresholds, with a guarantee about good runs stopped too early"),
    },
    "convert records": {
        "import": CommandEntry("convert", "convert sessions of other agents to records"),
        "export": CommandEntry(
            "convert", "write a session as a page to send, or a record in a format of other programs"
        ),
        "fetch": CommandEntry("fetch", "copy records from the archive of a server into a folder"),
        "redact": CommandEntry("redact", "copy records without secrets and personal data"),
    },
    "set up": {
        "setup": CommandEntry("setup", "put endstop into the configuration of a coding agent, and take it out again"),
        "completion": CommandEntry("completion", "print a script that completes commands and options in your shell"),
    },
}
"""The headings under which help lists the commands, and the commands by name."""

COMMANDS = {name: command for commands in HEADINGS.values() for name, command in commands.items()}
"""All commands by name."""

EXAMPLES: tuple[Example, ...] = (
    ("See what endstop does; needs no model", "endstop demo"),
    (
        "Let an agent work in this folder, and keep a record",
        'endstop run "Set the port to 8080." --model anthropic/claude-sonnet-4-5 --workspace . --record run.jsonl',
    ),
    ("See what the latest session of Claude Code, Codex or another agent did", "endstop audit --last"),
)


def build_parser(words: Sequence[str]) -> Parser:
    """Return the parser for a command line. Only the command that it names is imported."""
    named = next((word for word in words if word in COMMANDS), None)
    return _parser(set() if named is None else {COMMANDS[named].module})


def build_whole_parser() -> Parser:
    """Return the parser with all commands imported, which takes 0.4 s."""
    return _parser({command.module for command in COMMANDS.values()})


def _parser(modules: Set[str]) -> Parser:
    parser = Parser(
        prog="endstop",
        description="The agent loop that knows when to stop.",
        about="`endstop COMMAND --help` lists the options of a command, with examples.",
        examples=EXAMPLES,
        headings=HEADINGS,
    )
    parser.add_argument("--version", action="version", version=f"endstop {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, prog=parser.prog)
    for name, command in COMMANDS.items():
        if command.module not in modules:
            commands.add_parser(name, help=command.help)
        elif name not in commands.choices:  # otherwise its module has added it, with a different one
            importlib.import_module(f".{command.module}", __package__).add_to(commands)
    return parser


def add_command(
    commands: Any,
    name: str,
    command: Callable[[argparse.Namespace], int],
    *,
    about: str = "",
    lists: Mapping[str, Mapping[str, str]] | None = None,
    exit_codes: Mapping[int, str],
    examples: Sequence[Example],
    variables: bool = False,
) -> Parser:
    """Add a command and return its parser.

    command: the function that runs it and returns the exit code. about, lists, examples: as for `Parser`. exit_codes:
    the meaning of each exit code, listed below the options. variables: whether options may also be environment
    variables.
    """
    codes = {str(code): meaning for code, meaning in exit_codes.items()}
    parser: Parser = commands.add_parser(
        name,
        help=COMMANDS[name].help,
        description=f"{COMMANDS[name].help[:1].upper()}{COMMANDS[name].help[1:]}.",
        about=about + ABOUT_VARIABLES if variables else about,
        variables=variables,
        lists={**(lists or {}), "exit codes": codes},
        examples=examples,
    )
    parser.set_defaults(command=command)
    return parser

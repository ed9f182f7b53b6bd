"""The options of `endstop hook`.

An agent starts it at each of its events, so this imports no other command and no parser of our own.
"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from msgspec.structs import replace

from ..agent_hook.start_settings import AGENT_SECONDS, HookSettings
from ..base.state_folder import state_folder
from ..decision import POLICIES, Policy, WrongUse
from ..decision.until_rules import policy_for_until
from ..follow.follower import followed_policy

WRONG_OPTIONS = 1
"""The exit code for wrong options at an event. Agents take 2 for a denial; after 1 they go on."""


class _Parser(argparse.ArgumentParser):
    """A parser for an agent's event, whose mistakes deny nothing."""

    def error(self, message: str) -> NoReturn:
        print(f"endstop hook: {message}; nothing is followed", file=sys.stderr)
        raise SystemExit(WRONG_OPTIONS)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    group = parser.add_argument_group("when the work is done")
    group.add_argument(
        "--until",
        action="append",
        default=[],
        metavar="CMD",
        help="send the agent on at its end until this command succeeds in its folder; repeatable: all must succeed",
    )
    group.add_argument(
        "--guard",
        action="append",
        default=[],
        metavar="PATTERN",
        help="files that --until stands on, as in .gitignore: the agent's changes to them do not count; repeatable",
    )
    group.add_argument(
        "--until-score",
        metavar="REGEX",
        help="the score in its output, as for `endstop run`; default: the tests that pass, for known runners",
    )
    group.add_argument(
        "--until-timeout",
        type=float,
        metavar="S",
        help="seconds after which it is stopped and counts as not met (default: four fifths of --timeout)",
    )
    group.add_argument(
        "--timeout",
        type=float,
        default=AGENT_SECONDS,
        metavar="S",
        help=f"seconds that the agent waits for the hook, as in its configuration (default {AGENT_SECONDS:g})",
    )
    stopping = parser.add_argument_group("when to stop")
    stopping.add_argument(
        "--policy", default="agent", metavar="P", help="chat or agent (default), without a limit of steps, or a file"
    )
    stopping.add_argument("--watch", action="store_true", help="answer nothing: record, and log what would be answered")
    stopping.add_argument(
        "--proxy", default="", metavar="URL", help="a proxy of endstop before the agent: while it lives, it stops"
    )
    records = parser.add_argument_group("records")
    records.add_argument(
        "--record",
        metavar="DIR",
        help="the folder of records, states and hook.log (default ~/.local/state/endstop/hook)",
    )
    records.add_argument(
        "--keep-days",
        type=int,
        metavar="N",
        help="delete the record of a session N days after its last event (default: keep all)",
    )


def read_settings(args: argparse.Namespace) -> HookSettings:
    """Return the settings that these options give. Raises WrongUse."""
    for option, seconds in (("--timeout", args.timeout), ("--until-timeout", args.until_timeout)):
        if seconds is not None and not seconds > 0:
            raise WrongUse(f"{option} is {seconds:g}: use seconds above 0")
    # with or without a check, so that an agent's events may have different options
    policy = replace(policy_for_until(_policy(args.policy)), question="as_text")
    if not all(command.strip() for command in args.until):
        raise WrongUse("--until is empty: give a command, as in --until 'pytest -q'")
    if not args.until and (args.guard or args.until_score is not None or args.until_timeout is not None):
        raise WrongUse("--guard, --until-score and --until-timeout are about a check: give it with --until 'pytest -q'")
    if args.keep_days is not None and args.keep_days < 1:
        raise WrongUse(f"--keep-days is {args.keep_days}: use 1 or more")
    return HookSettings(
        policy=followed_policy(policy, speaks=not args.watch),
        folder=state_folder(os.environ) / "hook" if args.record is None else Path(args.record),
        until=tuple(args.until),
        guard=tuple(args.guard),
        score=args.until_score,
        until_timeout=args.until_timeout,
        timeout=args.timeout,
        watch=args.watch,
        keep_days=args.keep_days,
        proxy=args.proxy,
    )


def _policy(name: str) -> Policy:
    if name in POLICIES:
        policy = POLICIES[name]
    else:
        from .factory import load_policy  # imports all that builds an engine

        policy = load_policy(name)
    if policy.completion == "required":
        raise WrongUse(f"--policy {name} requires a completion tool, and a hook does not know the agent's tools")
    return policy


def answer_agent(words: list[str]) -> int:
    """Answer the event on stdin. Return the exit code: 0, whatever happens, and 1 for wrong options."""
    parser = _Parser(prog="endstop hook", add_help=False, allow_abbrev=False)
    add_options(parser)
    try:
        settings = read_settings(parser.parse_args(words))
    except WrongUse as error:
        print(f"endstop hook: {error}; nothing is followed", file=sys.stderr)
        return WRONG_OPTIONS
    return answer_stdin(settings)


def answer_stdin(settings: HookSettings) -> int:
    """Answer the event on stdin on stdout."""
    from ..agent_hook.handler import answer_event

    os.umask(0o077)
    left = memoryview(answer_event(b"" if sys.stdin is None else sys.stdin.buffer.read(), settings))
    with suppress(OSError):  # without a buffer, which would be flushed at the end: with exit code 120 if it cannot
        while left:
            left = left[os.write(1, left) :]
    return 0

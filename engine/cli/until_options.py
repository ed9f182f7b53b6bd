"""The options of `--until`: the check that says when the work is done."""

from __future__ import annotations

import argparse

from ..decision import WrongUse
from ..until import CHECK_SECONDS, SHARE, Until


def add_until(parser: argparse.ArgumentParser) -> None:
    """Add the options of the check that says when the work is done."""
    group = parser.add_argument_group("when the work is done")
    group.add_argument(
        "--until",
        action="append",
        default=[],
        metavar="CMD",
        help="end the run once this command succeeds in the workspace, and not before; repeatable: all must succeed",
    )
    group.add_argument(
        "--guard",
        action="append",
        default=[],
        metavar="PATTERN",
        help="files that --until stands on, as in .gitignore: the model's changes to them do not count; repeatable",
    )
    group.add_argument(
        "--until-score",
        metavar="REGEX",
        help="the score in its output: one group, or two for what passes and what fails, or (?P<failed>) (?P<passed>)",
    )
    group.add_argument(
        "--until-timeout",
        type=float,
        default=CHECK_SECONDS,
        metavar="S",
        help=f"seconds after which it is stopped and counts as not met (default {CHECK_SECONDS:g})",
    )
    group.add_argument(
        "--until-share",
        type=float,
        default=SHARE,
        metavar="X",
        help=f"share of the time of the run that it may take (default {SHARE:g}); quick ones are never held back",
    )
    group.add_argument(
        "--until-copy",
        action="store_true",
        help="run it in a copy of the workspace, so that calls that write need not wait for it",
    )
    group.add_argument(
        "--until-in", default="", metavar="CMD", help="run it elsewhere: CMD gets `sh -c COMMAND` added, as a container"
    )
    group.add_argument(
        "--until-from-failing",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="end at once if it succeeds before the first request; with --no-, the work has to change first",
    )


_OPTIONS = {
    "guard": [],
    "until_score": None,
    "until_timeout": CHECK_SECONDS,
    "until_share": SHARE,
    "until_copy": False,
    "until_in": "",
    "until_from_failing": True,
}
"""The options of a check besides its command, with their defaults."""


def build_until(args: argparse.Namespace, folder: str | None) -> Until | None:
    """Return the check of `--until`, which runs in this folder; None without one. Raises WrongUse."""
    if not args.until:
        for name, default in _OPTIONS.items():
            if getattr(args, name) != default:
                option = name.replace("_", "-") if default is not True else f"no-{name.replace('_', '-')}"
                raise WrongUse(f"--{option} is about a check: give it with --until 'pytest -q'")
        return None
    for command in args.until:
        if not command.strip():
            raise WrongUse("--until is empty: give a command, as in --until 'pytest -q'")
    return Until(
        *args.until,
        folder=folder,
        guard=args.guard,
        score=args.until_score,
        timeout=args.until_timeout,
        share=args.until_share,
        copy=args.until_copy,
        env=args.env,
        inside=args.until_in,
        from_failing=args.until_from_failing,
    )

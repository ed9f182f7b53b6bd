"""The options of `--until`: the check that says when the work is done."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from ..check_answers import Check
from ..decision import WrongUse
from ..decision.errors import error_text
from ..providers import Provider
from ..until import CHECK_SECONDS, SHARE, Until
from ..until_settings import UntilSettings
from .factory import load_until


def add_until(parser: argparse.ArgumentParser, *, proxy: bool = False, serves: bool = False) -> None:
    """Add the options of the check that says when the work is done.

    proxy: whether for somebody else's agent. There is then no model to judge criteria, and the work has to change
    first: an agent that is asked something else must not be told that it is done.
    serves: whether for a server or a worker, whose clients may bring a check of their own.
    """
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
    if not proxy:
        group.add_argument(
            "--until-criteria",
            metavar="FILE",
            help="the same for criteria, one for each item of a list: the model judges each, with evidence, once the "
            "commands succeed and before a completion is accepted",
        )
    group.add_argument(
        "--until-score",
        metavar="REGEX",
        help="the score in its output: one group, or two for what passes and what fails, or (?P<failed>) (?P<passed>); "
        "default: the tests that pass, for known runners",
    )
    group.add_argument(
        "--until-timeout",
        type=float,
        metavar="S",
        help=f"seconds after which it is stopped and counts as not met (default {CHECK_SECONDS:g})",
    )
    group.add_argument(
        "--until-share",
        type=float,
        metavar="X",
        help=f"share of the time of the run that it may take (default {SHARE:g}); quick ones are never held back",
    )
    group.add_argument(
        "--until-copy",
        action="store_true",
        default=None,
        help="run it in a copy of the workspace, so that calls that write need not wait for it",
    )
    group.add_argument(
        "--until-in", metavar="CMD", help="run it elsewhere: CMD gets `sh -c COMMAND` added, as a container"
    )
    if serves:
        group.add_argument(
            "--allow-until",
            action="store_true",
            help="let a client send the check of its session (`until`); its commands run where the tools work, and see "
            "what --env and --until-in say",
        )
    if proxy:
        parser.set_defaults(until_criteria=None)
    else:
        group.add_argument(
            "--until-from-failing",
            action=argparse.BooleanOptionalAction,
            help="end at once if it succeeds before the first request; with --no-, the work has to change first",
        )


_KEYS = {
    "until": "commands",
    "guard": "guard",
    "until_score": "score",
    "until_in": "inside",
    "until_timeout": "timeout",
    "until_share": "share",
    "until_copy": "copy",
    "until_from_failing": "from_failing",
    "env": "env",
}
"""The key of `UntilSettings` for each option, by the option's name in the parsed arguments."""
_NO_CHECK = UntilSettings(commands=())


def settings_of(args: argparse.Namespace) -> UntilSettings:
    """Return the settings of the policy file, with those that options give in their place. Raises WrongUse.

    Without commands if neither has one.
    """
    options = {name: getattr(args, name, None) for name in _KEYS}
    given = {
        _KEYS[name]: tuple(value) if isinstance(value, list) else value
        for name, value in options.items()
        if value is not None and value != []
    }
    return replace(load_until(getattr(args, "policy", None)) or _NO_CHECK, **given)


def options_given(args: argparse.Namespace) -> Iterator[str]:
    """Yield the options of the check, and their values, as they have to be repeated on a command line.

    What the policy file says of the check is among them: a record holds the policy, but not the check.
    """
    settings, criteria = settings_of(args), getattr(args, "until_criteria", None)
    if criteria is not None:
        yield from ("--until-criteria", criteria)
    for name, key in _KEYS.items():
        value = getattr(settings, key)
        option = name.replace("_", "-")
        if value == getattr(_NO_CHECK, key) or (key == "env" and getattr(args, "env", None)):
            continue  # or `--env` itself is repeated
        if isinstance(value, bool):
            yield f"--{option}" if value else f"--no-{option}"
            continue
        for one in value if isinstance(value, tuple) else [value]:
            yield from (f"--{option}", f"{one}")


def build_until(args: argparse.Namespace, folder: str | None, provider: Provider | None = None) -> Until | None:
    """Return the check of `--until`, `--until-criteria` or the policy file; None without one. Raises WrongUse.

    folder: where commands run. provider: the model that judges criteria.
    """
    criteria = _criteria(args, folder, provider)
    for command in args.until:
        if not command.strip():
            raise WrongUse("--until is empty: give a command, as in --until 'pytest -q'")
    settings = settings_of(args)
    if not (settings.commands or criteria):
        option = None if getattr(args, "allow_until", False) else next(options_given(args), None)
        if option is not None:
            raise WrongUse(f"{option} is about a check: give it with --until 'pytest -q'")
        return None
    if not hasattr(args, "until_from_failing"):  # the proxy
        settings = replace(settings, from_failing=False)
    return settings.build(folder, criteria)


def client_until(args: argparse.Namespace) -> Callable[[UntilSettings], Until] | Literal[False]:
    """Return the function that makes the check of a session from what its client asks for; False without one.

    The options, or else the policy file, say where its commands run and which environment variables they see.
    """
    if not args.allow_until:
        return False
    if args.workspace is None:
        raise WrongUse("--allow-until runs commands of clients: say in which folder with --workspace DIR")
    own = settings_of(args)
    return lambda asked: replace(asked, env=own.env, inside=own.inside).build(args.workspace)


def _criteria(args: argparse.Namespace, folder: str | None, provider: Provider | None) -> list[Check]:
    place = args.until_criteria
    if place is None or provider is None:
        return []
    try:
        text = Path(place).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUse(f"--until-criteria {place}: {error_text(error)}") from None
    from ..criteria import CriteriaCheck

    return [CriteriaCheck(provider, text, folder)]

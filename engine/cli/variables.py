"""Options of a command from environment variables: `ENDSTOP_PORT` for `--port`.

A variable becomes words of the command line, so it is read and checked as the option is. An option that is written on
the command line counts instead of its variable.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence

PREFIX = "ENDSTOP_"
ABOUT = f"""
Each option can also be a variable: {PREFIX} and its name in capitals, as in {PREFIX}GRACE for --grace. Options count
more than variables. Options without a value take 1 or 0, and repeatable ones a value on each line. An empty variable
counts as none.
"""
"""A paragraph of the help of such a command."""
_SERVICE_LINK = re.compile(r"(tcp|udp|sctp)://\S+:\d+")
"""What Kubernetes puts into NAME_PORT in each container, if there is a service of that name, such as `endstop`."""
_SWITCH = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def variable_of(action: argparse.Action) -> str | None:
    """Return the name of the variable of an option; None for an argument, `--help` and `--version`."""
    names = [name for name in action.option_strings if name.startswith("--")]
    if not names or isinstance(action, argparse._HelpAction | argparse._VersionAction):
        return None
    return PREFIX + names[0].removeprefix("--").replace("-", "_").upper()


class VariableWords:
    """The words that variables add to a command line. Made by `Parser`.

    words: the command line. environment: the variables.
    """

    def __init__(self, parser: argparse.ArgumentParser, words: Sequence[str], environment: Mapping[str, str]) -> None:
        self.words: list[str] = []
        """To add after those of the command line."""
        self.taken: dict[str, str] = {}
        """The variables that count, by the option that each stands for."""
        written = {word.partition("=")[0] for word in words}
        decided = {
            other
            for group in parser._mutually_exclusive_groups
            if any(written.intersection(action.option_strings) for action in group._group_actions)
            for other in group._group_actions
        }
        for action in parser._actions:
            name = variable_of(action)
            value = "" if name is None else environment.get(name, "")
            if name is None or not value or action in decided or written.intersection(action.option_strings):
                continue
            if name.endswith("PORT") and _SERVICE_LINK.fullmatch(value):
                continue
            self.taken[action.option_strings[0]] = name
            self.words += _words(parser, action, name, value)


def _words(parser: argparse.ArgumentParser, action: argparse.Action, name: str, value: str) -> Iterator[str]:
    option = action.option_strings[0]
    if action.nargs == 0:
        switch = _SWITCH.get(value.strip().lower())
        if switch is None:
            parser.error(f"variable {name}: {value!r} is neither 1 nor 0")
        if switch or isinstance(action, argparse.BooleanOptionalAction):
            yield option if switch else action.option_strings[1]
        return
    repeatable = isinstance(action, argparse._AppendAction)
    for one in filter(str.strip, value.splitlines()) if repeatable else [value]:
        yield f"{option}={one}"


def with_variables(message: str, taken: Mapping[str, str]) -> str:
    """Return an error message that also says which of the options in it come from a variable."""
    named = [
        f"{option} is from {name}"
        for option, name in taken.items()
        if re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", message)
    ]
    return f"{message} ({', '.join(named)})" if named else message

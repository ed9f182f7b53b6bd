"""The argument parser of all commands: its help, and its messages about mistakes."""

from __future__ import annotations

import argparse
import itertools
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from ..decision.errors import similar
from ..decision.other_names import other_name
from .exit_codes import WRONG_USE
from .variables import VariableWords, with_variables

if TYPE_CHECKING:
    from .views.help_page import Block

Example = tuple[str, str]
"""The effect of a command line, and the command line."""
LONGEST_CHOICES = 20
"""Characters; longer lists of choices are part of an option's meaning, where they can be broken into lines."""
_MISSING = "the following arguments are required"
"""The beginning of argparse's message for missing arguments: it has no separate type for this error."""


class Parser(argparse.ArgumentParser):
    """An argument parser with short usage, lists and examples in its help, and suggestions for misspelt words.

    about: paragraphs below the options; one whose lines are indented keeps its lines. lists: headings with terms and
    their meanings, such as the exit codes. examples: descriptions and command lines. headings: for the parser of all
    commands, the headings under which they are listed. variables: whether options may also be environment variables
    (`variables.py`). The parsers of subcommands are of this class, too.
    """

    def __init__(
        self,
        *,
        about: str = "",
        lists: Mapping[str, Mapping[str, str]] | None = None,
        examples: Sequence[Example] = (),
        headings: Mapping[str, Iterable[str]] | None = None,
        variables: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(allow_abbrev=False, **options)
        self.variables = variables
        self._taken: Mapping[str, str] = {}
        """The variables that were read, by the option that each stands for."""
        self.about, self.lists, self.examples = about, lists or {}, examples
        self._headings = headings or {}
        self._words: Sequence[str] = ()

    # ---- help

    def format_usage(self) -> str:
        """Return the arguments and the required options; `[OPTIONS]` stands for all others."""
        required = [
            f"{option.option_strings[-1]} {_value_of(option)}"
            for option in self._get_optional_actions()
            if option.required
        ]
        arguments = [_usage_of(argument) for argument in self._get_positional_actions()]
        return " ".join([self.prog, "[OPTIONS]", *required, *arguments])

    def format_help(self, *, stderr: bool = False) -> str:
        """Return the help for the terminal of stdout or stderr. Imports rich, which renders it."""
        from .views.help_page import help_page

        return help_page(self.format_usage(), self.description or "", self.help_blocks(), stderr=stderr)

    def commands(self) -> dict[str, Parser]:
        """Return the parsers of the subcommands, by name."""
        return {
            name: one
            for action in self._actions
            if isinstance(action, _SubParsers)
            for name, one in action.choices.items()
        }

    def help_blocks(self) -> list[Block]:
        """Return commands, options by group, text and lists, then examples, which stay visible when help scrolls."""
        commands = [action for action in self._actions if isinstance(action, _SubParsers)]
        lines = {one.dest: one.help or "" for action in commands for one in action._choices_actions}
        blocks: list[Block] = [
            (title, {name: lines[name] for name in names}) for title, names in self._headings.items()
        ]
        arguments, options, *groups = self._action_groups
        for title, group in (
            ("arguments", arguments),
            *((group.title or "", group) for group in groups),
            ("options", options),
        ):
            rows = {_invocation(action): self._meaning(action) for action in _shown(group)}
            blocks += [(title, rows)] if rows else []
        for paragraph in filter(None, self.about.strip("\n").split("\n\n")):
            kept = [line.strip() for line in paragraph.split("\n")]
            blocks.append(("", kept if paragraph.startswith("  ") else paragraph))
        blocks += self.lists.items()
        shown = [line for what, command in self.examples for line in ("", f"# {what}", command)]
        return [*blocks, ("examples", shown[1:])] if shown else blocks

    def _meaning(self, action: argparse.Action) -> str:
        meaning = (action.help or "") % {**vars(action), "prog": self.prog}
        if action.option_strings and action.metavar is None and len(_choices_of(action)) > LONGEST_CHOICES:
            meaning += f"; one of {', '.join(map(str, action.choices or ()))}"
        return meaning

    # ---- mistakes

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse as argparse does, but report unknown arguments here, where the options of the subcommand are known.

        A command line without any word prints the help on all commands to stderr, and exits.
        """
        self._words = sys.argv[1:] if args is None else list(args)
        if self._headings and not self._words:
            sys.stderr.write(self.format_help(stderr=True))
            sys.exit(WRONG_USE)
        if self.variables:
            added = VariableWords(self, self._words, os.environ)
            self._taken, args = added.taken, [*self._words, *added.words]
        parsed, left = super().parse_known_args(args, namespace)
        if left:
            self.error(self._unrecognized(left))
        if self.variables:
            parsed.from_variables = self._taken
        return parsed, left

    def error(self, message: str) -> NoReturn:
        """Print the error in one line and exit. A misspelt option is reported before an argument that is missing."""
        if message.startswith(_MISSING) and (unknown := self._unknown_options()):
            message = self._unrecognized(unknown)
        message = with_variables(message, self._taken)
        print(f"{self.prog}: {' '.join(message.split())}; see `{self.prog} --help`", file=sys.stderr)
        sys.exit(WRONG_USE)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            known = [str(choice) for choice in action.choices]
            hint = similar(str(value), known) or f" (choose from {', '.join(known)})"
            if isinstance(action, _SubParsers):
                self.error(f"unknown command {value!r}{hint}")
            raise argparse.ArgumentError(action, f"invalid choice: {value!r}{hint}")

    def _unknown_options(self) -> list[str]:
        """Return the words of the command line that look like options but are not options of this command."""
        words = list(itertools.takewhile(lambda word: word != "--", self._words))
        options = [word for word in words if word.startswith("-") and word != "-"]
        return [word for word in options if not self._is_option(word) and not _NUMBER.fullmatch(word)]

    def _is_option(self, word: str) -> bool:
        known = self._option_string_actions
        return word.partition("=")[0] in known or (not word.startswith("--") and word[:2] in known)

    def _unrecognized(self, left: Sequence[str]) -> str:
        options = [word for word in left if word.startswith("-") and word != "-"]
        if not options:
            return f"unrecognized arguments: {' '.join(left)} (put text with spaces in quotes)"
        hints = (self._hint(word.partition("=")[0]) for word in options)
        words = [f"{word}{hint}" for word, hint in zip(options, hints, strict=True)]
        return f"unrecognized arguments: {' '.join(words)}"

    def _hint(self, option: str) -> str:
        """Return the option that is meant: by its name in other programs, else by its letters."""
        meant = other_name("command line", option)
        known = self._option_string_actions
        return meant if meant.rpartition(" ")[2].strip("`") in known else similar(option, known)


_SubParsers = argparse._SubParsersAction
_NUMBER = re.compile(r"-\d+|-\d*\.\d+")
"""A negative number, which argparse takes as a value."""


def _shown(group: argparse._ArgumentGroup) -> list[argparse.Action]:
    """Return the options or arguments of a group; commands have their own headings."""
    hidden = (argparse.SUPPRESS,)
    shown = [one for one in group._group_actions if one.help not in hidden and not isinstance(one, _SubParsers)]
    return sorted(shown, key=lambda one: "--help" in one.option_strings)  # last, although argparse adds it first


def _invocation(action: argparse.Action) -> str:
    """Format an option or argument as it is written: `-o, --output DIR`."""
    if not action.option_strings:
        return str(action.metavar or action.dest)
    return " ".join([", ".join(action.option_strings), *([_value_of(action)] if action.nargs != 0 else [])])


def _value_of(action: argparse.Action) -> str:
    choices = _choices_of(action)
    value = str(action.metavar or (choices if len(choices) <= LONGEST_CHOICES else "") or action.dest.upper())
    return f"[{value}]" if action.nargs == "?" else value


def _choices_of(action: argparse.Action) -> str:
    return "" if action.choices is None else f"{{{','.join(map(str, action.choices))}}}"


def _usage_of(argument: argparse.Action) -> str:
    name = str(argument.metavar or argument.dest)
    return {"?": f"[{name}]", "*": f"[{name}...]", "+": f"{name}..."}.get(str(argument.nargs), name)

"""The parser of the command line: a mistake is told in one line, with what was probably meant."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from .exit_codes import WRONG_USE


class Parser(argparse.ArgumentParser):
    """argparse's, with hints for misspelt commands, options and values. The parsers of commands are of this kind, too.

    argparse knows hints of its own only from Python 3.14 on.
    """

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """What was given. Whatever is left over is a mistake, told here, where the command's options are known."""
        given, left = super().parse_known_args(args, namespace)
        if left:
            self.error(self._about(left))
        return given, left

    def error(self, message: str) -> NoReturn:
        """Say it in one line, and leave."""
        print(f"{self.prog}: {' '.join(message.split())}; see `{self.prog} --help`", file=sys.stderr)
        sys.exit(WRONG_USE)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            known = [str(choice) for choice in action.choices]
            hint = meant(str(value), known) or f" (choose from {', '.join(known)})"
            raise argparse.ArgumentError(action, f"invalid choice: {value!r}{hint}")

    def _about(self, left: Sequence[str]) -> str:
        options = [word for word in left if word.startswith("-") and word != "-"]
        if not options:
            return f"unrecognized arguments: {' '.join(left)} (a text with spaces stands in quotes)"
        hints = (meant(word.partition("=")[0], self._option_string_actions) for word in options)
        told = [f"{word}{hint}" for word, hint in zip(options, hints, strict=True)]
        return f"unrecognized arguments: {' '.join(told)}"


def meant(word: str, known: Iterable[str]) -> str:
    """A hint, `" (did you mean '--model'?)"`; empty where nothing is near."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""

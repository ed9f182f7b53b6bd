"""`endstop completion`: a script that completes commands, options and their values in bash, zsh or fish.

The script holds all that it offers, so pressing TAB starts no Python; shtab writes it from the parser. An argument's
metavar tells which files it takes, so that a new option is completed without an entry here.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable, Iterator
from typing import Any

from ..analysis.published_policies import BY_NAME
from ..decision import POLICIES
from ..providers.model_names import WIRES
from ..providers.prices import listed_models
from .commands import add_command, build_whole_parser
from .parser import Parser

SHELLS = ("bash", "zsh", "fish")
_ABOUT = """
The script is loaded when you complete `endstop` for the first time in a new shell. Write it again after an upgrade. In
bash it needs the package bash-completion. In zsh the folder must be in fpath before compinit is called: put
`fpath+=~/.zfunc; autoload -Uz compinit && compinit` into ~/.zshrc. Create the folder first if it does not exist.
"""
_EXIT_CODES = {0: "printed", 2: "usage error"}
_EXAMPLES = (
    ("Switch it on in bash", "endstop completion bash > ~/.local/share/bash-completion/completions/endstop"),
    ("Switch it on in zsh", "endstop completion zsh > ~/.zfunc/_endstop"),
    ("Switch it on in fish", "endstop completion fish > ~/.config/fish/completions/endstop.fish"),
)
_FILES = ("FILE", "FILE:NAME", "PATH_OR_URL", "RECORD", "RECORDS", "TRANSCRIPT")
_FOLDERS = ("DIR", "FOLDER")


def add_to(commands: Any) -> None:
    """Add the command to the parser's subcommands."""
    parser = add_command(commands, "completion", command, about=_ABOUT, exit_codes=_EXIT_CODES, examples=_EXAMPLES)
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help="the shell: bash, zsh or fish")


def command(args: argparse.Namespace) -> int:
    """Print the script and return the exit code."""
    print(completion_script(args.shell))
    return 0


def completion_script(shell: str) -> str:
    """Return the script for one of `SHELLS`."""
    import shtab

    parser = build_whole_parser()
    for action in _actions(parser):
        how = _completion(action)
        if how is not None:
            action.complete = how  # type: ignore[attr-defined]
    return shtab.complete(parser, shell)


def _actions(parser: Parser) -> Iterator[argparse.Action]:
    """Yield all options and arguments of a parser and of its subcommands."""
    yield from parser._actions
    for below in parser.commands().values():
        yield from _actions(below)


def _completion(action: argparse.Action) -> Any:
    """Return what shtab should offer for the value of an option or argument.

    None if argparse's `choices` already say it, or if nothing is known about the value.
    """
    import shtab

    option = action.option_strings[-1] if action.option_strings else ""
    if option == "--model":
        prefixes = [wire.prefix for wire in WIRES.values() if wire.prefix]
        return _words("model", [model for prefix in prefixes for model in listed_models(prefix.strip("/"))])
    if option in ("--policy", "--base-policy"):
        return _words("policy", POLICIES, or_files="*.toml")
    if option == "--against":
        return _words("policy_or_rule", [*POLICIES, "published", *BY_NAME], or_files="*.toml")
    if action.metavar in _FILES:
        return shtab.FILE
    return shtab.DIRECTORY if action.metavar in _FOLDERS else None


def _words(what: str, known: Iterable[str], or_files: str = "") -> dict[str, Any]:
    """Return a completion that offers these words, or files whose name fits the pattern. what: describes one of them.

    shtab lets bash mark folders with a slash where the function's name has `_file` in it.
    """
    words = " ".join(shlex.quote(word) for word in known)
    function = f"_endstop_{what}_or_files" if or_files else f"_endstop_{what}"
    bash, zsh = f'compgen -W "{words}" -- "$1"', f"compadd -- {words}"
    fish = " ".join(rf"{word}\t{what}" for word in known)  # otherwise each is shown next to the option's help
    if or_files:
        bash += f'\n  compgen -f -X \'!{or_files}\' -- "$1"\n  compgen -d -- "$1"'
        zsh = f"_alternative 'words:{what}:({words})' 'files:file:_files -g \"{or_files}\"'"
        fish += f" (__fish_complete_suffix {or_files.lstrip('*')})"
    functions = {shell: f"{function}() {{\n  {body}\n}}" for shell, body in (("bash", bash), ("zsh", zsh))}
    return {"bash": function, "zsh": function, "fish": fish, "preamble": functions}

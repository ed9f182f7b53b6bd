"""What a tool call does, derived from its name and its JSON arguments.

A tool of the program itself declares whether it only reads. Nothing declares that for the calls of an imported session,
and a shell tool can do anything. Here the name and the arguments tell it: a table of names that agents in use have, or
the verb in the name, or an argument that names what to do, or the shell command or program text that is given. The
names and the verbs are in `call_effects.toml`; what a result says is in `call_results`.

The accuracy was measured on calls of nine sets of recorded sessions: SWE-agent (two sets), mini-SWE-agent, OpenClaw
(two), a bash agent (two), Claude Code and tau2 with tools of a shop. The author of this code labelled them by hand,
from the call and its result. Of 200 random calls, labelled twice with one difference, one half was used to choose the
tables and the other measured the first version: 96 of 100 effects were right (exact interval at 95 %: 90 to 99), and of
8 failures 7 were found and none invented. 120 more were drawn from hard cases (compound commands, scripts, results that
mention errors), and 90 after these (40 of them checks), each labelled once, before the code read them, and each
followed by corrections. The last 90: 87 effects right (91 to 99 %), all 25 changes found and 2 invented; of 31 failures
30 found (83 to 100 %) and none invented; 25 of 28 verdicts of checks right (72 to 98 %), the others scripts with a
test's name that end with exit code 0 and report nothing, which counts as passed. The 120 before: 117 effects right; of
39 failures 35 found, none invented. What the last 90 showed was corrected and not measured again.

The arguments are decoded once, and only the first `shell_commands.MAX_LENGTH` characters of a command are read.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

import msgspec
from msgspec import Struct

from .call_verbs import CallEffect, Effect, verb_effect
from .deferred_patterns import deferred
from .program_text import code_effect
from .shell_commands import argv_effect, shell_effect
from .word_tables import by_word, word_tables
from .written_files import MAX_PATH, file_names

CACHED_LENGTH = 512
"""Calls with longer arguments are not cached, so the cache holds at most 1 MB of text."""
MAX_ARGUMENTS = 1_000_000
"""Longer arguments are not decoded; the name alone then tells what the call does."""

_READS, _CHANGES, _UNKNOWN = CallEffect("reads"), CallEffect("changes"), CallEffect("unknown")


class _Arguments(Struct):
    """The arguments that tell what a call does. All others are skipped when they are decoded."""

    command: Any = None
    commands: Any = None
    cmd: Any = None
    script: Any = None
    shell_command: Any = None
    code: Any = None
    action: Any = None
    operation: Any = None
    tool_name: Any = None
    input: Any = None
    patch: Any = None
    path: Any = None
    file_path: Any = None
    filePath: Any = None  # noqa: N815  (as opencode names it)
    filepath: Any = None
    absolute_path: Any = None
    target_file: Any = None
    notebook_path: Any = None
    filename: Any = None
    file: Any = None


_DECODER = msgspec.json.Decoder(_Arguments)
_NO_ARGUMENTS = _Arguments()
_PATHS = (
    "path", "file_path", "filePath", "filepath", "absolute_path", "target_file", "notebook_path", "filename", "file",
)  # fmt: skip
_COMMANDS = ("command", "cmd", "commands", "script", "shell_command", "code", "input")
_PATCHED_FILE = deferred(
    r"^(?:\*\*\* (?:Update|Add|Delete) File: |\+\+\+ (?:b/)?) {0,9}(\S[^\t\n]{0,300})", re.MULTILINE
)
_FILE_VERBS = deferred(
    r"write|edit|creat|patch|replace|insert|delet|remov|sav|append|mov|renam|overwrit|format|refactor|touch|undo",
    re.IGNORECASE,
)
"""Verbs in a tool's name that mean that it changes the file among its arguments; `upload_file` only reads it."""
_SHELL = "shell"
_CODE = "code"
_EDITOR = "editor"
_ACTION = "action"

_NAME_MARKS = str.maketrans("", "", "_- ")


def effect_of(name: str, arguments: str, reads: bool | None = None) -> Effect:
    """Return what a call of this tool does; see `Effect` for the meanings.

    reads: what the tool declares. True means that a call is not a change, False that a call of unknown effect is a
    change, None that nothing is declared.
    """
    return call_effect(name, arguments, reads).effect


def runs_commands(name: str) -> bool:
    """Return whether a tool of this name runs shell commands or programs, so that its arguments tell its effect."""
    return _kind(name) in (_SHELL, _CODE)


def shell_command(name: str, arguments: str) -> str:
    """Return the shell command among a call's arguments; empty if the tool runs none. Never raises."""
    kind, given = _kind(name), _decoded(arguments)
    if kind not in (_SHELL, ""):
        return ""
    for key in _COMMANDS if kind else ("command", "cmd", "shell_command"):
        value = getattr(given, key)
        if type(value) is str and value.strip() and (kind or value not in _subcommands()):
            return value
        if type(value) is list and value and all(type(word) is str for word in value):
            return "\n".join(value) if key == "commands" else shlex.join(value)
    return arguments if kind and given is _NO_ARGUMENTS and len(arguments) <= MAX_ARGUMENTS else ""


def named_file(arguments: str | Mapping[str, Any]) -> str:
    """Return the file that arguments name, as JSON or decoded; empty if they name none. Never raises."""
    if isinstance(arguments, str):
        given = _decoded(arguments)
        named = [getattr(given, key) for key in _PATHS]
    else:
        named = [arguments.get(key) for key in _PATHS]
    return next((path[:MAX_PATH] for path in named if isinstance(path, str) and path), "")


def call_effect(name: str, arguments: str, reads: bool | None = None) -> CallEffect:
    """Return what a call does, and whether it also checks. Never raises; see `effect_of`."""
    found = _cached(name, arguments) if len(arguments) <= CACHED_LENGTH >= len(name) else _examine(name, arguments)
    if reads is None:
        return found
    if reads:
        return _READS if found.effect in ("changes", "unknown") else found
    if found.effect == "unknown" and _kind(name) not in (_SHELL, _CODE):
        return _CHANGES
    return found


def _examine(name: str, arguments: str) -> CallEffect:
    kind, given = _kind(name), _decoded(arguments)
    if kind in (_SHELL, _CODE, ""):
        return _of_commands(kind, given, arguments) or _of_name(name, given)
    if kind in (_EDITOR, _ACTION):
        return _of_subcommand(given) or _of_name(name, given)
    if kind == "changes":
        return _of_named_change(given)
    if kind == "unknown" and type(given.tool_name) is str and given.tool_name != name:
        return _of_name(given.tool_name, given)
    return CallEffect(kind, checks=kind == "checks")  # type: ignore[arg-type]


_cached = lru_cache(maxsize=1024)(_examine)


@cache
def _tools() -> dict[str, str]:
    """Return what the tools of known agents do: an effect, or which argument tells it. Keys lack `_`, `-` and case."""
    return by_word(word_tables("call_effects")["tools"])


@cache
def _subcommands() -> dict[str, Effect]:
    """Return the effect of an editor's subcommand (the first word of `command`) or of another tool's `action`."""
    return by_word(word_tables("call_effects")["subcommands"])


@lru_cache(maxsize=512)
def _kind(name: str) -> str:
    """Return a name's entry in the table, without a server's prefix like `mcp__git__`; empty if there is none."""
    short = name
    if "__" in name:
        short = name.rpartition("__")[2] or name
    elif "." in name:
        short = name.rpartition(".")[2] or name
    key = short.translate(_NAME_MARKS).lower()
    tools = _tools()
    return tools.get(key) or ("" if short is name else tools.get(name.translate(_NAME_MARKS).lower(), ""))


def _decoded(arguments: str) -> _Arguments:
    if len(arguments) > MAX_ARGUMENTS:
        return _NO_ARGUMENTS
    try:
        return _DECODER.decode(arguments)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return _NO_ARGUMENTS


def _of_commands(kind: str, given: _Arguments, arguments: str) -> CallEffect | None:
    """Return the effect of the command or program text among the arguments; None if there is none."""
    for key in _COMMANDS:
        value = getattr(given, key)
        if value is None:
            continue
        if type(value) is str:
            if kind == "" and value in _subcommands():
                return _of_subcommand(given)
            if not value.strip() or (kind == "" and key in ("code", "input", "script")):
                continue
            return code_effect(value) if kind == _CODE else shell_effect(value)
        if type(value) is list and value and all(type(word) is str for word in value):
            return shell_effect("\n".join(value)) if key == "commands" else argv_effect(value)
    if kind and given is _NO_ARGUMENTS and arguments.strip() and len(arguments) <= MAX_ARGUMENTS:
        return code_effect(arguments) if kind == _CODE else shell_effect(arguments)
    return None


def _of_subcommand(given: _Arguments) -> CallEffect | None:
    """Return the effect that the argument `command`, `action` or `operation` names; None if none is known."""
    for value in (given.command, given.action, given.operation):
        if type(value) is str and value:
            words = value.split(None, 1)
            effect = (_subcommands().get(words[0]) if words else None) or verb_effect(value[:64])
            return CallEffect(effect, files=_named_files(given) if effect == "changes" else ())
    return None


def _of_named_change(given: _Arguments) -> CallEffect:
    """Return the effect of a call whose tool changes files by its name. If it names no file, its command decides."""
    files = _named_files(given)
    if type(given.command) is str and not files:
        return shell_effect(given.command)  # an action that SWE-agent wrote as text
    return CallEffect("changes", files=files)


def _named_files(given: _Arguments) -> tuple[str, ...]:
    """Return the file among the arguments, or the files that a patch names."""
    paths = (getattr(given, key) for key in _PATHS)
    path = next((path for path in paths if type(path) is str and path), None)
    if path is not None:
        return (path[:MAX_PATH],)
    text = next((text for text in (given.patch, given.input) if type(text) is str), "")
    return file_names(found[1].rstrip() for found in _PATCHED_FILE.finditer(text))


def _of_name(name: str, given: _Arguments) -> CallEffect:
    """Return the effect of the verb in a name, or else of the argument that names an action."""
    short = name.rpartition("__")[2] or name
    effect = verb_effect(short)
    if effect == "unknown" and short is not name:
        effect = verb_effect(name)
    if effect == "unknown":
        return _of_subcommand(given) or _UNKNOWN
    files = _named_files(given) if effect == "changes" and _FILE_VERBS.search(name) else ()
    return CallEffect(effect, checks=effect == "checks", files=files)

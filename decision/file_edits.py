"""What a call did to each file, and where the texts of the change stand among its arguments.

A judgement says whether a call changed the work (`call_judgement.py`). For people who look at a session that is not
enough: they want the files with their diffs. The texts are not copied: a `TextPlace` names the argument and the part
of it, because a record already holds each of them once. Nothing here has an effect on a decision.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from .call_effects import MAX_ARGUMENTS, named_file, runs_commands, shell_command
from .deferred_patterns import deferred
from .shell_commands import without_prefixes
from .shell_syntax import Command, split_commands, unquoted
from .written_files import file_in_answer, file_names, files_in_code, written_by


class TextPlace(Struct, frozen=True, array_like=True):
    """A part of a text among the arguments of a call."""

    argument: tuple[str | int, ...]
    """Names and places that lead to the text; empty if the arguments are no JSON and are the text."""
    start: int = 0
    """Where it begins, in UTF-16 code units, as JavaScript counts."""
    end: int | None = None
    """Where it ends; None at the end of the text."""


class FileEdit(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One change of one file."""

    path: str
    how: Literal["replace", "write", "insert", "patch", "other"] = "other"
    """- `replace`: the text `old` became `new`;
    - `write`: the file now holds `new`;
    - `insert`: `new` was put into the file, or lines that the call does not quote were replaced by it;
    - `patch`: `new` is a patch of this file;
    - `other`: the arguments do not hold the text, as with `sed -i` or a deletion."""
    old: TextPlace | None = None
    new: TextPlace | None = None
    at: str = ""
    """For `insert`: the lines, as the call names them."""


_OLD = ("old", "old_str", "old_string", "old_text", "oldText", "oldString", "search")
_NEW = ("new", "new_str", "new_string", "new_text", "newText", "newString", "replace", "replacement")
_PATCH = ("patch", "diff", "patch_text", "input")
_WHOLE = ("content", "file_text", "contents", "file_content", "text")
_COMMANDS = ("command", "commands", "cmd", "script", "shell_command", "code", "input")
_IS_PATCH = deferred(r"^(?:\*\*\* Begin Patch|\*\*\* (?:Update|Add|Delete) File: |--- |diff --git )", re.MULTILINE)
_PATCHED = deferred(
    r"^(?:\*\*\* (?:Update|Add|Delete) File: (?P<file>[^\n]{1,300})"
    r"|(?:diff --git [^\n]{1,700}\n(?:(?!--- |diff )[^\n]{0,700}\n){0,8}?)?"
    r"--- (?:a/)?(?P<old>[^\t\n]{1,300})[^\n]{0,100}\n\+\+\+ (?:b/)?(?P<new>[^\t\n]{1,300}))",
    re.MULTILINE,
)
_LINE_EDIT = deferred(r"(?:edit|insert)[ \t]+(?P<at>\d{1,9}(?::\d{1,9})?)[^\n]{0,20}\n")
"""The first line of an edit of SWE-agent: the lines that it replaces in the open file."""
_EDIT_END = deferred(r"\nend_of_(?:edit|insert)\b")
_WRITES_PLAINLY = frozenset({"cat", "echo", "printf", "tee"})
"""Programs that write what they are given: only the shell itself can fail to open their file, and says so."""
_NOT_OPENED = "(?:No such file|Permission denied|Is a directory|Read-only|cannot create|Not a directory)"


def file_edits(name: str, arguments: str, files: Sequence[str], content: str, failed: bool) -> tuple[FileEdit, ...]:
    """Return the changes of files that a call made for certain, in order. Never raises.

    files: those that the judgement names. content: the call's result. failed: whether the call failed as a whole; then
    only what its commands wrote before counts.
    """
    given = _decoded(arguments)
    found = [] if failed else list(_named_edits(given, name))
    command = shell_command(name, arguments) or _line_edit(given) if not found else ""
    if command:
        found = list(_commanded_edits(command, _places(given), content, failed))
    if failed:
        return tuple(found)
    named = {edit.path for edit in found}
    found += [FileEdit(path=file) for file in files if file not in named]
    if not found and not (command and runs_commands(name) and not _LINE_EDIT.match(command)):
        found = list(_answered_edits(given, content))
    return tuple(found)


def file_looked_at(name: str, arguments: str, content: str) -> str:
    """Return the one file that a reading call looked at; empty if it names none, or several. Never raises."""
    if file := named_file(arguments):
        return file
    if command := shell_command(name, arguments):
        looked = {word for each in split_commands(command[:2000]) for word in _looked_at(each)}
        if looked:
            return looked.pop() if len(looked) == 1 else ""
    return file_in_answer(content)


_FILE = deferred(r"(?:[\w.@~+-]*/)*[\w@+-][\w.@+-]*\.\w{1,8}")


def _looked_at(command: Command) -> list[str]:
    words = [unquoted(word) for word in without_prefixes(command.words)]
    return [word for word in words[1:] if _FILE.fullmatch(word)] if words and words[0] != "cd" else []


# ---- arguments that hold the texts


def _named_edits(given: Any, name: str) -> Iterator[FileEdit]:
    """Yield the changes whose texts are arguments of their own: of an editor, or a patch."""
    if not isinstance(given, Mapping):
        if isinstance(given, str) and not runs_commands(name):
            yield from _patches(given, ())
        return
    path = named_file(given)
    subcommand = given.get("command")
    editor = isinstance(subcommand, str) and subcommand in ("view", "create", "str_replace", "insert", "undo_edit")
    if not editor or subcommand == "str_replace":
        yield from _replaced(given, path, ())
        edits = given.get("edits")
        for place, edit in enumerate(edits if isinstance(edits, list) else ()):
            if isinstance(edit, Mapping):
                yield from _replaced(edit, named_file(edit) or path, ("edits", place))
    if (key := _text_key(given, _PATCH)) and _IS_PATCH.search(given[key]):
        yield from _patches(given[key], (key,), path)
    elif path and editor and subcommand == "insert" and (key := _text_key(given, ("insert_text", *_NEW))):
        yield FileEdit(path=path, how="insert", new=TextPlace((key,)), at=str(given.get("insert_line", "")))
    elif path and isinstance(given.get("insert_text"), str):
        yield FileEdit(path=path, how="insert", new=TextPlace(("insert_text",)), at=str(given.get("insert_line", "")))
    elif path and (not editor or subcommand == "create") and not _text_key(given, _OLD) and _text_key(given, _WHOLE):
        yield FileEdit(path=path, how="write", new=TextPlace((_text_key(given, _WHOLE),)))


def _replaced(given: Mapping[str, Any], path: str, above: tuple[str | int, ...]) -> Iterator[FileEdit]:
    old, new = _text_key(given, _OLD), _text_key(given, _NEW)
    if path and old and new:
        yield FileEdit(path=path, how="replace", old=TextPlace((*above, old)), new=TextPlace((*above, new)))


def _text_key(given: Mapping[str, Any], names: Sequence[str]) -> str:
    return next((name for name in names if isinstance(given.get(name), str)), "")


def _patches(text: str, argument: tuple[str | int, ...], path: str = "", within: int = 0) -> Iterator[FileEdit]:
    """Yield the part of a patch that each file has. within: where the patch begins in the text of the argument."""
    found = list(_PATCHED.finditer(text))
    if not found and path:
        yield FileEdit(path=path, how="patch", new=TextPlace(argument))
    for place, one in enumerate(found):
        end = found[place + 1].start() if place + 1 < len(found) else len(text)
        new, old = one["new"], one["old"]
        file = (one["file"] or (old if new == "/dev/null" else new)).strip()
        span = TextPlace(argument, within + _units(text[: one.start()]), within + _units(text[:end].rstrip()))
        yield FileEdit(path=file, how="patch", new=span)


# ---- shell commands


def _line_edit(given: Any) -> str:
    """Return an edit of the open file that SWE-agent's tools `edit` and `insert` were given as text; else nothing."""
    command = given.get("command") if isinstance(given, Mapping) else None
    return command if isinstance(command, str) and _LINE_EDIT.match(command) else ""


def _commanded_edits(
    command: str, places: list[tuple[tuple[str | int, ...], str]], content: str, failed: bool
) -> Iterator[FileEdit]:
    """Yield the changes that a shell command makes, as far as it names the files."""
    if (edit := _LINE_EDIT.match(command)) is not None:
        if not failed and (file := file_in_answer(content)):
            end = _EDIT_END.search(command, edit.end() - 1)
            text = command[edit.end() : end.start() if end and end.start() >= edit.end() else None]
            yield FileEdit(path=file, how="insert", new=_place_of(text, places), at=edit["at"])
        return
    inner = _nested(command)
    commands = split_commands(inner)
    for place, each in enumerate(commands):
        words = [unquoted(word) for word in without_prefixes(each.words)]
        program = words[0].rpartition("/")[2] if words else ""
        if failed and (place == len(commands) - 1 or program not in _WRITES_PLAINLY):
            continue
        for edit_ in _edits_of(each, program, words[1:], places):
            if not failed or not re.search(rf"{re.escape(edit_.path)}'?: {_NOT_OPENED}", content):
                yield edit_


def _edits_of(
    command: Command, program: str, arguments: list[str], places: list[tuple[tuple[str | int, ...], str]]
) -> Iterator[FileEdit]:
    document = command.document
    if program in ("apply_patch", "applypatch", "patch") or (program == "git" and arguments[:1] == ["apply"]):
        text = document or next((word for word in arguments if _IS_PATCH.search(word)), "")
        place = _place_of(text, places)
        if text and place is not None:
            yield from _patches(text, place.argument, within=place.start)
        else:
            yield from (FileEdit(path=one.path) for one in _patches(text, ()))
        return
    if program == "git" and arguments[:1] in (["checkout"], ["restore"]) and "--" in arguments:
        yield from (FileEdit(path=file) for file in file_names(arguments[arguments.index("--") + 1 :]))
    elif program == "str_replace_editor" and arguments[:1] not in ([], ["view"]):
        yield from (FileEdit(path=file) for file in file_names(arguments[1:2]))
    elif program.startswith("python") and document:
        yield from (FileEdit(path=file) for file in files_in_code(document))
    written = file_names((*command.files, *(written_by(program, arguments) if program == "tee" else ())))
    for file in written:
        whole = program in ("cat", "tee") and document
        how: Literal["write", "insert"] = "insert" if command.appends or "-a" in arguments[:1] else "write"
        yield FileEdit(path=file, how=how, new=_place_of(document, places)) if whole else FileEdit(path=file)


_NESTED = deferred(r"\s*(?:/bin/)?(?:ba|z)?sh\s+-l?c\s+(?P<quote>['\"])(?P<text>.*)(?P=quote)\s*", re.DOTALL)


def _nested(command: str) -> str:
    """Return the text that a shell is given with `-c`, or the command itself."""
    found = _NESTED.fullmatch(command)
    if found is None:
        return command
    return found["text"].replace("'\"'\"'", "'").replace("'\\''", "'") if found["quote"] == "'" else found["text"]


def _place_of(text: str, places: list[tuple[tuple[str | int, ...], str]]) -> TextPlace | None:
    """Return where a text stands among the arguments, letter for letter; None if it does not."""
    for argument, value in places if text else ():
        if (start := value.find(text)) >= 0:
            begin = _units(value[:start])
            return TextPlace(argument, begin, begin + _units(text))
    return None


def _places(given: Any) -> list[tuple[tuple[str | int, ...], str]]:
    """Return the texts among the arguments that may be a command."""
    if isinstance(given, str):
        return [((), given)]
    found: list[tuple[tuple[str | int, ...], str]] = []
    for key in _COMMANDS if isinstance(given, Mapping) else ():
        value = given.get(key)
        if isinstance(value, str):
            found.append(((key,), value))
        elif isinstance(value, list):
            found += [((key, place), word) for place, word in enumerate(value) if isinstance(word, str)]
    return found


def _units(text: str) -> int:
    """Return the length of a text in UTF-16 code units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


# ---- results that name the file


def _answered_edits(given: Any, content: str) -> Iterator[FileEdit]:
    """Yield the change of the file that an editor's answer names, where the call names none: it was open."""
    if file := file_in_answer(content):
        key = _text_key(given, ("text", "replacement_text", *_NEW)) if isinstance(given, Mapping) else ""
        yield FileEdit(path=file, how="insert", new=TextPlace((key,))) if key else FileEdit(path=file)


def _decoded(arguments: str) -> Any:
    if len(arguments) > MAX_ARGUMENTS:
        return None
    try:
        return msgspec.json.decode(arguments)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return arguments

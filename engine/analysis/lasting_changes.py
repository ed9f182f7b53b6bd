"""The changes of a run that last: not those of files that it created and removed again, and not copies of its patch."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ..decision.shell_commands import without_prefixes
from ..decision.shell_syntax import Command, unquoted
from ..tools.artefacts import is_artefact

MAX_FILES = 500
"""Maximum number of created, edited and removed files that are remembered of a run, each; further changes last."""
_PATCHES = (".patch", ".diff")
_REMOVERS = frozenset(("rm", "rmdir", "unlink"))
_BESIDE_REMOVAL = frozenset(("cd", "echo", "ls", "true", "pwd", "printf", "set"))
_OF_HISTORY = re.compile(r"git(?: -[cC] \S+| --?\S+)* (?:add|commit|tag|push|reset(?!.* --(?:hard|merge|keep)\b))\b")
"""Commands of git that leave the files as they are."""
_IN_PLACE = frozenset(("sed", "gsed", "perl", "patch", "ed", "ex", "git", "edit", "str_replace", "insert", "append"))
"""Programs that change files that exist."""
_CREATORS = ("creat", "write", "new_file")


class LastingChanges:
    """Collects the steps of one run that changed files.

    Paths are compared as far as they are known: of a relative and an absolute one, the end counts.
    """

    def __init__(self) -> None:
        self._changes: list[tuple[int, tuple[str, ...]]] = []
        self._created: set[str] = set()
        self._edited: set[str] = set()
        """Files that existed before the run changed them, as far as is known."""
        self._removed: set[str] = set()

    def add(self, step: int, tool: str, commands: Sequence[Command], files: Sequence[str]) -> None:
        """Add a call that changed something.

        tool: its name. commands: the simple commands that it ran. files: those that it wrote, moved or removed, as far
        as they are known.
        """
        folder = _folder(commands)
        if commands and not files and all(map(_leaves_files, commands)):
            return
        removed = [_in(folder, path) for path in _removed_by(commands)]
        if removed and self._is_clean_up(removed):
            self._removed.update(removed[: max(0, MAX_FILES - len(self._removed))])
            return
        applies = any(_applies_patch(command) for command in commands)
        written = () if applies else tuple(_in(folder, file) for file in files)
        made = self._note(written, tool, commands, folder)
        self._removed -= {*written}
        self._changes.append((step, written or (() if applies else made or ((folder,) if folder else ()))))

    def steps(self) -> tuple[int, ...]:
        """Return the numbers of the steps whose changes last, ascending, each once."""
        lasting = {step for step, files in self._changes if not files or not all(map(self._is_gone, files))}
        return tuple(sorted(lasting))

    def _note(self, written: Sequence[str], tool: str, commands: Sequence[Command], folder: str) -> tuple[str, ...]:
        """Note which files a call created and which were there; return the folders and empty files that it made."""
        if commands:
            edited = {_in(folder, word) for command in commands for word in _edited_by(command)}
            made = {_in(folder, word) for command in commands for word in _made_by(command)}
        else:
            creates = any(verb in tool.lower() for verb in _CREATORS)
            edited, made = set() if creates else {*written}, set[str]()
        for file in (*made, *written):
            known = self._edited if file in edited and not self._is_own(file) else self._created
            if len(known) < MAX_FILES and file not in self._edited:
                known.add(file)
        return tuple(made)

    def _is_own(self, path: str) -> bool:
        """Return whether the run created this file or folder, or what it is in."""
        return any(_is_within(path, created) for created in self._created)

    def _is_clean_up(self, removed: Sequence[str]) -> bool:
        """Return whether what is removed was created by the run, or by its checks and builds, and nothing else."""
        if any(_is_within(file, path) for file in self._edited for path in removed):
            return False
        own = any(self._is_own(path) or any(_is_within(file, path) for file in self._created) for path in removed)
        return own or all(map(is_artefact, removed))

    def _is_gone(self, file: str) -> bool:
        if file.endswith(_PATCHES):
            return True
        return self._is_own(file) and any(_is_within(file, path) for path in self._removed)


def _is_within(file: str, path: str) -> bool:
    """Return whether a file is this path or in it, even if one of the two is relative."""
    return f"/{path}/" in f"/{file}/" or path.endswith(f"/{file}")


def _plain(path: str) -> str:
    return path.removeprefix("./").rstrip("/")


def _in(folder: str, path: str) -> str:
    """Return a path as seen from where the call began."""
    return f"{folder}/{_plain(path)}" if folder and path[:1] not in "/~$" else _plain(path)


def _folder(commands: Sequence[Command]) -> str:
    """Return the folder that a call changes to first; empty if it does not."""
    words = [unquoted(word) for word in commands[0].words] if commands else []
    return _plain(words[1]) if len(words) == 2 and words[0] == "cd" else ""


def _operands(command: Command, programs: frozenset[str]) -> Iterator[str]:
    words = [unquoted(word) for word in without_prefixes(command.words)]
    if words and words[0].rpartition("/")[2] in programs:
        yield from (word for word in words[1:] if word[:1] != "-")


def _applies_patch(command: Command) -> bool:
    """Return whether a command changes the files that a patch names, which are not among its words."""
    words = without_prefixes(command.words)
    return words[:1] == ["patch"] or words[:2] in (["git", "apply"], ["git", "am"])


def _leaves_files(command: Command) -> bool:
    """Return whether a command changes at most the history and the index of git."""
    words = without_prefixes(command.words)
    return not words or words[0] in _BESIDE_REMOVAL or _OF_HISTORY.match(" ".join(words)) is not None


def _edited_by(command: Command) -> Iterator[str]:
    yield from _operands(command, _IN_PLACE)


def _made_by(command: Command) -> Iterator[str]:
    yield from _operands(command, frozenset(("mkdir", "touch", "create")))


def _removed_by(commands: Sequence[Command]) -> list[str]:
    """Return the paths that a call removes; none if it does anything else."""
    paths: list[str] = []
    for command in commands:
        words = [unquoted(word) for word in without_prefixes(command.words)]
        if words and words[0] in _REMOVERS:
            paths += (word for word in words[1:] if word[:1] != "-")
        elif command.files or (words and words[0] not in _BESIDE_REMOVAL):
            return []
    return paths

"""The changes of a run that last: not those of files that it created and removed again, and not copies of its patch."""

from __future__ import annotations

from collections.abc import Sequence

from ..decision.shell_commands import without_prefixes
from ..decision.shell_syntax import Command, unquoted

ARTEFACTS = frozenset(("__pycache__", ".pytest_cache", ".coverage", "htmlcov", ".mypy_cache", ".ruff_cache", ".tox"))
"""Names of what checks leave behind."""
_PATCHES = (".patch", ".diff")
_REMOVERS = frozenset(("rm", "rmdir", "unlink"))
_BESIDE_REMOVAL = frozenset(("cd", "echo", "ls", "true", "pwd", "printf"))
_CREATORS = ("creat", "write", "touch", "mkdir", "new_file")


class LastingChanges:
    """Collects the steps of one run that changed files."""

    def __init__(self) -> None:
        self._changes: list[tuple[int, tuple[str, ...]]] = []
        self._created: set[str] = set()
        self._removed: set[str] = set()

    def add(self, step: int, tool: str, commands: Sequence[Command], files: Sequence[str]) -> None:
        """Add a call that changed something.

        tool: its name. commands: the simple commands that it ran. files: those that it wrote, moved or removed, as far as
        they are known.
        """
        removed = _removed_by(commands)
        if removed and self._is_clean_up(removed):
            self._removed.update(removed)
            return
        written = tuple(map(_plain, files))
        self._created |= _created_by(tool, commands, written) - {
            file for _, earlier in self._changes for file in earlier
        }
        self._removed -= set(written)
        self._changes.append((step, written))

    def steps(self) -> tuple[int, ...]:
        """Return the numbers of the steps whose changes last, ascending, each once."""
        lasting = {step for step, files in self._changes if not files or not all(map(self._is_gone, files))}
        return tuple(sorted(lasting))

    def _is_clean_up(self, removed: Sequence[str]) -> bool:
        """Return whether what is removed was created by the run, or by its checks and builds, and nothing else."""
        own = [path for path in removed if any(_is_within(file, path) for file in self._created)]
        edited = {file for _, files in self._changes for file in files} - self._created
        if any(_is_within(file, path) for file in edited for path in removed):
            return False
        return bool(own) or all(base_name(path) in ARTEFACTS for path in removed)

    def _is_gone(self, file: str) -> bool:
        if file.endswith(_PATCHES):
            return True
        return file in self._created and any(_is_within(file, path) for path in self._removed)


def base_name(path: str) -> str:
    """Return a path's last part."""
    return path.rpartition("/")[2]


def _plain(path: str) -> str:
    return path.removeprefix("./").rstrip("/")


def _is_within(file: str, path: str) -> bool:
    """Return whether a file is this path or in it, even if one of the two is relative."""
    return f"/{path}/" in f"/{file}/" or file.endswith(f"/{path}") or path.endswith(f"/{file}")


def _removed_by(commands: Sequence[Command]) -> list[str]:
    """Return the paths that a call removes; none if it does anything else."""
    paths: list[str] = []
    for command in commands:
        words = [unquoted(word) for word in without_prefixes(command.words)]
        if words and words[0] in _REMOVERS:
            paths += (_plain(word) for word in words[1:] if word[:1] != "-")
        elif command.files or (words and words[0] not in _BESIDE_REMOVAL):
            return []
    return paths


def _created_by(tool: str, commands: Sequence[Command], files: Sequence[str]) -> set[str]:
    """Return the files that a call may have created: those that it wrote whole."""
    if not commands:
        return {*files} if any(verb in tool.lower() for verb in _CREATORS) else set()
    created: set[str] = set()
    for command in commands:
        words = [unquoted(word) for word in without_prefixes(command.words)]
        created.update(map(_plain, command.files))
        if words and words[0] in ("touch", "mkdir", "create"):
            created.update(_plain(word) for word in words[1:] if word[:1] != "-")
    return created

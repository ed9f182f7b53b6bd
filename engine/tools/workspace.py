"""Tools for working in one folder: list, read, search, edit, write and, if allowed, run commands.

    engine = Engine(provider, tools=[*workspace_tools("project"), finish_task])

The file tools cannot leave the folder (see `WorkspaceFolder`). A command can: it may do anything that the user may, so
it is offered only with `allow_run=True`. Results are sorted and bounded.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Literal

from ..decision import WrongUse
from ..decision.wrong_calls import explained
from .artefacts import CACHE_TAG, VERSION_CONTROL, is_artefact, is_cache
from .child_process import check_variable_names
from .shell import MAX_SECONDS, run_shell
from .tool import Tool

MAX_ENTRIES = 300
MAX_LINES = 2000
MAX_CHARACTERS = 50_000
MAX_HITS = 100
MAX_SEARCHED_FILES = 20_000
MAX_HIT_CHARACTERS = 240
MAX_FILE_BYTES = 5_000_000
"""Maximum number of bytes of a file that are read."""
MAX_PATH_CHARACTERS = 4096
_FOLDER = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_FILE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # so that opening a named pipe does not wait
Parts = tuple[str, ...]
"""A path as names below the workspace; none of them is `..`, and () is the workspace itself."""
Kind = Literal["folder", "file", "link", "other"]


@explained
def workspace_tools(
    folder: str | os.PathLike[str], *, allow_run: bool = False, env: Collection[str] = ()
) -> list[Tool]:
    """Return the tools for a folder. With `allow_run`, add one for shell commands, which is not confined to it.

    env: names of environment variables that commands see in addition to the allow-list of `child_process.py`, which has
    PATH, HOME, locale, proxies and toolchains, but no keys. Raises WrongUse.
    """
    if os.open not in os.supports_dir_fd:
        raise WrongUse("workspace tools need a system that opens files relative to a folder, as Linux and macOS do")
    root = os.path.realpath(folder)
    if not os.path.exists(root):
        raise WrongUse(f"workspace {os.fspath(folder)!r} does not exist: create it, or name an existing folder")
    if not os.path.isdir(root):
        raise WrongUse(f"workspace {os.fspath(folder)!r} is not a folder: name the folder to work in")
    tools = _Workspace(root, check_variable_names(env))
    offered = [
        Tool(tools.list_files, reads=True),
        Tool(tools.read_file, reads=True),
        Tool(tools.search_files, reads=True),
        Tool(tools.edit_file),
        Tool(tools.write_file),
    ]
    if allow_run:
        offered.append(Tool(tools.run_command, timeout=MAX_SECONDS + 30))
    for tool in offered:
        tool.folder = root
    return offered


class _Workspace:
    """Functions of the tools. The model reads their docstrings."""

    def __init__(self, root: str, env: Collection[str] = ()) -> None:
        self._folder = WorkspaceFolder(root)
        self._env = env

    def list_files(self, path: str = ".") -> str:
        """List the files and folders below a folder of the workspace, to find out what is there.

        One path a line, relative to the workspace; a folder ends in "/". A large folder is named with the number of
        its entries instead of being listed: list it by its own path.

        Args:
            path: The folder, relative to the workspace.

        """
        top = self._folder.parts(path)
        lines: dict[Parts, str] = {}
        waiting = deque([top])
        while waiting:
            place = waiting.popleft()
            try:
                entries = self._folder.entries(path, place)
            except (OSError, WorkspaceError) as error:
                if place == top:
                    raise
                lines[place] += f" (not listed: {type(error).__name__})"
                continue
            if place != top and len(lines) + len(entries) > MAX_ENTRIES:
                lines[place] += f" ({len(entries)} entries, not listed)"
                continue
            shown = [(name, kind) for name, kind in entries if name not in VERSION_CONTROL]
            for name, kind in shown[:MAX_ENTRIES]:
                inner = (*place, name)
                mark = {"folder": "/", "file": "", "link": " (link)", "other": " (not an ordinary file)"}[kind]
                lines[inner] = _display_path(inner) + mark
                if kind == "folder":
                    waiting.append(inner)
            if len(shown) > MAX_ENTRIES:
                return "\n".join([*lines.values(), f"[the first {MAX_ENTRIES} of {len(shown)} entries]"])
        return "\n".join(lines[place] for place in sorted(lines)) or "(an empty folder)"

    def read_file(self, path: str, start_line: int = 1, max_lines: int = 500) -> str:
        """Read a text file of the workspace, whole or a range of its lines.

        A last line in brackets, which is not in the file, says when there is more.

        Args:
            path: The file, relative to the workspace.
            start_line: The first line to read; 1 is the first of the file.
            max_lines: How many lines to read, at most 2000.

        """
        text, whole = self._text(path)
        lines = text.removeprefix("\ufeff").replace("\r\n", "\n").removesuffix("\n").split("\n")
        first = max(start_line, 1)
        if not text:
            return "(an empty file)"
        if first > len(lines):
            raise WorkspaceError(f"{path!r} has only {len(lines)} lines")
        shown = _lines_that_fit(lines[first - 1 : first - 1 + max(1, min(max_lines, MAX_LINES))])
        last = first - 1 + len(shown)
        notes = []
        if len(shown[-1]) < len(lines[last - 1]):
            notes.append(f"line {last} is cut: it has {len(lines[last - 1])} characters")
        if first > 1 or last < len(lines) or not whole:
            notes.append(f"lines {first} to {last} of {len(lines)}{'' if whole else ' and more'}")
        if not whole:
            notes.append(f"only the first {MAX_FILE_BYTES} bytes of the file can be read")
        return "\n".join([*shown, *([f"[{'; '.join(notes)}]"] if notes else [])])

    def search_files(self, pattern: str, path: str = ".", glob: str = "*") -> str:
        """Search the text files of the workspace for a regular expression, to find where something is.

        Each hit is a line "file:line: text". Matches within one line, case-sensitive unless the pattern begins with
        (?i); look-around and back-references are not supported.

        Args:
            pattern: The regular expression.
            path: The folder or file to search, relative to the workspace.
            glob: Which files: "*.py" in any folder, "src/**/*.{js,ts}" by the path from the workspace.

        """
        hit = regex_matcher(pattern, "regular expression")
        wanted = glob_matcher(glob)
        found: list[str] = []
        notes: list[str] = []
        for number, parts in enumerate(self._folder.files(path, self._folder.parts(path))):
            if number == MAX_SEARCHED_FILES:
                notes.append(f"stopped after {MAX_SEARCHED_FILES} files: narrow path")
                break
            name = _display_path(parts)
            if not wanted(name):
                continue
            try:
                data = self._folder.read(name, parts)
            except (OSError, WorkspaceError):
                continue
            if len(data) > MAX_FILE_BYTES:
                notes.append(f"only the first {MAX_FILE_BYTES} bytes of {name} were searched")
            found += _search_lines(name, data, hit, MAX_HITS + 1 - len(found))
            if len(found) > MAX_HITS:
                found[MAX_HITS:] = []
                notes.append(f"the first {MAX_HITS} hits, there are more: narrow pattern, path or glob")
                break
        return "\n".join([*(found or ["(no hits)"]), *(f"[{note}]" for note in notes)])

    def edit_file(self, path: str, old: str, new: str) -> str:
        """Replace one passage of a text file of the workspace; the way to change a file that exists.

        Args:
            path: The file, relative to the workspace.
            old: The passage exactly as it stands in the file, with its white space; it must occur only once.
            new: What stands there afterwards.

        """
        text, whole = self._text(path)
        if not whole:
            raise WorkspaceError(f"{path!r} is too large to be edited here: over {MAX_FILE_BYTES} bytes")
        plain, old = text.replace("\r\n", "\n"), old.replace("\r\n", "\n")
        if not old:
            raise WorkspaceError("old is empty: give the passage that is to be replaced")
        first = plain.find(old)
        if first < 0:
            raise WorkspaceError(f"old does not occur in {path!r}: read it and copy the passage exactly")
        line = plain.count("\n", 0, first) + 1
        second = plain.find(old, first + 1)
        if second >= 0:
            times = max(plain.count(old), 2)
            also = plain.count("\n", 0, second) + 1
            raise WorkspaceError(
                f"old occurs {times} times in {path!r}, first in lines {line} and {also}: "
                "include more of the text around the one that is meant"
            )
        newline = "\r\n" if 2 * text.count("\r\n") > text.count("\n") else "\n"
        fitted = new.replace("\r\n", "\n").replace("\n", newline)
        changed = text[: _offset_with_crlf(text, first)] + fitted + text[_offset_with_crlf(text, first + len(old)) :]
        if changed == text:
            raise WorkspaceError("old and new are the same, so nothing would change")
        self._folder.write(path, self._folder.parts(path), changed.encode())
        return f"Replaced one passage in {path}, line {line}."

    def write_file(self, path: str, content: str) -> str:
        """Write a whole file of the workspace, with the folders above it; for new files, or to replace all of one.

        Args:
            path: The file, relative to the workspace.
            content: All that the file holds afterwards.

        """
        data = content.encode()
        created = self._folder.write(path, self._folder.parts(path), data)
        return f"{'Created' if created else 'Replaced'} {path} ({len(data)} bytes)."

    async def run_command(self, command: str, timeout: float = 60) -> str:
        """Run a shell command in the workspace, for example to test or build; shows its exit code and output.

        There is no input to type. Everything that the command started ends with it, background processes too. Of
        long output the beginning and the end are shown.

        Args:
            command: The command line for sh.
            timeout: Seconds after which it is killed, at most 600.

        """
        return await run_shell(self._folder.root, command, timeout, self._env)

    def _text(self, path: str) -> tuple[str, bool]:
        """Return a file's text, and whether it is the whole text."""
        data = self._folder.read(path, self._folder.parts(path))
        whole = len(data) <= MAX_FILE_BYTES
        if b"\0" in data:
            raise WorkspaceError(f"{path!r} is a binary file, not text")
        try:
            return data.decode(), whole
        except UnicodeDecodeError as error:
            if not whole and error.start > MAX_FILE_BYTES - 4:
                return data[: error.start].decode(), whole  # the size limit cut a character in two
            line = data.count(b"\n", 0, error.start) + 1
            raise WorkspaceError(f"{path!r} is not UTF-8 text: byte 0x{data[error.start]:02x} in line {line}") from None


def _display_path(parts: Parts) -> str:
    """Return a path for people and models. Unprintable characters (a newline in a name) are replaced."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in "/".join(parts))


def _lines_that_fit(lines: list[str]) -> list[str]:
    """Return as many of the lines as fit into a result, but at least part of the first one."""
    room = MAX_CHARACTERS
    for number, line in enumerate(lines):
        room -= len(line) + 1
        if room < 0:
            return lines[:number] or [line[:MAX_CHARACTERS]]
    return lines


def _search_lines(name: str, data: bytes, hit: Callable[[str], bool], most: int) -> Iterator[str]:
    if b"\0" in data:
        return
    for number, line in enumerate(data[:MAX_FILE_BYTES].decode("utf-8", "replace").split("\n"), 1):
        if hit(line.removesuffix("\r")):
            yield f"{name}:{number}: {line.strip()[:MAX_HIT_CHARACTERS]}"
            most -= 1
            if most == 0:
                return


def _offset_with_crlf(text: str, at: int) -> int:
    """Return the offset in the text of the character at `at` when each CR LF counts as one."""
    passed = 0
    for piece in text.split("\r\n"):
        if at <= len(piece):
            break
        at -= len(piece) + 1
        passed += len(piece) + 2
    return passed + at


class WorkspaceError(Exception):
    """An operation that the workspace refuses. The message tells the model why."""


class WorkspaceFolder:
    """Access to files below `root` (a real path), and never outside it.

    A path is first resolved with all its links, and refused if it leads outside. Then the resolved path is opened name
    by name from `root` without following links (O_NOFOLLOW): a link created in between makes that fail. Links that stay
    inside the folder work as usual.
    """

    def __init__(self, root: str) -> None:
        self.root = root

    def parts(self, path: str) -> Parts:
        """Resolve a path and its links. Raises WorkspaceError if it leads outside."""
        if "\0" in path or len(path) > MAX_PATH_CHARACTERS:
            raise WorkspaceError("a path has at most 4096 characters, and none of them is a null")
        try:
            os.fsencode(path)
        except UnicodeEncodeError:
            raise WorkspaceError(f"{path!r} has characters that no file name can have") from None
        real = os.path.realpath(os.path.join(self.root, path))
        above = self.root.rstrip("/") + "/"
        if real != self.root and not real.startswith(above):
            raise WorkspaceError(f"{path!r} is outside the workspace")
        return tuple(part for part in real[len(above) :].split("/") if part)

    def entries(self, path: str, parts: Parts) -> list[tuple[str, Kind]]:
        """Return the entries of a folder, sorted by name."""
        with _explained_errors(path), self._open_folder(parts) as here, os.scandir(here) as found:
            return sorted((entry.name, _kind(entry)) for entry in found)

    def files(self, path: str, parts: Parts) -> Iterator[Parts]:
        """Yield the file at a path, or all files below it, sorted.

        Skips links, version control, unreadable folders, and below the path what checks leave behind.
        """
        waiting: list[tuple[Parts, Kind]] = [(parts, self._kind_at(path, parts))]
        while waiting:
            place, kind = waiting.pop()
            if kind == "file":
                yield place
            elif kind == "folder":
                with suppress(OSError, WorkspaceError):
                    inner = self.entries("/".join(place), place)
                    if place != parts and (CACHE_TAG, "file") in inner and is_cache(os.path.join(self.root, *place)):
                        continue
                    below = "/".join(place[len(parts) :])
                    waiting += [
                        ((*place, name), of)
                        for name, of in reversed(inner)
                        if name not in VERSION_CONTROL and not is_artefact(f"{below}/{name}")
                    ]

    def read(self, path: str, parts: Parts) -> bytes:
        """Return a file's content up to `MAX_FILE_BYTES`, plus one byte if there is more."""
        if not parts:
            raise IsADirectoryError(f"{path!r} is a folder, not a file")
        with _explained_errors(path), self._open_folder(parts[:-1]) as here:
            file = os.open(parts[-1], os.O_RDONLY | _FILE, dir_fd=here)
            try:
                _must_be_file(path, os.fstat(file))
                with os.fdopen(file, "rb", closefd=False) as stream:
                    return stream.read(MAX_FILE_BYTES + 1)
            finally:
                os.close(file)

    def write(self, path: str, parts: Parts, content: bytes) -> bool:
        """Write a file atomically, creating its folders. Return True if the file is new."""
        if not parts:
            raise IsADirectoryError(f"{path!r} is a folder, not a file")
        if VERSION_CONTROL & {part.lower() for part in parts}:
            raise WorkspaceError(f"{path!r} belongs to version control, and its files are not written by hand")
        with _explained_errors(path), self._open_folder(parts[:-1], create=True) as here:
            before = _stat_writable(path, parts[-1], here)
            temporary = f".endstop-{secrets.token_hex(4)}.tmp"
            file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, 0o666, dir_fd=here)
            try:
                with os.fdopen(file, "wb") as stream:
                    stream.write(content)
                    if before is not None:
                        with suppress(PermissionError):
                            os.fchown(file, before.st_uid, before.st_gid)
                        os.fchmod(file, stat.S_IMODE(before.st_mode))
                os.replace(temporary, parts[-1], src_dir_fd=here, dst_dir_fd=here)
            except BaseException:
                with suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=here)
                raise
        return before is None

    def _kind_at(self, path: str, parts: Parts) -> Kind:
        if not parts:
            return "folder"
        with _explained_errors(path), self._open_folder(parts[:-1]) as here:
            mode = os.stat(parts[-1], dir_fd=here, follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode):
            return "folder"
        if stat.S_ISREG(mode):
            return "file"
        raise WorkspaceError(f"{path!r} is neither a folder nor an ordinary file")

    @contextmanager
    def _open_folder(self, parts: Parts, *, create: bool = False) -> Iterator[int]:
        """Open a folder without following links, and yield its file descriptor."""
        here = os.open(self.root, os.O_RDONLY | _FOLDER)
        try:
            for part in parts:
                if create:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=here)
                deeper = os.open(part, os.O_RDONLY | _FOLDER, dir_fd=here)
                os.close(here)
                here = deeper
            yield here
        finally:
            os.close(here)


def _stat_writable(path: str, name: str, here: int) -> os.stat_result | None:
    """Return the status of an existing file that may be overwritten; None if there is no file of this name."""
    try:
        file = os.open(name, os.O_WRONLY | _FILE, dir_fd=here)
    except FileNotFoundError:
        return None
    try:
        found = os.fstat(file)
    finally:
        os.close(file)
    _must_be_file(path, found)
    return found


def _kind(entry: os.DirEntry[str]) -> Kind:
    if entry.is_symlink():
        return "link"
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    return "file" if entry.is_file(follow_symlinks=False) else "other"


def _must_be_file(path: str, found: os.stat_result) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(f"{path!r} is a folder, not a file")
    if not stat.S_ISREG(found.st_mode):
        raise WorkspaceError(f"{path!r} is not an ordinary file")


@contextmanager
def _explained_errors(path: str) -> Iterator[None]:
    """Turn errors of the operating system into one sentence for the model."""
    try:
        yield
    except OSError as error:
        match error.errno:
            case None:  # already explained
                raise
            case errno.ENOENT:
                said: Exception = FileNotFoundError(f"{path!r} does not exist in the workspace")
            case errno.EISDIR:
                said = IsADirectoryError(f"{path!r} is a folder, not a file")
            case errno.ENOTDIR:
                said = NotADirectoryError(f"{path!r}, or a part of it, is not a folder")
            case errno.EACCES | errno.EPERM:
                said = PermissionError(f"{path!r} may not be used that way: no permission")
            case errno.ELOOP:
                said = WorkspaceError(f"{path!r} is a link that leads in a circle")
            case errno.ENXIO:
                said = WorkspaceError(f"{path!r} is not an ordinary file")
            case _:
                said = WorkspaceError(f"{path!r} cannot be used: {error.strerror}")
        raise said from None


def glob_matcher(glob: str) -> Callable[[str], bool]:
    """Return a function that tells whether a glob matches a path, or only its last name if the glob has no "/"."""
    glob = glob.removeprefix("./") or "*"
    words = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]", "{": "(?:", "}": ")", ",": "|"}
    pieces = re.findall(r"\*\*/|\*\*|.", glob, re.DOTALL)
    depth, pattern = 0, ""
    for piece in pieces:
        depth += (piece == "{") - (piece == "}")
        pattern += re.escape(piece) if piece == "," and not depth else words.get(piece, re.escape(piece))
    anywhere = "" if "/" in glob else "(?:.*/)?"
    return regex_matcher(f"^{anywhere}(?:{pattern})$", "glob", glob)


def regex_matcher(pattern: str, what: str, given: str | None = None) -> Callable[[str], bool]:
    """Return a function that tells whether a text contains a match. Raises WorkspaceError if the pattern is invalid.

    It matches in linear time, with the regular expressions of pydantic's core. Those of Python can backtrack
    exponentially on a pattern that a model wrote, and block the interpreter, so that no timeout or cancellation works.
    """
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern)).isinstance_python
    except SchemaError as error:
        reason = str(error).rpartition("rror: ")[2].strip()
        raise WorkspaceError(f"{given or pattern!r} is not a usable {what}: {reason}") from None

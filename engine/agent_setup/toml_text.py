"""TOML, changed at positions: members at the top, and tables of plain values.

`tomllib` gives no positions, and a library that writes TOML would be a dependency of all users for one file of one
agent. A line begins a statement where the text before it is a whole document: strings of several lines and lists over
lines are told apart by that, not by their looks.
"""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

from .text_path import Path
from .unreadable_text import UnreadableText, unreadable_at

_PLACE = re.compile(r"\(at line (\d+), column (\d+)\)")
_HEADER = re.compile(r"\s*\[")
_BARE = re.compile(r"[A-Za-z0-9_-]+")


class TomlSyntax:
    """The syntax, as far as endstop changes it: other changes raise UnreadableText."""

    def load(self, text: str) -> Any:
        """Return the data. Raises UnreadableText."""
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            place = _PLACE.search(str(error))
            message = _PLACE.sub("", str(error)).strip().rstrip(".")
            if place is None:
                raise unreadable_at(text, len(text), message) from None
            raise UnreadableText(message, int(place[1]), int(place[2])) from None
        except RecursionError:
            raise UnreadableText("nested too deeply", 1, 1) from None

    def put(self, text: str, path: Path, value: Any) -> str:
        """Set a member at the top, or a table of plain values. Raises UnreadableText."""
        if isinstance(value, dict):
            return self._put_table(text, path, value)
        lines = text.splitlines(keepends=True)
        top = _first_header(lines)
        newline = _newline(text)
        written = f"{_key(path)} = {json.dumps(value, ensure_ascii=False)}"
        found = _member(lines[:top], path)
        if found is not None:
            match = _VALUE.match(lines[found])
            if match is None:
                raise UnreadableText(f"{_key(path)} has a value that endstop cannot replace in place", found + 1, 1)
            lines[found] = f"{match[1]}{json.dumps(value, ensure_ascii=False)}{match[3]}"
            return "".join(lines)
        last = next((index for index in reversed(range(top)) if not _is_gap(lines[index])), None)
        if lines and last in (None, len(lines) - 1) and not lines[-1].endswith("\n"):
            lines[-1] += newline
        if last is None:
            start = _comments_before(lines, top) if top < len(lines) else top
            below = [newline] if start < len(lines) and lines[start].strip() else []
            lines[start:start] = [f"{written}{newline}", *below]
        else:
            lines[last + 1 : last + 1] = [f"{written}{newline}"]
        return "".join(lines)

    def add(self, text: str, path: Path, item: Any) -> str:
        """Refuse: no agent needs it."""
        raise UnreadableText(f"endstop cannot add to the list {_key(path)}", 1, 1)

    def drop(self, text: str, path: Path) -> str:
        """Remove a member at the top, or a table with its header. Raises UnreadableText."""
        lines = text.splitlines(keepends=True)
        table = _table(lines, path)
        if table is not None:
            start, end = table
            while start and end == len(lines) and not lines[start - 1].strip():
                start -= 1  # the empty lines that parted it from what stands before
            del lines[start:end]
            return "".join(lines)
        found = _member(lines[: _first_header(lines)], path)
        if found is not None:
            del lines[found]
            return "".join(lines)
        if _below(lines, path):
            raise UnreadableText(f"{_key(path)} is written in a way that endstop cannot remove", 1, 1)
        return text  # an implicit table: it goes with the last one below it

    def _put_table(self, text: str, path: Path, value: dict[str, Any]) -> str:
        lines = text.splitlines(keepends=True)
        newline = _newline(text)
        body = [f"{_key((name,))} = {json.dumps(one, ensure_ascii=False)}{newline}" for name, one in value.items()]
        table = _table(lines, path)
        if table is not None:
            start, end = table
            gap = [line for line in lines[start + 1 : end] if not line.strip()][-1:] if end < len(lines) else []
            lines[start + 1 : end] = [*body, *gap]
            return "".join(lines)
        if lines and not lines[-1].endswith("\n"):
            lines[-1] += newline
        parted = [newline] if lines and lines[-1].strip() else []
        return "".join([*lines, *parted, f"[{_key(path)}]{newline}", *body])


_VALUE = re.compile(
    r"""([^=]++=\s*+)("(?:[^"\\\n]|\\.)*"(?!")|'[^'\n]*'(?!')|[^\s"'\[{#,]+)([ \t]*(?:\#[^\n]*)?\r?\n?)\Z"""
)


def _key(path: Path) -> str:
    return ".".join(step if _BARE.fullmatch(step) else json.dumps(step) for step in map(str, path))


def _is_gap(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _begins_statement(lines: list[str], index: int) -> bool:
    """Return whether the lines before this one are a whole document."""
    try:
        tomllib.loads("".join(lines[:index]))
    except (tomllib.TOMLDecodeError, RecursionError):
        return False
    return True


def _headers(lines: list[str]) -> list[int]:
    """Return the lines that begin a table."""
    return [i for i, line in enumerate(lines) if _HEADER.match(line) and _begins_statement(lines, i)]


def _first_header(lines: list[str]) -> int:
    """Return the line of the first table; the number of lines without one."""
    return next((i for i, line in enumerate(lines) if _HEADER.match(line) and _begins_statement(lines, i)), len(lines))


def _comments_before(lines: list[str], index: int) -> int:
    """Return where the comments begin that stand directly above a line."""
    while index and lines[index - 1].lstrip().startswith("#"):
        index -= 1
    return index


def _member(lines: list[str], path: Path) -> int | None:
    """Return the line of the member at the top whose name is the path's only step."""
    if len(path) != 1:
        return None
    for index, line in enumerate(lines):
        if str(path[0]) in line and not _is_gap(line) and _begins_statement(lines, index):
            try:
                known = tomllib.loads(line)
            except tomllib.TOMLDecodeError:
                known = tomllib.loads(f"{line.partition('=')[0]} = 0") if "=" in line else {}
            if list(known) == [path[0]]:
                return index
    return None


def _table(lines: list[str], path: Path) -> tuple[int, int] | None:
    """Return the lines of the table with this name: from its header to what belongs to the next one."""
    headers = _headers(lines)
    for index, start in enumerate(headers):
        if _header_path(lines[start]) == path:
            end = headers[index + 1] if index + 1 < len(headers) else len(lines)
            return start, _comments_before(lines, end) if end < len(lines) else end
    return None


def _header_path(line: str) -> Path | None:
    """Return the name of the table that a line begins; None for a list of tables."""
    if line.lstrip().startswith("[["):
        return None
    data: Any = tomllib.loads(line)
    path: Path = ()
    while isinstance(data, dict) and data:
        ((name, data),) = data.items()
        path = (*path, name)
    return path


def _below(lines: list[str], path: Path) -> list[int]:
    """Return the headers of tables below the path."""
    return [i for i in _headers(lines) if (_header_path(lines[i]) or ())[: len(path)] == path]


def _newline(text: str) -> str:
    """Return the line end of the text's first line."""
    return "\r\n" if text.partition("\n")[0].endswith("\r") else "\n"

"""JSON, with or without comments, changed at positions.

A parser that writes the whole document again would lose comments, spaces, escapes and the form of numbers. So this one
keeps for each value where it stands, and a change inserts or cuts out a piece there: all other bytes stay.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .text_path import Path
from .unreadable_text import UnreadableText, unreadable_at

DEEPEST = 200
"""Levels of nesting that are read."""
_GAP = re.compile(r"(?:[ \t\r\n]++|//[^\r\n]*+|/\*(?:[^*]|\*(?!/))*+(?:\*/|\Z))*+")
"""White space and comments. One that nothing closes goes on to the end, so that it is looked at once."""
_SPACE = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"')
_SCALAR = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])|(?:true|false|null)(?!\w)", re.ASCII)


@dataclass(slots=True, eq=False)
class Node:
    """A value and where it stands: `text[start:end]`."""

    start: int
    end: int = 0
    value: Any = None
    """The data; for objects and lists, too."""
    children: list[Child] = field(default_factory=list)
    trailing_comma: bool = False


@dataclass(slots=True, eq=False)
class Child:
    """A member of an object or an item of a list. start: where its name or, in a list, its value begins."""

    name: str | None
    start: int
    node: Node


class JsonSyntax:
    """The syntax. comments: whether comments, and commas after the last member, are part of it."""

    def __init__(self, comments: bool) -> None:
        self.comments = comments

    def load(self, text: str) -> Any:
        """Return the data. Raises UnreadableText."""
        return self.parse(text).value

    def parse(self, text: str) -> Node:
        """Return the outermost value with all positions. Raises UnreadableText."""
        return _Reader(text, _GAP if self.comments else _SPACE, self.comments).document()

    def put(self, text: str, path: Path, value: Any) -> str:
        """Set the member at the path. Objects that are missing on the way are made. Raises UnreadableText."""
        node = self.parse(text)
        for depth, step in enumerate(path):
            _require(text, node, dict, path[:depth])
            child = _child(node, step)
            if child is None:
                return self._inserted(text, node, str(step), _nested(path[depth + 1 :], value))
            node = child.node
        written = _dumped(value, *_layout(text, node.start))
        return text[: node.start] + written + text[node.end :]

    def add(self, text: str, path: Path, item: Any) -> str:
        """Append an item to the list at the path. What is missing on the way is made. Raises UnreadableText."""
        node = self.parse(text)
        for depth, step in enumerate(path):
            _require(text, node, dict, path[:depth])
            child = _child(node, step)
            if child is None:
                return self._inserted(text, node, str(step), _nested(path[depth + 1 :], [item]))
            node = child.node
        _require(text, node, list, path)
        return self._inserted(text, node, None, item)

    def drop(self, text: str, path: Path) -> str:
        """Remove the member or item at the path, with the comma and the white space that belong to it."""
        node = self.parse(text)
        for step in path[:-1]:
            child = _child(node, step)
            assert child is not None
            node = child.node
        child = _child(node, path[-1])
        assert child is not None
        index = node.children.index(child)
        before = text[: child.start].rstrip(" \t\r\n")
        is_last = index == len(node.children) - 1
        if not is_last or node.trailing_comma:
            rest = text[self._comma(text, child.node.end) + 1 :]
        else:
            rest = text[child.node.end :]
        if index and is_last and not node.trailing_comma:
            comma = self._comma(text, node.children[index - 1].node.end)
            before = before[:comma] + before[comma + 1 :]
        elif is_last and before.endswith(("{", "[")) and not text[child.node.end : node.end - 1].strip():
            rest = text[node.end - 1 :]  # the only one, and no comment: `{}`
        if "//" in before[before.rfind("\n") + 1 :] and not re.match(r"[ \t]*\r?\n", rest):
            rest = _newline(text) + rest  # what follows must not become part of the comment
        return before + rest

    def spans(self, text: str) -> list[tuple[Path, int, int]]:
        """Return the path and the position of each string, number and word."""
        found: list[tuple[Path, int, int]] = []

        def walk(node: Node, path: Path) -> None:
            if not isinstance(node.value, dict | list):
                found.append((path, node.start, node.end))
            for index, child in enumerate(node.children):
                walk(child.node, (*path, index if child.name is None else child.name))

        walk(self.parse(text), ())
        return found

    def _comma(self, text: str, position: int) -> int:
        """Return where the comma after a value stands."""
        gap = (_GAP if self.comments else _SPACE).match(text, position)
        assert gap is not None
        assert text[gap.end()] == ","
        return gap.end()

    def _inserted(self, text: str, container: Node, name: str | None, value: Any) -> str:
        """Return the text with one more member or item, at the end of an object or list."""
        newline, unit, indent = _layout(text, container.start)
        close = container.end - 1
        last = container.children[-1] if container.children else None
        if last is not None and "\n" not in text[container.start : close]:
            piece = (json.dumps(name, ensure_ascii=False) + ": " if name is not None else "") + _inline(value)
            if container.trailing_comma:
                comma = self._comma(text, last.node.end)
                return f"{text[: comma + 1]} {piece},{text[comma + 1 :]}"
            return f"{text[: last.node.end]}, {piece}{text[last.node.end :]}"
        inner = _line_indent(text, last.start, indent + unit) if last is not None else indent + unit
        piece = (json.dumps(name, ensure_ascii=False) + ": " if name is not None else "") + _dumped(
            value, newline, unit, inner
        )
        end = close
        while text[end - 1] in " \t\r\n":
            end -= 1
        tail = text[end:]
        if "\n" not in text[end:close]:  # `{}` or `{ }`: the closing bracket gets a line of its own
            tail = newline + indent + text[close:]
        head = text[:end]
        if container.trailing_comma:
            return f"{head}{newline}{inner}{piece},{tail}"
        if last is not None:
            head = f"{text[: last.node.end]},{text[last.node.end : end]}"
        return f"{head}{newline}{inner}{piece}{tail}"


class _Reader:
    def __init__(self, text: str, gap: re.Pattern[str], trailing_commas: bool) -> None:
        self.text, self.gap, self.trailing_commas = text, gap, trailing_commas

    def document(self) -> Node:
        node = self.value(self.skip(0), 0)
        end = self.skip(node.end)
        if end < len(self.text):
            raise self.error(end, "something follows the end of the document")
        return node

    def skip(self, position: int) -> int:
        match = self.gap.match(self.text, position)
        assert match is not None
        return match.end()

    def error(self, position: int, message: str) -> UnreadableText:
        if self.text.startswith(("//", "/*"), position):
            message = "a comment, which this agent does not read, or which has no end"
        elif position >= len(self.text):
            message = f"the file ends here, but {message}"
        return unreadable_at(self.text, position, message)

    def value(self, position: int, depth: int) -> Node:
        if depth > DEEPEST:
            raise self.error(position, f"nested deeper than {DEEPEST} levels")
        opening = self.text[position : position + 1]
        if opening == "{":
            return self.container(position, depth, "}")
        if opening == "[":
            return self.container(position, depth, "]")
        match = (_STRING if opening == '"' else _SCALAR).match(self.text, position)
        if match is None:
            raise self.error(position, "a string that is not closed" if opening == '"' else "expected a value")
        try:
            return Node(position, match.end(), json.loads(match[0]))
        except ValueError:
            raise self.error(position, "a number with too many digits") from None

    def container(self, position: int, depth: int, closing: str) -> Node:
        node = Node(position, value={} if closing == "}" else [])
        position = self.skip(position + 1)
        while not self.text.startswith(closing, position):
            child = self.child(position, depth, closing)
            node.children.append(child)
            if child.name is None:
                node.value.append(child.node.value)
            else:
                node.value[child.name] = child.node.value
            position = self.skip(child.node.end)
            node.trailing_comma = self.text.startswith(",", position)
            if not node.trailing_comma:
                break
            comma = position
            position = self.skip(position + 1)
            if self.text.startswith(closing, position) and not self.trailing_commas:
                raise self.error(comma, "a comma after the last one, which this agent does not read")
        if not self.text.startswith(closing, position):
            raise self.error(position, f"expected , or {closing}")
        node.end = position + 1
        return node

    def child(self, position: int, depth: int, closing: str) -> Child:
        if closing == "]":
            return Child(None, position, self.value(position, depth + 1))
        match = _STRING.match(self.text, position)
        if match is None:
            raise self.error(position, 'expected a name in "..."')
        colon = self.skip(match.end())
        if not self.text.startswith(":", colon):
            raise self.error(colon, "expected :")
        return Child(json.loads(match[0]), position, self.value(self.skip(colon + 1), depth + 1))


def _child(node: Node, step: str | int) -> Child | None:
    """Return the member of this name, the last one if there are several, as agents read them; or the item."""
    if isinstance(step, int):
        return node.children[step]
    return next((child for child in reversed(node.children) if child.name == step), None)


def _require(text: str, node: Node, kind: type, path: Path) -> None:
    if not isinstance(node.value, kind):
        what = ".".join(map(str, path)) or "the document"
        raise unreadable_at(text, node.start, f"{what} is not {'an object' if kind is dict else 'a list'}")


def _nested(path: Sequence[str | int], value: Any) -> Any:
    for step in reversed(path):
        value = {step: value}
    return value


def _inline(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _dumped(value: Any, newline: str, unit: str, indent: str) -> str:
    return json.dumps(value, ensure_ascii=False, indent=unit).replace("\n", newline + indent)


def _layout(text: str, position: int) -> tuple[str, str, str]:
    """Return the line end, the indentation of one level, and that of the line at the position."""
    indented = re.search(r"\n([ \t]+)[^ \t\r\n]", text)
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return _newline(text), indented[1] if indented else "  ", line[: len(line) - len(line.lstrip(" \t"))]


def _newline(text: str) -> str:
    """Return the line end of the text's first line."""
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"


def _line_indent(text: str, position: int, otherwise: str) -> str:
    """Return the indentation of the line that begins with what is at the position; `otherwise` if none does."""
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return otherwise if line.strip(" \t") else line

"""YAML, changed at positions: members at the top, and items of a list there.

PyYAML, which is there already, tells where each value stands; what is added is written as JSON values, which are YAML.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import yaml

from .text_path import Path
from .unreadable_text import UnreadableText

_PLAIN = re.compile(r"[A-Za-z][\w./-]*(?: [\w./-]+)*")
_WORDS = frozenset("y n yes no on off true false null".split())


class YamlSyntax:
    """The syntax, as far as endstop changes it: other changes raise UnreadableText."""

    def load(self, text: str) -> Any:
        """Return the data, {} for an empty document. Raises UnreadableText."""
        data = _parsed(text, yaml.safe_load)
        return {} if data is None else data

    def put(self, text: str, path: Path, value: Any) -> str:
        """Set a member at the top. Raises UnreadableText."""
        pair = self._pair(text, path)
        newline = _newline(text)
        if pair is None:
            return f"{_ended(text, newline)}{path[0]}: {_scalar(value)}{newline}"
        node = pair[1]
        if not isinstance(node, yaml.ScalarNode) or node.style in ("|", ">"):
            raise _unreadable(f"{path[0]} has a value that endstop cannot replace in place", node.start_mark)
        return text[: node.start_mark.index] + _scalar(value) + text[node.end_mark.index :]

    def add(self, text: str, path: Path, item: Any) -> str:
        """Append an object to a list at the top, and make it if it is not there. Raises UnreadableText."""
        newline = _newline(text)
        pair = self._pair(text, path)
        if pair is None:
            return f"{_ended(text, newline)}{path[0]}:{newline}{_item(item, '  ', newline)}"
        node = pair[1]
        if isinstance(node, yaml.ScalarNode) and not node.value:  # `models:` and nothing
            end = _line_end(text, pair[0].end_mark.index)
            return f"{_ended(text[:end], newline)}{_item(item, '  ', newline)}{text[end:]}"
        if not isinstance(node, yaml.SequenceNode):
            raise _unreadable(f"{path[0]} is not a list", node.start_mark)
        if node.flow_style:
            close = node.end_mark.index - 1
            before = text[:close].rstrip()
            comma = "" if not node.value or before.endswith(",") else ", "
            return f"{before}{comma}{json.dumps(item, ensure_ascii=False)}{text[close:]}"
        indent = " " * node.start_mark.column
        end = _line_end(text, _last_index(text, node))
        return f"{_ended(text[:end], newline)}{_item(item, indent, newline)}{text[end:]}"

    def drop(self, text: str, path: Path) -> str:
        """Remove a member at the top, or an item of a list there. Raises UnreadableText."""
        pair = self._pair(text, path[:1])
        assert pair is not None
        key, node = pair
        if len(path) == 1:
            start = text.rfind("\n", 0, key.start_mark.index) + 1
            return text[:start] + text[_line_end(text, _last_index(text, node)) :]
        index = path[1]
        assert isinstance(index, int)
        items = node.value
        if node.flow_style:
            start = items[index - 1].end_mark.index if index else items[index].start_mark.index
            end = items[index].end_mark.index
            if not index and len(items) > 1:
                end = items[1].start_mark.index
            return text[:start] + text[end:]
        if len(items) == 1:  # an empty list has to be written; where nobody needs it, it is dropped next
            start, end = _line_end(text, key.end_mark.index), _line_end(text, _last_index(text, node))
            return f"{text[: key.end_mark.index]}: []{_newline(text)}{text[end:]}" if start <= end else text
        start = text.rfind("\n", 0, items[index].start_mark.index) + 1
        return text[:start] + text[_line_end(text, _last_index(text, items[index])) :]

    def _pair(self, text: str, path: Path) -> tuple[yaml.Node, yaml.Node] | None:
        """Return the nodes of the name and the value of a member at the top; None if it is not there."""
        if len(path) != 1:
            raise UnreadableText(f"endstop cannot set {'.'.join(map(str, path))}", 1, 1)
        root = _parsed(text, yaml.compose)
        if root is None:
            return None
        if not isinstance(root, yaml.MappingNode) or root.flow_style:
            raise _unreadable("the document is not an object with names and values on lines", root.start_mark)
        return next(((name, value) for name, value in root.value if name.value == path[0]), None)


def _parsed(text: str, parse: Callable[..., Any]) -> Any:
    try:
        return parse(text, yaml.SafeLoader) if parse is yaml.compose else parse(text)
    except yaml.MarkedYAMLError as error:
        message = error.problem or "cannot be read"
        mark = error.problem_mark
        raise UnreadableText(message, mark.line + 1 if mark else 1, mark.column + 1 if mark else 1) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UnreadableText(str(error).partition("\n")[0], 1, 1) from None


def _unreadable(message: str, mark: yaml.Mark) -> UnreadableText:
    return UnreadableText(message, mark.line + 1, mark.column + 1)


def _last_index(text: str, node: yaml.Node) -> int:
    """Return where the text of a value ends. The mark of a block stands behind the empty lines that follow it."""
    end: int = node.end_mark.index
    while not isinstance(node, yaml.ScalarNode) and node.value and not node.flow_style:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
        end = node.end_mark.index
    if isinstance(node, yaml.ScalarNode) and node.style in ("|", ">"):
        end = len(text[:end].rstrip())
    return end


def _line_end(text: str, index: int) -> int:
    """Return where the next line begins."""
    end = text.find("\n", index)
    return len(text) if end < 0 else end + 1


def _ended(text: str, newline: str) -> str:
    return text if not text or text.endswith("\n") else text + newline


def _newline(text: str) -> str:
    """Return the line end of the text's first line."""
    return "\r\n" if text.partition("\n")[0].endswith("\r") else "\n"


def _scalar(value: Any) -> str:
    plain = isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS
    return value if plain else json.dumps(value, ensure_ascii=False)


def _item(item: dict[str, Any], indent: str, newline: str) -> str:
    lines = [f"{name}: {_scalar(value)}" for name, value in item.items()]
    return "".join(f"{indent}{'  ' if index else '- '}{line}{newline}" for index, line in enumerate(lines))

"""What is put into a document, and taken out again, in whatever syntax.

A change is made on the text, piece by piece, and the result is read again: where it does not hold what was meant,
nothing is written.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct

from .json_text import JsonSyntax
from .text_path import Path, add, at, drop, has, put, without_empty
from .toml_text import TomlSyntax
from .unreadable_text import UnreadableText
from .yaml_text import YamlSyntax

THROUGH = "through endstop"
"""The end of the name of a model that `endstop setup` adds to a list."""


class TextSyntax(Protocol):
    """A syntax, changed at positions. Each method raises UnreadableText."""

    def load(self, text: str) -> Any:
        """Return the data."""

    def put(self, text: str, path: Path, value: Any) -> str:
        """Set the member at the path, and make the objects on the way to it."""

    def add(self, text: str, path: Path, item: Any) -> str:
        """Append an item to the list at the path, and make what is missing on the way."""

    def drop(self, text: str, path: Path) -> str:
        """Remove the member or item at the path."""


class Entry(Struct, frozen=True):
    """One thing that a document has to hold.

    kind: `put` sets a member, `default` only where nothing is, `add` appends to a list.
    """

    kind: Literal["put", "default", "add"]
    path: tuple[str, ...]
    value: Any


def syntax_of(name: str) -> TextSyntax:
    """Return the syntax of this name in `agents.toml`."""
    if name == "toml":
        return TomlSyntax()
    if name == "yaml":
        return YamlSyntax()
    return JsonSyntax(comments=name == "jsonc")


def is_hook_command(command: object) -> bool:
    """Return whether a command of a hook is `endstop hook`, from whatever folder, with whatever options."""
    try:
        words = shlex.split(command) if isinstance(command, str) else []
    except ValueError:
        return False
    return any(
        word == "hook" and (os.path.basename(words[index - 1]) == "endstop" or words[index - 1] == "endstop.cli.main")
        for index, word in enumerate(words)
        if index
    )


def with_entries(syntax: TextSyntax, text: str, entries: Sequence[Entry], base: str) -> str:
    """Return the text with the entries in it; the same text if they are there already. base: as for `without_entries`.

    What endstop had put there before in another form is replaced. Raises UnreadableText.
    """
    document = _Document(syntax, text)
    before = _Document(syntax, base).data
    wanted = [(entry.path, entry.value) for entry in entries if entry.kind == "add"]
    for path in reversed(list(_own_items(document.data, entries))):
        root = _root(path, wanted)
        item = (root, at(document.data, path[: len(root) + 1]))
        if item in wanted:
            wanted.remove(item)
        else:
            document.take_out(path, before)
    for entry in entries:
        if entry.kind == "add" and (entry.path, entry.value) in wanted:
            document.add(entry.path, entry.value)
        elif entry.kind != "add" and not _holds(document.data, entry):
            document.put(entry.path, entry.value)
    return document.verified()


def without_entries(syntax: TextSyntax, text: str, entries: Sequence[Entry], base: str | None) -> str:
    """Return the text without the entries; the same text if none of them is there. Raises UnreadableText.

    base: the text that was there before endstop changed it; None if that is not known. What it had in the place of an
    entry comes back, and objects that it had stay, even if they become empty.
    """
    document = _Document(syntax, text)
    before = {} if base is None else _Document(syntax, base).data
    for path in reversed(list(_own_items(document.data, entries))):
        document.take_out(path, before)
    for entry in entries:
        if entry.kind != "put" or not is_own(document.data, entry):
            continue
        if has(before, entry.path) and not is_own(before, entry):
            document.put(entry.path, at(before, entry.path))
        else:
            document.take_out(entry.path, before)
    defaults = [entry for entry in entries if entry.kind == "default" and not has(before, entry.path)]
    own = [entry for entry in defaults if at(document.data, entry.path) == entry.value]
    if document.changed and (before or len(document.data) == len(own)):  # a file of ours may have become the person's
        for entry in own:
            document.take_out(entry.path, before)
    return document.verified()


def is_own(data: Any, entry: Entry) -> bool:
    """Return whether the data have an entry of endstop: the value itself, or a member that bears endstop's name."""
    if entry.kind == "add":
        return any(path[: len(entry.path)] == entry.path for path in _own_items(data, [entry]))
    return has(data, entry.path) and (entry.path[-1] == "endstop" or at(data, entry.path) == entry.value)


def _holds(data: Any, entry: Entry) -> bool:
    """Return whether a member is there, with the entry's value unless that is only a default."""
    return has(data, entry.path) and (entry.kind == "default" or at(data, entry.path) == entry.value)


def _root(path: Path, wanted: Sequence[tuple[tuple[str, ...], Any]]) -> tuple[str, ...]:
    """Return the list of a wanted entry in which the path is; empty if it is elsewhere."""
    return next((root for root, _ in wanted if path[: len(root)] == root), ())


class _Document:
    """A text, and the data that it has to hold after each change."""

    def __init__(self, syntax: TextSyntax, text: str) -> None:
        self.syntax, self.text, self._whole = syntax, text, text
        self.changed = False
        if not text.strip() and isinstance(syntax, JsonSyntax):
            self.text = "{}\n"
        self.data = syntax.load(self.text)
        if not isinstance(self.data, dict):
            raise UnreadableText("the document is not an object with names and values", 1, 1)

    def put(self, path: Path, value: Any) -> None:
        self.changed = True
        self.text = self.syntax.put(self.text, path, value)
        put(self.data, path, value)

    def add(self, path: Path, item: Any) -> None:
        self.changed = True
        self.text = self.syntax.add(self.text, path, item)
        add(self.data, path, item)

    def take_out(self, path: Path, before: Any) -> None:
        """Remove what is at the path, and what becomes empty by that and was not there before."""
        self.changed = True
        while True:
            self.text = self.syntax.drop(self.text, path)
            drop(self.data, path)
            path = path[:-1]
            if not path or at(self.data, path):
                return
            in_list = [index for index, step in enumerate(path) if isinstance(step, int)]
            if in_list:
                path = path[: in_list[-1] + 1]  # a group of hooks without hooks
            elif has(before, path):
                return

    def verified(self) -> str:
        """Return the text, if it holds what it has to."""
        if not self.changed:
            return self._whole
        if without_empty(self.syntax.load(self.text)) != without_empty(self.data):
            raise UnreadableText("the file is written in a way that endstop cannot change safely", 1, 1)
        return self.text


def _own_items(data: Any, entries: Sequence[Entry]) -> Iterator[Path]:
    """Yield the paths of endstop's own items in the lists to which entries are added, and in those beside them."""
    for top in dict.fromkeys(entry.path[:1] for entry in entries if entry.kind == "add"):
        yield from _own_below(at(data, top), top)


def _own_below(data: Any, path: Path) -> Iterator[Path]:
    if isinstance(data, Mapping):
        if path and isinstance(path[-1], int):
            name = data.get("name")
            if is_hook_command(data.get("command")) or (isinstance(name, str) and name.endswith(THROUGH)):
                yield path
                return
        for name, value in data.items():
            yield from _own_below(value, (*path, name))
    elif isinstance(data, list):
        for index, item in enumerate(data):
            yield from _own_below(item, (*path, index))

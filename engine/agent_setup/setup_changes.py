"""What setting up or undoing changes in each file, found out before anything is written."""

from __future__ import annotations

import codecs
import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from ..decision import WrongUse
from .document_edits import Entry, TextSyntax, is_own, syntax_of, with_entries, without_entries
from .precious_file import PreciousFile
from .setup_parts import OWN_MARK, SetupPart, is_as_made
from .unreadable_text import UnreadableText, unreadable_at


class FileChange(Struct):
    """A file, and what it is to hold. content: None for no file. base: what undo restores; None for no file.

    own: the entries that are endstop's, for showing the change. restores: whether nothing of endstop is left in it.
    whole: whether the file is endstop's own. edited: whether it stays because a person may have edited it since.
    """

    file: PreciousFile
    content: bytes | None
    base: bytes | None
    own: list[Entry]
    restores: bool = False
    whole: bool = False
    edited: bool = False

    @property
    def changes(self) -> bool:
        """Whether the file holds something else now."""
        return self.content != self.file.content

    def write(self) -> None:
        """Write the file. Raises WrongUse, then it is as it was."""
        if self.restores:
            self.file.restore(self.content)
        elif self.changes:
            assert self.content is not None
            self.file.write(self.content, self.base, [entry for entry in self.own if entry.kind == "put"])


def setup_changes(asked: Sequence[SetupPart], known: Sequence[SetupPart], copies: Path) -> list[FileChange]:
    """Return the change of each file that puts the asked parts into it. Raises WrongUse.

    known: all parts of the agent, with whatever options. copies: the folder for copies.
    """
    return [_setup(parts, _of_file(known, path), PreciousFile(path, copies)) for path, parts in _by_file(asked)]


def undo_changes(asked: Sequence[SetupPart], known: Sequence[SetupPart], copies: Path) -> list[FileChange]:
    """Return the change of each file that takes the asked parts out of it. Arguments and errors: `setup_changes`."""
    files = reversed(_by_file(asked))  # the first one that was written has made the folders of all
    return [_undo(parts, _of_file(known, path), PreciousFile(path, copies)) for path, parts in files]


def is_set(part: SetupPart, copies: Path) -> bool:
    """Return whether a part is in its file, with whatever options. Raises WrongUse if the file cannot be read."""
    file = PreciousFile(part.path, copies)
    if file.content is None:
        return False
    if part.whole:
        return _is_own_whole(file, part)
    text, _ = _text(file, file.content)
    syntax = syntax_of(part.syntax)
    with _refusals(file.path):
        data = syntax.load(text) if text.strip() else {}
    entries = _with_kept(part.entries, file, part.entries)
    return any(entry.kind != "default" and is_own(data, entry) for entry in entries)


def _by_file(parts: Sequence[SetupPart]) -> list[tuple[Path, list[SetupPart]]]:
    ordered = sorted(parts, key=lambda part: str(part.path))
    return [(path, list(group)) for path, group in itertools.groupby(ordered, key=lambda part: part.path)]


def _of_file(parts: Sequence[SetupPart], path: Path) -> list[SetupPart]:
    return [part for part in parts if part.path == path]


def _setup(asked: list[SetupPart], known: list[SetupPart], file: PreciousFile) -> FileChange:
    (part, *_) = asked
    if part.whole:
        if file.content is not None and not _is_own_whole(file, part):
            raise WrongUse(f"{file.path} is there already and not endstop's: move it, then run the command again")
        base = file.base if file.unchanged else file.content  # where somebody has edited it, that is what undo restores
        return FileChange(file, part.whole.encode(), base, [], whole=True)
    text, bom = _text(file, file.content)
    entries = [entry for one in asked for entry in one.entries]
    known_entries = _with_kept([entry for one in known for entry in one.entries], file, entries)
    syntax = syntax_of(part.syntax)
    with _refusals(file.path):
        base, base_text = _base(syntax, file, known_entries)
        changed = with_entries(syntax, text, entries, base_text)
    content = file.content if changed == text and file.content is not None else bom + changed.encode()
    kept = [entry for entry in known_entries if entry.path not in [one.path for one in entries]]
    return FileChange(file, content, base, [*entries, *kept])


def _undo(asked: list[SetupPart], known: list[SetupPart], file: PreciousFile) -> FileChange:
    (part, *_) = asked
    if file.content is None:
        return FileChange(file, None, None, [], restores=True)
    if part.whole:
        if file.unchanged or file.content == part.whole.encode() or is_as_made(file.content):
            return FileChange(file, file.base if file.unchanged else None, None, [], restores=True, whole=True)
        return FileChange(file, file.content, None, [], whole=True, edited=_is_own_whole(file, part))
    text, bom = _text(file, file.content)
    every = _with_kept([entry for one in known for entry in one.entries], file, ())
    entries = [entry for entry in every if any(entry.path == other.path for one in asked for other in one.entries)]
    syntax = syntax_of(part.syntax)
    with _refusals(file.path):
        base, _ = _base(syntax, file, every)
        changed = without_entries(syntax, text, entries, _known_base(syntax, file))
        data = syntax.load(changed) if changed.strip() else {}
    left = any(entry.kind != "default" and is_own(data, entry) for entry in every)
    if left:
        content = file.content if changed == text else bom + changed.encode()
        return FileChange(file, content, base, every)
    if file.unchanged:
        return FileChange(file, base, base, every, restores=True)
    gone = not data and file.kept is not None and file.kept.absent
    unchanged = changed == text
    return FileChange(file, None if gone else file.content if unchanged else bom + changed.encode(), base, every, True)


def _base(syntax: TextSyntax, file: PreciousFile, entries: Sequence[Entry]) -> tuple[bytes | None, str]:
    """Return what the file would be without endstop, as bytes and as text."""
    if file.content is None:
        return None, ""
    if file.unchanged:
        return file.base, _text(file, file.base)[0]
    text, bom = _text(file, file.content)
    without = without_entries(syntax, text, entries, _known_base(syntax, file))
    return (file.content if without == text else bom + without.encode()), without


def _known_base(syntax: TextSyntax, file: PreciousFile) -> str | None:
    """Return the text from before endstop changed the file; None if that is not known."""
    if file.kept is None:
        return None
    known = _text(file, file.base)[0]
    try:
        syntax.load(known)
    except UnreadableText:  # an empty file
        return ""
    return known


def _with_kept(entries: Sequence[Entry], file: PreciousFile, asked: Sequence[Entry]) -> list[Entry]:
    """Return the entries, with those that were written to the file with another value."""
    kept = file.kept.entries if file.kept else []
    return [*entries, *(entry for entry in kept if entry not in entries and entry not in asked)]


def _is_own_whole(file: PreciousFile, part: SetupPart) -> bool:
    """Return whether the file is one that endstop has made, as far as can be told."""
    own = (OWN_MARK.encode(), part.whole.encode())
    return file.unchanged or (file.content is not None and file.content.startswith(own))


def _text(file: PreciousFile, content: bytes | None) -> tuple[str, bytes]:
    """Return the text, and the byte order mark before it."""
    bom = codecs.BOM_UTF8 if content is not None and content.startswith(codecs.BOM_UTF8) else b""
    body = (content or b"")[len(bom) :]
    try:
        return body.decode(), bom
    except UnicodeDecodeError as error:
        at = unreadable_at(body[: error.start].decode(), error.start, "not UTF-8")
        raise _refusal(file.path, at) from None


def _refusal(path: Path, error: UnreadableText) -> WrongUse:
    return WrongUse(f"{path}, line {error.line}, column {error.column}: {error}; nothing was written")


@contextmanager
def _refusals(path: Path) -> Iterator[None]:
    """Raise WrongUse with the file for what cannot be read or changed in it."""
    try:
        yield
    except UnreadableText as error:
        raise _refusal(path, error) from None

"""Titles of sessions: the part of a prompt that tells one task from another.

Prompts that programs write begin alike. `task_opening` looks, when a record is read, for the task itself: the issue or
the ticket in the prompt, without the words before it and the questions of its template. `TaskTitles` knows the openings
of many sessions and leaves out what they have in common; where two tasks would still read alike, the name of the
session's file goes first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import PurePosixPath
from typing import NamedTuple

from ..base.sanitize import one_line

OPENING_LENGTH = 400
"""Number of characters kept of the beginning of a task."""
_SEARCHED = 20_000
"""Number of characters of a prompt in which its task is looked for."""
_LABELLED = 600
"""Number of characters in which a label such as `ISSUE:` is looked for."""
_ALIKE = 24
"""Number of characters that openings must share for what they have in common to be left out."""
_BEFORE = 48
"""Number of characters that a title may share with others before it tells them apart."""
_READ = 60
"""Number of characters of a title that are read: titles with the same ones read alike."""
_SHORT = 12
"""A first line of fewer characters is joined with the next ones."""

_TAG = re.compile(
    r"^[ \t]*<((?:github_|jira_)?(?:issue|ticket)(?:_description|_text)?|pr_description|problem(?:_statement)?"
    r"|task(?:_description)?|user_(?:query|request|input|message)|query|request|question|objective|instruction)>",
    re.IGNORECASE | re.MULTILINE,
)
_LABEL = re.compile(
    r"^[#* \t]{0,12}(?:\w{1,15} )?(?:issue|ticket|task|title|problem|problem statement|request)[* \t]{0,4}:[* \t]{0,4}",
    re.IGNORECASE | re.MULTILINE,
)
_LEAD_IN = re.compile(r"\b(?:following|below|here is|here's|here are)\b", re.IGNORECASE)
_TEMPLATE = frozenset(
    (
        "actual behavior", "bug", "bug description", "bug report", "describe the bug", "describe the issue",
        "description", "environment", "expected behavior", "feature request", "issue", "overview",
        "is your feature request related to a problem", "issue description", "problem", "problem description",
        "problem statement", "search before asking", "steps to reproduce", "summary", "task", "title", "what happened",
    )
)  # fmt: skip
"""Headings of the templates of issues. None tells one issue from another."""
_LABEL_LENGTH = 40
"""A shorter line that ends on a colon only names what follows."""
_LONG_PATH = re.compile(r"(?<!\S)/(?:[^\s/]+/){3,}([^\s/]+)")
_CHECKBOX = re.compile(r"[-*] ?\[[ xX]\]")


class TaskOpening(NamedTuple):
    """The beginning of the task in a prompt."""

    text: str
    """Its lines in at most `OPENING_LENGTH` characters."""
    key: str
    """Another one for each task; empty for an empty prompt."""


def task_opening(prompt: str) -> TaskOpening:
    """Find the task in a prompt.

    An issue or ticket that begins with the same characters is the same task, whatever is said around it; of a prompt in
    which none is found, all of it counts.
    """
    if not prompt.strip():
        return TaskOpening("", "")
    found = _marked_part(prompt[:_SEARCHED])
    lines: list[str] = []
    room = OPENING_LENGTH
    for line in _task_lines(_without_comments(prompt[:_SEARCHED] if found is None else found)):
        lines.append(line[:room])
        room -= len(line) + 1
        if room <= 0:
            break
    text = "\n".join(lines)
    told = prompt if found is None else text
    return TaskOpening(text, blake2b(told.encode("utf-8", "replace"), digest_size=6).hexdigest())


def _marked_part(text: str) -> str | None:
    """Return what an issue's tag holds or what follows its label; None if it has neither."""
    for found in _TAG.finditer(text):
        end = text.find(f"</{found[1]}>", found.end())
        if end > 0 and text[found.end() : end].strip():
            return text[found.end() : end]
    label = _LABEL.search(text[:_LABELLED])
    return text[label.end() :] if label is not None and text[label.end() :].strip() else None


def _without_comments(text: str) -> str:
    pieces, place = [], 0
    while (begin := text.find("<!--", place)) >= 0 and (end := text.find("-->", begin)) >= 0:
        pieces.append(text[place:begin])
        place = end + 3
    return "".join([*pieces, text[place:]])


def _task_lines(text: str) -> Iterator[str]:
    """Yield the lines of a task from its first telling one on; all that are not empty, if none is telling."""
    lines = [line for raw in text.splitlines() if (line := one_line(raw, OPENING_LENGTH))]
    first = next((place for place, line in enumerate(lines) if _tells(line)), 0)
    for line in lines[first:]:
        yield _LONG_PATH.sub(r"…/\1", line.lstrip("#* ").rstrip("* ") or line)


def _tells(line: str) -> bool:
    bare = line.strip("#*_:?. ").casefold()
    return (
        any(character.isalnum() for character in bare)
        and bare not in _TEMPLATE
        and not _CHECKBOX.match(line)
        and not (line.endswith(":") and (len(line) < _LABEL_LENGTH or _LEAD_IN.search(line)))
        and not (line.startswith("<") and line.endswith(">") and " " not in line)
    )


def session_name(file: str, whole: bool, id: str) -> str:
    """Return a session's name for people: its file's, or the folder's if that file has a name that all have.

    whole: whether the file holds this session alone; else the session's id is its name.
    """
    path = PurePosixPath(file)
    parent = path.parent.name
    while path.suffix in _SUFFIXES:
        path = path.with_suffix("")
    names = [path.name, parent]
    name = next((name for name in names if name and name.casefold() not in _USUAL_NAMES), "")
    return name if whole and name else id


_SUFFIXES = frozenset((".json", ".jsonl", ".traj", ".eval", ".txt", ".xml", ".zst", ".gz", ".db", ".sqlite"))
_USUAL_NAMES = frozenset(
    (
        "chat", "conversation", "events", "history", "log", "messages", "output", "record", "result", "results",
        "rollout", "run", "session", "state", "traj", "trajectory", "transcript",
    )
)  # fmt: skip
"""Names of files that say what is in them, not which session."""


class TaskTitles:
    """Titles of sessions, each of which tells its task from the others' that were added. It only grows."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}

    def add(self, opening: str, key: str) -> None:
        """Add a session. opening, key: of its prompt, from `task_opening`."""
        if opening:
            self._groups.setdefault(opening[:_ALIKE], _Group()).add(opening, key)

    def version(self, opening: str) -> int:
        """Return a number that is another one once the titles of sessions that begin like this may have changed."""
        group = self._groups.get(opening[:_ALIKE])
        return 0 if group is None else group.version

    def title(self, opening: str, key: str, name: str) -> str:
        """Return the title of a session in one line. name: used where the task is not told apart, or not recorded."""
        group = self._groups.get(opening[:_ALIKE])
        if not opening or group is None:
            return name if not opening else _title(opening, 0)
        title = _title(opening, group.left_out)
        return title if group.tells_apart(title) else f"{name}: {title}"


class _Group:
    """Sessions that begin with the same `_ALIKE` characters: what their titles leave out, and which read alike."""

    def __init__(self) -> None:
        self.version = 0
        self.left_out = 0
        """Number of characters that are left out at the beginning of each opening."""
        self._common = ""
        self._keys: dict[str, str | None] = {}
        """Opening -> its task's key; None if several tasks have it."""
        self._read: dict[str, str | None] = {}
        """What is read of a title -> its task's key; None if several tasks read so."""

    def add(self, opening: str, key: str) -> None:
        if opening in self._keys and self._keys[opening] in (key, None):
            return
        self._keys[opening] = None if opening in self._keys else key
        self._common = _shared(self._common, opening) if len(self._keys) > 1 else opening
        left_out = _telling_place(self._common) if len(self._keys) > 1 else 0
        if left_out != self.left_out:
            self.left_out = left_out
            self._read = {}
            self.version += 1
            for one, its in self._keys.items():
                self._count(one, its)
        else:
            self._count(opening, self._keys[opening])

    def _count(self, opening: str, key: str | None) -> None:
        read = _read_part(_title(opening, self.left_out))
        if self._read.setdefault(read, key) != key or key is None:
            self._read[read] = None
            self.version += 1

    def tells_apart(self, title: str) -> bool:
        return self._read.get(_read_part(title), "") is not None


def _shared(one: str, other: str) -> str:
    """Return what two texts begin with alike."""
    length = next((place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
    return one[: min(len(one), len(other)) if length is None else length]


_WORD_ENDS = (" ", "/", "\n", '"', "'", "(")


def _telling_place(common: str) -> int:
    """Return where titles begin that have this in common: at the last sentence in it, or later if that is too long."""
    if len(common) <= _BEFORE:
        return 0
    sentence = max(common.rfind(end) + len(end) if end in common else 0 for end in ("\n", ". ", ": ", "> "))
    if len(common) - sentence <= _BEFORE:
        return sentence
    return max(common.rfind(end) + 1 for end in _WORD_ENDS)


def _title(opening: str, left_out: int) -> str:
    lines = opening[left_out:].split("\n")
    title = lines[0].strip()
    if left_out and not opening[:left_out].rstrip(" ").endswith(("\n", ".", ":", ">", "/")):
        title = f"… {title}"
    for line in lines[1:]:
        if len(title) >= _SHORT:
            break
        title = f"{title} {line}".strip()
    return title.rstrip(".:" if left_out else ":") or opening.partition("\n")[0]


def _read_part(title: str) -> str:
    return title[:_READ].casefold()

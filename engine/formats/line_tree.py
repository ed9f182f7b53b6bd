"""Transcripts whose lines form a tree: each line names the one before it, so abandoned lines stay in the file.

Not every fork is an abandoned branch: the results of parallel calls fork, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .imported_session import ImportedSession
from .parsing import as_text, first_text

Line = dict[str, Any]
Asks = Callable[[Line], bool]


def leave_out_rewound(lines: Sequence[Line], session: ImportedSession, is_message: Asks, is_prompt: Asks) -> list[Line]:
    """Return the lines without the branches that the user abandoned by going back. Those are counted.

    A branch was abandoned if the line that continues at its fork is a prompt. `is_message`: whether a line has a
    message. `is_prompt`: whether it is the user's next prompt after going back.
    """
    known = {as_text(line.get("uuid")): line for line in lines if line.get("uuid")}
    path = _active_path(lines, known, is_message)
    left: set[str] = set()
    kept = []
    for line in lines:
        id, parent = as_text(line.get("uuid")), _parent_id(line)
        if id and id not in path and (parent in left or is_prompt(known.get(path.get(parent, ""), {}))):
            left.add(id)
            if is_message(line):
                session.count_dropped("rewound", line["message"])
            continue
        kept.append(line)
    return kept


def _parent_id(line: Line) -> str:
    return first_text(line, "parentUuid", "logicalParentUuid")


def _active_path(lines: Sequence[Line], known: dict[str, Line], is_message: Asks) -> dict[str, str]:
    """Return the ids of the lines from the first to the last message, each with the id of the next one.

    If a line names a parent that is not in the file, the line before it is used.
    """
    before = _lines_before(lines)
    id = next((as_text(line.get("uuid")) for line in reversed(lines) if is_message(line)), "")
    path: dict[str, str] = {}
    following = ""
    while id and id not in path:
        path[id] = following
        parent = _parent_id(known[id])
        following, id = id, parent if parent in known else before[id]
    return path


def _lines_before(lines: Sequence[Line]) -> dict[str, str]:
    ids = [id for line in lines if (id := as_text(line.get("uuid")))]
    before: dict[str, str] = {}
    for earlier, id in zip(["", *ids], ids, strict=False):
        before.setdefault(id, earlier)
    return before

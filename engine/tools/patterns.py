"""Patterns that a model made up, matched in time linear in the text.

The regular expressions are those of pydantic's core. Python's own can backtrack for ever on an unlucky pattern, and
hold the interpreter, and so the whole engine, while they do: no timeout and no cancellation would come through.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from .folder import WorkspaceError


def globbed(glob: str) -> Callable[[str], bool]:
    """Whether a path is one that a glob means: by its last name if the glob has no "/", else by all of it."""
    glob = glob.removeprefix("./") or "*"
    words = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]", "{": "(?:", "}": ")", ",": "|"}
    pieces = re.findall(r"\*\*/|\*\*|.", glob, re.DOTALL)
    depth, pattern = 0, ""
    for piece in pieces:
        depth += (piece == "{") - (piece == "}")
        pattern += re.escape(piece) if piece == "," and not depth else words.get(piece, re.escape(piece))
    anywhere = "" if "/" in glob else "(?:.*/)?"
    return matcher(f"^{anywhere}(?:{pattern})$", "glob", glob)


def matcher(pattern: str, what: str, given: str | None = None) -> Callable[[str], bool]:
    """Whether a text matches somewhere. Raises WorkspaceError if the pattern is none."""
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern)).isinstance_python
    except SchemaError as error:
        reason = str(error).rpartition("rror: ")[2].strip()
        raise WorkspaceError(f"{given or pattern!r} is not a usable {what}: {reason}") from None

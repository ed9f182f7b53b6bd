"""Docstrings and comments that point to a file, a name in a file or a decision note: what they point to exists."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCES = re.compile(r"\bSources?:.*?(?:\n\s*\n|\Z)", re.DOTALL)
"""The sources of a module, which are files of other projects."""
FILE = re.compile(r"`([\w./-]+\.(?:py|md|toml|j2|js|css))`")
PATH = re.compile(r"\b(?:docs|tests)/[\w./-]*\w")
NOTE = re.compile(r"\b(?:decisions?|notes?|decision notes?) \d+", re.IGNORECASE)
NAME_IN_FILE = re.compile(r"`(\w+)(?:\.\w+)*` (?:\(|in |of )`([\w./]+\.py)`|`([\w./]+\.py)`, `(\w+)(?:\.\w+)*`")


@cache
def _all_texts() -> tuple[tuple[str, str], ...]:
    """Return each module of the product with each of its texts."""
    files = [path for folder in ("decision", "providers", "engine") for path in sorted((ROOT / folder).rglob("*.py"))]
    modules = [path.relative_to(ROOT).as_posix() for path in files]
    return tuple((module, text) for module in modules for text in _texts(module))


def _texts(module: str) -> Iterator[str]:
    """Yield each docstring, description of an attribute and comment, on one line and without its sources."""
    source = (ROOT / module).read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield " ".join(SOURCES.sub("", text).split())
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def _find(module: str, name: str) -> Path | None:
    """Return the file that a text in this module means: below its folder, below `engine`, or from the top."""
    folder = (ROOT / module).parent
    places = [*folder.rglob(name), ROOT / "engine" / name, ROOT / name]
    return next((place for place in places if place.is_file()), None)


def _defined(path: Path) -> set[str]:
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                names.add(node.name)
            case ast.Assign(targets=targets):
                names.update(target.id for target in targets if isinstance(target, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
    return names


def test_a_file_that_a_docstring_or_comment_names_exists() -> None:
    """A file is named by its path below the folder of the module, `engine` or the project."""
    missing = []
    for module, text in _all_texts():
        missing += [f"{module}: {name}" for name in FILE.findall(text) if _find(module, name) is None]
        missing += [f"{module}: {path}" for path in PATH.findall(text) if not (ROOT / path).exists()]
    assert missing == []


def test_a_name_that_a_docstring_looks_for_in_a_file_is_defined_there() -> None:
    missing = []
    for module, text in _all_texts():
        for found in NAME_IN_FILE.finditer(text):
            path = _find(module, found[2] or found[3])
            if path is not None and (found[1] or found[4]) not in _defined(path):
                missing.append(f"{module}: {found[0]}")
    assert missing == []


def test_a_decision_note_is_named_by_its_file_since_a_number_alone_may_be_that_of_another() -> None:
    assert [f"{module}: {found}" for module, text in _all_texts() for found in NOTE.findall(text)] == []


def test_the_pointers_of_the_project_are_found() -> None:
    texts = [text for _, text in _all_texts()]
    assert sum(len(FILE.findall(text)) for text in texts) > 100
    assert sum(len(NAME_IN_FILE.findall(text)) for text in texts) > 5
    assert any("docs/decisions/" in path for text in texts for path in PATH.findall(text))

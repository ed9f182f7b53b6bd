"""Deferred patterns: the same as compiled ones, compiled at first use or all at once before the first request."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from endstop import Engine
from endstop.decision import call_results, deferred_patterns
from endstop.decision.deferred_patterns import compile_deferred, deferred
from endstop.providers import Scripted

DECISION = Path(call_results.__file__).parent


@pytest.fixture(autouse=True)
def waiting(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The list of patterns that may not be compiled yet."""
    alone: list[Any] = []
    monkeypatch.setattr(deferred_patterns, "_DEFERRED", alone)
    return alone


def is_compiled(pattern: Any) -> bool:
    return "compiled" in vars(pattern)


@pytest.mark.parametrize("method", ["match", "fullmatch", "search", "finditer", "findall", "split"])
def test_each_method_does_what_that_of_the_compiled_pattern_does(method: str) -> None:
    text = "a1 B22 c"

    def said(pattern: Any) -> Any:
        found = getattr(pattern, method)(text)
        return [one.span() for one in found] if method == "finditer" else getattr(found, "span", lambda: found)()

    made = deferred(r"[a-z]\d+", re.IGNORECASE)
    assert not is_compiled(made)
    for _ in range(2):  # the second call is that of the compiled pattern itself
        assert said(made) == said(re.compile(r"[a-z]\d+", re.IGNORECASE))
    assert is_compiled(made)
    assert getattr(made, method) == getattr(made.compiled, method)  # type: ignore[attr-defined]


def test_replacing_works_for_bytes_too_and_the_source_is_there_without_compiling() -> None:
    made = deferred(rb"\d")
    assert made.pattern == rb"\d"
    assert not is_compiled(made)
    assert made.sub(b"0", b"a1b2") == b"a0b0"
    assert made.subn(b"0", b"a1b2") == (b"a0b0", 2)


def test_an_engine_compiles_all_of_them_so_that_no_run_waits_for_one(waiting: list[Any]) -> None:
    made = deferred("a"), deferred("b")
    Engine(Scripted("Done."))
    assert all(map(is_compiled, made))
    assert waiting == []
    compile_deferred()  # again


def test_no_pattern_of_the_decision_is_compiled_when_it_is_imported() -> None:
    """A hook imports the decision for one call, and needs a few of its patterns."""
    wrong = [f"{path.name}:{line}" for path in sorted(DECISION.glob("*.py")) for line in compiled_at_import(path)]
    assert not wrong, f"write `deferred(...)` (`decision/deferred_patterns.py`): {', '.join(wrong)}"


def compiled_at_import(path: Path) -> Iterator[int]:
    outside: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while outside:
        node = outside.pop()
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            outside += ast.iter_child_nodes(node)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "re.compile":
            yield node.lineno

"""Commands that run tests: the runners of the languages, and scripts that decide by their exit code."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..decision.program_text import code_effect
from ..decision.shell_commands import MAX_LENGTH

RUNNERS = frozenset(
    """pytest py.test tox nox nosetests nose2 unittest trial stestr jest vitest mocha karma cypress ava tap rspec
    phpunit ctest bats runtests runtests.py run_tests.py testrepl doctest prove gotestsum""".split()
)
"""Programs and Python modules that run tests whatever their arguments are."""
TASKS = {
    **dict.fromkeys(
        ("mvn", "mvnw", "gradle", "gradlew", "sbt"),
        frozenset("test verify check build package install integrationTest".split()),
    ),
    **dict.fromkeys(("npm", "yarn", "pnpm", "bun", "deno"), frozenset("test tests t e2e unit spec ci-test".split())),
    **dict.fromkeys(("make", "gmake", "ninja", "rake", "just", "task"), frozenset("test tests check spec".split())),
    "cargo": frozenset(("test", "t", "nextest")),
    **dict.fromkeys(
        (
            "go",
            "dotnet",
            "bazel",
            "swift",
            "mix",
            "composer",
            "manage.py",
            "setup.py",
            "artisan",
            "zig",
            "lein",
            "hatch",
        ),
        frozenset(("test",)),
    ),
}
"""Programs that run tests for one of these tasks."""
_SCRIPTS = (".py", ".sh", ".bash", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php", ".lua", ".R", ".jl")
MAX_TEXT = 100_000
"""Number of characters that are read of a script."""
_INTERPRETERS = re.compile(r"(?:python|pypy|node|ruby|perl|php)[\d.]*|bash|sh|zsh|dash|ksh|lua|Rscript|julia|bun|deno")
_SHOWS_ONLY = frozenset(
    "--version -V --help -h --collect-only --co --fixtures --markers --listTests --list -DskipTests -DskipTests=true "
    "-Dmaven.test.skip=true --no-run -n --dry-run".split()
)
"""Options with which a runner runs no test."""
_VARIANT = re.compile(r"[:\-_.]")
_DECIDES = re.compile(
    r"^\s{0,40}assert\b|\bassert\w{1,60}\(|\bAssertionError\(|\bassert(?:\.\w{1,40})?\(|\b(?:sys\.)?exit\((?!0?\))|\bSystemExit\("
    r"|\bexit [1-9$]|\bprocess\.exit\((?!0?\))|\b(?:unittest|pytest)\.main\(",
    re.MULTILINE,
)
_SCRIPT_NAME = re.compile(r"[\w./-]{1,300}\.(?:py|sh|js|mjs|ts|rb|pl|php)\b")
_LINE_NUMBER = re.compile(r"^[ \t]{0,9}\d{1,6}[\t:|] ?", re.MULTILINE)
_HOLDS_TESTS = re.compile(r"^\s{0,40}(?:async )?def test_|\bTestCase\b|^import pytest\b", re.MULTILINE)
_TEMPORARY = re.compile(r"\btempfile\b|\bmkdtemp\b|\bmktemp\b|\btmp_path\b|\bos\.tmpdir\(")
_CATCHING = frozenset(("Exception", "BaseException", "AssertionError", "SystemExit"))
_SET_E = re.compile(r"^set -\w{0,8}e", re.MULTILINE)


def runs_tests(words: Sequence[str]) -> bool:
    """Return whether a simple command runs tests. words: its program and arguments, without quotes and prefixes."""
    if not words:
        return False
    name = words[0].rpartition("/")[2].removesuffix(".cmd")
    arguments = words[1:]
    if _INTERPRETERS.fullmatch(name) and name not in TASKS:
        return _interpreted_tests(name, arguments)
    if name in RUNNERS:
        return _SHOWS_ONLY.isdisjoint(arguments) or (name == "pytest" and "-n" in arguments)
    tasks = TASKS.get(name)
    if tasks is None or not _SHOWS_ONLY.isdisjoint(arguments):
        return False
    operands = [word for word in arguments if word[:1] not in "-+" and "=" not in word]
    if name in ("mvn", "mvnw", "gradle", "gradlew", "sbt"):
        return any(word.rpartition(":")[2] in tasks for word in operands)
    if operands[:1] in (["run"], ["run-script"]):
        operands = operands[1:]
    return any(word in tasks or _VARIANT.split(word)[0] in tasks for word in operands[:1])


def _interpreted_tests(name: str, arguments: Sequence[str]) -> bool:
    for number, word in enumerate(arguments):
        if word == "-m":
            rest = arguments[number + 1 :]
            if rest[:2] == ["coverage", "run"]:
                return _interpreted_tests(name, rest[2:])
            return runs_tests(rest)
        if word == "--test":
            return True
        if word in ("-c", "-e", "-"):
            return False
        if word[:1] != "-":
            return runs_tests(arguments[number:])
    return False


def run_script(words: Sequence[str]) -> str | None:
    """Return the path of the script or program of its own that a simple command runs; None if it runs another."""
    if not words:
        return None
    if _INTERPRETERS.fullmatch(words[0].rpartition("/")[2]):
        for word in words[1:]:
            if word in ("-c", "-e", "-m", "-", "-lc"):
                return None
            if word[:1] != "-":
                return word
        return None
    return words[0] if "/" in words[0] and not words[0].startswith(("/usr/", "/bin/", "/opt/")) else None


class ScriptText(NamedTuple):
    """What the text of a script does."""

    decides: bool
    """Whether its exit code says whether the work is right."""
    writes: bool
    """Whether it writes files."""


def read_script(path: str, text: str) -> ScriptText:
    """Return what a script does. path: its path. text: its text, or a part of it.

    Only the first `MAX_TEXT` characters are read. A script that writes files, like one that applies a patch, decides
    only if its name says that it is a test. One that makes a temporary folder is taken to write there.
    """
    text = text[:MAX_TEXT]
    writes = path.endswith(_SCRIPTS) and code_effect(text).effect == "changes" and not _TEMPORARY.search(text)
    named = "test" in path.rpartition("/")[2].lower()
    fails = fails_by_itself(text) or (path.endswith((".sh", ".bash")) and named and _SET_E.search(text))
    return ScriptText(decides=bool(fails) and (named or not writes), writes=writes)


def fails_by_itself(text: str) -> bool:
    """Return whether a program text has an assertion or an exit code, and in Python one that it does not catch."""
    if not _DECIDES.search(text):
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes in the text
            module = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True
    caught = {inner for node in ast.walk(module) for inner in _caught_by(node)}
    called = {_name_of(node.func) for node in caught if isinstance(node, ast.Call)}
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in called:
            caught.update(ast.walk(node))
    return any(_fails(node) for node in ast.walk(module) if node not in caught)


def _caught_by(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what is in the body of a `try` after whose failures the program goes on."""
    if isinstance(node, ast.Try) and any(map(_goes_on, node.handlers)):
        for statement in node.body:
            yield from ast.walk(statement)


def _goes_on(handler: ast.ExceptHandler) -> bool:
    """Return whether a handler takes failed assertions and does not fail itself."""
    caught = handler.type
    names = {node.id for node in ast.walk(caught) if isinstance(node, ast.Name)} if caught else _CATCHING
    return not names.isdisjoint(_CATCHING) and not any(
        isinstance(inner, ast.Raise) or _fails(inner) for inner in ast.walk(handler)
    )


def _fails(node: ast.AST) -> bool:
    """Return whether a statement or an expression by itself is an assertion, or ends the program with an exit code."""
    if not isinstance(node, ast.Call):
        return isinstance(node, ast.Assert)
    name = _name_of(node.func)
    if name in ("exit", "_exit", "SystemExit"):
        return bool(node.args) and not (isinstance(node.args[0], ast.Constant) and not node.args[0].value)
    if name == "main" and isinstance(node.func, ast.Attribute):
        return _name_of(node.func.value) in ("unittest", "pytest")
    return name.lower().startswith("assert")


def _name_of(function: ast.expr) -> str:
    """Return the name of what is called, without the object that it belongs to; empty if it has none."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def shown_tests(arguments: str, output: str) -> str | None:
    """Return the stem of the one script that a call has shown, if that holds tests and would fail by them.

    arguments: those of the call, which name the script. output: what it returned, with or without line numbers.
    """
    names = {stem(path) for path in _SCRIPT_NAME.findall(arguments[:MAX_LENGTH])}
    text = _LINE_NUMBER.sub("", output[:MAX_TEXT])
    return names.pop() if len(names) == 1 and _HOLDS_TESTS.search(text) and fails_by_itself(text) else None


def stem(path: str) -> str:
    """Return a path's last part without its suffix: the name that a script and what is built of it have in common."""
    return path.rpartition("/")[2].partition(".")[0]

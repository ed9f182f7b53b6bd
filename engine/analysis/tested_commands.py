"""Commands that run tests: the runners of the languages, and scripts that decide by their exit code."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ..decision.program_text import code_effect

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
    r"^\s{0,40}assert\b|\bassert\w{1,60}\(|\bassert(?:\.\w{1,40})?\(|\b(?:sys\.)?exit\((?!0?\))|\bSystemExit\("
    r"|\bexit [1-9$]|\bprocess\.exit\((?!0?\))|\b(?:unittest|pytest)\.main\(",
    re.MULTILINE,
)
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
    """Return what a script does. path: its path. text: its text, or what holds it.

    Only the first `MAX_TEXT` characters are read. A script that writes files, like one that applies a patch, decides
    only if its name says that it is a test.
    """
    text = text[:MAX_TEXT]
    writes = path.endswith(_SCRIPTS) and code_effect(text).effect == "changes"
    named = "test" in path.rpartition("/")[2].lower()
    fails = _DECIDES.search(text) or (path.endswith((".sh", ".bash")) and named and _SET_E.search(text))
    return ScriptText(decides=bool(fails) and (named or not writes), writes=writes)


def stem(path: str) -> str:
    """Return a path's last part without its suffix: the name that a script and what is built of it have in common."""
    return path.rpartition("/")[2].partition(".")[0]

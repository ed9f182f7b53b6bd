"""Files that decide what a check says, by the command that runs it: scripts it names, tests and settings of its runner.

The command is split as a shell would do it; what only runs another program (`uv run`, `timeout 60`, `env A=1`) is taken
off. Variables and globs are not expanded. The scripts of a `package.json` and the recipes of a Makefile are not read:
those files are watched themselves.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

from ..decision.shell_commands import MAX_DEPTH, MAX_LENGTH, gives_command, without_prefixes
from ..decision.shell_syntax import split_commands, unquoted
from .path_patterns import exact_pattern

_PYTHON = """
tests/ test/ testing/ test_*.py *_test.py tests.py conftest.py
pytest.* .pytest.ini pytest/ _pytest/ pluggy.* pluggy/ unittest.py unittest/
tox.ini setup.cfg pyproject.toml setup.py noxfile.py .coveragerc manage.py requirements*.txt
sitecustomize.* sitecustomize/ usercustomize.* usercustomize/ *.pth
.venv/lib/*/site-packages/*.pth .venv/lib/*/site-packages/sitecustomize.* .venv/pyvenv.cfg
venv/lib/*/site-packages/*.pth venv/lib/*/site-packages/sitecustomize.* venv/pyvenv.cfg
"""
_NODE = """
tests/ test/ spec/ e2e/ __tests__/ __mocks__/ __snapshots__/ *.test.* *.spec.* *.snap
package.json .npmrc .yarnrc* bunfig.toml tsconfig*.json
jest.config.* jest.setup.* vitest.* vite.config.* .mocharc* babel.config.* .babelrc* .swcrc playwright.config.*
node_modules/.bin/jest node_modules/.bin/vitest node_modules/.bin/mocha
"""
_JAVA = "**/src/test/ **/src/*Test/ gradlew* mvnw* .mvn/ pom.xml *.gradle *.gradle.kts gradle.properties gradle/"
_MAKE = "Makefile makefile GNUmakefile *.mk tests/ test/"

_PYTHON_RUNNERS = "pytest py.test python unittest tox nox nose2 trial stestr hatch manage.py".split()
_PATTERNS: dict[str, str] = {
    **dict.fromkeys(_PYTHON_RUNNERS, _PYTHON),
    **dict.fromkeys("npm pnpm yarn bun jest vitest mocha ava node deno playwright cypress karma".split(), _NODE),
    **dict.fromkeys("mvn mvnw gradle gradlew".split(), _JAVA),
    **dict.fromkeys("make gmake".split(), _MAKE),
    "cargo": "tests/ benches/ Cargo.toml build.rs .cargo/ .config/nextest.toml rust-toolchain*",
    "go": "*_test.go testdata/ go.mod go.work",
    "ctest": "CMakeLists.txt *.cmake CMakePresets.json CTestTestfile.cmake tests/ test/",
    "rspec": "spec/ .rspec Gemfile Rakefile",
    "phpunit": "tests/ *Test.php phpunit.xml* composer.json",
    "dotnet": "*Test.cs *Tests.cs *Tests/ *.Test/ *.csproj *.fsproj *.sln *.slnx *.props *.targets "
    "*.runsettings global.json",
}
"""By program: patterns of its tests, its settings, and of what is run or imported before them."""
_PYTHON_NAME = re.compile(r"(?:python|pypy)[\d.]*t?|ipython3?|py")
_SHELLS = frozenset("bash sh zsh dash ksh fish".split())
_INTERPRETERS = frozenset("python node ruby perl php deno bun lua Rscript julia pwsh".split())
_RUNNERS_OF_FILES = frozenset(
    "pytest py.test unittest nose2 trial jest vitest mocha ava rspec phpunit bats prove".split()
)
_TEST_FOLDER = re.compile(r"(?:^|[/_.-])(?:tests?|specs?|testing|__tests__|e2e|checks?)(?:$|[/_.-])", re.IGNORECASE)
_OPTIONS_OF_SETTINGS = frozenset("--file --makefile --config --config-file --configuration --rootdir --rcfile".split())
"""Options whose value, if it is a file, is read by the program to know what to do."""
_SHORT_OPTIONS_OF_SETTINGS = {"make": "-f", "gmake": "-f", "pytest": "-c", "py.test": "-c", "tox": "-c", "nox": "-f"}
"""The same, by program."""
_TEXT_OPTIONS = frozenset("-c -m -e -p -r --eval --print".split())
"""Options by which an interpreter is given something else than a script."""
_OPTIONS_WITH_VALUE = frozenset("-o -O +O -W -X --require --import --loader".split())


class _Program(NamedTuple):
    """A program that a command starts: its name without folder and version, all its words, and the folder it is in."""

    name: str
    words: list[str]
    folder: str


def watched_patterns(command: str) -> tuple[str, ...]:
    """Return the patterns of the files by which the test runners in a shell command could be steered; never raises.

    They may fit nothing. The tuple is empty if the command starts no known runner.
    """
    found = dict.fromkeys(
        pattern for program in _programs(command[:MAX_LENGTH]) for pattern in _PATTERNS.get(program.name, "").split()
    )
    return tuple(found)


def shadowing_patterns(command: str, folder: str | os.PathLike[str]) -> tuple[str, ...]:
    """Return the patterns of new files that Python would import in place of its own library; never raises.

    `python -m pytest` looks into its folder first, so a module `json` there runs before any test. Modules that are
    there already are the project's own. The tuple is empty if the command does not start Python.
    """
    if not any(program.name in _PYTHON_RUNNERS for program in _programs(command[:MAX_LENGTH])):
        return ()
    there = {name.partition(".")[0] for name in os.listdir(folder)}
    names = sorted(sys.stdlib_module_names - there)
    return tuple(exact_pattern(path) for name in names for path in (f"{name}.py", name))


def named_files(command: str, folder: str | os.PathLike[str]) -> tuple[str, ...]:
    """Return exact patterns of the files in a folder that a shell command runs as a check: `./ci/check.sh`.

    These are programs and scripts (`./check.sh`, `bash ci/check.sh`, `python check.py`, and a `pytest` that PATH finds
    in the folder), the files and test folders that a test runner is given (`pytest tests/`), and settings
    (`make -f build/Makefile`). What other programs are given is work: `src` of `ruff check src`. Only existing files
    are returned, and never the folder itself. `GuardedFiles` takes the patterns as `named`. Never raises.
    """
    root = os.path.realpath(folder)
    found: dict[str, None] = {}
    for program in _programs(command[:MAX_LENGTH]):
        for word in _words_of_the_check(program):
            path = _path_below(root, program.folder, word)
            if path is not None:
                found[exact_pattern(path)] = None
        if path := _program_below(root, program):
            found[exact_pattern(path)] = None
    return tuple(found)


def _programs(text: str, folder: str = "", depth: int = 0) -> Iterator[_Program]:
    """Yield the programs of a shell text, and of those in `sh -c` and `python -m`. folder: where it starts."""
    for command in split_commands(text):
        words = [unquoted(word) for word in without_prefixes(command.words)]
        if not words:
            continue
        if words[0] == "cd" and len(words) > 1:
            folder = os.path.normpath(os.path.join(folder, words[1]))
        yield from _program(words, folder, depth)


def _program(words: list[str], folder: str, depth: int) -> Iterator[_Program]:
    name = words[0].rpartition("/")[2]
    if _PYTHON_NAME.fullmatch(name):
        name = "python"
    yield _Program(name, words, folder)
    if depth >= MAX_DEPTH:
        return
    if name in _SHELLS:
        text = next((after for word, after in pairwise(words[1:]) if gives_command(word)), "")
        yield from _programs(text, folder, depth + 1)
    elif name == "eval":
        yield from _programs(" ".join(words[1:]), folder, depth + 1)
    elif name == "python" and "-m" in words[:-1]:
        module = [unquoted(word) for word in without_prefixes(words[words.index("-m") + 1 :])]
        yield from _program(module, folder, depth + 1)
    elif name in ("npm", "pnpm", "yarn", "bun") and len(words) > 1:
        rest = [word for word in words[1:] if word not in ("exec", "x", "run", "--")]
        if rest and rest[0] in _PATTERNS:
            yield from _program(rest, folder, depth + 1)


def _words_of_the_check(program: _Program) -> Iterator[str]:
    """Yield the words that may name a file which is a part of the check."""
    name, words, _ = program
    if "/" in words[0]:
        yield words[0]
    operands = [word for word in words[1:] if word[:1] not in ("-", "+")]
    if name in _INTERPRETERS or name in _SHELLS or name in ("source", "."):
        yield _script(words, text_options=gives_command if name in _SHELLS else _TEXT_OPTIONS.__contains__)
    elif name in _RUNNERS_OF_FILES:
        yield from (word.partition("::")[0] for word in operands)
    short = _SHORT_OPTIONS_OF_SETTINGS.get(name)
    for word, after in pairwise([*words, ""]):
        option, _, value = word.partition("=")
        if word == short or word in _OPTIONS_OF_SETTINGS:
            yield after
        elif option in _OPTIONS_OF_SETTINGS:
            yield value


def _script(words: list[str], text_options: Callable[[str], bool]) -> str:
    """Return the script that an interpreter is given; empty if it is given a text, a module's name or nothing."""
    at = 1
    while at < len(words) and words[at][:1] in ("-", "+"):
        if text_options(words[at]):
            return ""
        at += 2 if words[at] in _OPTIONS_WITH_VALUE else 1
    return words[at] if at < len(words) else ""


def _path_below(root: str, folder: str, word: str) -> str | None:
    """Return the path below `root` of an existing file or test folder that a word names in `folder`."""
    whole_path = os.path.normpath(os.path.join(root, folder, word))
    if not word or "\0" in word or not whole_path.startswith(root + os.sep) or not os.path.lexists(whole_path):
        return None
    names = os.path.relpath(whole_path, root).split(os.sep)
    for number in range(1, len(names)):
        if os.path.islink(os.path.join(root, *names[:number])):
            return "/".join(names[:number])  # what the link leads to cannot be guarded, where it leads can
    path = "/".join(names)
    return None if os.path.isdir(whole_path) and not _TEST_FOLDER.search(path) else path


def _program_below(root: str, program: _Program) -> str | None:
    """Return the path below `root` of a program that PATH finds there."""
    if "/" in program.words[0] or "\0" in program.words[0]:
        return None
    found = shutil.which(program.words[0])
    if found is None:
        return None
    place = os.path.join(os.path.realpath(os.path.dirname(found)), os.path.basename(found))
    return _path_below(root, "", place)

"""Patterns fit as those of a `.gitignore` do, with git itself as the judge."""

import itertools
import re
import subprocess
from pathlib import Path

import pytest
from endstop.decision import WrongUse
from endstop.work.path_patterns import PathPattern, exact_pattern
from hypothesis import assume, given, settings
from hypothesis import strategies as st

NAMES = ("a", "b", "ab", ".a", "a.b", "a b", "[a]", "!a", "a\\b", "z")
PATHS = [
    "/".join(names)
    for depth in (1, 2, 3)
    for names in itertools.product(NAMES[: {1: 10, 2: 7, 3: 3}[depth]], repeat=depth)
]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    return folder


def ignored_by_git(repository: Path, pattern: str) -> set[str]:
    (repository / ".git" / "info" / "exclude").write_text(pattern + "\n")
    asked = subprocess.run(
        ["git", "check-ignore", "--no-index", "--stdin", "-z"],
        cwd=repository,
        input="\0".join(PATHS).encode(),
        stdout=subprocess.PIPE,
    )
    assert asked.returncode in (0, 1)
    return set(asked.stdout.decode().split("\0")) - {""}


@given(pattern=st.text("ab*?/[]!.\\ -", min_size=1, max_size=9))
@settings(max_examples=200)
def test_a_pattern_fits_what_git_would_ignore_by_it(repository: Path, pattern: str) -> None:
    names = pattern.split("/")
    assume(not pattern.endswith((" ", "\\")) and pattern[0] not in " !/")
    assume("" not in names[:-1] and not {".", ".."} & set(names))  # git knows no such names
    assume(not re.search(r"\[[^/]*/.*\]|\\/", pattern))  # a slash always parts two names here
    try:
        compiled = PathPattern(pattern)
    except WrongUse:
        assume(False)
    assert {path for path in PATHS if compiled.fits(path)} == ignored_by_git(repository, pattern)


FITS = [
    ("tests/**", "tests/test_a.py", True),
    ("tests/**", "tests/deep/er/data.json", True),
    ("tests/**", "tests", False),
    ("tests/**", "src/tests/test_a.py", False),
    ("**/tests/**", "src/tests/test_a.py", True),
    ("tests", "src/tests/test_a.py", True),
    ("tests/", "src/tests/test_a.py", True),
    ("tests/", "tests", False),
    ("conftest.py", "conftest.py", True),
    ("conftest.py", "a/b/conftest.py", True),
    ("conftest.py", "a/my_conftest.py", False),
    ("./conftest.py", "conftest.py", True),
    ("./conftest.py", "a/conftest.py", False),
    ("*.pth", "lib/x.pth", True),
    ("a/*.py", "a/b/c.py", False),
    ("*", "a\nb/c\n", True),
    ("a?c", "a/c", False),
    ("[!a]", "/", False),
    ("\\!a", "!a", True),
]


def test_patterns_by_example() -> None:
    assert [row for row in FITS if PathPattern(row[0]).fits(row[1]) is not row[2]] == []


@pytest.mark.parametrize(
    "text", ["", ".", "./", "/", "/tests/**", "..", "../x", "a/../../x", "~/x", "C:/x", "!x", "a\0"]
)
def test_a_pattern_that_leads_out_of_the_folder_is_wrong_use(text: str) -> None:
    with pytest.raises(WrongUse, match="pattern"):
        PathPattern(text)


@given(st.text("ab*?[]\\!. -\n", min_size=1, max_size=8).filter(lambda name: name.strip(".")))
def test_an_exact_pattern_fits_its_path_and_no_other(name: str) -> None:
    pattern = PathPattern(exact_pattern(f"a/{name}"))
    assert pattern.fits(f"a/{name}")
    assert pattern.fits(f"a/{name}/inside")
    assert not pattern.fits(f"a/{name}x")
    assert not pattern.fits(f"b/a/{name}")


@given(st.sampled_from([row[0] for row in FITS]), st.sampled_from(PATHS))
def test_a_pattern_leads_into_each_folder_on_the_way_to_what_it_fits(text: str, path: str) -> None:
    pattern = PathPattern(text)
    names = path.split("/")
    if pattern.fits(path):
        assert all(pattern.leads_into(names[:number]) for number in range(1, len(names)))


def test_only_a_pattern_that_names_a_folder_begins_with_it() -> None:
    assert PathPattern("node_modules/.bin/jest").begins_with(["node_modules", ".bin"])
    assert not PathPattern("node_modules/.bin/jest").begins_with(["node_modules", "x"])
    assert not PathPattern("jest").begins_with(["node_modules"])
    assert not PathPattern("**/jest").begins_with(["node_modules"])

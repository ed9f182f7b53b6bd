"""In which order files of tests are handed out."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from .scheduling import SECONDS, SECONDS_OF_A_TEST, TOGETHER, WITH_LITELLM, sort

ROOT = Path(__file__).parents[1]


def test_each_file_that_is_named_is_there() -> None:
    named = [*SECONDS, *TOGETHER, *TOGETHER.values()]
    assert [file for file in named if not (ROOT / file).exists()] == []


def test_the_file_that_takes_longest_comes_first_and_all_with_litellm_are_one() -> None:
    many = int(2 * max(SECONDS.values()) / SECONDS_OF_A_TEST)
    names = [
        *("tests/a.py::test_2", "tests/a.py::test_1"),
        *(f"{WITH_LITELLM}test_b.py::test_1", f"{WITH_LITELLM}test_a.py::test_1[x::y]"),
        *(f"tests/many.py::test_{number}" for number in range(many)),
        "tests/b.py::test_1",
    ]
    items: list[Any] = [SimpleNamespace(nodeid=name) for name in names]
    sort(items)
    assert [item.nodeid for item in items] == [*names[4:-1], *names[2:4], *names[:2], names[-1]]


def test_files_that_go_together_stand_together() -> None:
    ((other, first),) = TOGETHER.items()
    names = [f"{other}::test_1", "tests/a.py::test_1", f"{first}::test_1", f"{other}::test_2"]
    items: list[Any] = [SimpleNamespace(nodeid=name) for name in names]
    sort(items)
    assert [item.nodeid for item in items] == [names[0], names[2], names[3], names[1]]

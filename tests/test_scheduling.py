"""In which order files of tests are handed out."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from .scheduling import SECONDS, SECONDS_OF_A_TEST, TOGETHER, WITH_LITELLM, from_own_place, sort

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
    assert [item.nodeid for item in items] == [*names[4:-1], names[3], names[2], *names[:2], names[-1]]


def test_files_that_go_together_stand_together() -> None:
    ((other, first),) = TOGETHER.items()
    names = [f"{other}::test_1", "tests/a.py::test_1", f"{first}::test_1", f"{other}::test_2"]
    items: list[Any] = [SimpleNamespace(nodeid=name) for name in names]
    sort(items)
    assert [item.nodeid for item in items] == [names[0], names[3], names[2], names[1]]


def test_all_workers_have_the_same_order_wherever_they_begin_to_collect() -> None:
    names = [f"tests/{folder}/test_{file}.py::test_1" for folder in "ab" for file in "cde"]
    begin = set()
    for number in range(4):
        items: list[Any] = [SimpleNamespace(nodeid=name) for name in names]
        items = from_own_place(items, {"workerid": f"gw{number}", "workercount": 4})
        begin.add(items[0].nodeid)
        sort(items)
        assert [item.nodeid for item in items] == names
    assert len(begin) == 4


def test_a_worker_collects_a_folder_of_fewer_files_than_there_are_workers() -> None:
    for number in range(3):
        worker = {"workerid": f"gw{number}", "workercount": 3}
        assert from_own_place([], worker) == []
        assert from_own_place(["a"], worker) == ["a"]

"""Twelve small programs with a bug, each with the tests that show it and with what would be right."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

CHECK = "pytest -q"
PLAIN_PYTEST = "PYTEST_DISABLE_PLUGIN_AUTOLOAD"
"""Variable that keeps pytest from loading, and warning about, all plugins that happen to be installed here."""


class Repair(NamedTuple):
    """A program with a bug."""

    broken: str
    """The file to repair."""
    symptom: str
    """What is wrong with it, as a user would tell."""
    files: Mapping[str, str]
    """All files, the test among them."""
    fixes: tuple[tuple[str, str], ...]
    """Texts in the broken file, each with what is right in its place."""

    @property
    def prompt(self) -> str:
        """The task as the model reads it."""
        return f"{self.symptom} So test_{self.broken} fails. Repair {self.broken}."

    @property
    def tests(self) -> dict[str, str]:
        """The files that decide whether it is repaired."""
        return {name: text for name, text in self.files.items() if name.startswith("test_")}

    @property
    def repaired(self) -> dict[str, str]:
        """All files without the bug."""
        text = self.files[self.broken]
        for wrong, right in self.fixes:
            text = text.replace(wrong, right)
        return {**self.files, self.broken: text}


def repair(broken: str, symptom: str, program: str, test: str, *fixes: tuple[str, str], **others: str) -> Repair:
    """A program in one file, its test, and other modules by name."""
    modules = {f"{name}.py": text for name, text in others.items()}
    return Repair(broken, symptom, {broken: program, **modules, f"test_{broken}": test}, fixes)


REPAIRS = {
    "operator": repair(
        "prices.py",
        "with_tax in prices.py must add the tax to the price.",
        """\
def with_tax(price, rate):
    return price - price * rate
""",
        """\
from prices import with_tax


def test_tax_is_added():
    assert with_tax(100, 0.5) == 150


def test_no_tax():
    assert with_tax(80, 0) == 80
""",
        ("price - price", "price + price"),
    ),
    "slices": repair(
        "pages.py",
        "page in pages.py returns the second page for number 1.",
        """\
def page(items, number, size):
    \"\"\"Return one page of the items; the first page has number 1.\"\"\"
    start = number * size
    return items[start : start + size]
""",
        """\
from pages import page


def test_first_page():
    assert page([1, 2, 3, 4, 5], 1, 2) == [1, 2]


def test_last_page():
    assert page([1, 2, 3, 4, 5], 3, 2) == [5]
""",
        ("number * size", "(number - 1) * size"),
    ),
    "import": repair(
        "circle.py",
        "area in circle.py raises NameError: math is not defined.",
        """\
def area(radius):
    return math.pi * radius**2
""",
        """\
from circle import area


def test_area():
    assert round(area(2), 2) == 12.57
""",
        ("def area", "import math\n\n\ndef area"),
    ),
    "default": repair(
        "rows.py",
        "split_row in rows.py must split at a comma by default.",
        """\
def split_row(row, separator=";"):
    return row.split(separator)
""",
        """\
from rows import split_row


def test_comma_is_the_default():
    assert split_row("a,b,c") == ["a", "b", "c"]


def test_another_separator():
    assert split_row("a|b", "|") == ["a", "b"]
""",
        ('separator=";"', 'separator=","'),
    ),
    "name": repair(
        "greeting.py",
        "greet in greeting.py raises NameError.",
        """\
def greet(name, polite):
    greeting = "Good morning" if polite else "Hi"
    return f"{greting}, {nane}!"
""",
        """\
from greeting import greet


def test_polite():
    assert greet("Ann", True) == "Good morning, Ann!"


def test_short():
    assert greet("Bob", False) == "Hi, Bob!"
""",
        ("greting", "greeting"),
        ("nane", "name"),
    ),
    "return": repair(
        "counting.py",
        "count_words in counting.py returns None.",
        """\
def count_words(text):
    counts = {}
    for word in text.split():
        counts[word] = counts.get(word, 0) + 1
""",
        """\
from counting import count_words


def test_counts():
    assert count_words("a b a") == {"a": 2, "b": 1}


def test_empty():
    assert count_words("") == {}
""",
        ("0) + 1\n", "0) + 1\n    return counts\n"),
    ),
    "condition": repair(
        "grades.py",
        "grade in grades.py must give an A for 90 points and a B for 50.",
        """\
def grade(points):
    if points > 90:
        return "A"
    if points > 50:
        return "B"
    return "C"
""",
        """\
import pytest
from grades import grade


@pytest.mark.parametrize("points, letter", [(100, "A"), (90, "A"), (89, "B"), (50, "B"), (49, "C")])
def test_grade(points, letter):
    assert grade(points) == letter
""",
        ("points > 90", "points >= 90"),
        ("points > 50", "points >= 50"),
    ),
    "arguments": repair(
        "report.py",
        "report in report.py passes its arguments to percent in the wrong order.",
        """\
from ratio import percent


def report(done, total):
    return f"{percent(total, done)} % done"
""",
        """\
from report import report


def test_report():
    assert report(1, 4) == "25 % done"
""",
        ("total, done)}", "done, total)}"),
        ratio="""\
def percent(part, whole):
    return round(100 * part / whole)
""",
    ),
    "strip": repair(
        "settings.py",
        "parse in settings.py must ignore spaces around the name and the value.",
        """\
def parse(line):
    name, value = line.split("=")
    return name, value
""",
        """\
from settings import parse


def test_without_spaces():
    assert parse("port=80") == ("port", "80")


def test_spaces_do_not_count():
    assert parse("port = 80") == ("port", "80")
""",
        ("return name, value", "return name.strip(), value.strip()"),
    ),
    "method": repair(
        "lists.py",
        "flatten in lists.py returns a list of lists.",
        """\
def flatten(lists):
    result = []
    for items in lists:
        result.append(items)
    return result
""",
        """\
from lists import flatten


def test_flatten():
    assert flatten([[1, 2], [3]]) == [1, 2, 3]


def test_nothing():
    assert flatten([]) == []
""",
        ("append", "extend"),
    ),
    "average": repair(
        "average.py",
        "average in average.py must return 0 for an empty list.",
        """\
def average(numbers):
    return sum(numbers) / len(numbers)
""",
        """\
from average import average


def test_average():
    assert average([1, 2, 6]) == 3


def test_nothing_has_the_average_zero():
    assert average([]) == 0
""",
        ("    return", "    if not numbers:\n        return 0\n    return"),
    ),
    "constant": repair(
        "duration.py",
        "seconds in duration.py is wrong for hours.",
        """\
from units import MINUTES_PER_HOUR, SECONDS_PER_MINUTE


def seconds(hours, minutes):
    return hours * MINUTES_PER_HOUR + minutes * SECONDS_PER_MINUTE
""",
        """\
from duration import seconds


def test_minutes():
    assert seconds(0, 2) == 120


def test_hours():
    assert seconds(1, 1) == 3660
""",
        ("hours * MINUTES_PER_HOUR", "hours * MINUTES_PER_HOUR * SECONDS_PER_MINUTE"),
        units="""\
MINUTES_PER_HOUR = 60
SECONDS_PER_MINUTE = 60
""",
    ),
}


def environment() -> dict[str, str]:
    """The environment of the runs: `pytest` is the one of this Python, without plugins."""
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")])
    return {**os.environ, "PATH": path, PLAIN_PYTEST: "1"}


def write(files: Mapping[str, str], folder: Path) -> Path:
    """Write the files into a new folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def text_of(path: Path) -> str | None:
    """The text of a file; None if there is none."""
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else None


def is_repaired(task: Repair, work: Path) -> bool:
    """Whether the modules that the model left pass the original tests."""
    with tempfile.TemporaryDirectory() as place:
        modules = {name: text_of(work / name) for name in task.files}
        kept = {name: text for name, text in modules.items() if text is not None}
        write({**kept, **task.tests}, Path(place))
        command = [sys.executable, "-m", "pytest", "-q", *task.tests]
        return subprocess.run(command, cwd=place, capture_output=True, timeout=60, env=environment()).returncode == 0

"""Work is linear in the input: every pattern, and all that reads foreign text, on families of their own pieces.

`make growth` measures all families from 100 kB to 2 MB, and prints the table.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from endstop import Redaction

from .families import Family, families_of
from .measure import exponent, growth, seconds

ROOT = Path(__file__).parents[2]
OPTIONS = ("--small", "2500", "--large", "10000", "--families", "6", "--bound", "1.5")


def test_no_pattern_and_no_reader_grows_faster_than_its_input() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(ROOT)])}
    found = subprocess.run(
        [sys.executable, "-m", "tests.growth", *OPTIONS],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    slow = [line for line in found.stdout.splitlines() if line.startswith("TOO SLOW")]
    assert found.returncode == 0, "\n".join(slow) or found.stderr[-3000:]
    assert len(found.stdout.splitlines()) > 200, "patterns and readers"


def test_redaction_of_what_begins_like_a_token_again_and_again_is_linear() -> None:
    redact, family = Redaction(), Family("password=", "eyJ_")
    redact(family.text(100))
    assert growth(redact, family.text(8_000), family.text(32_000), bound=1.5) < 1.5


def test_what_looks_at_each_pair_grows_as_the_square() -> None:
    def look(text: str) -> int:
        return sum(1 for _ in text for _ in text)

    assert growth(look, "a" * 800, "a" * 3_200, bound=1.4) > 1.6


@pytest.mark.long
@pytest.mark.parametrize(
    "written",
    [
        r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],]',
        r"\s*(?:<([a-z][\w-]*)[^>]*>.*</\1>\s*\Z|# AGENTS)",
        r"<tool_call>(.*?)</tool_call>",
        r"([^/:\s]+)/([^/:\s]+):pr-(\d+)\b",
        r"(?:a|aa)+b",
        r"\s+$",
        r"respon[ds]\w* ?:",
    ],
)
def test_families_of_its_own_pieces_show_a_pattern_that_is_not_linear(written: str) -> None:
    pattern = re.compile(written, re.DOTALL)

    def grows(length: int, factor: float) -> bool:
        took = [0.0, 0.0]
        for family in families_of(pattern):
            for at, size in enumerate((length, int(length * factor))):
                text = family.text(size)
                took[at] = seconds(lambda text=text: list(pattern.finditer(text)), 1)  # type: ignore[misc]
                if took[0] > 0.5:
                    return True
            if exponent(took[0], took[1], factor) > 1.5:
                return True
        return False

    lengths = (20, 1.5), (2_000, 4), (8_000, 4)  # what doubles with each sign has ended after thirty
    assert any(grows(length, factor) for length, factor in lengths)

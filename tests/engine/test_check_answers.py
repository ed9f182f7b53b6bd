"""Checks that are commands: the score that is read from their output, and what is refused."""

from typing import Any

import pytest
from endstop.check_answers import CommandCheck, Met, NotMet
from endstop.decision import WrongUse

PYTEST = r"(?:(?P<failed>\d+) failed, )?(?P<passed>\d+) passed"
"""The summary of pytest names what failed first."""
SCORES = [
    (r"(\d+) passed", "12 passed in 0.1s", 12, None),
    (r"(\d+) passed", "5 failed, 12 passed", 12, None),
    (r"(\d+) ok, (\d+) not ok", "3 ok, 1 not ok", 3, 4),
    (r"(\d+) ok, (\d+) not ok", "1 ok, 3 not ok\n2 ok, 2 not ok", 2, 4),  # the last one counts
    (r"(\d+) ok(?:.*?(\d+) not ok)?", "3 ok\nand then it broke off", 3, None),  # what failed is unknown
    (PYTEST, "5 failed, 12 passed in 0.03s", 12, 17),
    (PYTEST, "12 passed, 1 error in 0.03s", 12, None),
    (PYTEST, "17 failed in 0.03s", None, None),
    (r"coverage: ([\d.]+)%", "coverage: 81.5% of statements", 81.5, None),
    (r"score (\S+)", "score nothing", None, None),
    (r"(?P<passed>\d+) of \d+", "3 of 4", 3, None),
    (None, "12 passed", None, None),
]


def test_the_score_is_what_the_groups_find_in_the_output_and_what_they_do_not_find_is_unknown() -> None:
    read: list[Any] = [CommandCheck("true", score=score).read(1, output) for score, output, *_ in SCORES]
    found = [(answer.score, answer.of) for answer in read]
    assert found == [(score, of) for *_, score, of in SCORES]


@pytest.mark.parametrize(
    "score", ["passed", r"(\d)(\d)(\d)", "(", r"(?P<good>\d+)", r"(?P<failed>\d+)", r"(?P<passed>\d+) (\d+)"]
)
def test_a_score_without_one_or_two_groups_that_can_be_told_apart_is_refused(score: str) -> None:
    with pytest.raises(WrongUse, match="score"):
        CommandCheck("true", score=score)


def test_exit_codes_say_met_not_met_and_cannot_tell() -> None:
    check = CommandCheck("pytest -q")
    assert isinstance(check.read(0, ""), Met)
    assert isinstance(check.read(1, ""), NotMet)
    assert check.read(125, "no network") is None

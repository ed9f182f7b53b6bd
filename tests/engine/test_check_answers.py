"""Answers of checks: what each of them means, and which failures are the same one."""

from typing import Any

import pytest
from endstop import Impossible, Met, NotMet
from endstop.check_answers import Judged, answer_of, failure_mark
from hypothesis import given
from hypothesis import strategies as st


@given(st.integers(), st.integers(), st.floats(0, 1e9))
def test_numbers_do_not_make_another_failure(one: int, other: int, seconds: float) -> None:
    first = NotMet(failing=(f"FAILED test_a[{abs(one)}] in {abs(seconds):.2f}s at 0x7f{abs(one):x}",))
    second = NotMet(failing=(f"FAILED test_a[{abs(other)}] in 1.00s at 0x7f{abs(other):x}",))
    assert failure_mark(first) == failure_mark(second)
    assert failure_mark(first) != failure_mark(NotMet(failing=("FAILED test_b[1] in 1.00s at 0x7f1",)))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Met(), "met"),
        (True, "met"),
        (False, "not_met"),
        (NotMet("no"), "not_met"),
        (Impossible("never"), "impossible"),
        (None, "unknown"),
        ("yes", "unknown"),
        (Judged(Met(), "judge"), "met"),
        (Judged(None, "judge"), "unknown"),
    ],
)
def test_every_answer_of_a_check_has_one_meaning(answer: Any, expected: str) -> None:
    assert answer_of(answer, "check").said == expected

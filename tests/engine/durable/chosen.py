"""Which cases of the conformance suite are left to `make test-long` where another engine has them all."""

from __future__ import annotations

from typing import Any

import pytest
from endstop.testing.conformance.durable import CASES

_SHORT = ("step:", "killed: another process", "queue: a job comes whole", "open:")


def cases() -> list[Any]:
    """All of them, as parameters; most of those with processes of their own are long."""
    marks = {case: [] if str(case).startswith(_SHORT) else [pytest.mark.long] for case in CASES}
    return [pytest.param(case, id=str(case), marks=mark) for case, mark in marks.items()]

"""Which cases of the conformance suite are left to `make test-long` where another engine has them all."""

from __future__ import annotations

from typing import Any

import pytest
from endstop.engine.durable.conformance import CASES

_LONG = ("frozen", "killed: five", "killed: many", "recover", "drop", "working", "queue: two", "queue: the limit")


def cases() -> list[Any]:
    """All of them, as parameters; those with many processes are long."""
    marks = {case: [pytest.mark.long] if str(case).startswith(_LONG) else [] for case in CASES}
    return [pytest.param(case, id=str(case), marks=mark) for case, mark in marks.items()]

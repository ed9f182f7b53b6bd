"""The ledger finds what must not be: otherwise the tests that lean on it could not fail."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from .fleet import Member
from .freezing import check_woken
from .ledger import Ledger, Line
from .script import Script

SCRIPT = Script(who="s", steps=4)


def begun(step: int) -> Line:
    """A request."""
    return {"what": "begun", "who": "s", "step": step, "by": "w1"}


def began(step: int, tool: str) -> Line:
    """A call."""
    return {"what": "began", "who": "s", "step": step, "tool": tool, "pid": 1}


WHOLE = [
    *(begun(1), began(1, "look"), begun(2), began(2, "note"), begun(3), began(3, "look"), began(3, "note"), begun(4)),
]


def with_line(place: int, line: Line) -> list[Line]:
    """A session in which something happened besides."""
    return [*WHOLE[:place], line, *WHOLE[place:]]


def test_a_session_without_repetitions_has_no_fault() -> None:
    ledger = Ledger("s", WHOLE)
    assert ledger.faults(SCRIPT) == []
    assert (ledger.repeated_requests, ledger.repeated_calls, ledger.not_begun(SCRIPT)) == (0, 0, 0)


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (with_line(2, begun(1)), "a finished step was asked for again"),
        (with_line(3, begun(1)), "a finished step was asked for again"),
        (with_line(8, began(3, "look")), "a finished call began again"),
        (with_line(4, began(2, "note")), "wrote 2 times"),
        (with_line(8, began(2, "note")), "wrote 2 times"),
        (WHOLE[:-1], "never asked for"),
        (with_line(1, {"what": "torn", "who": "s", "step": 1}), "no run may send"),
    ],
)
def test_what_must_not_be_is_found(lines: list[dict[str, Any]], says: str) -> None:
    assert any(says in fault for fault in Ledger("s", lines).faults(SCRIPT))


def test_what_was_not_finished_may_be_done_again_and_is_counted() -> None:
    ledger = Ledger("s", [begun(1), *with_line(6, began(3, "look"))])
    assert ledger.faults(SCRIPT) == []
    assert (ledger.repeated_requests, ledger.repeated_calls) == (1, 1)


def test_calls_that_never_began_are_counted() -> None:
    assert Ledger("s", [line for line in WHOLE if line.get("tool") != "note"]).not_begun(SCRIPT) == 2


MOVED = [{**line, "t": at, "by": "w1" if at < 3 else "w2"} for at, line in enumerate(WHOLE)]
"""The same session, which moved to another worker while the first one was frozen."""


def check_late(*late: Line) -> None:
    """The check of a session whose first worker does this as it wakes."""
    lines = [*MOVED, *({**line, "t": 100 + place} for place, line in enumerate(late))]
    w1, w2 = (cast(Member, SimpleNamespace(name=name)) for name in ("w1", "w2"))
    check_woken(Ledger("s", lines), SCRIPT, frozen=w1, woken=50, other=w2)


@pytest.mark.parametrize("late", [(), (begun(2),), (began(1, "look"),)])
def test_who_wakes_may_end_what_it_was_about_to_do(late: tuple[Line, ...]) -> None:
    check_late(*late)


@pytest.mark.parametrize("late", [(begun(2), begun(3)), (began(1, "look"), begun(2)), (began(2, "note"),)])
def test_who_wakes_may_not_go_on_or_write_again(late: tuple[Line, ...]) -> None:
    with pytest.raises(AssertionError):
        check_late(*late)

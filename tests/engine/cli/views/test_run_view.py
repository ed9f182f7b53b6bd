"""Views: a failing view is switched off, and hurts nobody."""

from __future__ import annotations

import pytest
from endstop.cli.views.run_view import RunView, fault_tolerant
from endstop.decision.events import AttemptFailed


class _Broken(RunView):
    shows_answer = True

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.closed = 0

    def show(self, event: object) -> None:
        raise self.error

    def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize("error", [ValueError("a fault of ours"), BrokenPipeError("the terminal is gone")])
def test_a_view_that_fails_is_off_from_then_on(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    broken = _Broken(error)
    view = fault_tolerant(broken)
    for _ in range(3):
        view.show(AttemptFailed(attempt="1.1", kind="auth", message=""))
    assert (broken.closed, view.shows_answer) == (1, False)
    assert ("a fault of ours" in capsys.readouterr().err) == isinstance(error, ValueError)

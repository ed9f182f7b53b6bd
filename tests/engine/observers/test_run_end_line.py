"""What the line at the end of a run says of a failed one."""

from __future__ import annotations

from typing import Any

import pytest
from endstop.decision import Outcome
from endstop.observers.logging import LONGEST_DETAIL, log_run_end

HOSTILE = 'a"b\n{"event": "forged"}\r\n\x1b[2Jlevel=error event=forged\u2028x'


def failed(reason: str, detail: str) -> Outcome:
    return Outcome(run_id="run_1", session_id="session_1", status="failed", stop_reason=reason, detail=detail)


def told(caplog: pytest.LogCaptureFixture) -> dict[str, Any]:
    """The fields of the one line."""
    (record,) = caplog.records
    return vars(record)


def test_the_detail_is_one_short_line_and_empty_fields_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    log_run_end(failed("provider_error", HOSTILE + "x" * 1000), "rate_limit", owner="", agent="builder")
    line = told(caplog)
    assert (line["levelname"], line["kind"], line["cost_usd"]) == ("WARNING", "rate_limit", "unknown")
    assert len(line["detail"]) <= LONGEST_DETAIL
    assert line["detail"].isprintable()
    assert line["agent"] == "builder"
    assert "owner" not in line


def test_a_failure_that_is_not_the_providers_has_its_reason_as_kind(caplog: pytest.LogCaptureFixture) -> None:
    log_run_end(failed("internal_error", "ValueError: a rule raised"), "rate_limit")
    assert (told(caplog)["kind"], told(caplog)["detail"]) == ("internal_error", "ValueError: a rule raised")


def test_the_words_of_a_model_that_refuses_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    log_run_end(failed("refusal", "I cannot do that."), None)
    assert told(caplog)["kind"] == "refusal"
    assert "I cannot" not in caplog.text

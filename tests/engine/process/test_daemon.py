"""The log of a long-running process: one line for each record, as text or as JSON, whatever is in it."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from endstop.process.daemon import LogFormat, log_to_stderr
from endstop.records.known_secrets import KnownSecrets
from hypothesis import given
from hypothesis import strategies as st

HOSTILE = 'a"b\n{"event": "forged"}\r\n\x1b[2Jlevel=error event=forged\u2028x'
SECRET = "sk-planted-secret-0123456789abcdef"


def warn(**fields: Any) -> None:
    """Log as the package does, whose name the logger has."""
    logging.getLogger("endstop.tests").warning("it failed", extra={"event": "it failed", **fields})


def line_of(capsys: pytest.CaptureFixture[str], log_format: LogFormat, **fields: Any) -> str:
    """The one line for a warning with these fields."""
    with log_to_stderr(KnownSecrets([SECRET]), log_format):
        warn(**fields)
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert err.endswith("\n")
    return err


def test_a_line_of_json_has_time_level_and_event_first_and_numbers_as_numbers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    told = json.loads(line_of(capsys, "json", run_id="run_1", steps=3, cost=0.5, parent=None))
    assert list(told) == ["timestamp", "level", "event", "run_id", "steps", "cost", "parent"]
    assert (told["level"], told["event"]) == ("warning", "it failed")
    assert (told["steps"], told["cost"], told["parent"]) == (3, 0.5, None)


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_no_text_makes_a_line_or_shows_a_secret(capsys: pytest.CaptureFixture[str], log_format: LogFormat) -> None:
    line = line_of(capsys, log_format, error=f"{HOSTILE} {SECRET}")
    assert SECRET not in line
    assert "\x1b" not in line
    assert "\u2028" not in line
    if log_format == "json":
        assert json.loads(line)["event"] == "it failed"
    else:
        before, _, error = line.partition(" error=")
        assert before.count("level=") == 1
        assert error.startswith('"'), "the rest is one value in quotes"
        assert error.endswith('"\n')


@given(st.text())
def test_any_text_is_one_object(text: str) -> None:
    capture: list[str] = []
    with pytest.MonkeyPatch.context() as patched, log_to_stderr(None, "json"):
        patched.setattr("sys.stderr", type("Kept", (), {"write": capture.append, "flush": lambda self: None})())
        warn(error=text)
    written = "".join(capture)
    assert len(written.splitlines()) == 1
    assert json.loads(written)["event"] == "it failed"


def test_a_traceback_is_part_of_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    with log_to_stderr(None, "json"):
        try:
            raise ValueError("broken")
        except ValueError:
            logging.getLogger("endstop.tests").exception("it failed", extra={"event": "it failed"})
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert json.loads(err)["exception"].startswith("Traceback")

"""Ids that endstop gives to sessions, runs and messages: a word and twelve random hexadecimal digits."""

from __future__ import annotations

from uuid import uuid4

SESSION_PREFIX = "session_"
"""Prefix of the ids that endstop gives to sessions."""


def new_session_id() -> str:
    """Return an id for a session that its user gave none."""
    return _new(SESSION_PREFIX)


def new_run_id() -> str:
    """Return an id for a run of a session."""
    return _new("run_")


def new_message_id() -> str:
    """Return an id for a message that waits for a run to take it."""
    return _new("message_")


def _new(prefix: str) -> str:
    return f"{prefix}{uuid4().hex[:12]}"

"""The two tools of the agents in these tests, as plain functions; each framework makes its own kind of tool of them."""

from __future__ import annotations


def work(n: int) -> str:
    """Work."""
    return "ok"


def finish_task(summary: str) -> str:
    """Finish."""
    return "noted"

"""Warnings in the log, through structlog."""

from __future__ import annotations


def log_warning(what: str, **about: object) -> None:
    """Log `what` as a warning of logger `endstop`, with `about` as its fields. Imports structlog on first use."""
    import structlog

    structlog.get_logger("endstop").warning(what, **about)

"""Log warnings through structlog."""

from __future__ import annotations


def log_warning(what: str, **about: object) -> None:
    """Log a warning to the logger `endstop`, with `about` as its fields. structlog is imported on first use."""
    import structlog

    structlog.get_logger("endstop").warning(what, **about)

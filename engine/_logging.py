"""What goes wrong without anybody there to be told: a line of the log."""

from __future__ import annotations


def log_warning(what: str, **about: object) -> None:
    """Write it down."""
    import structlog

    structlog.get_logger("endstop").warning(what, **about)

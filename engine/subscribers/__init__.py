"""Integrations that only listen: one file each."""

from .structlog import log_run

__all__ = ["log_run"]

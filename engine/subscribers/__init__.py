"""Integrations that only listen: one file each."""

from .progress import progress
from .structlog import log_run

__all__ = ["log_run", "progress"]

"""Integrations that only listen: one file each, or a folder."""

from .otel import traced
from .progress import progress
from .structlog import log_run

__all__ = ["log_run", "progress", "traced"]

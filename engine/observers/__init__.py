"""Integrations that observe runs and change nothing: logging, a progress bar, OpenTelemetry."""

from .otel import traced
from .progress import progress
from .structlog import log_run

__all__ = ["log_run", "progress", "traced"]

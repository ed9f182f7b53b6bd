"""Spans of runs, by OpenTelemetry's conventions. See `tracing.py`."""

from .tracing import traced

__all__ = ["traced"]

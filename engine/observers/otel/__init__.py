"""OpenTelemetry: spans of runs, by its semantic conventions. See `tracing.py`."""

from .tracing import traced

__all__ = ["traced"]

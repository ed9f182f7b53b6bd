"""OpenTelemetry spans of runs, by its semantic conventions (`tracing.py`)."""

from .tracing import traced

__all__ = ["traced"]

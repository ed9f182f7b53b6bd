"""OpenTelemetry: spans of runs, by its semantic conventions (`tracing.py`), and metrics of a service."""

from .instruments import export_metrics
from .tracing import traced

__all__ = ["export_metrics", "traced"]

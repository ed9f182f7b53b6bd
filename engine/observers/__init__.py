"""Integrations that observe runs and change nothing: logging, a progress bar, OpenTelemetry.

`traced` and `export_metrics` are imported when they are first used: that imports the session formats, and most programs
only show a bar.
"""

from typing import TYPE_CHECKING

from ..decision.public_names import lazy_names
from .logging import log_run
from .progress import progress

if TYPE_CHECKING:
    from .otel import export_metrics, traced
else:
    __getattr__, __dir__ = lazy_names(globals(), {"otel": "export_metrics traced"})

__all__ = ["export_metrics", "log_run", "progress", "traced"]

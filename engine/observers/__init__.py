"""Integrations that observe runs and change nothing: logging, a progress bar, OpenTelemetry.

A name is imported when it is first used: `traced` imports the session formats, and most programs only show a bar.
"""

from typing import TYPE_CHECKING

from ..decision.public_names import lazy_names

if TYPE_CHECKING:
    from .otel import traced
    from .progress import progress
    from .structlog import log_run
else:
    __getattr__, __dir__ = lazy_names(globals(), {"otel": "traced", "progress": "progress", "structlog": "log_run"})

__all__ = ["log_run", "progress", "traced"]

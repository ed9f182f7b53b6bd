"""Integrations that observe runs and change nothing: logging, a progress bar, OpenTelemetry.

`traced` is imported when it is first used: it imports the session formats, and most programs only show a bar.
"""

from typing import TYPE_CHECKING

from ..decision.public_names import lazy_names
from .logging import log_run
from .progress import progress

if TYPE_CHECKING:
    from .otel import traced
else:
    __getattr__, __dir__ = lazy_names(globals(), {"otel": "traced"})

__all__ = ["log_run", "progress", "traced"]

"""Integrations that observe runs and change nothing: logging, a progress bar, OpenTelemetry.

`traced` is imported when it is first used: it imports the session formats, and most commands only show a bar.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .progress import progress
from .structlog import log_run

if TYPE_CHECKING:
    from .otel import traced
else:

    def __getattr__(name: str) -> Any:
        if name != "traced":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = import_module(".otel", __name__).traced
        return value


__all__ = ["log_run", "progress", "traced"]

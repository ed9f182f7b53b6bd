"""The log of hooks: a line for what went wrong, and for what a hook that only watches would have done."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

MAX_BYTES = 500_000
"""Size at which the log is put aside, in place of the one before."""
MAX_LINE = 1_000
NAME = "hook.log"


def log_line(folder: Path, text: str) -> None:
    """Add a line to the log in a folder. Never raises: a hook that cannot log says nothing."""
    path = folder / NAME
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            if path.stat().st_size > MAX_BYTES:
                os.replace(path, path.with_suffix(".log.1"))
        line = " ".join(text.split())[:MAX_LINE]
        with open(path, "a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {line}\n")

"""Delete what hooks keep of sessions that nobody goes on with: states, locks, and originals of guarded files.

Records stay: they are the person's, as everywhere in endstop, and a session that goes on after all is read from its
record.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

DAY = 86_400.0
KEPT_DAYS = 30
"""Days after its last event when a session's state is deleted."""
SUFFIXES = (".state", ".new", ".guarded", ".lock")
"""Of the files that only hooks read; the lock last."""
MARKER = "hook.swept"
"""A file that says, by its time, when the folder was last looked through."""


def delete_old_states(folder: Path) -> None:
    """Delete the states of sessions whose last event was `KEPT_DAYS` ago, once a day. Raises OSError."""
    now = time.time()
    marker = folder / MARKER
    with suppress(FileNotFoundError):
        if now - marker.stat().st_mtime < DAY:
            return
    marker.touch(mode=0o600)
    latest: dict[str, float] = defaultdict(float)
    with os.scandir(folder) as files:
        for file in files:
            stem, dot, suffix = file.name.rpartition(".")
            if f"{dot}{suffix}" in SUFFIXES:
                with suppress(FileNotFoundError):
                    latest[stem] = max(latest[stem], file.stat().st_mtime)
    for stem, used in latest.items():
        if now - used > KEPT_DAYS * DAY:
            for suffix in SUFFIXES:
                (folder / f"{stem}{suffix}").unlink(missing_ok=True)

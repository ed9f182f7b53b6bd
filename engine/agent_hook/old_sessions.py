"""Delete what hooks keep of sessions that nobody goes on with: states, locks, and originals of guarded files.

Records stay, unless `--keep-days` says for how long: they are the person's, as everywhere in endstop, and a session
that goes on after all is read from its record.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

from ..base.plural import counted
from .agent_session import HookBusy, session_lock
from .failure_log import log_line

DAY = 86_400.0
KEPT_DAYS = 30
"""Days after its last event when a session's state is deleted."""
SUFFIXES = (".state", ".new", ".guarded", ".lock")
"""Of the files that only hooks read; the lock last."""
MOST_SESSIONS = 200
"""Maximum number of sessions that are deleted at one event, for which an agent waits."""
MARKER = "hook.swept"
"""A file that says, by its time, when the folder was last looked through."""


def delete_old_sessions(folder: Path, keep_days: int | None = None) -> None:
    """Delete what is kept of sessions whose last event was `KEPT_DAYS` ago, a number of them once a day.

    keep_days: delete their records, too, and all of it after this many days; None: keep the records. A session whose
    hook is at work stays. Raises OSError.
    """
    now = time.time()
    marker = folder / MARKER
    with suppress(FileNotFoundError):
        if now - marker.stat().st_mtime < DAY:
            return
    marker.touch(mode=0o600)
    before = now - (KEPT_DAYS if keep_days is None else keep_days) * DAY
    old = [stem for stem, used in _last_uses(folder).items() if used < before]
    deleted = 0
    for stem in old[:MOST_SESSIONS]:
        with suppress(HookBusy), session_lock(folder / f"{stem}.lock", 0.0):
            deleted += _delete_session(folder, stem, before, with_record=keep_days is not None)
    if len(old) > MOST_SESSIONS:
        marker.unlink(missing_ok=True)  # the next event goes on
    if deleted and keep_days is not None:
        log_line(folder, f"deleted records of {counted(deleted, 'session')}, after {counted(keep_days, 'day')}")


def _last_uses(folder: Path) -> dict[str, float]:
    """Return when the files of each session, but for its record, were last changed: in seconds since 1970, by name."""
    latest: dict[str, float] = defaultdict(float)
    with os.scandir(folder) as files:
        for file in files:
            stem, dot, suffix = file.name.rpartition(".")
            if f"{dot}{suffix}" in SUFFIXES:
                with suppress(FileNotFoundError):
                    latest[stem] = max(latest[stem], file.stat().st_mtime)
    return latest


def _delete_session(folder: Path, stem: str, before: float, *, with_record: bool) -> bool:
    """Delete the files of a session, and return True; False if it has been used since then.

    Its lock is held, and goes last.
    """
    with suppress(FileNotFoundError):
        if (folder / f"{stem}.state").stat().st_mtime >= before:
            return False
    if with_record:
        from ..records.retention import delete_record

        delete_record(folder / f"{stem}.jsonl")
    for suffix in SUFFIXES:
        (folder / f"{stem}{suffix}").unlink(missing_ok=True)
    return True

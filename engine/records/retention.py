"""Delete old records: a folder for each day, and the records in those whose days are over.

Only what `day_folder` has named is looked into, and only what endstop names there is deleted: whatever else lies in the
folder of records stays.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from datetime import date, datetime
from pathlib import Path
from typing import NamedTuple

from ..base.ids import SESSION_PREFIX
from .files import ATTACHMENTS_SUFFIX, RECORD_SUFFIXES, SUBAGENTS_SUFFIX, folder_beside
from .recorder import is_being_written

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}\Z")
_RECORD = re.compile(rf"{SESSION_PREFIX}[0-9a-f]+(?:{'|'.join(map(re.escape, RECORD_SUFFIXES))})\Z")


def day_folder(folder: Path, day: date) -> Path:
    """Return the folder of the records that begin on a day, such as `records/2026-11-30`. It need not exist."""
    return folder / day.isoformat()


class Deletion(NamedTuple):
    """What was deleted."""

    records: int
    kept: int
    """Number of old records that cannot be deleted."""
    error: str
    """Why one of them cannot; empty if there is none."""


def delete_old_records(folder: Path, before: datetime, most: int) -> Deletion:
    """Delete records in folders of days to which nothing was written since a time.

    before: in the time zone of the folders' days. most: maximum number of records; call again until none is deleted.
    A record that is being written stays; a folder that is empty then goes, too. Raises OSError if a folder cannot be
    read.
    """
    records = kept = 0
    error = ""
    for day in _days_before(folder, before.date()):
        for record in _records_before(day, before):
            if records == most:
                return Deletion(records, kept, error)
            try:
                delete_record(record)
                records += 1
            except OSError as why:
                kept, error = kept + 1, str(why)
        with suppress(OSError):  # not empty
            day.rmdir()
    return Deletion(records, kept, error)


def delete_record(record: Path) -> None:
    """Delete a record with its attachments and the records of its sub-agents. Raises OSError.

    The record itself goes last, so that what an error or a crash leaves behind is found again.
    """
    for suffix in (ATTACHMENTS_SUFFIX, SUBAGENTS_SUFFIX):
        with suppress(FileNotFoundError):
            shutil.rmtree(folder_beside(record, suffix))
    record.unlink(missing_ok=True)


def _days_before(folder: Path, day: date) -> list[Path]:
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if _DAY.match(entry.name) and entry.is_dir(follow_symlinks=False)]
    return [folder / name for name in sorted(names) if name < day.isoformat()]


def _records_before(day: Path, before: datetime) -> Iterator[Path]:
    with os.scandir(day) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):  # another process deletes, too
                ours = _RECORD.match(entry.name) is not None and entry.is_file(follow_symlinks=False)
                old = ours and entry.stat(follow_symlinks=False).st_mtime < before.timestamp()
                if old and not is_being_written(entry.path):
                    yield Path(entry.path)

"""Records of the proxy's runs: those that are lost, and those that have been kept long enough."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import NoReturn

from ..decision.errors import error_text
from ..providers._logging import log, log_warning
from ..providers._outage import Outage
from ..providers.clock import Clock
from ..records.retention import delete_old_records

DAY_SECONDS = 86_400.0
BATCH_RECORDS = 200
"""Maximum number of records that are deleted at a time."""
BATCH_PAUSE = 1.0
"""Seconds between two such times."""


def _nobody() -> None:
    """Count nothing."""


class RecordLosses:
    """What is said of runs whose records cannot be written: one warning, however many they are.

    count: called once for each. now: returns the seconds of a monotonic clock.
    """

    def __init__(self, count: Callable[[], None] = _nobody, now: Callable[[], float] = monotonic) -> None:
        self._count = count
        self._outage = Outage("runs are not recorded", clock=now)

    def lost(self, error: Exception) -> None:
        """Report that a run is not recorded, or not to its end."""
        self._count()
        self._outage.failed(error=error_text(error))

    def written(self) -> None:
        """Report that the record of a run has begun."""
        self._outage.over()


async def delete_daily(folder: Path, keep_days: int, clock: Clock) -> NoReturn:
    """Once a day, delete the records to which nothing was written for this many days, until it is cancelled."""
    while True:
        await _delete_old(folder, keep_days, clock)
        await clock.sleep(DAY_SECONDS)


async def _delete_old(folder: Path, keep_days: int, clock: Clock) -> None:
    """Delete old records, a few at a time, and log their number in one line."""
    before, records = clock.wall() - timedelta(days=keep_days), 0
    try:
        while (deleted := await asyncio.to_thread(delete_old_records, folder, before, BATCH_RECORDS)).records:
            records += deleted.records
            await clock.sleep(BATCH_PAUSE)
        kept, error = deleted.kept, deleted.error
    except OSError as failure:
        kept, error = 0, error_text(failure)
    if error:
        log_warning("old records cannot be deleted", folder=str(folder), deleted=records, kept=kept, error=error)
    elif records:
        log(logging.INFO, "old records were deleted", {"folder": str(folder), "deleted": records})

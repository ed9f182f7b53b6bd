"""Retention of a service: deletes ended sessions that are too old or too many, once they are in its archive."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta

from ..decision import WrongUse
from ..objects.object_store import AccessRefused, ObjectStoreError
from ..providers._logging import log
from ..providers._outage import Outage
from ..store.base import Store, StoreError
from .session_archive import SessionArchive

PAUSE_SECONDS = 3600.0
"""Seconds between two deletions."""
RETRY_SECONDS = 60.0
"""Seconds after which a deletion that failed is tried again."""


class SessionRetention:
    """What is kept of ended sessions.

    keep_days: days after its last event when a session is deleted; None: never. keep_sessions: how many are kept, the
    latest ones; None: all. archive: gets a session before it is deleted; None: there is none.
    """

    def __init__(
        self, store: Store, *, keep_days: float | None, keep_sessions: int | None, archive: SessionArchive | None = None
    ) -> None:
        self._store, self._archive = store, archive
        self._keep_days, self._keep_sessions = keep_days, keep_sessions
        self._archive_works = False
        """Whether the archive could be written once."""
        self._outage = Outage("old sessions could not be deleted, and stay in the store")

    async def check(self) -> None:
        """Try whether the archive can be written, if there is one.

        An archive that is away is logged, and waited for later. Raises WrongUse if it refuses.
        """
        try:
            await self._check_archive()
        except AccessRefused as error:
            raise WrongUse(f"the archive cannot be written: {error}") from None
        except ObjectStoreError as error:
            self._outage.failed(error=str(error))

    async def run(self) -> None:
        """Delete sessions now and every hour; sooner again if the store or the archive is away."""
        if self._keep_days is None and self._keep_sessions is None:
            return
        while True:
            await asyncio.sleep(PAUSE_SECONDS if await self.delete_old() else RETRY_SECONDS)

    async def delete_old(self) -> bool:
        """Delete the sessions that are too old or too many now; False if that failed, which is logged."""
        archive = None if self._archive is None else self._archive.put
        try:
            await self._check_archive()
            deleted = await self._store.forget(before=self._oldest(), keep=self._keep_sessions, archive=archive)
        except (StoreError, ObjectStoreError) as error:
            self._outage.failed(error=str(error))
            return False
        self._outage.over()
        if deleted:
            what = "deleted old sessions" if archive is None else "archived and deleted old sessions"
            log(logging.INFO, what, {"sessions": deleted})
        return True

    async def _check_archive(self) -> None:
        if self._archive is not None and not self._archive_works:
            await self._archive.check()
            self._archive_works = True

    def _oldest(self) -> str | None:
        """Return the time before whose last event sessions are deleted; None: no session is deleted for its age."""
        if self._keep_days is None:
            return None
        try:
            return (datetime.now(UTC) - timedelta(days=self._keep_days)).isoformat(timespec="milliseconds")
        except OverflowError:  # before the year 1: no session is that old
            return None

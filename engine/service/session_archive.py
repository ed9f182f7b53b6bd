"""The archive of a service: records of ended sessions in an object store, put there before the sessions are deleted.

A session is one object, `OWNER/YEAR/MONTH/DAY/SESSION.jsonl.zst`, by the day on which it was created; its sub-agents
are beside it in `SESSION.subagents/`. A copy of these objects in a folder is a folder of records.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing

from anyio import to_thread

from ..base.metrics_registry import Metrics
from ..objects.object_store import ObjectStore, ObjectStoreError
from ..records.compression import SUFFIX, new_compressor
from ..records.files import SUBAGENTS_SUFFIX, subagent_file
from ..store.base import SessionFilter, Store, StoredSession
from .service_metrics import ARCHIVE_FAILURES, ARCHIVED
from .session_queries import session_record

AT_ONCE = 8
"""How many sessions are archived at the same time; their compressed records are in memory."""
CHECK_SECONDS = 10.0
"""How long a service that starts waits for its archive."""
README = "README.txt"
README_TEXT = b"""Records of sessions of endstop that its database has deleted.

OWNER/YEAR/MONTH/DAY/SESSION.jsonl.zst is a session, compressed with Zstandard. Characters of an owner's name other than
letters, digits, @, -, _ and . are written as _, and ~ and a hash of the name follow. `endstop fetch` copies them.
"""
_SAFE = re.compile(r"[^A-Za-z0-9@_.-]|^\.")
_LONGEST_NAME = 100


class SessionArchive:
    """The archive of a service.

    store: has the sessions. objects: gets their records. metrics: count what was archived, and what failed.
    """

    def __init__(self, store: Store, objects: ObjectStore, metrics: Metrics) -> None:
        self._store, self._objects, self._metrics = store, objects, metrics

    async def check(self) -> None:
        """Write a text about the archive into it. Raises ObjectStoreError if it is away or refuses that."""
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                await self._objects.put(README, README_TEXT)
        except ObjectStoreError:
            self._metrics.add(ARCHIVE_FAILURES)
            raise
        except TimeoutError:
            self._metrics.add(ARCHIVE_FAILURES)
            raise ObjectStoreError(f"{self._objects.name} did not answer within {CHECK_SECONDS:g} s") from None

    async def put(self, session_ids: Sequence[str]) -> dict[str, int]:
        """Put records of sessions that have ended into the archive.

        Returns the sessions that are in it now, each with the `StoredSession.token` that its record is of. If one
        fails, later ones are left out. Raises ObjectStoreError if the first ones fail, and StoreError.
        """
        done: dict[str, int] = {}
        for first in range(0, len(session_ids), AT_ONCE):
            ids = session_ids[first : first + AT_ONCE]
            results = await asyncio.gather(*map(self._put, ids), return_exceptions=True)
            errors = [result for result in results if isinstance(result, BaseException)]
            found = {id: token for id, token in zip(ids, results, strict=True) if isinstance(token, int)}
            self._metrics.add(ARCHIVED, amount=len(found))
            self._metrics.add(ARCHIVE_FAILURES, amount=len(errors))
            done |= found
            if errors and not (done and isinstance(errors[0], ObjectStoreError)):
                raise errors[0]
            if errors:
                break
        return done

    async def _put(self, session_id: str) -> int | None:
        """Put a session with its sub-agents, and return its token; None if it was deleted or has gone on meanwhile."""
        session = await self._store.session(session_id)
        if session is None:
            return None
        key = archive_key(session)
        folder = key.removesuffix(f".jsonl{SUFFIX}") + SUBAGENTS_SUFFIX
        records = {
            f"{folder}/{_safe_name(subagent_file(one.agent, one.id))}{SUFFIX}": await self._compressed(one)
            async for one in self._subagents(session_id)
        }
        records[key] = await self._compressed(session)  # last: where it is, all is
        now = await self._store.session(session_id)
        if now is None or now.token != session.token:
            # What was read may lack what another process has deleted or added, and must not replace a whole record.
            return None
        for name, record in records.items():
            await self._objects.put(name, record)
        return session.token

    async def _subagents(self, session_id: str) -> AsyncIterator[StoredSession]:
        """Yield the sub-agents of a session, and theirs."""
        before: str | None = None
        while True:
            found, before = await self._store.sessions(SessionFilter(parent=session_id, before=before))
            for one in found:
                yield one
                async for below in self._subagents(one.id):
                    yield below
            if before is None:
                return

    async def _compressed(self, session: StoredSession) -> bytes:
        compressor = new_compressor()
        pieces: list[bytes] = []
        async with aclosing(session_record(self._store, session)) as record:
            async for piece in record:
                pieces.append(await to_thread.run_sync(compressor.compress, piece))
        pieces.append(await to_thread.run_sync(compressor.flush))
        return b"".join(pieces)


def owner_folder(owner: str) -> str:
    """Return the folder of all records of an owner: the beginning of their keys, without a `/` at its end."""
    return _safe_name(owner)


def archive_key(session: StoredSession) -> str:
    """Return the key of a session's record. It never changes, so a session that is archived again replaces itself."""
    day = session.created_at[:10].replace("-", "/")
    return f"{owner_folder(session.owner)}/{day}/{_safe_name(session.id)}.jsonl{SUFFIX}"


def _safe_name(name: str) -> str:
    """Return a name for a key: itself if it is short and of letters, digits, `@`, `-`, `_` and `.`.

    Otherwise a hash of it follows, so that no two names become one.
    """
    safe = _SAFE.sub("_", name[:_LONGEST_NAME])
    if name and safe == name:
        return name
    return f"{safe}~{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"

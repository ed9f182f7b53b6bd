"""The service: sessions that live longer than a request, kept in a store and watched by any number of readers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from msgspec import Struct

from ...decision import Outcome
from ..engine import Engine
from ..store.store import SessionStatus, Store, StoredRun, StoredSession


class Frame(Struct, frozen=True):
    """One event for a reader. `line` is the event's line of a record, without a newline."""

    run_id: str
    seq: int
    line: bytes
    last: bool = False
    """Whether it is the terminal event of its run."""


class Missed(Struct, frozen=True):
    """Stands where a reader lost events: it was too slow, and they cannot be had from the store."""

    run_id: str
    missed: int
    next_seq: int


class Service:
    """SIGNATURES ONLY, being written. See the contract."""

    def __init__(
        self,
        engine: Engine | Mapping[str, Engine],
        *,
        store: Store | str | None = None,
        grace: float = 10.0,
        max_running: int = 1000,
        max_running_each: int | None = None,
        keep_days: float | None = None,
        keep_sessions: int | None = None,
    ) -> None: ...

    # as an async context manager it opens and closes store and engines; `lifespan(app)` is the same for ASGI apps
    async def __aenter__(self) -> Service: ...
    async def __aexit__(self, *exc: object) -> None: ...
    def begin_stopping(self) -> None: ...   # no new runs; running ones get `grace` seconds, then end as cancelled (shutdown)

    agents: Mapping[str, Engine]
    stopping: bool
    running: int

    # `owner`: whose session it is; None in these means that of anybody (in-process use)
    async def start(self, prompt: str, *, owner: str | None = None, agent: str | None = None) -> StoredSession: ...
    async def go_on(self, session_id: str, prompt: str, *, owner: str | None = None) -> StoredSession: ...
    async def answer(self, session_id: str, text: str, *, call_id: str | None = None, owner: str | None = None) -> StoredSession: ...
    async def say(self, session_id: str, text: str, *, owner: str | None = None) -> str: ...   # steer; the message's id
    async def cancel(self, session_id: str, cause: str = "caller", *, owner: str | None = None) -> StoredSession: ...
    async def resume(self, session_id: str, *, owner: str | None = None) -> StoredSession: ...
    async def session(self, session_id: str, *, owner: str | None = None) -> StoredSession: ...
    async def sessions(self, *, owner: str | None = None, status: SessionStatus | None = None, agent: str | None = None,
                       limit: int = 50, before: str | None = None) -> tuple[list[StoredSession], str | None]: ...
    async def run(self, run_id: str, *, owner: str | None = None) -> StoredRun: ...
    async def runs(self, session_id: str, *, owner: str | None = None) -> list[StoredRun]: ...
    async def outcome(self, run_id: str, *, wait: float = 0, owner: str | None = None) -> Outcome | None: ...  # None: still running
    async def delete(self, session_id: str, *, owner: str | None = None) -> None: ...
    def record(self, session_id: str) -> AsyncIterator[bytes]: ...      # header line, then pages; check ownership by session() before

    # Readers get everything that is there at once, in lists; nothing for `beat` seconds gives an empty list (heartbeat).
    def follow_run(self, run_id: str, after: int = 0, *, beat: float = 15.0) -> AsyncIterator[list[Frame | Missed]]: ...
    def follow_session(self, session_id: str, after: tuple[str, int] | None = None, *, beat: float = 15.0) -> AsyncIterator[list[Frame | Missed]]: ...

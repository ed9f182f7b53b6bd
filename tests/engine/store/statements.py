"""What a store executes, statement by statement, when everything is done that can be done with it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from endstop import store as package
from endstop.decision import Question
from endstop.store.base import SequenceConflict, SessionFilter, SessionStatus, StoreError
from endstop.store.database import Database
from endstop.store.queries import make_cursor
from endstop.store.sql import SqlStore
from endstop.store.transaction import Transaction
from msgspec.structs import replace
from sqlalchemy import Connection, event

from .made import all_pages, batch, beginning, ending, lines, message, session
from .others import process, waiting

FOLDER = Path(package.__file__ or "").parent
"""The code of the store."""
OWNERS = (None, "ann", "zoe")
STATUSES: tuple[SessionStatus | None, ...] = (None, "completed", "failed", "queued")
AGENTS = (None, "main", "other", "early")
"""What is listed of `many_sessions`, in all combinations: of most sessions, of few, of old ones only, of none."""


class Executed(NamedTuple):
    """A statement that the store has executed, and where."""

    dialect: str
    place: tuple[str, int]
    """The file and the line."""
    sql: str
    parameters: Any

    @property
    def has_plan(self) -> bool:
        """Whether a database plans it: it reads or writes rows."""
        return self.sql.split()[0] in ("SELECT", "INSERT", "UPDATE", "DELETE", "WITH")


@contextmanager
def recorded(database: Database, look: Callable[[Executed, Any], None] | None = None) -> Iterator[list[Executed]]:
    """What is executed meanwhile, each statement once for each place and all its parameters.

    look: called before each one is executed for the first time, with the driver's connection.
    """
    found: dict[str, Executed] = {}

    def note(connection: Connection, cursor: Any, sql: str, parameters: Any, context: Any, many: bool) -> None:
        one = Executed(connection.dialect.name, _place(sys._getframe()), sql, parameters[0] if many else parameters)
        if repr(one) not in found:
            found[repr(one)] = one
            if look is not None:
                look(one, cursor.connection)

    engines = (database.write_engine, database.read_engine, database.lease_engine)
    for engine in engines:
        event.listen(engine, "before_cursor_execute", note)
    noted: list[Executed] = []
    yield noted
    for engine in engines:
        event.remove(engine, "before_cursor_execute", note)
    noted += found.values()


def _place(frame: FrameType | None) -> tuple[str, int]:
    while frame is not None and Path(frame.f_code.co_filename).parent != FOLDER:
        frame = frame.f_back
    assert frame is not None, "only the store executes here"
    return Path(frame.f_code.co_filename).name, frame.f_lineno


async def use(store: SqlStore, rows: int) -> None:
    """Do everything that can be done with a store that has so many sessions of `many_sessions`."""
    await _claim_and_run(store)
    await _take_over(store)
    await _repeat(store)
    old = await store.session("old_500")
    assert old is not None
    for owner, status, agent, parent in product(OWNERS, STATUSES, AGENTS, (None, "old_2")):
        wanted = SessionFilter(owner=owner, status=status, agent=agent, parent=parent)
        _, cursor = await store.sessions(wanted)
        for place in {cursor or make_cursor(old), make_cursor(old)}:
            await store.sessions(replace(wanted, before=place))
    await store.run("run_of_7")
    await store.statuses(["run_of_7", "run_of_8"])
    await store.runs("old_7")
    await all_pages(store, "run_of_7")
    await store.delete("old_2")
    (idle,), _ = await store.sessions(SessionFilter(owner="ann", status="completed", limit=1))
    assert await store.delete_idle([idle]) == [idle.id]
    assert await store.forget(before="2025-01-01T00:01:00+00:00", keep=rows - rows // 50 - 200) > 0


async def _claim_and_run(store: SqlStore) -> None:
    await store.join(process("one"))
    await store.join(process("one"))
    await store.heartbeat("one")
    await store.processes()
    await store.settle_page_format()
    await store.queue(waiting(new=session()))
    await store.queued()
    await store.overview()
    await store.claim("session_1", "run_1")
    await store.commit(beginning(2))
    await store.request_cancel("session_1", "user")
    await store.add_message(message())
    await store.undelivered_messages("session_1")
    await store.commit(batch(3, 3, lines=lines(3, 3, step=True), delivered=("message_1",)))
    await store.delete_messages("session_1")
    question = Question("call_1", "Which port?")
    asked = {"status": "awaiting_input", "stop_reason": "awaiting_input", "questions": (question,)}
    await store.commit(ending(4, 4, outcome=asked, questions=(question,)))
    await store.queue(waiting("run_2", prompt=None))
    await store.commit(beginning(2, run="run_2"))
    await store.mark_interrupted("session_1", "its tools are others")


async def _take_over(store: SqlStore) -> None:
    await store.queue(waiting("run_2", prompt=None))
    await store.claim("session_1", "run_2")
    await store.commit(batch(3, 3, run="run_2", resumed=True))
    await store.evict("one", even_alive=True)
    await store.join(process("two"))
    await store.orphans()
    await store.requeue(["session_1"])
    await store.claim("session_1", "run_2")
    await store.commit(batch(4, 4, run="run_2", resumed=True))
    await store.evict("two", even_alive=True)
    await store.join(process("three"))
    await store.interrupt_orphans(["session_1"])
    await store.leave("three")
    await store.join(process("four", lease=0))
    await store.evict("four")
    await store.join(process("five", about={"pages": "3"}))
    await store.settle_page_format()


async def _repeat(store: SqlStore) -> None:
    """As after a commit of which nobody knows whether it succeeded."""
    await store.add(session("session_2"))
    await store.commit(beginning(2, run="run_3", of="session_2"))

    def again(transaction: Transaction) -> None:
        transaction._check_first = True
        transaction.add(session("session_2"))
        transaction.commit(beginning(2, run="run_3", of="session_2"))
        transaction.add_message(message("message_2", of="session_2"))

    await store._write(again)
    with suppress(SequenceConflict):
        await store.commit(batch(2, 2, run="run_3", of="session_2", lines=b"other"))
    with suppress(StoreError):
        await store.commit(batch(1, 2, run="nothing", of="nobody"))

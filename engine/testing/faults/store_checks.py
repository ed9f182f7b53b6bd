"""Checks of a store of sessions: what it must keep, refuse and pass on, whichever process writes, dies or is late."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

from ...decision import WrongUse
from ...decision.errors import error_text
from ...decision.wrong_calls import explained
from ...store.base import LeaseLost, SequenceConflict, SessionBusy, SessionLocked, Store, StoreError
from .simulated_loop import check_no_loop
from .stored_batches import all_pages, batch, beginning, ending, lines, message, process, seqs, session, waiting
from .violations import FaultReport, Stopwatch, check_not_async, chosen_names

PROCESSES = 5
"""Number of processes that want the same session at once."""
CASE_SECONDS = 30.0
"""Real seconds after which a case counts as hanging."""
MakeStore = Callable[[Path], Store]
Open = Callable[[str], Awaitable[Store]]
"""Function that opens the store again for a process of this name, which joins it."""


class NotKept(Exception):
    """A difference between what a store did and what it must do."""


@explained
def check_store(
    make_store: MakeStore, *, only: Sequence[str] | None = None, seconds: float | None = None
) -> FaultReport:
    """Check that a store keeps the promises of the protocol `Store`.

    make_store: called with an empty folder for each case; returns a store that is not open yet. A case with several
        processes calls it several times with the same folder, and all of these stores must share their data. A store
        elsewhere can use the folder's name as a key.
    only: names of cases, as in a violation; None for all. seconds: real seconds after which no further case is tried.

    Raises WrongUse inside a running event loop, and for arguments that cannot work.
    """
    check_no_loop("check_store")
    names = chosen_names(only, CASES)
    report, watch = FaultReport("check_store", of=len(CASES), counted="cases"), Stopwatch(seconds)
    with asyncio.Runner() as runner:
        for number, name in enumerate(names, 1):
            case = CASES[name]
            if watch.up:
                break
            report.tried += 1
            with tempfile.TemporaryDirectory(prefix="endstop_store") as folder:
                seen = runner.run(_tried(make_store, Path(folder), case))
            report.ends["failed" if seen else "passed"] += 1
            report.add(name, number, [("stored", seen)] if seen else [], f"only=[{name!r}]")
    report.seconds = watch.passed
    return report


async def _tried(make_store: MakeStore, folder: Path, case: Callable[[Open], Awaitable[None]]) -> str:
    """Run a case. Return what the store did wrong; empty if nothing."""
    try:
        async with _processes(make_store, folder) as open_as, asyncio.timeout(CASE_SECONDS):
            await case(open_as)
    except WrongUse:
        raise
    except TimeoutError:
        return f"it was not done within {CASE_SECONDS:g} s"
    except Exception as error:
        return str(error) if isinstance(error, NotKept) else error_text(error)
    return ""


@asynccontextmanager
async def _processes(make_store: MakeStore, folder: Path) -> AsyncIterator[Open]:
    async with AsyncExitStack() as stack:

        async def open_as(name: str) -> Store:
            store = make_store(folder)
            check_not_async("make_store", store)
            missing = [method for method in ("open", "commit", "claim", "pages", "join") if not hasattr(store, method)]
            if missing:
                raise WrongUse(
                    f"make_store returned {store!r}, which is not a store: it has no method {missing[0]!r}; write "
                    "`def make_store(folder): return MyStore(folder)`, with the methods of endstop.store.base.Store"
                )
            await store.open()
            stack.push_async_callback(store.close)
            await store.join(process(name))
            return store

        yield open_as


def _expect(right: bool, what: str) -> None:
    if not right:
        raise NotKept(what)


async def _refused(*kinds: type[Exception], work: Awaitable[object], what: str) -> None:
    try:
        await work
    except kinds:
        return
    except Exception as error:
        raise NotKept(f"{what} raised {error_text(error)}, not {' or '.join(k.__name__ for k in kinds)}") from error
    raise NotKept(f"{what} was not refused")


async def _has(store: Store, last: int, run: str = "run_1") -> None:
    """Check that the run has the events 1 to `last`, each once."""
    found = seqs(await all_pages(store, run, limit=2))
    _expect(found == list(range(1, last + 1)), f"{run} has the events {found}, and should have 1 to {last}")


async def _begun(store: Store) -> None:
    await store.add(session())
    await store.commit(beginning(2))


async def _keeps(open_as: Open) -> None:
    """Check that committed data is kept, also for a process that comes later.

    The first process is not closed before.
    """
    first = await open_as("one")
    await _begun(first)
    await first.commit(batch(3, 4, lines=lines(3, 4, filler="\u00e9\u6f22")))
    for store in (first, await open_as("two")):
        await _has(store, 4)
        found, run = await store.session("session_1"), await store.run("run_1")
        _expect(found is not None and run is not None, "the session or its run is gone")
        assert found is not None
        _expect((found.status, found.holder, found.runs) == ("running", "one", 1), f"the session is {found}")
        pages = await all_pages(store)
        kept = b"".join(page.lines for page in pages)
        _expect(lines(3, 4, filler="\u00e9\u6f22") in kept, "the lines differ from the committed ones")
    await first.commit(ending(5, 5))
    found = await first.session("session_1")
    _expect(found is not None and (found.status, found.holder) == ("completed", None), f"after its end it is {found}")


async def _reopens(open_as: Open) -> None:
    """Check that a store that was closed has everything when it is opened again."""
    first = await open_as("one")
    await _begun(first)
    await first.commit(ending(3, 3))
    await first.close()
    second = await open_as("two")
    await _has(second, 3)
    found = await second.session("session_1")
    _expect(found is not None and found.status == "completed", f"after opening it again the session is {found}")


async def _refuses_gaps(open_as: Open) -> None:
    """Check that events that do not continue the stored ones are refused.

    Nothing of them may be written.
    """
    store = await open_as("one")
    await _begun(store)
    for wrong in (batch(4, 5), batch(2, 3), batch(1, 2, lines=lines(1, 2, filler="z"))):
        what = f"events {wrong.first_seq} to {wrong.last_seq} after 2"
        await _refused(SequenceConflict, StoreError, work=store.commit(wrong), what=what)
    await _has(store, 2)
    await store.commit(batch(3, 3))
    await _has(store, 3)


async def _takes_duplicates(open_as: Open) -> None:
    """Check that a batch that is submitted again, as after a lost response, is written once."""
    store = await open_as("one")
    for _ in range(2):
        await _begun(store)
        await store.add_message(message())
        await store.commit(batch(3, 4))
        await store.commit(ending(5, 5))
    await _has(store, 5)
    found = await store.session("session_1")
    _expect(found is not None and found.runs == 1, f"after everything was submitted twice: {found}")
    _expect(
        len(await store.undelivered_messages("session_1")) == 1, "a message that was submitted twice is stored twice"
    )


async def _survives_cancels(open_as: Open) -> None:
    """Check that a commit whose caller is cancelled is written or not, and that later commits leave no gap."""
    store = await open_as("one")
    await store.add(session())
    await store.commit(beginning(2))
    for turns in range(8):
        first = 3 + turns
        task = asyncio.ensure_future(store.commit(batch(first, first)))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await store.commit(batch(first, first))
    await _has(store, 10)


async def _claims_once(open_as: Open) -> None:
    """Check that only one of several processes that claim a queued run at once gets it."""
    stores = [await open_as(f"process_{number}") for number in range(PROCESSES)]
    await stores[0].queue(waiting(new=session()))
    claims = [store.claim("session_1", "run_1") for store in stores]
    got = await asyncio.gather(*claims, return_exceptions=True)
    winners = [number for number, one in enumerate(got) if not isinstance(one, BaseException)]
    wrong = [error_text(one) for one in got if isinstance(one, BaseException) and not isinstance(one, SessionLocked)]
    _expect(not wrong, f"a claim raised {wrong} instead of SessionLocked")
    _expect(len(winners) == 1, f"{len(winners)} of {PROCESSES} processes got the session at once")
    found = await stores[0].session("session_1")
    holder = f"process_{winners[0]}"
    _expect(found is not None and found.holder == holder, f"{holder} got the session, but its holder is {found}")
    for number, store in enumerate(stores):
        if number != winners[0]:
            await _refused(SessionLocked, work=store.commit(beginning(2)), what="a batch of a process without a claim")
    await stores[winners[0]].commit(beginning(2))
    await _has(stores[0], 2)


async def _fences(open_as: Open) -> None:
    """Check that writes for a claim are refused once there is a later one."""
    store = await open_as("one")
    await store.queue(waiting(new=session()))
    first = await store.claim("session_1", "run_1")
    await store.commit(beginning(2, token=first.token))
    second = await store.claim("session_1", "run_1")
    _expect(second.token > first.token, f"the second claim has token {second.token}, but the first had {first.token}")
    await _refused(
        SessionLocked, work=store.commit(batch(3, 3, token=first.token)), what="a batch of the earlier claim"
    )
    await _has(store, 2)
    await store.commit(batch(3, 3, token=second.token))
    await _has(store, 3)


async def _evicts(open_as: Open) -> None:
    """Check that a process that was given up writes no more.

    Another one continues at the same event.
    """
    old, new = await open_as("old"), await open_as("new")
    await _begun(old)
    _expect(not await new.evict("old"), "a process was evicted although its lease is valid")
    _expect(await new.evict("old", even_alive=True), "a process that is known to be dead was not evicted")
    await _refused(LeaseLost, work=old.commit(batch(3, 3)), what="a batch of an evicted process")
    await _refused(LeaseLost, work=old.add(session("session_2")), what="a session of an evicted process")
    orphans = [orphan.session_id for orphan in await new.orphans()]
    _expect(orphans == ["session_1"], f"the orphaned sessions are {orphans}")
    _expect(await new.interrupt_orphans(orphans, "it died") == 1, "the orphan was not marked as interrupted")
    await new.queue(waiting("run_1", prompt=None))
    await new.claim("session_1", "run_1")
    await new.commit(batch(3, 3, resumed=True))
    await _has(new, 3)


async def _queues_once(open_as: Open) -> None:
    """Check that a session has one run at a time."""
    store = await open_as("one")
    for _ in range(2):
        await store.queue(waiting(new=session()))
    await _refused(SessionBusy, work=store.queue(waiting("run_2")), what="a second run in the queue")
    await store.claim("session_1", "run_1")
    await store.commit(beginning(2))
    await _refused(SessionBusy, work=store.queue(waiting("run_2")), what="a run in addition to a running one")
    _expect(await store.request_cancel("session_1", "first"), "a running session could not be cancelled")
    await store.request_cancel("session_1", "second")
    run = await store.run("run_1")
    _expect(run is not None and run.cancel == "first", f"cancelled for first, and then for second: {run}")
    await store.commit(ending(3, 3))
    _expect(not await store.request_cancel("session_1", "late"), "a finished run was cancelled")


async def _delivers(open_as: Open) -> None:
    """Check that a message is kept until a run has received it, and is deleted with its session."""
    store = await open_as("one")
    await _begun(store)
    for id in ("a", "b"):
        await store.add_message(message(id))
    await store.commit(batch(3, 3, delivered=("a",)))
    left = [one.id for one in await store.undelivered_messages("session_1")]
    _expect(left == ["b"], f"a was received and b was not, but {left} are waiting")
    await store.commit(ending(4, 4))
    _expect(await store.delete("session_1"), "the session was not deleted")
    _expect(await store.session("session_1") is None, "the session still exists after it was deleted")
    _expect(not await all_pages(store), "its events still exist after it was deleted")


async def _refuses_older(open_as: Open) -> None:
    """Check that a process that reads no pages of the newest format cannot join once all others read them."""
    store = await open_as("one")
    await store.join(process("older", about={}))
    _expect(not await store.settle_page_format(), "pages of the newest format are written beside a process of an older")
    await store.evict("older", even_alive=True)
    await store.join(process("one"))
    _expect(await store.settle_page_format(), "all members read the newest format of pages, and it is not written")
    await _refused(StoreError, work=store.join(process("awake", about={})), what="a process of an older format")


CASES: dict[str, Callable[[Open], Awaitable[None]]] = {
    "keeps": _keeps,
    "reopens": _reopens,
    "refuses_gaps": _refuses_gaps,
    "takes_duplicates": _takes_duplicates,
    "survives_cancels": _survives_cancels,
    "claims_once": _claims_once,
    "fences": _fences,
    "evicts": _evicts,
    "queues_once": _queues_once,
    "delivers": _delivers,
    "refuses_older": _refuses_older,
}

"""Who has which session of a store in memory, and of which processes it knows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import asdict, replace

from ..decision import WrongUse
from .base import (
    GOING,
    Crowded,
    Held,
    LeaseLost,
    NewSession,
    NotAtRest,
    Orphan,
    Process,
    QueuedRun,
    StoredProcess,
    StoredRun,
    StoredSession,
    StoreError,
)


class MemoryHolding:
    """The part of a `MemoryStore` that several processes need. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._processes: dict[str, tuple[Process, float]] = {}
        self._own: str | None = None
        self._waiting: dict[str, float] = {}
        self._sessions: dict[str, StoredSession] = {}
        self._runs: dict[str, StoredRun] = {}

    async def enrol(self, process: Process) -> None:
        """Let this process be known, and write as this process."""
        self._processes[process.id] = process, self._clock() + process.lease_seconds
        self._own = process.id

    async def renew(self, process_id: str) -> bool:
        """Begin the lease anew; False if the process was given up."""
        if process_id not in self._processes:
            return False
        process = self._processes[process_id][0]
        self._processes[process_id] = process, self._clock() + process.lease_seconds
        return True

    async def leave(self, process_id: str) -> None:
        """The process is not known any more."""
        self._processes.pop(process_id, None)

    async def processes(self) -> list[StoredProcess]:
        """All that are known, in the order in which they started."""
        now = self._clock()
        found = [
            StoredProcess(**asdict(process), alive=until > now, left=until - now)
            for process, until in self._processes.values()
        ]
        return sorted(found, key=lambda process: (process.started_at, process.id))

    async def give_up(self, process_id: str, *, even_alive: bool = False) -> bool:
        """Forget a process whose lease is over, so that it can write nothing more."""
        known = self._processes.get(process_id)
        if known is None or not (even_alive or known[1] <= self._clock()):
            return False
        del self._processes[process_id]
        return True

    async def orphans(self) -> list[Orphan]:
        """Sessions that are `running`, and whose holder is not known."""
        return [self._orphan(session) for session in self._unheld("running")]

    async def interrupt(self, session_ids: Sequence[str], trouble: str | None = None) -> int:
        """Mark those of these that are still orphans as `interrupted`."""
        self._fence()
        count = 0
        for session in self._unheld("running"):
            if session.id not in session_ids:
                continue
            if session.run_id is None:
                del self._sessions[session.id]
                continue
            count += 1
            self._sessions[session.id] = replace(session, status="interrupted", holder=None, trouble=trouble)
            self._runs[session.run_id] = replace(self._runs[session.run_id], status="interrupted", cancel=None)
        return count

    async def claim(self, session_id: str, run_id: str) -> StoredSession:
        """Make this process the holder of a session that is to run. Raises WrongUse if it has not enrolled."""
        if self._own is None:
            raise WrongUse("only a process that has enrolled can claim a session: call `enrol` first")
        self._fence()
        session = self._there(session_id)
        if session.run_id != run_id:
            raise Held(f"{run_id} is not the latest run of the session {session_id}: that is {session.run_id}")
        if session.status not in (*GOING, "interrupted"):
            raise Held(f"the run {run_id} of the session {session_id} is over: it is {session.status}")
        self._check_free(session)
        self._sessions[session_id] = replace(session, holder=self._own)
        return self._sessions[session_id]

    async def queue(self, run: QueuedRun) -> None:
        """Let a run wait for a process."""
        self._fence()
        session = self._sessions.get(run.session_id)
        if session is not None and (session.status, session.run_id) == ("queued", run.run_id):
            return
        if session is None and run.new is not None:
            session = fresh(run.new, None)
        elif session is None or run.new is not None:
            there = "not there (any more)" if session is None else "there already"
            raise StoreError(f"the session {run.session_id} is {there}")
        elif session.status in GOING and (session.run_id is not None or session.holder not in (None, self._own)):
            raise NotAtRest(f"the session {session.id} is {session.status}: {session.run_id}")
        if run.most_each is not None:
            self._check_room(session, run.most_each)
        resumed = session.run_id == run.run_id
        if resumed and session.status != "interrupted":
            raise StoreError(f"the run {run.run_id} is over: it is {session.status}")
        self._waiting[run.run_id] = self._clock()
        self._runs[run.run_id] = (
            replace(self._runs[run.run_id], status="queued", stop_reason=None, cancel=None, job=run.job)
            if resumed
            else StoredRun(
                id=run.run_id,
                session_id=run.session_id,
                number=session.runs + 1,
                status="queued",
                stop_reason=None,
                prompt=run.prompt,
                started_at=run.at,
                finished_at=None,
                last_seq=0,
                outcome=None,
                job=run.job,
            )
        )
        session = replace(session, run_id=run.run_id, runs=session.runs + (not resumed), updated_at=run.at)
        waits = replace(session, status="queued", stop_reason=None, questions=(), holder=None, trouble=None)
        self._sessions[session.id] = waits

    async def requeue(self, session_ids: Sequence[str]) -> list[str]:
        """Let runs wait again that nobody has, or that this process has."""
        self._fence()
        free = [
            session
            for session in map(self._there, session_ids)
            if session.status in GOING and session.run_id is not None
            if session.holder == self._own or session.holder not in self._processes
            if (session.status, session.holder) != ("queued", None)
        ]
        for session in free:
            assert session.run_id is not None
            self._waiting[session.run_id] = self._clock()
            self._runs[session.run_id] = replace(self._runs[session.run_id], status="queued")
            self._sessions[session.id] = replace(session, status="queued", holder=None)
        return [session.id for session in free]

    async def set_aside(self, session_id: str, why: str) -> None:
        """The run of a session that this process holds is interrupted."""
        self._fence()
        session = self._there(session_id)
        if session.holder != self._own or session.status not in GOING or session.run_id is None:
            return
        self._runs[session.run_id] = replace(self._runs[session.run_id], status="interrupted", cancel=None)
        self._sessions[session_id] = replace(session, status="interrupted", holder=None, trouble=why)

    async def queued(self, older_than_seconds: float = 0.0) -> list[Orphan]:
        """Runs that have been waiting for longer than that, and that no known process has claimed; oldest first."""
        before = self._clock() - older_than_seconds
        found = [self._orphan(session) for session in self._unheld("queued")]
        since = {orphan.session_id: self._waiting[orphan.run_id or ""] for orphan in found}
        found.sort(key=lambda orphan: since[orphan.session_id])
        return [orphan for orphan in found if since[orphan.session_id] <= before]

    async def ask_cancel(self, session_id: str, cause: str) -> bool:
        """Note on the session's run that it is to be cancelled."""
        self._fence()
        session = self._sessions.get(session_id)
        run = None if session is None else self._runs.get(session.run_id or "")
        if run is None or run.status not in GOING:
            return False
        self._runs[run.id] = replace(run, cancel=run.cancel or cause)
        return True

    def listen(self, told: Callable[[frozenset[str] | None], None]) -> None:
        """Nobody else can change anything here."""

    # ---- inside

    def _fence(self) -> None:
        if self._own is not None and self._own not in self._processes:
            raise LeaseLost(f"this process was given up ({self._own}): others may have its sessions by now")

    def _there(self, session_id: str) -> StoredSession:
        if session_id not in self._sessions:
            raise StoreError(f"the session {session_id} is not there (any more)")
        return self._sessions[session_id]

    def _check_room(self, session: StoredSession, most: int) -> None:
        going = [one for one in self._sessions.values() if one.status in GOING and one.id != session.id]
        if sum(one.owner == session.owner for one in going) >= most:
            raise Crowded(f"{most} sessions of {session.owner!r} are queued or running, which is as many as may be")

    def _check_free(self, session: StoredSession) -> None:
        if session.holder != self._own and session.holder in self._processes:
            raise Held(f"the session {session.id} is held by another process, {session.holder}")

    def _begun(self, session: StoredSession, run_id: str) -> StoredSession:
        self._check_free(session)
        if session.status == "queued" and session.run_id != run_id:
            raise Held(f"the session {session.id} has another run that waits, {session.run_id}")
        session = replace(session, status="running", stop_reason=None, run_id=run_id)
        return replace(session, holder=self._own, trouble=None)

    def _unheld(self, status: str) -> list[StoredSession]:
        found = self._sessions.values()
        return [one for one in found if one.status == status and one.holder not in self._processes]

    def _orphan(self, session: StoredSession) -> Orphan:
        job = self._runs[session.run_id].job if session.run_id is not None and session.status == "queued" else None
        return Orphan(session_id=session.id, run_id=session.run_id, agent=session.agent, job=job)


def fresh(new: NewSession, holder: str | None) -> StoredSession:
    """A new session as it is kept."""
    return StoredSession(
        id=new.id,
        owner=new.owner,
        agent=new.agent,
        title=new.title,
        status="running",
        stop_reason=None,
        created_at=new.created_at,
        updated_at=new.created_at,
        run_id=None,
        runs=0,
        steps=0,
        holder=holder,
    )

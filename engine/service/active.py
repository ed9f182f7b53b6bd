"""Active sessions: those with a run in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from ..decision import Image, UserMessage
from ..engine import Engine
from ..run import Run
from ..session import Session
from ..store.base import StoredMessage
from .event_buffer import EventBuffer, Notifier
from .ownership import RunOwnership


@dataclass(slots=True, eq=False)
class ActiveSession:
    """A session whose run is being executed in this process, or is about to be."""

    session_id: str
    owner: str
    agent: str = ""
    answering: Collection[str] = ()
    """Call ids of the questions whose answers start the run."""
    session: Session | None = None
    engine: Engine | None = None
    run: Run | None = None
    buffer: EventBuffer | None = None
    has_run: bool = False
    """If true, `RunSupervisor.release` keeps the session active: its run was made, and has not failed to start."""
    cancel_cause: str | None = None
    changed_elsewhere: bool = False
    """If true, another process changed the session in the store before `run` was made: look there for a request to
    cancel the run and for messages to it."""
    ownership: RunOwnership = field(default_factory=RunOwnership)
    """The claim of this process to the run."""
    interrupted: bool = False
    """Whether the run stopped without an end, for a user to resume."""
    messages: dict[str, UserMessage] = field(default_factory=dict)
    """The messages that were passed to the run, by id; the original ones as far as this process knows them, because
    those in the store may be redacted."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once the run is over and all of it is stored."""

    def attach_run(self, session: Session, engine: Engine | None, run: Run, buffer: EventBuffer) -> None:
        """Store the run that was made for this session, and cancel it if that was requested before."""
        self.session, self.engine, self.run, self.buffer, self.has_run = session, engine, run, buffer, True
        if self.cancel_cause is not None:
            run.cancel(self.cancel_cause)
        if self.ownership.lost:
            run.cancel("lost")

    def deliver(self, message: StoredMessage) -> None:
        """Pass a message to the run as it is in the store, unless it got it before."""
        if message.id not in self.messages:
            self.messages[message.id] = message.said
            if self.run is not None and not self.run.finished:
                self.run.say(message.said, id=message.id)

    def join_messages(self, messages: Sequence[StoredMessage]) -> UserMessage:
        """Join these messages into one prompt, with an empty line between two."""
        joined: list[str | Image] = []
        for message in messages:
            joined += [*([""] if joined else []), *self.messages.get(message.id, message.said).parts]
        return UserMessage.of(joined)

    def give_up(self, why: str) -> None:
        """Stop the run in this process and leave it to other processes, also if it is only about to start."""
        self.ownership.lose(why)
        if self.run is not None:
            self.run.cancel("lost")

    def cancel(self, cause: str) -> None:
        """Cancel the run, even if it is only about to start. Only the first cause counts."""
        if self.cancel_cause is None:
            self.cancel_cause = cause
            if self.run is not None:
                self.run.cancel(cause)


class ActiveSessions:
    """The active sessions of this process, by session and by run, with notifiers for those who wait for runs."""

    def __init__(self) -> None:
        self._sessions: dict[str, ActiveSession] = {}
        self._subagents: dict[str, ActiveSession] = {}
        """Sessions of sub-agents, which count with their callers and end with them."""
        self._runs: dict[str, ActiveSession] = {}
        self._received: dict[str, EventBuffer] = {}
        """The runs that other programs execute and that are received here, by their ids."""
        self._notifiers: WeakValueDictionary[str, Notifier] = WeakValueDictionary()
        self.stopping = False
        """True once the service is stopping: no more runs start in this process."""

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[ActiveSession]:
        return iter(tuple(self._sessions.values()))

    def by_session(self, session_id: str) -> ActiveSession | None:
        """Return the active session with this id; None if it is not active in this process."""
        return self._sessions.get(session_id) or self._subagents.get(session_id)

    def with_subagents(self) -> Sequence[ActiveSession]:
        """Return all active sessions, including those of sub-agents."""
        return (*self._sessions.values(), *self._subagents.values())

    def by_run(self, run_id: str) -> ActiveSession | None:
        """Return the active session whose current run has this id; None if this process does not execute it."""
        return self._runs.get(run_id)

    def buffer_of(self, run_id: str) -> EventBuffer | None:
        """Return the event buffer of this run; None if this process does not execute it."""
        active = self._runs.get(run_id)
        return active.buffer if active is not None else self._received.get(run_id)

    def count_of(self, owner: str) -> int:
        """Return the number of this owner's active sessions."""
        return sum(active.owner == owner for active in self._sessions.values())

    def add(self, active: ActiveSession) -> None:
        """Add a session, which must not be active yet: a session has one run at a time."""
        assert active.session_id not in self._sessions
        self._sessions[active.session_id] = active

    def add_subagent(self, active: ActiveSession) -> None:
        """Add the session of a sub-agent, for readers and for who cancels it."""
        self._subagents[active.session_id] = active

    def run_started(self, active: ActiveSession, run: Run) -> None:
        """Make a run that has started available to readers, and wake those who wait for a run of its session."""
        self._runs[run.id] = active
        self.notifier_of(active.session_id).notify()

    def remove(self, active: ActiveSession) -> None:
        """Remove a session whose run has ended or never started, and wake everybody who waits for either."""
        if self._sessions.get(active.session_id) is active:
            del self._sessions[active.session_id]
        if self._subagents.get(active.session_id) is active:
            del self._subagents[active.session_id]
        if active.run is not None and self._runs.get(active.run.id) is active:
            del self._runs[active.run.id]
        if active.buffer is not None:
            active.buffer.notifier.notify()
        active.ended.set()
        self.notifier_of(active.session_id).notify()

    def add_received(self, session_id: str, buffer: EventBuffer) -> None:
        """Make a received run available to readers."""
        self._received[buffer.run_id] = buffer
        self.notifier_of(session_id).notify()

    def remove_received(self, session_id: str, run_id: str) -> None:
        """Remove a received run whose end is stored, and wake everybody who waits for it."""
        buffer = self._received.pop(run_id, None)
        if buffer is not None:
            buffer.notifier.notify()
        self.notifier_of(session_id).notify()

    def notifier_of(self, session_id: str) -> Notifier:
        """Return the notifier of a session.

        Notified when a run of it starts or ends, another process changes it, it is deleted, or the service stops.
        """
        notifier = self._notifiers.get(session_id)
        if notifier is None:
            self._notifiers[session_id] = notifier = Notifier()
        return notifier

    def notify(self, session_ids: Collection[str] | None) -> None:
        """Wake those who wait for these sessions, because other processes have changed them. None: wake everybody."""
        for id in list(self._notifiers) if session_ids is None else session_ids:
            notifier = self._notifiers.get(id)
            if notifier is not None:
                notifier.notify()

    def stop(self) -> None:
        """Let no more runs start, and notify everybody who waits for one."""
        self.stopping = True
        for notifier in list(self._notifiers.values()):
            notifier.notify()

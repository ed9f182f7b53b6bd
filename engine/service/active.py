"""The sessions that have a run going on now."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from ..engine import Engine
from ..run import Run
from ..session import Session
from ..store.base import Message
from .event_buffer import EventBuffer, Notifier


@dataclass(slots=True, eq=False)
class ActiveSession:
    """A session whose run is going on, or about to."""

    session_id: str
    owner: str
    agent: str = ""
    answering: str | None = None
    """The question whose answer begins the run."""
    session: Session | None = None
    engine: Engine | None = None
    run: Run | None = None
    buffer: EventBuffer | None = None
    has_run: bool = False
    """Whether a run has come of it, or is about to."""
    cancel_cause: str | None = None
    changed_elsewhere: bool = False
    """Whether other processes have changed something while there was no run yet."""
    give_up_reason: str | None = None
    """Why this process leaves its run to others."""
    lost_reason: str | None = None
    """Why another process has its run now."""
    message_texts: dict[str, str] = field(default_factory=dict)
    """What was said to it, by the message's id, as it was said: the store may keep it redacted."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once the run is over and the store has all of it."""

    def attach_run(self, session: Session, engine: Engine, run: Run, buffer: EventBuffer) -> None:
        """A run comes of it, this one."""
        self.session, self.engine, self.run, self.buffer, self.has_run = session, engine, run, buffer, True
        if self.cancel_cause is not None:
            run.cancel(self.cancel_cause)
        if self.give_up_reason is not None:
            self.give_up(self.give_up_reason)

    def deliver(self, message: Message, text: str | None = None) -> None:
        """Say something to its run, once. text: as it was said, if the store keeps it redacted."""
        if message.id not in self.message_texts:
            self.message_texts[message.id] = message.text if text is None else text
            if self.run is not None and not self.run.finished:
                self.run.say(self.message_texts[message.id], id=message.id)

    def join_messages(self, messages: Sequence[Message]) -> str:
        """What these messages say, for a run of their own."""
        return "\n\n".join(self.message_texts.get(message.id, message.text) for message in messages)

    def give_up(self, why: str) -> None:
        """Give the run up, also one that is only about to begin: another process may go on with it."""
        self.give_up_reason = why
        if self.buffer is not None and self.run is not None:
            self.buffer.give_up(why)
            self.run.cancel("lost")

    def cancel(self, cause: str) -> None:
        """End the run, also one that is only about to begin. Only the first cause counts."""
        if self.cancel_cause is None:
            self.cancel_cause = cause
            if self.run is not None:
                self.run.cancel(cause)


class ActiveSessions:
    """Who is live, by session and by run; and who waits for a session's next run."""

    def __init__(self) -> None:
        self._sessions: dict[str, ActiveSession] = {}
        self._runs: dict[str, ActiveSession] = {}
        self._notifiers: WeakValueDictionary[str, Notifier] = WeakValueDictionary()
        self.stopping = False
        """True once no run begins any more."""

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[ActiveSession]:
        return iter(tuple(self._sessions.values()))

    def by_session(self, session_id: str) -> ActiveSession | None:
        """The session, if it is live."""
        return self._sessions.get(session_id)

    def by_run(self, run_id: str) -> ActiveSession | None:
        """The session whose run this is, if it is going on."""
        return self._runs.get(run_id)

    def buffer_of(self, run_id: str) -> EventBuffer | None:
        """The run's tape, if it is going on."""
        active = self._runs.get(run_id)
        return active.buffer if active is not None else None

    def count_of(self, owner: str) -> int:
        """How many are this owner's."""
        return sum(active.owner == owner for active in self._sessions.values())

    def add(self, active: ActiveSession) -> None:
        """Take the session's place: it has one run at a time."""
        assert active.session_id not in self._sessions
        self._sessions[active.session_id] = active

    def run_started(self, active: ActiveSession, run: Run) -> None:
        """Its run is going on: readers find it."""
        self._runs[run.id] = active
        self.notifier_of(active.session_id).notify()

    def remove(self, active: ActiveSession) -> None:
        """It rests again."""
        if self._sessions.get(active.session_id) is active:
            del self._sessions[active.session_id]
        if active.run is not None and self._runs.get(active.run.id) is active:
            del self._runs[active.run.id]
        if active.buffer is not None:
            active.buffer.notifier.notify()
        active.ended.set()
        self.notifier_of(active.session_id).notify()

    def notifier_of(self, session_id: str) -> Notifier:
        """Told when a run of this session begins or ends, and when the service stops."""
        notifier = self._notifiers.get(session_id)
        if notifier is None:
            self._notifiers[session_id] = notifier = Notifier()
        return notifier

    def notify(self, session_ids: Collection[str] | None) -> None:
        """Other processes have changed these sessions, or perhaps any."""
        for id in list(self._notifiers) if session_ids is None else session_ids:
            notifier = self._notifiers.get(id)
            if notifier is not None:
                notifier.notify()

    def stop(self) -> None:
        """No run begins any more; whoever waits for one is told."""
        self.stopping = True
        for notifier in list(self._notifiers.values()):
            notifier.notify()

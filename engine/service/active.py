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
from .event_buffer import News, Tape


@dataclass(slots=True, eq=False)
class Live:
    """A session whose run is going on, or about to."""

    session_id: str
    owner: str
    agent: str = ""
    answering: str | None = None
    """The question whose answer begins the run."""
    session: Session | None = None
    engine: Engine | None = None
    run: Run | None = None
    tape: Tape | None = None
    taken: bool = False
    """Whether a run has come of it, or is about to."""
    cancelled: str | None = None
    overheard: bool = False
    """Whether other processes have changed something while there was no run yet."""
    given_up: str | None = None
    """Why this process leaves its run to others."""
    lost: str | None = None
    """Why another process has its run now."""
    said: dict[str, str] = field(default_factory=dict)
    """What was said to it, by the message's id, as it was said: the store may keep it redacted."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once the run is over and the store has all of it."""

    def take(self, session: Session, engine: Engine, run: Run, tape: Tape) -> None:
        """A run comes of it, this one."""
        self.session, self.engine, self.run, self.tape, self.taken = session, engine, run, tape, True
        if self.cancelled is not None:
            run.cancel(self.cancelled)
        if self.given_up is not None:
            self.lose(self.given_up)

    def say(self, message: Message, text: str | None = None) -> None:
        """Say something to its run, once. text: as it was said, if the store keeps it redacted."""
        if message.id not in self.said:
            self.said[message.id] = message.text if text is None else text
            if self.run is not None and not self.run.finished:
                self.run.say(self.said[message.id], id=message.id)

    def prompt_of(self, messages: Sequence[Message]) -> str:
        """What these messages say, for a run of their own."""
        return "\n\n".join(self.said.get(message.id, message.text) for message in messages)

    def lose(self, why: str) -> None:
        """Give the run up, also one that is only about to begin: another process may go on with it."""
        self.given_up = why
        if self.tape is not None and self.run is not None:
            self.tape.lose(why)
            self.run.cancel("lost")

    def cancel(self, cause: str) -> None:
        """End the run, also one that is only about to begin. Only the first cause counts."""
        if self.cancelled is None:
            self.cancelled = cause
            if self.run is not None:
                self.run.cancel(cause)


class Lives:
    """Who is live, by session and by run; and who waits for a session's next run."""

    def __init__(self) -> None:
        self._sessions: dict[str, Live] = {}
        self._runs: dict[str, Live] = {}
        self._news: WeakValueDictionary[str, News] = WeakValueDictionary()
        self.stopping = False
        """True once no run begins any more."""

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Live]:
        return iter(tuple(self._sessions.values()))

    def of_session(self, session_id: str) -> Live | None:
        """The session, if it is live."""
        return self._sessions.get(session_id)

    def of_run(self, run_id: str) -> Live | None:
        """The session whose run this is, if it is going on."""
        return self._runs.get(run_id)

    def tape_of(self, run_id: str) -> Tape | None:
        """The run's tape, if it is going on."""
        live = self._runs.get(run_id)
        return live.tape if live is not None else None

    def owned_by(self, owner: str) -> int:
        """How many are this owner's."""
        return sum(live.owner == owner for live in self._sessions.values())

    def add(self, live: Live) -> None:
        """Take the session's place: it has one run at a time."""
        assert live.session_id not in self._sessions
        self._sessions[live.session_id] = live

    def begun(self, live: Live, run: Run) -> None:
        """Its run is going on: readers find it."""
        self._runs[run.id] = live
        self.news_of(live.session_id).tell()

    def remove(self, live: Live) -> None:
        """It rests again."""
        if self._sessions.get(live.session_id) is live:
            del self._sessions[live.session_id]
        if live.run is not None and self._runs.get(live.run.id) is live:
            del self._runs[live.run.id]
        if live.tape is not None:
            live.tape.news.tell()
        live.ended.set()
        self.news_of(live.session_id).tell()

    def news_of(self, session_id: str) -> News:
        """Told when a run of this session begins or ends, and when the service stops."""
        news = self._news.get(session_id)
        if news is None:
            self._news[session_id] = news = News()
        return news

    def tell(self, session_ids: Collection[str] | None) -> None:
        """Other processes have changed these sessions, or perhaps any."""
        for id in list(self._news) if session_ids is None else session_ids:
            news = self._news.get(id)
            if news is not None:
                news.tell()

    def stop(self) -> None:
        """No run begins any more; whoever waits for one is told."""
        self.stopping = True
        for news in list(self._news.values()):
            news.tell()

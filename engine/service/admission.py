"""Who may run: agents by their names, one run a session, and no more sessions at once than the limits allow."""

from __future__ import annotations

from collections.abc import Mapping

from ..engine import Engine
from .active import Live, Lives
from .errors import Conflict, TooMany, Unavailable, Unknown, busy, too_many_of_yours


class Admission:
    """Gives a session its place among the live ones, or refuses it."""

    def __init__(self, agents: Mapping[str, Engine], lives: Lives, most: int, most_each: int | None) -> None:
        self._agents = agents
        self._lives = lives
        self._most = most
        self.most_each = most_each
        """How many sessions of one owner may run; None for any number."""

    def agent(self, name: str | None) -> tuple[str, Engine]:
        """The agent of this name, or the default one."""
        if not self._agents:
            raise Unavailable("no_model", "this server has no model: start it with --model, as in --model openai/gpt-5")
        chosen = next(iter(self._agents)) if name is None else name
        if chosen not in self._agents:
            raise Unknown("agent", f"there is no agent {chosen[:100]!r}; there is {', '.join(self._agents)}")
        return chosen, self._agents[chosen]

    def check_open(self) -> None:
        """Refuse to begin anything once the service is about to stop."""
        if self._lives.stopping:
            raise Unavailable("stopping", "the server is about to stop: try again in a moment")

    def admit(self, session_id: str, owner: str, agent: str, answering: str | None = None) -> Live:
        """Take the place of a session that is about to run."""
        self.check_open()
        present = self._lives.of_session(session_id)
        if present is not None and answering is not None and present.answering == answering:
            raise Conflict("answered", f"session {session_id}: somebody has just answered this question")
        if present is not None:
            raise busy(session_id)
        if len(self._lives) >= self._most:
            raise TooMany("sessions", f"{self._most} sessions are running, which is as many as may: try later")
        if self.most_each is not None and self._lives.owned_by(owner) >= self.most_each:
            raise too_many_of_yours(self.most_each)
        live = Live(session_id, owner, agent, answering)
        self._lives.add(live)
        return live

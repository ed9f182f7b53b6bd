"""Errors of the service: why it refuses to do something.

Refusal                 the text says what is wrong and what to do
├── Unknown            there is no such session, run or agent, or it belongs to somebody else
├── Conflict           the state of the session does not allow it; `code` says which state
├── Forbidden          the operator has not allowed it
├── TooMany            a limit of the service is reached; it may work later
└── ServiceUnavailable the service is stopping, or has no model
"""

from __future__ import annotations

from ..decision.wrong_attributes import explained_attributes
from ..store.base import StoredSession


@explained_attributes
class Refusal(Exception):
    """The service refuses a request. `code` is a short word for programs, `detail` a sentence for people."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


class Unknown(Refusal):
    """The session, run or agent does not exist or belongs to another owner. Codes: `session`, `run`, `agent`."""


class Conflict(Refusal):
    """The state of the session does not allow the request.

    Codes: `busy`, `running`, `not_running`, `interrupted`, `not_interrupted`, `no_open_question`, `answered`, `exists`,
    `subagent`, `received`.
    """


class Forbidden(Refusal):
    """The operator has not allowed it. Code: `until`."""


class TooMany(Refusal):
    """A limit is reached. Codes: `sessions`, `subscribers`, `rate`.

    after: seconds after which the caller may try again; None: not known.
    """

    def __init__(self, code: str, detail: str, after: float | None = None) -> None:
        super().__init__(code, detail)
        self.after = after


class ServiceUnavailable(Refusal):
    """The service is not ready for such a request. Codes: `stopping`, `not_open`, `no_model`."""


RECEIVED = "otlp:"
"""The prefix of the agent of a received session; the name that the agent's program gives it follows."""


def is_received(session: StoredSession) -> bool:
    """Return whether another program runs the session, known here only from its spans (`span_receiver.py`)."""
    return session.agent.startswith(RECEIVED)


def check_runs_here(session: StoredSession) -> None:
    """Raise Conflict for a session whose runs cannot be started or steered here: a sub-agent's, or a received one."""
    check_no_subagent(session)
    if is_received(session):
        raise Conflict("received", f"session {session.id} was received as spans: it runs in another program, not here")


def too_many_of_yours(most: int) -> TooMany:
    """Return the error for an owner who already has `most` sessions running."""
    return TooMany("sessions", f"{most} of your sessions are running, and no more may: wait for one to end")


def check_no_subagent(session: StoredSession) -> None:
    """Raise Conflict for the session of a sub-agent: its runs belong to its caller's calls."""
    if session.parent is not None:
        where = f"ask, answer and resume the session that runs it, {session.parent}"
        raise Conflict("subagent", f"session {session.id} is a sub-agent's: {where}")


def busy(session_id: str) -> Conflict:
    """Return the error for a request to start a run in a session that already has one."""
    return Conflict("busy", f"session {session_id} is running: wait for its end, send it a message, or cancel it")

"""What a service answers when it does not do what it was asked.

Refusal                 whose text says what is wrong and what to do
├── Unknown            no such session, run or agent, or it is somebody else's
├── Conflict           the session is not in a state for it; `code` says which
├── TooMany            a limit of the service is reached; it may work later
└── Unavailable        the service is stopping, or has no model
"""

from __future__ import annotations


class Refusal(Exception):
    """Not done. `code` is a short word for programs."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


class Unknown(Refusal):
    """There is no such thing, or not for this owner: `session`, `run`, `agent`."""


class Conflict(Refusal):
    """The state forbids it.

    `busy`, `running`, `not_running`, `interrupted`, `not_interrupted`, `no_open_question`, `answered`, `exists`.
    """


class TooMany(Refusal):
    """`sessions`, `subscribers`, `rate`; `after` is in how many seconds it may work, where that is known."""

    def __init__(self, code: str, detail: str, after: float | None = None) -> None:
        super().__init__(code, detail)
        self.after = after


class Unavailable(Refusal):
    """`stopping`, `no_model`, `store`."""


def too_many_of_yours(most: int) -> TooMany:
    """An owner has as many sessions going on as may be."""
    return TooMany("sessions", f"{most} of your sessions are running, or wait to: wait for one to end")


def busy(session_id: str) -> Conflict:
    """The session has a run already."""
    return Conflict("busy", f"session {session_id} is running: wait for its end, say something to it, or cancel it")

"""Admission: which agent a session runs with, whether it may run now, and whether its input is valid."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from anyio import to_thread

from ..base.sanitize import one_line
from ..decision import Message, UserMessage, WrongUse
from ..engine import Engine
from ..records.event_redaction import TextRedactor
from ..records.format import Redact
from ..session import Session
from ..store.base import NewSession, StoredSession
from ..until import Until
from ..until_settings import OPERATOR_ONLY, UntilSettings, session_until, until_settings_from
from .active import ActiveSession, ActiveSessions
from .errors import Conflict, Forbidden, ServiceUnavailable, TooMany, Unknown, busy, too_many_of_yours

TITLE = 120
"""How many characters of its first prompt become the title of a session, at most."""
METADATA_BYTES = 16_000
"""The longest metadata of a session, as JSON."""
ClientUntil = Callable[[UntilSettings], Until]
"""Function that makes the check of a session from what its client asked for."""
_ID = re.compile(r"[A-Za-z0-9._:-]{1,100}")


class Admission:
    """Admission of sessions to run: one run per session, and no more sessions than the limits allow."""

    def __init__(
        self,
        agents: Mapping[str, Engine],
        active_sessions: ActiveSessions,
        max_running: int,
        max_running_each: int | None,
        client_until: ClientUntil | None,
    ) -> None:
        self._agents = agents
        self._client_until = client_until
        self._active_sessions = active_sessions
        self._max_running = max_running
        self._max_running_each = max_running_each

    def agent(self, name: str | None) -> tuple[str, Engine]:
        """Return the agent with this name; None means the default one.

        Raises Unknown, or ServiceUnavailable if there are none.
        """
        if not self._agents:
            raise ServiceUnavailable(
                "no_model", "this server has no model: start it with --model, as in --model openai/gpt-5"
            )
        chosen = next(iter(self._agents)) if name is None else name
        if chosen not in self._agents:
            raise Unknown("agent", f"there is no agent {chosen[:100]!r}; there is {', '.join(self._agents)}")
        return chosen, self._agents[chosen]

    async def check_until(self, engine: Engine, until: object) -> UntilSettings | None:
        """Return the check that a client asks for, as plain data; None for none. Raises Forbidden or WrongUse."""
        if until is None:
            return None
        settings = until_settings_from(until, "until", refused=OPERATOR_ONLY)
        size = len(msgspec.json.encode(settings))
        if size > METADATA_BYTES:
            raise WrongUse(f"until has {size:,} bytes as JSON: {METADATA_BYTES:,} are allowed")
        await to_thread.run_sync(engine.config.with_until, self._until(settings))
        return settings

    def _until(self, settings: UntilSettings) -> Until:
        if self._client_until is None:
            raise Forbidden("until", "this server runs no checks of its clients: start it with --allow-until")
        return self._client_until(settings)

    async def session(
        self, engine: Engine, kept: NewSession | StoredSession, history: Sequence[Message] = ()
    ) -> Session:
        """Return a new or stored session, with the check that a client asked for when it began. Raises WrongUse.

        history: the messages before a new one.
        """
        settings = session_until(kept.metadata)
        make = partial(engine.session, kept.id, owner=kept.owner or None, metadata=kept.metadata, history=history)
        if settings is None:
            return make()
        until = self._until(settings)
        return await to_thread.run_sync(partial(make, until=until))  # it reads all guarded files

    def check_open(self) -> None:
        """Raise ServiceUnavailable once the service is stopping."""
        if self._active_sessions.stopping:
            raise ServiceUnavailable("stopping", "the server is stopping: try again in a moment")

    def admit(self, session_id: str, owner: str, agent: str, answering: Collection[str] = ()) -> ActiveSession:
        """Make a session active that is about to run. Raises ServiceUnavailable, Conflict or TooMany.

        answering: the call ids of the questions whose answers start the run.
        """
        self.check_open()
        present = self._active_sessions.by_session(session_id)
        if present is not None:
            check_unanswered(session_id, {*answering} & {*present.answering})
            raise busy(session_id)
        if len(self._active_sessions) >= self._max_running:
            raise TooMany("sessions", f"{self._max_running} sessions are running, and no more may: try again later")
        if self._max_running_each is not None and self._active_sessions.count_of(owner) >= self._max_running_each:
            raise too_many_of_yours(self._max_running_each)
        active = ActiveSession(session_id, owner, agent, tuple(answering))
        self._active_sessions.add(active)
        return active


def check_unanswered(session_id: str, answered: Collection[str]) -> None:
    """Raise Conflict if a question, given by its call id, was just answered by somebody else."""
    if answered:
        which = ", ".join(sorted(answered))
        raise Conflict("answered", f"session {session_id}: question {which} has just been answered")


def check_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of a session as plain JSON. Raises WrongUse if it is not a JSON object or too large."""
    try:
        text = msgspec.json.encode(metadata)
        plain = msgspec.json.decode(text, type=dict[str, Any])
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise WrongUse(f"metadata is not a JSON object: {error}") from None
    if len(text) > METADATA_BYTES:
        raise WrongUse(f"metadata has {len(text):,} bytes as JSON: {METADATA_BYTES:,} are allowed")
    return plain


def check_not_negative(**numbers: float | None) -> None:
    """Raise WrongUse for a number below 0."""
    for name, number in numbers.items():
        if number is not None and not number >= 0:
            raise WrongUse(f"{name} is {number!r}: use a number of 0 or more")


def check_positive(**numbers: float) -> None:
    """Raise WrongUse for a number that is not above 0."""
    for name, number in numbers.items():
        if not number > 0:
            raise WrongUse(f"{name} is {number!r}: use a number above 0")


def check_id(id: str) -> str:
    """Return the id if it is a valid session id. Raises WrongUse."""
    if not _ID.fullmatch(id):
        raise WrongUse(f"{id[:100]!r} cannot name a session: use 1 to 100 letters, digits, '-', '_', '.' and ':'")
    return id


def title_of(prompt: str) -> str:
    """Return the title of a session: the start of its first prompt, in one line."""
    return one_line(prompt.lstrip()[: 4 * TITLE], TITLE)


def redacted(text: str, redact: Redact | None) -> str:
    """Redact the secrets in a text before it is stored. redact: None redacts nothing."""
    return text if redact is None else TextRedactor(redact).text(text)


def redacted_message(message: UserMessage, redact: Redact | None) -> UserMessage:
    """Redact a message before it is stored.

    An image whose URL holds a secret is left out: no provider could fetch it.
    """
    if redact is None:
        return message
    texts = TextRedactor(redact)
    images = tuple(image for image in message.images if texts.text(image.url) == image.url)
    return UserMessage(texts.text(message.text), images)

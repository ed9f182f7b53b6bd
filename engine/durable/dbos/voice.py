"""What DBOS says: warnings go to structlog, without passwords, and nothing goes to a stream by itself."""

from __future__ import annotations

import logging

from ..._logging import complain
from ..._sanitize import one_line

_SAID_BY_US = (
    "Asyncio task cancelled",  # ours are, when `working` is left
    "Could not connect to postgres database to verify existence",  # we have looked
    "Current version",
    "Duplicate registration",
    "Error connecting to the DBOS system database",
    "Exception encountered in asynchronous workflow",
    "Workflow already exists in queue",
)
_LOST = "no longer owned by this execution"
_SECONDS, _LONGEST = 60.0, 300


class Voice(logging.Handler):
    """Hands warnings of DBOS on; the same one once in a minute: five threads of DBOS ask a database that is away."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.secrets: frozenset[str] = frozenset()
        self._last: dict[tuple[str, int], tuple[float, int]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Say it."""
        said = record.getMessage()
        if said.startswith(_SAID_BY_US) or _LOST in said:
            return
        place = (record.filename, record.lineno)
        at, unsaid = self._last.get(place, (float("-inf"), 0))
        if record.created < at + _SECONDS:
            self._last[place] = (at, unsaid + 1)
            return
        self._last[place] = (record.created, 0)
        if record.exc_info and record.exc_info[1] is not None:
            said = f"{said} {record.exc_info[1]!r}"
        for secret in self.secrets:
            said = said.replace(secret, "***")
        complain("DBOS has a trouble", said=one_line(said, _LONGEST), **({"as_before": unsaid} if unsaid else {}))


_VOICE = Voice()


def listen(secrets: tuple[str, ...]) -> None:
    """Take what DBOS says, before it makes a handler of its own, which it does only if there is none."""
    _VOICE.secrets |= set(secrets)
    logger = logging.getLogger("dbos")
    if not logger.handlers:
        logger.addHandler(_VOICE)
        logger.propagate = False

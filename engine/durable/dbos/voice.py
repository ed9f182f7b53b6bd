"""What DBOS says: warnings go to structlog, without passwords, and nothing goes to a stream by itself."""

from __future__ import annotations

import logging

_SAID_BY_US = (
    "Asyncio task cancelled",  # ours are, when `working` is left
    "Current version",
    "Duplicate registration",
    "Error connecting to the DBOS system database",
    "Exception encountered in asynchronous workflow",
    "Workflow already exists in queue",
    "Could not connect to postgres database to verify existence",  # we have looked
)
_LOST = "no longer owned by this execution"


class Voice(logging.Handler):
    """Hands warnings of DBOS on."""

    secrets: frozenset[str] = frozenset()

    def emit(self, record: logging.LogRecord) -> None:
        """Say it."""
        said = record.getMessage()
        if said.startswith(_SAID_BY_US) or _LOST in said:
            return
        if record.exc_info and record.exc_info[1] is not None:
            said = f"{said} {record.exc_info[1]!r}"
        for secret in self.secrets:
            said = said.replace(secret, "***")
        import structlog

        structlog.get_logger("endstop").warning("DBOS has a trouble", said=" ".join(said.split()))


_VOICE = Voice(logging.WARNING)


def listen(secrets: tuple[str, ...]) -> None:
    """Take what DBOS says, before it makes a handler of its own, which it does only if there is none."""
    _VOICE.secrets |= set(secrets)
    logger = logging.getLogger("dbos")
    if not logger.handlers:
        logger.addHandler(_VOICE)
        logger.propagate = False

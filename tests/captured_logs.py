"""What endstop logs, for tests: the event and the fields of each record."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_OF_EVERY_RECORD = {*logging.makeLogRecord({}).__dict__, "message"}


class _Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.entries: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        fields = {name: value for name, value in vars(record).items() if name not in _OF_EVERY_RECORD}
        self.entries.append({"log_level": record.levelname.lower(), **fields})


@contextmanager
def capture_logs() -> Iterator[list[dict[str, Any]]]:
    """Yield a list for the records of all levels within the block, as dictionaries."""
    logger, kept, level = logging.getLogger("endstop"), _Kept(), logging.getLogger("endstop").level
    logger.addHandler(kept)
    logger.setLevel(logging.DEBUG)
    try:
        yield kept.entries
    finally:
        logger.removeHandler(kept)
        logger.setLevel(level)

"""The record of a follower: written while its runs go on, lost where it cannot be, and begun again with the next run.

A loop never waits or fails for its record. What a run has after its record was lost is not in it, as if the process had
been killed there; the session's next run stands in it whole, or in a new file if that one was deleted.
"""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from ..base.version import __version__
from ..decision import Event, WrongUse
from ..decision import events as ev
from ..decision.errors import error_text
from ..providers.clock import Clock
from ..records.format import Redact
from ..records.recorder import RecordWriter

if TYPE_CHECKING:
    from ..records.known_secrets import KnownSecrets


class FollowerRecord:
    """Record of the runs of one session.

    path: the file to write, or to append to. on_loss: called with the error, once for each run that is not recorded, or
    not to its end. If None, a warning is logged, and WrongUse or OSError is raised if the file cannot be opened at all.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        session_id: str,
        clock: Clock,
        redact: Redact | None,
        on_loss: Callable[[Exception], None] | None,
    ) -> None:
        self.path = Path(path)
        self._session_id = session_id
        self._clock = clock
        self._redact = redact
        self._on_loss = on_loss
        self._known: KnownSecrets | None = None
        self._writer: RecordWriter | None = None
        """None while the record cannot be written."""
        try:
            self._writer = self._open(one_session=False)
        except (WrongUse, OSError):
            if on_loss is None:
                raise  # otherwise the first run tries again

    @property
    def continued(self) -> str | None:
        """The session of the record that is appended to; None for a new one."""
        return None if self._writer is None else self._writer.continued

    @property
    def lost(self) -> bool:
        """Whether nothing is written until the next run."""
        return self._writer is None

    def hide(self, known: KnownSecrets) -> None:
        """Also hide known secrets, as `RecordWriter.hide` does."""
        self._known = known
        if self._writer is not None:
            self._writer.hide(known)

    def write(self, event: Event) -> None:
        """Add an event."""
        if self._writer is None and type(event) is ev.RunStarted:
            self._begin_again()
        if self._writer is not None:
            try:
                self._writer.write(event)
            except OSError as error:
                self._lose(self._writer, error)

    def flush(self) -> None:
        """Pass everything to the operating system."""
        self._guard(RecordWriter.flush)

    def rest(self) -> None:
        """Flush, and close the file until there is more to write."""
        self._guard(RecordWriter.rest)

    def close(self) -> None:
        """Flush and close."""
        self._guard(RecordWriter.close)

    def _open(self, *, one_session: bool) -> RecordWriter:
        if self._on_loss is not None:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        now = self._clock.wall().isoformat(timespec="milliseconds")
        redact = self._redact
        return RecordWriter(self.path, self._session_id, now, __version__, redact=redact, one_session=one_session)

    def _begin_again(self) -> None:
        try:
            self._writer = self._open(one_session=True)
        except (WrongUse, OSError) as error:
            self._report(error)
        else:
            if self._known is not None:
                self._writer.hide(self._known)

    def _guard(self, write: Callable[[RecordWriter], None]) -> None:
        writer = self._writer
        if writer is not None:
            try:
                write(writer)
            except (OSError, WrongUse) as error:
                self._lose(writer, error)

    def _lose(self, writer: RecordWriter, error: Exception) -> None:
        writer.abandon()
        self._writer = None
        self._report(error)

    def _report(self, error: Exception) -> None:
        if self._on_loss is None:
            from ..providers._logging import log_warning

            log_warning("the record can no longer be written", record=str(self.path), error=error_text(error))
        else:
            self._on_loss(error)

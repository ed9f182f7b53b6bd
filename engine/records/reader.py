"""The record of a session: JSON Lines, a header, then its runs, each from RUN_STARTED to its terminal event.

A line is written as soon as its event has happened and handed to the operating system before the next side effect,
so that a killed process loses nothing it acted on. A torn last line costs that line only.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import IO

from msgspec import Struct

from ..decision import Event, WrongUse
from ..decision.events import RunFinished, RunStarted, ToolCallResult
from .attachments import ABOVE, Attached, Attaching
from .compression import SUFFIX, is_compressed
from .files import batches
from .format import BEGINNING, NO_RUN, AfterCut, Header, encoded, header_in, lines_of, read_line
from .redaction import Redactor
from .texts import Redact

try:
    import fcntl
except ImportError:  # not every platform has it
    _LOCKS = False
else:
    _LOCKS = True


GATHERED = 256
"""So many events are encoded, all at once, also where no flush asks for it."""


class RecordWriter:
    """Appends to a record file; a new file gets a header. Raises WrongUse if the file is something else.

    redact: applied to each text of a user, a model or a tool before it is written.
    attach_above: bytes from which on the text or a picture of a result goes into a file of its own; None: never.
    named: what the record will be called once it is whole, if it is written under another name: its attachments are
        found by it.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        session_id: str,
        created_at: str,
        engine: str,
        *,
        redact: Redact | None = None,
        attach_above: int | None = ABOVE,
        named: str | os.PathLike[str] | None = None,
    ) -> None:
        self.path = Path(path)
        self._redactor = None if redact is None else Redactor(redact)
        self._attaching = Attaching(named or path, attach_above)
        if self.path.suffix == SUFFIX:
            raise WrongUse(
                f"{self.path}: a record is written plain; name it {self.path.stem}, and compress it afterwards"
            )
        self._new = not self.path.exists()
        grown = self.path.exists() and self.path.stat().st_size > 0
        if grown:
            header_of(self.path)  # before it is opened: a file that is something else is never touched
            if is_compressed(self.path):
                raise WrongUse(f"{self.path} is compressed, and nothing can be added to it: `zstd -d` it first")
        try:
            self._file: IO[bytes] = open(self.path, "ab", buffering=256 * 1024)  # noqa: SIM115  closed by `close`
        except OSError as error:
            raise WrongUse(f"cannot write the record {self.path}: {error.strerror}") from None
        if _LOCKS:
            with suppress(OSError):  # for `being_written`: it keeps nobody away
                fcntl.flock(self._file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        self._broken = False
        self._begun = False
        """Whether an event of this run is in the file, and so something to go on from."""
        self._gathered: list[Event | AfterCut] = []
        try:
            if not grown:
                self._write(Header(session_id=session_id, created_at=created_at, engine=engine))
            elif not _ends_with_newline(self.path):
                self._file.write(b"\n")  # so that a torn last line costs no more than itself
            self._file.flush()
        except OSError as error:
            raise self._refused(error) from None

    def write(self, event: Event | AfterCut) -> None:
        """Add an event. With redaction, a response and what happens meanwhile is held back until it is whole."""
        if self._redactor is None:
            self._gathered.append(event)
        else:
            self._gathered += self._redactor.take(event)
        if len(self._gathered) >= GATHERED:
            self._write_gathered()

    def flush(self) -> None:
        """Hand everything to the operating system. Raises OSError once; after that the record is given up.

        Raises WrongUse if that happens before anything of the run is kept: nothing has been done yet.
        """
        if not self._broken:
            begins = bool(self._gathered)
            try:
                self._write_gathered()
                self._file.flush()
            except OSError as error:
                if not self._begun:
                    raise self._refused(error) from None
                self._give_up()
                raise
            self._begun = self._begun or begins

    def close(self) -> None:
        """Flush and close."""
        if self._redactor is not None:
            self._gathered += self._redactor.rest()
        self.flush()
        if not self._broken:
            self._file.close()

    def _write(self, line: Struct) -> None:
        if self._broken:
            return  # the run was told, and ends by it; its last events still reach its readers
        try:
            self._file.write(encoded(line) + b"\n")
        except OSError:
            self._give_up()
            raise

    def _write_gathered(self) -> None:
        gathered, self._gathered = self._gathered, []
        if self._broken:
            return
        try:
            lines = [self._attaching.put(line) if type(line) is ToolCallResult else line for line in gathered]
            try:
                self._file.write(lines_of(lines))
            except (TypeError, ValueError):  # one of them is not quite JSON: it is written as far as it can be
                for line in lines:
                    self._write(line)
        except OSError:
            self._give_up()
            raise

    def _refused(self, error: OSError) -> WrongUse:
        """The error for a record in which no run can begin. A file that was made for it goes again."""
        self._give_up()
        if self._new:
            with suppress(OSError):
                self.path.unlink()
        return WrongUse(f"cannot write the record {self.path}: {error.strerror or error}")

    def _give_up(self) -> None:
        """Close a file that takes no more; what its buffer holds is lost, and trying again would raise again."""
        self._broken = True
        with suppress(OSError):
            self._file.close()


class RecordedRun(Struct, kw_only=True):
    """One run of a record."""

    events: list[Event]
    after_cut: list[AfterCut]

    @property
    def started(self) -> RunStarted:
        """Its first event."""
        first = self.events[0]
        assert isinstance(first, RunStarted)
        return first

    @property
    def finished(self) -> RunFinished | None:
        """Its terminal event; None if the process was killed before."""
        last = self.events[-1]
        return last if isinstance(last, RunFinished) else None


class SessionRecord(Struct, kw_only=True):
    """A record as read."""

    path: str
    header: Header
    runs: list[RecordedRun]
    damaged: list[int]
    """Numbers of the lines that could not be read."""
    missing: list[str] = []
    """Attachments that are not there; what they held is missing in the results, and said there."""


def read_record(path: str | os.PathLike[str]) -> SessionRecord:
    """Read a whole record, compressed or not, with its attachments.

    Raises WrongUse if it is none, is newer, or has lost events in the middle.
    """
    runs: list[RecordedRun] = []
    damaged: list[int] = []
    number = 0
    header: Header | None = None
    attached = Attached(path)
    for lines in batches(path):
        header = header or header_in(path, lines[0])
        for line in lines:
            number += 1
            said = read_line(line)
            if isinstance(said, str):
                damaged += [number] * (said == "damaged")
            elif isinstance(said, RunStarted):
                runs.append(RecordedRun(events=[said], after_cut=[]))
            elif isinstance(said, AfterCut):
                if runs:
                    runs[-1].after_cut.append(said)
            elif not isinstance(said, Header):
                if not runs:
                    raise WrongUse(f"{path}, line {number}: an event before any RUN_STARTED")
                runs[-1].events.append(attached.back(said) if isinstance(said, ToolCallResult) else said)
    header = header or header_in(path, b"")
    if not runs:
        raise WrongUse(f"{path}: {NO_RUN}")
    for run in runs:
        _check_whole(path, run.events, damaged)
    return SessionRecord(path=str(path), header=header, runs=runs, damaged=damaged, missing=attached.missing)


def being_written(path: str | os.PathLike[str]) -> bool:
    """Whether somebody writes to this record now. False also where that cannot be known."""
    if not (_LOCKS and Path(path).is_file()):
        return False
    try:
        with open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def header_of(path: str | os.PathLike[str]) -> Header:
    """The header of a record. Raises WrongUse if the file is missing, is no record or is newer."""
    with suppress(OSError):
        if stat.S_ISFIFO(os.stat(path).st_mode):
            raise WrongUse(f"{path} is a pipe, and a record is read more than once: write it to a file first")
    return header_in(path, next(batches(path), [b""])[0])


def is_record(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as a record does, compressed or not, of whatever version. Raises WrongUse if unreadable."""
    return next(batches(path), [b""])[0].startswith(BEGINNING)


def _check_whole(path: str | os.PathLike[str], events: Iterable[Event], damaged: list[int]) -> None:
    expected = 0
    for event in events:
        expected += 1
        if event.seq > expected and damaged:
            lines = ", ".join(map(str, damaged))
            raise WrongUse(
                f"{path}: events {expected} to {event.seq - 1} of a run are lost (damaged line {lines}): mend these "
                "lines or take the file from a backup; the runs before that line are whole"
            )
        expected = event.seq


def _ends_with_newline(path: Path) -> bool:
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"

"""Writes a record."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import IO

from msgspec import Struct

from ..decision import Event, WrongUse
from ..decision.events import ToolCallResult
from .attachments import ATTACH_ABOVE, AttachmentWriter
from .compression import SUFFIX, is_compressed
from .event_redaction import Redact, StreamRedactor
from .format import DrainedChunk, Header, encode_line, encode_lines
from .reader import read_header

try:
    import fcntl
except ImportError:  # not every platform has it
    _LOCKS = False
else:
    _LOCKS = True


BATCH_EVENTS = 256
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
        attach_above: int | None = ATTACH_ABOVE,
        named: str | os.PathLike[str] | None = None,
    ) -> None:
        self.path = Path(path)
        self._redactor = None if redact is None else StreamRedactor(redact)
        self._attachments = AttachmentWriter(named or path, attach_above)
        if self.path.suffix == SUFFIX:
            raise WrongUse(
                f"{self.path}: a record is written plain; name it {self.path.stem}, and compress it afterwards"
            )
        self._new = not self.path.exists()
        grown = self.path.exists() and self.path.stat().st_size > 0
        if grown:
            read_header(self.path)  # before it is opened: a file that is something else is never touched
            if is_compressed(self.path):
                raise WrongUse(f"{self.path} is compressed, and nothing can be added to it: `zstd -d` it first")
        try:
            self._file: IO[bytes] = open(self.path, "ab", buffering=256 * 1024)  # noqa: SIM115  closed by `close`
        except OSError as error:
            raise WrongUse(f"cannot write the record {self.path}: {error.strerror}") from None
        if _LOCKS:
            with suppress(OSError):  # for `is_being_written`: it keeps nobody away
                fcntl.flock(self._file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        self._broken = False
        self._begun = False
        """Whether an event of this run is in the file, and so something to go on from."""
        self._gathered: list[Event | DrainedChunk] = []
        try:
            if not grown:
                self._write(Header(session_id=session_id, created_at=created_at, engine=engine))
            elif not _ends_with_newline(self.path):
                self._file.write(b"\n")  # so that a torn last line costs no more than itself
            self._file.flush()
        except OSError as error:
            raise self._refused(error) from None

    def write(self, event: Event | DrainedChunk) -> None:
        """Add an event. With redaction, a response and what happens meanwhile is held back until it is whole."""
        if self._redactor is None:
            self._gathered.append(event)
        else:
            self._gathered += self._redactor.feed(event)
        if len(self._gathered) >= BATCH_EVENTS:
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
            self._gathered += self._redactor.flush()
        self.flush()
        if not self._broken:
            self._file.close()

    def _write(self, line: Struct) -> None:
        if self._broken:
            return  # the run was told, and ends by it; its last events still reach its readers
        try:
            self._file.write(encode_line(line) + b"\n")
        except OSError:
            self._give_up()
            raise

    def _write_gathered(self) -> None:
        gathered, self._gathered = self._gathered, []
        if self._broken:
            return
        try:
            lines = [self._attachments.write(line) if type(line) is ToolCallResult else line for line in gathered]
            try:
                self._file.write(encode_lines(lines))
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


def is_being_written(path: str | os.PathLike[str]) -> bool:
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


def _ends_with_newline(path: Path) -> bool:
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"

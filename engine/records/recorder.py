"""Write a record, event by event, while its session runs.

An event is written as soon as it has happened, and passed to the operating system before the next side effect, so that
a killed process loses nothing that it acted on. A torn last line costs only that line.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from time import sleep
from typing import IO, TYPE_CHECKING, Any

from msgspec import Struct

from ..decision import Event, WrongUse
from ..decision.events import RunStarted
from .attachments import MAY_HOLD_IMAGES, AttachmentWriter
from .compression import MAGIC, SUFFIX, begins_with, is_compressed
from .deduplication import LineShortener
from .format import ATTACH_ABOVE, DrainedChunk, Header, Redact, encode_line, encode_lines
from .reader import read_first_run, read_header

if TYPE_CHECKING:
    from .event_redaction import KnownRedactor, StreamRedactor
    from .known_secrets import KnownSecrets

try:
    import fcntl
except ImportError:  # not every platform has it
    _LOCKS = False
else:
    _LOCKS = True


LOCK_ATTEMPTS, LOCK_PAUSE = 20, 0.002
"""Number of times a writer tries to lock its file, and the seconds between them."""
BATCH_EVENTS = 256
"""Number of events that are encoded together; after this many without a flush they are written anyway."""
BUFFER_BYTES = 16 * 1024
"""Bytes that are passed to the operating system together, but for a flush."""


class RecordWriter:
    """Writer that appends to a record file. A new file gets a header.

    redact: applied to each text of a user, a model or a tool before it is written.
    attach_above: an image, or a text of a result, with more bytes is stored in a separate file; None: never.
    named: the final path of the record, if it is written under a temporary name: attachments are stored next to it.
    one_session: whether to refuse the record of another session.

    Raises WrongUse if the file exists and is not a record, holds another session, is compressed, is being written, or
    cannot be written.
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
        one_session: bool = False,
    ) -> None:
        self.path = Path(path)
        self._redact = redact
        self._hiding: KnownRedactor | None = None
        self._redactor: StreamRedactor | None = None
        if redact is not None:
            from .event_redaction import StreamRedactor

            self._redactor = StreamRedactor(redact)
        self._attachments = AttachmentWriter(named or path, attach_above)
        if self.path.suffix == SUFFIX:
            raise WrongUse(
                f"{self.path}: records are written uncompressed: name it {self.path.stem}, and compress it afterwards"
            )
        self._new = not self.path.exists()
        has_content = self.path.exists() and self.path.stat().st_size > 0
        self._shortener = LineShortener()
        self.continued: str | None = None
        """The session of the record that is appended to; None for a new one."""
        if has_content:  # read before it is opened, so that a file that is not a record is never changed
            header = read_header(self.path)
            self._shortener = LineShortener(header, self._read_first_run)
            self.continued = header.session_id
            if is_compressed(self.path):
                tool = "zstd" if begins_with(self.path, MAGIC) else "gzip"
                raise WrongUse(f"{self.path} is compressed and cannot be appended to: run `{tool} -d` on it first")
            if one_session and header.session_id != session_id:
                raise WrongUse(
                    f"{self.path} is the record of session {header.session_id}, and a record holds one session: go on "
                    f"in it with `engine.resume({str(path)!r})` (or `endstop run --resume`), or name another file"
                )
        try:
            self._file = self._open()
        except OSError as error:
            raise WrongUse(f"cannot write the record {self.path}: {error.strerror}") from None
        locked = _lock(self._file)
        begun_meanwhile = not has_content and os.fstat(self._file.fileno()).st_size > 0
        if not locked or begun_meanwhile:
            self._file.close()
            raise WrongUse(
                f"{self.path} is being written by another run: record to another file, or wait for its end and go on "
                f"in it with `engine.resume({str(path)!r})`. A record that two runs write at once could not be read"
            )
        self._broken = False
        self._resting: tuple[int, int] | None = None
        """Device and inode of the file while it is closed until there is more to write; None while it is open."""
        self._run_begun = False
        """Whether an event of this run is in the file."""
        self._pending: list[Event | DrainedChunk] = []
        self._batch = BATCH_EVENTS
        """Events after which the waiting ones are written."""
        try:
            if not has_content:
                self._write(Header(session_id=session_id, created_at=created_at, engine=engine))
            elif not _ends_with_newline(self.path):
                self._file.write(b"\n")  # ends a torn last line, so that it does not damage the next one
            self._file.flush()
        except OSError as error:
            raise self._close_unused(error) from None

    def hide(self, known: KnownSecrets) -> None:
        """Also hide known secrets, in texts and in names. Call it before the first event.

        Events that contain one, or in which one may begin, are then written only when the writer is flushed, which must
        be done when a response is whole.
        """
        from .event_redaction import KnownRedactor, StreamRedactor

        if self._redact is None:
            self._hiding = KnownRedactor(known)
        else:
            self._redactor = StreamRedactor(self._redact, known)

    def write(self, event: Event | DrainedChunk) -> None:
        """Add an event. With redaction, the events of a response are held back until the response is complete."""
        if self._redactor is None:
            self._pending.append(event)
        else:
            self._pending += self._redactor.feed(event)
        if len(self._pending) >= self._batch:
            self._write_early()

    def _write_early(self) -> None:
        """Write a part of a response in progress, unless it contains a known secret."""
        if self._hiding is not None and not self._hiding.may_be_written(self._pending):
            self._batch *= 2  # held-back events are checked again, but not for each event
        else:
            self._write_pending(whole=False)

    def flush(self) -> None:
        """Pass everything to the operating system.

        Raises WrongUse if nothing of this run could be written yet, and OSError later. After either, the file is closed
        and further events are dropped.
        """
        if not self._broken:
            begins = bool(self._pending)
            try:
                self._write_pending()
                if self._resting is None:
                    self._file.flush()
            except OSError as error:
                if not self._run_begun:
                    raise self._close_unused(error) from None
                self.abandon()
                raise
            self._run_begun = self._run_begun or begins

    def rest(self) -> None:
        """Flush, and close the file until there is more to write: during a long wait no open file or lock is needed.

        Raises like `flush`. A record that is deleted or replaced during the wait is lost: the next `flush` raises.
        """
        self.flush()
        if self._resting is None and not self._broken:
            self._resting = _identity(self._file)
            self._file.close()

    def close(self) -> None:
        """Flush and close."""
        if self._redactor is not None:
            self._pending += self._redactor.flush()
        self.flush()
        if not self._broken:
            self._file.close()

    def _open(self) -> IO[bytes]:
        return open(self.path, "ab", buffering=BUFFER_BYTES)

    def _reopen(self, rested: tuple[int, int]) -> None:
        """Open the file again that was closed. Raises FileNotFoundError if it is gone, or another has its name.

        It is not created again, since events without their header could not be read.
        """
        self._file = open(self.path, "ab", buffering=BUFFER_BYTES, opener=_open_existing)  # noqa: SIM115  `close` closes it
        if _identity(self._file) != rested:
            self._new = False  # so that the other file is not removed
            raise FileNotFoundError(errno.ENOENT, "the record was replaced by another file", str(self.path))
        self._resting = None

    def _write(self, line: Struct | dict[str, Any]) -> None:
        if self._broken:
            return  # `flush` has raised, which ends the run; its last events go only to its subscribers
        try:
            self._file.write(encode_line(line) + b"\n")
        except OSError:
            self.abandon()
            raise

    def _write_pending(self, *, whole: bool = True) -> None:
        """Write pending events. whole: whether they are whole responses, from which known secrets are redacted."""
        pending, self._pending, self._batch = self._pending, [], BATCH_EVENTS
        if self._broken:
            return
        if self._hiding is not None and pending and whole:
            pending = self._hiding.redact(pending)
        try:
            if pending and self._resting is not None:
                self._reopen(self._resting)
            lines = [self._attachments.write(line) if type(line) in MAY_HOLD_IMAGES else line for line in pending]
            lines = self._shortener.shorten(lines)
            try:
                self._file.write(encode_lines(lines))
            except (TypeError, ValueError):  # one of them is not valid JSON: `encode_line` writes what it can
                for line in lines:
                    self._write(line)
        except OSError:
            self.abandon()
            raise

    def _read_first_run(self) -> RunStarted | None:
        """Read the first run of the file that is appended to; None, too, if it has been taken away meanwhile."""
        try:
            return read_first_run(self.path)
        except WrongUse:
            return None

    def _close_unused(self, error: OSError) -> WrongUse:
        """Close the file, remove it if it is new, and return the error to raise: no run can begin in this record."""
        self.abandon()
        if self._new:
            with suppress(OSError):
                self.path.unlink()
        return WrongUse(f"cannot write the record {self.path}: {error.strerror or error}")

    def abandon(self) -> None:
        """Close a file that can no longer be written. The contents of its buffer are lost."""
        self._broken = True
        with suppress(OSError):
            self._file.close()


def _open_existing(path: str, flags: int) -> int:
    """Open a file for `open`, but do not create it."""
    return os.open(path, flags & ~os.O_CREAT)


def _identity(file: IO[bytes]) -> tuple[int, int]:
    """Return device and inode."""
    status = os.fstat(file.fileno())
    return status.st_dev, status.st_ino


def _lock(file: IO[bytes]) -> bool:
    """Lock a file for its only writer. False if it has another one; True on platforms and disks without locks."""
    if not _LOCKS:
        return True
    for _ in range(LOCK_ATTEMPTS):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sleep(LOCK_PAUSE)  # it may only be a check (`is_being_written`)
        except OSError:
            return True
        else:
            return True
    return False


def is_being_written(path: str | os.PathLike[str]) -> bool:
    """Return whether a process is now writing to this record. Always False on platforms without `flock`."""
    if not (_LOCKS and Path(path).is_file()):
        return False
    try:
        with open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def _ends_with_newline(path: Path) -> bool:
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"

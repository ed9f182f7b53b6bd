"""Files of a person, which are changed with a copy kept, in one step, and put back byte for byte.

The copy is not beside the file but in endstop's state folder: a project's folder is committed and shared, and an agent
reads whatever is in some of its folders. Only the person can read that folder.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

import msgspec

from ..decision import WrongUse
from .document_edits import Entry

NEW_FOLDER_MODE = 0o700
_LARGEST = 16_000_000
"""Bytes of a configuration that is read."""


class KeptCopy(msgspec.Struct):
    """What is known of a file that was changed. It stands beside the copy."""

    path: str
    absent: bool
    """Whether there was no file before."""
    after: str
    """The fingerprint of what was written."""
    made: list[str] = []
    """Folders that were made for the file, the outermost first."""
    entries: list[Entry] = []
    """What was set: an address may be another one than what is asked for the next time."""


class PreciousFile:
    """A file of a person's configuration. It is read when the object is made.

    path: as the agent names it; where that is a link, the link stays, and the file that it leads to is changed. copies:
    the folder in which copies are kept. Raises WrongUse for a file that cannot be read.
    """

    def __init__(self, path: Path, copies: Path) -> None:
        self.path = path
        try:
            self.target = Path(os.path.realpath(path, strict=False))
            if self.target.is_symlink():
                raise WrongUse(f"{path} is a link that leads back to itself: nothing was written")
            self.content = self._read()
        except OSError as error:
            raise WrongUse(f"cannot read {path}: {error.strerror}") from None
        self._folder = copies / hashlib.sha256(os.fsencode(self.target)).hexdigest()[:16]
        self.kept = self._read_kept()
        """What is known if it was changed; None if it was not."""

    @property
    def base(self) -> bytes | None:
        """What the file held before endstop changed it, or holds now if it has not; None for no file.

        `base_known` says whether that is the exact content.
        """
        if self.kept is None:
            return self.content
        if self.kept.absent:
            return None
        try:
            return (self._folder / "before").read_bytes()
        except OSError:
            return self.content

    @property
    def unchanged(self) -> bool:
        """Whether the file holds exactly what endstop wrote."""
        return self.kept is not None and self.kept.after == _fingerprint(self.content)

    @property
    def copy(self) -> Path:
        """Where the copy of what was there before is kept."""
        return self._folder / "before"

    def check_writable(self) -> None:
        """Raise WrongUse if the file must not or cannot be replaced."""
        if self.content is not None and not self.target.stat().st_mode & 0o222:
            raise WrongUse(f"{self.path} is read-only: make it writable with chmod u+w, or add the lines yourself")
        folder = self.target.parent
        while not folder.exists():
            folder = folder.parent
        if not folder.is_dir():
            raise WrongUse(f"{folder} is not a folder, so {self.path} cannot be written")
        if not (folder.stat().st_mode & 0o222 and os.access(folder, os.W_OK)):
            raise WrongUse(f"{folder} is read-only, so {self.path} cannot be written: make it writable with chmod u+w")

    def write(self, content: bytes, base: bytes | None, entries: list[Entry]) -> None:
        """Replace the content. base: what undo is to restore, None for no file. entries: what was set in it.

        Raises WrongUse, then the file is as it was.
        """
        self.check_writable()
        try:
            made = [str(folder) for folder in reversed(self.target.parents) if not folder.exists()]
            if self.kept is not None:
                made = [folder for folder in self.kept.made if folder not in made] + made
            self._keep(KeptCopy(str(self.target), base is None, _fingerprint(content), made, entries), base)
            for folder in made:
                with suppress(FileExistsError):
                    os.mkdir(folder, NEW_FOLDER_MODE)
            self._replace(content)
        except OSError as error:
            raise WrongUse(f"cannot write {self.path}: {error.strerror}") from None

    def restore(self, content: bytes | None) -> None:
        """Put back this content, None for no file, and forget the copy and folders that were made. Raises WrongUse."""
        if content != self.content:
            self.check_writable()
        try:
            if content is None and self.content is not None:
                os.unlink(self.target)
            elif content is not None and content != self.content:
                self._replace(content)
        except OSError as error:
            raise WrongUse(f"cannot write {self.path}: {error.strerror}") from None
        for folder in reversed(self.kept.made if self.kept and content is None else []):
            with suppress(OSError):  # there is something else in it
                os.rmdir(folder)
        self.content = content
        shutil.rmtree(self._folder, ignore_errors=True)
        self.kept = None

    def _read(self) -> bytes | None:
        try:
            descriptor = os.open(self.target, os.O_RDONLY | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        except NotADirectoryError:
            raise WrongUse(f"{self.target.parent} is not a folder, so {self.path} cannot be there") from None
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise WrongUse(f"{self.path} is not a file")
            content = file.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            raise WrongUse(f"{self.path} is larger than {_LARGEST:,} bytes: that is no configuration")
        return content

    def _read_kept(self) -> KeptCopy | None:
        try:
            return msgspec.json.decode((self._folder / "kept.json").read_bytes(), type=KeptCopy)
        except (OSError, msgspec.MsgspecError):
            return None

    def _keep(self, kept: KeptCopy, base: bytes | None) -> None:
        """Write down what is to be restored, before the file is changed."""
        self._folder.mkdir(NEW_FOLDER_MODE, parents=True, exist_ok=True)
        os.chmod(self._folder.parent, NEW_FOLDER_MODE)
        if base is None:
            self.copy.unlink(missing_ok=True)
        else:
            _write_whole(self.copy, base)
        _write_whole(self._folder / "kept.json", msgspec.json.encode(kept))
        self.kept = kept

    def _replace(self, content: bytes) -> None:
        if self._read() != self.content:
            raise WrongUse(f"{self.path} was changed by another program just now: run the command again")
        _write_whole(self.target, content)
        self.content = content


def _write_whole(path: Path, content: bytes) -> None:
    """Replace a file in one step, with the mode, the owner and the attributes of the one that was there."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mode 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            if path.exists():
                before = path.stat()
                with suppress(PermissionError):  # another owner's file that the group may write
                    os.fchown(file.fileno(), before.st_uid, before.st_gid)
                shutil.copystat(path, name)
                os.utime(name)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


def _fingerprint(content: bytes | None) -> str:
    return "" if content is None else hashlib.sha256(content).hexdigest()

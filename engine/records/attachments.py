"""Attachments: large texts and images of tool results, stored in files beside the record instead of in its lines.

The attachments of `x.jsonl` (or `x.jsonl.zst`) are in the folder `x.files`. Each file is named by the SHA-256 of its
content. A result whose text is attached has the hash in `attached` and the beginning of the text in `content`; an
attached image has the hash in its `url`. Only valid hashes are looked up, and a file whose content does not match its
hash is ignored, so a record cannot make a reader open any other file.
"""

from __future__ import annotations

import os
import re
import stat
from hashlib import sha256
from pathlib import Path

from msgspec.structs import replace

from ..decision import Image
from ..decision.events import ToolCallResult
from .files import ATTACHMENTS_SUFFIX, MAX_LINE_BYTES, RECORD_SUFFIXES

ATTACH_ABOVE = 256 * 1024
"""A text or image of more bytes than this is attached, by default."""
SCHEME = "attached:"
"""The `url` of an attached image is this prefix and the hash."""
PREVIEW_CHARS = 1000
"""Characters of an attached text that stay in the record."""
MAX_MISSING_NAMES = 100
"""`AttachmentReader.missing` lists at most this many names."""
_HASH = re.compile(r"[0-9a-f]{64}")


def attachments_folder(record: str | os.PathLike[str]) -> Path:
    """The folder of a record's attachments; it need not exist."""
    path = Path(record)
    ending = next(
        (suffix for suffix in sorted(RECORD_SUFFIXES, key=len, reverse=True) if path.name.endswith(suffix)), ""
    )
    return path.parent / (path.name.removesuffix(ending) + ATTACHMENTS_SUFFIX)


class AttachmentWriter:
    """Stores large texts and images of results. `above`: the limit in bytes; None stores nothing."""

    def __init__(self, record: str | os.PathLike[str], above: int | None = ATTACH_ABOVE) -> None:
        self._folder = attachments_folder(record)
        self._above = above

    def write(self, event: ToolCallResult) -> ToolCallResult:
        """Store what is too large, and return the event to write in the record. Raises OSError."""
        if self._above is None:
            return event
        if len(event.content) * 4 > self._above:  # four bytes a character at most
            text = event.content.encode("utf-8", "replace")
            if len(text) > self._above:
                name = self._store(text)
                event = replace(event, content=_preview(event.content, name), attached=name)
        if any(len(image.data) > self._above for image in event.images):
            event = replace(event, images=tuple(map(self._write_image, event.images)))
        return event

    def _write_image(self, image: Image) -> Image:
        assert self._above is not None
        if len(image.data) <= self._above:
            return image
        return Image(media_type=image.media_type, url=SCHEME + self._store(image.data))

    def _store(self, data: bytes) -> str:
        name = sha256(data).hexdigest()
        path = self._folder / name
        try:
            if path.stat().st_size == len(data):
                return name
        except OSError:
            self._folder.mkdir(parents=True, exist_ok=True)
        part = self._folder / f".{name}.{os.getpid()}.part"
        part.write_bytes(data)
        part.replace(path)
        return name


class AttachmentReader:
    """Puts attachments back into results."""

    def __init__(self, record: str | os.PathLike[str]) -> None:
        self.missing: list[str] = []
        """Hashes of attachments that do not exist or were changed; at most `MAX_MISSING_NAMES`."""
        self._folder = attachments_folder(record)

    def restore(self, event: ToolCallResult) -> ToolCallResult:
        """The event with its attachments. A missing text keeps its preview, with a note; a missing image is dropped."""
        if event.attached:
            data = self._load(event.attached)
            text = _with_missing_note(event.content) if data is None else data.decode("utf-8", "replace")
            event = replace(event, content=text, attached="")
        if any(image.url.startswith(SCHEME) for image in event.images):
            images = [self._restore_image(image) for image in event.images]
            event = replace(event, images=tuple(image for image in images if image is not None))
        return event

    def _restore_image(self, image: Image) -> Image | None:
        if not image.url.startswith(SCHEME):
            return image
        data = self._load(image.url.removeprefix(SCHEME))
        return None if data is None else Image(data=data, media_type=image.media_type)

    def _load(self, name: str) -> bytes | None:
        data = self._read(name) if _HASH.fullmatch(name) else None
        if data is None or sha256(data).hexdigest() != name:
            if len(self.missing) < MAX_MISSING_NAMES:
                self.missing.append(name[:64])
            return None
        return data

    def _read(self, name: str) -> bytes | None:
        try:
            status = os.lstat(self._folder / name)
            if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_LINE_BYTES:
                return None
            return (self._folder / name).read_bytes()
        except OSError:
            return None


def _preview(text: str, name: str) -> str:
    return f"{text[:PREVIEW_CHARS]}\n[... all {len(text)} characters are in the attachment {name}]"


def _with_missing_note(content: str) -> str:
    return f"{content}\n[the attachment is missing]"

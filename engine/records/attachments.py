"""What is too large for a line of a record: it lies in a file beside it, named by the hash of what it holds.

The record `x.jsonl` (or `x.jsonl.zst`) has the folder `x.files`. A result whose text is there has the hash in
`attached` and the beginning of the text in `content`; a picture that is there has the hash in its `url`. Nothing but
a hash is ever looked up, and nothing is taken that has another one, so a record cannot name any other file.
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
"""Bytes from which on a text or a picture is put into a file of its own, by default."""
SCHEME = "attached:"
"""How the `url` of a picture begins that lies in a file."""
PREVIEW_CHARS = 1000
"""Characters of a text that stay in the record."""
_HASH = re.compile(r"[0-9a-f]{64}")
MAX_MISSING_NAMES = 100
"""Names of missing attachments that are kept."""


def attachments_folder(record: str | os.PathLike[str]) -> Path:
    """Where the attachments of a record are."""
    path = Path(record)
    ending = next(
        (suffix for suffix in sorted(RECORD_SUFFIXES, key=len, reverse=True) if path.name.endswith(suffix)), ""
    )
    return path.parent / (path.name.removesuffix(ending) + ATTACHMENTS_SUFFIX)


class AttachmentWriter:
    """Puts aside what is larger than `above` bytes; None: nothing."""

    def __init__(self, record: str | os.PathLike[str], above: int | None = ATTACH_ABOVE) -> None:
        self._folder = attachments_folder(record)
        self._above = above

    def write(self, event: ToolCallResult) -> ToolCallResult:
        """The event as it is to be written; what is large in it is in its file by then. Raises OSError."""
        if self._above is None:
            return event
        if len(event.content) * 4 > self._above:  # four bytes a character at most
            text = event.content.encode("utf-8", "replace")
            if len(text) > self._above:
                name = self._keep(text)
                event = replace(event, content=_beginning(event.content, name), attached=name)
        if any(len(image.data) > self._above for image in event.images):
            event = replace(event, images=tuple(map(self._put_image, event.images)))
        return event

    def _put_image(self, image: Image) -> Image:
        assert self._above is not None
        if len(image.data) <= self._above:
            return image
        return Image(media_type=image.media_type, url=SCHEME + self._keep(image.data))

    def _keep(self, data: bytes) -> str:
        name = sha256(data).hexdigest()
        place = self._folder / name
        try:
            if place.stat().st_size == len(data):
                return name
        except OSError:
            self._folder.mkdir(parents=True, exist_ok=True)
        part = self._folder / f".{name}.{os.getpid()}.part"
        part.write_bytes(data)
        part.replace(place)
        return name


class AttachmentReader:
    """Brings back what was put aside. `missing`: names of what is not there, or is not what it was; at most 100."""

    def __init__(self, record: str | os.PathLike[str]) -> None:
        self.missing: list[str] = []
        self._folder = attachments_folder(record)

    def restore(self, event: ToolCallResult) -> ToolCallResult:
        """The event as it was. Of what is missing a text keeps its beginning, and says so; a picture is left out."""
        if event.attached:
            data = self._fetch(event.attached)
            text = _missing(event.content) if data is None else data.decode("utf-8", "replace")
            event = replace(event, content=text, attached="")
        if any(image.url.startswith(SCHEME) for image in event.images):
            images = [self._image(image) for image in event.images]
            event = replace(event, images=tuple(image for image in images if image is not None))
        return event

    def _image(self, image: Image) -> Image | None:
        if not image.url.startswith(SCHEME):
            return image
        data = self._fetch(image.url.removeprefix(SCHEME))
        return None if data is None else Image(data=data, media_type=image.media_type)

    def _fetch(self, name: str) -> bytes | None:
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


def _beginning(text: str, name: str) -> str:
    return f"{text[:PREVIEW_CHARS]}\n[... all {len(text)} characters are in the attachment {name}]"


def _missing(content: str) -> str:
    return f"{content}\n[the attachment is missing]"

"""Attachments: large images and large texts of tool results, in files next to the record instead of in its lines.

The attachments of `x.jsonl` (or `x.jsonl.zst`) are in the folder `x.files`. Each file is named by the SHA-256 of its
content. A result whose text is attached has the hash in `attached` and the beginning of the text in `content`; an
attached image has the hash in its `url`. Only valid hashes are looked up, and a file whose content does not match its
hash is ignored, so a record cannot make a reader open any other file.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ..decision import Image, Message, ToolResult, UserMessage
from ..decision.events import ContextCompacted, MessageAdded, QuestionAnswered, RunStarted, ToolCallResult
from .files import ATTACHMENTS_SUFFIX, MAX_LINE_BYTES, folder_beside
from .format import ATTACH_ABOVE

SCHEME = "attached:"
"""Prefix of the `url` of an attached image; the hash follows."""
PREVIEW_CHARS = 1000
"""Number of characters of an attached text that stay in the record."""
MAX_MISSING_NAMES = 100
"""Most names that `AttachmentReader.missing` lists."""
_HASH = re.compile(r"[0-9a-f]{64}")
MAY_HOLD_IMAGES: frozenset[type] = frozenset(
    {RunStarted, MessageAdded, QuestionAnswered, ToolCallResult, ContextCompacted}
)
"""Types of events that may hold images. Their lines are written and read through this module."""
E = TypeVar("E", bound=Struct)
ImageMap = Callable[[Image], Image | None]


def attachments_folder(record: str | os.PathLike[str]) -> Path:
    """Return the folder of a record's attachments, which need not exist."""
    return folder_beside(record, ATTACHMENTS_SUFFIX)


class AttachmentWriter:
    """Writer of large images and large texts of results. above: the limit in bytes; None stores nothing."""

    def __init__(self, record: str | os.PathLike[str], above: int | None = ATTACH_ABOVE) -> None:
        self._folder = attachments_folder(record)
        self._above = above

    def write(self, event: E) -> E:
        """Store what is too large, and return the event to write in the record. Raises OSError."""
        if self._above is None or type(event) not in MAY_HOLD_IMAGES:
            return event
        written: E = _with_images(self._write_text(event), self._write_image)
        return written

    def _write_text(self, event: Any) -> Any:
        assert self._above is not None
        if isinstance(event, ToolCallResult) and len(event.content) * 4 > self._above:  # at most 4 bytes per character
            text = event.content.encode("utf-8", "replace")
            if len(text) > self._above:
                name = self._store(text)
                return replace(event, content=_preview(event.content, name), attached=name)
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
    """Reader that puts attachments back into events."""

    def __init__(self, record: str | os.PathLike[str]) -> None:
        self.missing: list[str] = []
        """Hashes of attachments that do not exist or were changed; at most `MAX_MISSING_NAMES`."""
        self._folder = attachments_folder(record)

    def restore(self, event: E) -> E:
        """Return the event, restored. A missing text keeps its preview, with a note; a missing image is dropped."""
        if type(event) not in MAY_HOLD_IMAGES:
            return event
        restored: E = _with_images(self._restore_text(event), self._restore_image)
        return restored

    def _restore_text(self, event: Any) -> Any:
        if isinstance(event, ToolCallResult) and event.attached:
            data = self._load(event.attached)
            text = _with_missing_note(event.content) if data is None else data.decode("utf-8", "replace")
            return replace(event, content=text, attached="")
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


def _with_images(event: Any, change: ImageMap) -> Any:
    """Return the event with its images, and those of the messages that it holds, changed. None drops an image."""
    match event:
        case RunStarted():
            started = _changed(event, change)
            history = tuple(_message_with_images(message, change) for message in event.history)
            return started if history == event.history else replace(started, history=history)
        case ContextCompacted():
            put_first = tuple(_message_with_images(message, change) for message in event.put_first)
            return event if put_first == event.put_first else replace(event, put_first=put_first)
        case _:
            return _changed(event, change)


def _message_with_images(message: Message, change: ImageMap) -> Message:
    return _changed(message, change) if isinstance(message, UserMessage | ToolResult) else message


def _changed(holder: Any, change: ImageMap) -> Any:
    if not holder.images:
        return holder
    images = tuple(image for image in map(change, holder.images) if image is not None)
    return holder if images == holder.images else replace(holder, images=images)


def _preview(text: str, name: str) -> str:
    return f"{text[:PREVIEW_CHARS]}\n[... all {len(text)} characters are in the attachment {name}]"


def _with_missing_note(content: str) -> str:
    return f"{content}\n[the attachment is missing]"

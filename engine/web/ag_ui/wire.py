"""Small pieces of how AG-UI is written."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from ...decision import Image


class Lagged(Struct, frozen=True, kw_only=True):
    """What `endstop.lagged` says: the reader was too slow, and so many events cannot be had any more."""

    run_id: str
    missed: int
    next_seq: int


def custom_name(kind: type[Struct]) -> str:
    """What our event of this kind is called as CUSTOM."""
    return f"endstop.{str(kind.__struct_config__.tag).lower()}"


def framed(id: str, said: Iterable[bytes]) -> bytes:
    """These events as frames of server-sent events, the last of them with this id."""
    frames = [b"data: " + one for one in said]
    if frames:
        frames[-1] = b"id: " + id.encode() + b"\n" + frames[-1]
    return b"".join(frame + b"\n\n" for frame in frames)


def part(image: Image) -> dict[str, Any]:
    """A picture as a part of a result."""
    if image.url:
        return {"type": "image", "source": {"type": "url", "value": image.url}}
    data = b64encode(image.data).decode("ascii")
    return {"type": "image", "source": {"type": "data", "value": data, "mimeType": image.media_type}}


def milliseconds(wall: str) -> int | None:
    """ISO 8601 as milliseconds since 1970; UTC where it names no zone, None where it is no time."""
    try:
        moment = datetime.fromisoformat(wall)
    except ValueError:
        return None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)

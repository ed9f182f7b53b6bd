"""Opaque items that go back to Gemini with a message: one for each part that has more than its text or call.

A thought signature belongs to the part that it came with: a call, a text (perhaps an empty one) or a thought. It goes
back with that part, byte for byte, and parts with and without one are not joined (Gemini API documentation, "Thought
signatures"). An item comes before the part that it is about, because nothing is read after a completion call; its place
in the message is known (`Reasoning`).
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from ..decision import ReasoningDelta

VENDOR = "gemini"
"""Name of the wire format in `Reasoning.vendor`."""


class PartNote(Struct, frozen=True, omit_defaults=True):
    """One item. An empty one only marks its place in the message: after calls and before a text."""

    signature: str = ""
    """The thought signature of the part that follows."""
    text: int | None = None
    """The part is a text of this many characters; None: it is a call, or `part`."""
    call_id: str = ""
    """The part is a call, and the vendor gave it this id."""
    part: msgspec.Raw = msgspec.Raw()
    """The part itself, as it was received: code that the vendor ran, its result, a picture, ..."""


_decode = msgspec.json.Decoder(PartNote).decode


def note_delta(note: PartNote) -> ReasoningDelta:
    """Return the item as a chunk of the stream."""
    return ReasoningDelta(signature=msgspec.json.encode(note).decode(), redacted=True, vendor=VENDOR)


def read_note(item: str) -> PartNote | None:
    """Decode an item of a message; None if it cannot be read, as after a redaction."""
    try:
        return _decode(item)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None

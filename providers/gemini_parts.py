"""Opaque items that are sent back to Gemini with a message, one for each part that is more than a text or call.

A thought signature belongs to the part that it came with: a call, a text (perhaps an empty one) or a thought. It is
sent back with that part, byte for byte, and parts with a signature are not joined with parts without one (Gemini API
documentation, "Thought signatures"). An item comes before the part that it describes, because nothing is read after
a completion call; its place in the message is known (`Reasoning`).
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
    """Length of the text that the part is, in characters; None if it is a call or `part`."""
    call_id: str = ""
    """The vendor's id of the call that the part is."""
    part: msgspec.Raw = msgspec.Raw()
    """The part itself as it was received: code that the vendor ran, its result, a picture, ..."""


_decode = msgspec.json.Decoder(PartNote).decode


def note_delta(note: PartNote) -> ReasoningDelta:
    """Return the item as a chunk of the stream."""
    return ReasoningDelta(signature=msgspec.json.encode(note).decode(), redacted=True, vendor=VENDOR)


def read_note(item: str) -> PartNote | None:
    """Decode an item of a message. Returns None if it cannot be read, as after redaction."""
    try:
        return _decode(item)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None

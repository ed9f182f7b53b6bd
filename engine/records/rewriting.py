"""A record again, redacted: for records that were written without."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from ..decision import Event
from ..decision.events import ToolCallResult
from .attachments import ABOVE, Attached, Attaching
from .compression import writing
from .files import batches
from .format import AfterCut, Header, encoded, header_in, read_line
from .redaction import Redactor
from .texts import Redact


class Rewritten(Struct, frozen=True, kw_only=True):
    """What became of a record."""

    lines: int
    """Events and chunks that were written."""
    left_out: int
    """Lines that could not be read, or are of a kind that this endstop does not know: nobody could redact them."""
    missing: int
    """Attachments that were not there."""


def redacted_copy(
    source: str | os.PathLike[str], target: str | os.PathLike[str], redact: Redact, attach_above: int | None = ABOVE
) -> Rewritten:
    """Write a record again, with its attachments, redacted; compressed if `target` ends in `.zst`.

    Memory does not depend on the record. Pictures are copied as they are. Raises WrongUse if the source is no record,
    or if there is a target already.
    """
    redactor, attached = Redactor(redact), Attached(source)
    attaching = Attaching(target, attach_above)
    lines = left_out = 0
    header: Header | None = None

    def written(ready: Iterable[Event | AfterCut]) -> bytes:
        return b"".join(
            encoded(attaching.put(line) if isinstance(line, ToolCallResult) else line) + b"\n" for line in ready
        )

    with writing(Path(target)) as file:
        for batch in batches(source):
            if header is None:
                header = header_in(source, batch[0])
                file.write(encoded(header) + b"\n")
            for line in batch:
                said = read_line(line)
                if isinstance(said, str):
                    left_out += said != "blank"
                elif not isinstance(said, Header):
                    whole = attached.back(said) if isinstance(said, ToolCallResult) else said
                    file.write(written(redactor.take(whole)))
                    lines += 1
        file.write(written(redactor.rest()))
        if header is None:
            header_in(source, b"")
    return Rewritten(lines=lines, left_out=left_out, missing=len(attached.missing))

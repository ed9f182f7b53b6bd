"""A page as a file: refused before the work begins if it cannot be one, and written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ...decision import WrongUse


def check_writable(place: str, records: Sequence[Path]) -> None:
    """Raise WrongUse if `--html` names a file that cannot be written, or one of the records."""
    path = Path(place)
    if path.is_dir():
        raise WrongUse(f"--html {place} is a folder: name a file")
    with suppress(OSError):
        if any(path.samefile(record) for record in records):
            raise WrongUse(f"--html {place} is one of the records: name another file")
    existed = path.exists()
    try:
        with open(path, "ab"):
            pass
        if not existed:
            path.unlink()
    except OSError as error:
        raise WrongUse(f"cannot write --html {place}: {error.strerror or error}") from None


def write_page(place: str, text: str) -> str:
    """Write it; gives where it is and how large, in words. Raises WrongUse if it cannot be written."""
    whole = text.encode("utf-8", "replace")
    path = Path(place)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(whole)
        part.replace(path)
    except OSError as error:
        raise WrongUse(f"cannot write --html {place}: {error.strerror or error}") from None
    finally:
        part.unlink(missing_ok=True)
    return f"The page is {place} ({len(whole) / 1e6:.1f} MB)"

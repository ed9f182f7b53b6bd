"""The files that `-o` and `--html` of a command name."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from ..decision import WrongUse
from ..http.document_page import ReportPage, report_html


def write_file(output: str, content: Iterable[bytes], force: bool, source: str) -> None:
    """Write the pieces of `content` one after another to the file named by `output`.

    force: replace the file if it exists.

    Raises WrongUse if it is a folder, the file `source` that was read, exists without `force`, or cannot be written.
    """
    path = Path(output)
    if path.is_dir() or output.endswith(os.sep):
        raise WrongUse(f"-o {output} is a folder: name a file in it")
    if path.exists() and os.path.exists(source) and os.path.samefile(path, source):
        raise WrongUse(f"-o {output} is the file that is exported: name another one")
    try:
        with open(path, "wb" if force else "xb") as file:
            file.writelines(content)
    except FileExistsError:
        raise WrongUse(f"{output} exists already: overwrite it with --force, or name another file with -o") from None
    except OSError as error:
        raise WrongUse(f"cannot write {output}: {error.strerror}") from None


def check_page(place: str, records: Sequence[Path]) -> None:
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


def write_page(place: str, page: ReportPage) -> str:
    """Write the page, whole or not at all; returns its place and size in words. Raises WrongUse if that fails."""
    whole = report_html(page).html.encode("utf-8", "replace")
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

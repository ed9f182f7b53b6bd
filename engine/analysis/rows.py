"""Readers of files that people or other programs wrote about sessions: CSV with a header line, or JSON Lines.

Any error is a WrongUse that names the file, the line, and what is expected there.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ..decision import WrongUse

MAX_FILE_BYTES = 256 * 1024 * 1024
"""Maximum size of such a file."""
FilePath = str | os.PathLike[str]
Row = Mapping[str, Any]


def read_text(path: FilePath, what: str) -> str:
    """Return the text of a file. what: its expected content, such as "ratings"."""
    try:
        if Path(path).stat().st_size > MAX_FILE_BYTES:
            raise WrongUse(f"{path} is larger than {MAX_FILE_BYTES // 1024**2} MB: is it really a file of {what}?")
        return Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise WrongUse(f"cannot read the {what} {path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise WrongUse(f"{path} is not UTF-8 text (at byte {error.start}): write CSV or JSON Lines") from None


def json_rows(path: FilePath, text: str, example: str) -> Iterator[tuple[int, Row]]:
    """Yield each line of JSON Lines that is not blank, with its number. example: a correct line."""
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            entry = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError) as error:
            raise WrongUse(f"{path}, line {number} is not valid JSON: {error}") from None
        if not isinstance(entry, dict):
            raise WrongUse(f"{path}, line {number} is not a JSON object: write {example}")
        yield number, entry


def csv_rows(path: FilePath, text: str, check_header: Callable[[Sequence[str]], None]) -> Iterator[tuple[int, Row]]:
    """Yield each row of CSV that is not blank, with its line number. The separator is a comma, a semicolon or a tab.

    check_header: called with the names of the columns, in lower case and with `_` for spaces; raises WrongUse.
    """
    lines = text.splitlines()
    separator = max(",;\t", key=(lines[0] if lines else "").count)
    rows = csv.reader(lines, delimiter=separator)
    head: list[str] | None = None
    try:
        for row in rows:
            if not any(cell.strip() for cell in row):
                continue
            if head is None:
                head = [cell.strip().lower().replace(" ", "_") for cell in row]
                check_header(head)
            elif len(row) > len(head):
                raise WrongUse(f"{path}, line {rows.line_num}: {len(row)} cells, but the header has {len(head)}")
            else:
                yield rows.line_num, dict(zip(head, row, strict=False))
    except csv.Error as error:
        raise WrongUse(f"{path}, line {rows.line_num} is not valid CSV: {error}") from None

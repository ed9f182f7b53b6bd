r"""Secrets in tables: a column whose name is a label of a secret, and what stands below it.

The tables: comma- and tab-separated values (RFC 4180), Markdown, what database clients print, and the rows of `INSERT`
and `COPY` in SQL. A name below another belongs to the same table, so each row is looked at once for each name in its
header, and the time is linear in the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from string import ascii_letters, digits
from typing import NamedTuple

from .entropy import is_passphrase
from .secret_keywords import COVER, SPACED, SecretTest
from .secret_rules import Span

_LONGEST_LINE = 4000
"""Characters of a header, and of a row."""
_SIGNS = "|\t;,"
"""What may stand between two cells."""
_RULE = re.compile(r"[-+|: =\t\r]*\Z")
"""A line between rows."""
_CELLS = {
    sign: re.compile(rf"[ ]*+(?:\"(?:[^\"\n]|\"\")*+\"[ ]*+(?={re.escape(sign)}|\Z)|[^{re.escape(sign)}]*+)")
    for sign in _SIGNS
}
_WORDS_OF_NAME = r"[\w.#/()-]{1,40}(?: [\w.#/()-]{1,40}){0,2}"
_SPACED_HEADER = re.compile(rf"[ ]{{0,20}}{_WORDS_OF_NAME}(?:[ ]{{2,80}}{_WORDS_OF_NAME}){{1,30}}\s*")
"""Names with two spaces or more between them."""
_NAME_SIGNS = "_.- " + ascii_letters + digits
_NAME = re.compile(r"[^\W\d][\w .#/()-]{0,60}\Z")
"""The name of a column."""
_AFTER_NAME = re.compile(r"[\"'`\]]?[ ]{0,60}(?:[,;|\t)\r\n]|[ ]{2}|\Z)")
_COLUMNS = re.compile(r"(?:into|copy)[ \t]{1,4}[^()\n]{1,200}\(\Z", re.IGNORECASE)
_ROWS = re.compile(r"[^()]{0,2000}\)\s{0,20}(?:(?P<values>values)|from[ ]stdin[^\n]{0,80}\n)", re.IGNORECASE)
_ROW = re.compile(r"\s{0,20},?\s{0,20}\(")
_LITERAL = re.compile(r"\s*+(?:[A-Z]{0,2}'(?P<quoted>(?:[^'\\]|''|\\.)*+)'|[^,()']*+)\s*+(?P<end>[,)])", re.DOTALL)


_PHRASE = re.compile(SPACED)


class ColumnName(NamedTuple):
    """A name of a secret that may stand over a column."""

    begin: int
    end: int
    kind: str
    """As `kind_of_label` says it."""


def may_be_column(text: str, begin: int, end: int) -> bool:
    """Whether a name stands as a cell does. `begin` may be inside the name."""
    if not _AFTER_NAME.match(text, end):
        return False
    before = text[max(0, begin - 50) : begin]
    rest = before.rstrip(_NAME_SIGNS)
    return "  " in before[len(rest) :] or not (rest := rest.rstrip("\"'`[ ")) or rest[-1] in ",;|\t(\n"


def find_in_columns(text: str, names: Iterable[ColumnName], is_secret: SecretTest) -> Iterator[Span]:
    """Find secrets below these names: the begin and end of each. is_secret: says whether a value looks like one."""
    done = 0
    for first, group in groupby(sorted(names), lambda name: _beginning_of_header(text, name.begin)):
        header = list(group)
        if header[0].begin < done:
            continue
        into = _COLUMNS.search(text, max(0, first - 300), first) if text[first - 1 : first] == "(" else None
        cells = _cells_in_sql(text, first, header) if into else _cells_in_table(text, first, header)
        for (begin, end), kind in cells:
            done = max(done, end)
            value = text[begin:end]
            phrase = kind == "password" and _PHRASE.fullmatch(value) and is_passphrase(value)
            if COVER not in value and (phrase or (" " not in value and is_secret(kind, value))):
                yield begin, end


def _beginning_of_header(text: str, at: int) -> int:
    """Where the list of names begins that this place is in: at a bracket that is open, or with the line."""
    least = max(0, at - _LONGEST_LINE)
    first = text.rfind("\n", least, at) + 1
    opened = text.rfind("(", max(first, least), at) + 1
    return opened if opened and text.find(")", opened, at) < 0 else first


def _columns(text: str, first: int, names: Iterable[ColumnName], sign: str) -> dict[int, str]:
    """The kinds of the names, by the number of their columns."""
    columns: dict[int, str] = {}
    number, done = 0, first
    for name in names:
        number, done = number + text.count(sign, done, name.begin), name.begin
        columns[number] = name.kind
    return columns


def _cells_in_table(text: str, first: int, names: Sequence[ColumnName]) -> Iterator[tuple[Span, str]]:
    """The cells below names, in the lines that have as many cells as their own, which begins at `first`."""
    last = _line_end(text, names[0].end)
    header = text[first:last]
    sign = next((sign for sign in _SIGNS if sign in header), "")
    if not sign and _SPACED_HEADER.fullmatch(header):
        yield from _cells_below(text, first, last, names)
    if not sign or len(header) > _LONGEST_LINE or last - first != len(header):
        return
    if not all(_NAME.match(cell.strip(' "`')) for cell in header.strip(" |\r").split(sign)):
        return
    columns = _columns(text, first, names, sign)
    while last < len(text):
        begin, last = last + 1, _line_end(text, last + 1)
        line = text[begin:last]
        if _RULE.match(line):
            if not line.strip():
                return
            continue
        cells = _cells(line, sign) if len(line) <= _LONGEST_LINE else []
        if len(cells) != header.count(sign) + 1:
            return
        for number, kind in columns.items():
            yield (begin + cells[number][0], begin + cells[number][1]), kind


def _cells_below(text: str, first: int, last: int, names: Sequence[ColumnName]) -> Iterator[tuple[Span, str]]:
    """The words below names in lines whose columns are told by spaces only, up to an empty line."""
    columns = [
        (text.rfind("  ", first, name.begin) + 2 if "  " in text[first : name.begin] else first, name.kind)
        for name in names
    ]
    while last < len(text):
        begin, last = last + 1, _line_end(text, last + 1)
        line = text[begin:last]
        if not line.strip():
            return
        for column, kind in columns:
            at = column - first
            if line[at : at + 1].strip() and not line[at - 1 : at].strip():
                yield (begin + at, begin + at + len(line[at:].split(maxsplit=1)[0])), kind


def _line_end(text: str, at: int) -> int:
    """Where the line ends; what is longer than a row is cut."""
    end = text.find("\n", at, at + _LONGEST_LINE + 1)
    return end if end >= 0 else min(len(text), at + _LONGEST_LINE + 1)


def _cells(line: str, sign: str) -> list[Span]:
    """The begin and end of what each cell holds."""
    spans: list[Span] = []
    at = 0
    while at <= len(line):
        end = _CELLS[sign].match(line, at).end()  # type: ignore[union-attr]
        cell = line[at:end]
        begin = at + len(cell) - len(cell.lstrip(' \r"'))
        spans.append((begin, max(begin, at + len(cell.rstrip(' \r"')))))
        at = end + 1
    return spans


def _cells_in_sql(text: str, first: int, names: Sequence[ColumnName]) -> Iterator[tuple[Span, str]]:
    """The values of columns in the rows that follow the list of columns, which begins at `first`."""
    columns = _columns(text, first, names, ",")
    rows = _ROWS.match(text, names[-1].end)
    if rows is None:
        return
    at = rows.end()
    if not rows["values"]:
        while at < len(text) and not text.startswith("\\.", at):
            end = _line_end(text, at)
            cells = _cells(text[at:end], "\t")
            if max(columns) >= len(cells):
                return
            for number, kind in columns.items():
                yield (at + cells[number][0], at + cells[number][1]), kind
            at = end + 1
    while row := _ROW.match(text, at):
        at = row.end()
        number = 0
        while (value := _LITERAL.match(text, at)) is not None:
            if number in columns and value["quoted"] is not None:
                yield value.span("quoted"), columns[number]
            number, at = number + 1, value.end()
            if value["end"] == ")":
                break
        else:
            return

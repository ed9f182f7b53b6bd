"""Reads reports that are HTML files: their document, and the colours of the style sheet. And text that attacks them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

from endstop.http.page_files import FOLDER

HOSTILE = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(1)>\u202e\x00\x1b[31m&amp;\ud800"
VOID = frozenset({"br", "input", "link", "meta"})
"""Elements that have no content and no end."""
OPTIONAL = frozenset({"html", "body"})
"""Elements whose end the page leaves out."""
STYLE = (FOLDER / "style.css").read_text(encoding="utf-8")


class Parsed(HTMLParser):
    """The elements of a page before its script runs; it fails where they do not nest."""

    def __init__(self, markup: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._open: list[str] = []
        self.feed(markup)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID | OPTIONAL | {"head"}:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag


def held(page: str) -> Any:
    """The document that a page holds."""
    found = re.findall(r'<script type="application/json" id="held-report">(.*?)</script>', page, re.DOTALL)
    assert len(found) == 1
    return json.loads(found[0])


def texts(part: Any) -> Iterator[str]:
    """All texts of a document, in their order."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, dict):
        for value in part.values():
            yield from texts(value)
    elif isinstance(part, list):
        for value in part:
            yield from texts(value)


def words(part: Any) -> str:
    """All texts of a document, in lines."""
    return "\n".join(texts(part))


def section(document: Any, id: str) -> Any:
    """The parts of a section; none if it is left out."""
    return next((one["parts"] for one in document["sections"] if one["id"] == id), [])


def links(part: Any) -> Iterator[str]:
    """The links of a document, as they are written in it."""
    if isinstance(part, dict):
        if part.get("link"):
            yield part["link"]
        for value in part.values():
            yield from links(value)
    elif isinstance(part, list):
        for value in part:
            yield from links(value)


def colours(sheet: str) -> tuple[dict[str, str], dict[str, str]]:
    """The colours of a style sheet: light and dark."""
    light, dark, *_ = sheet.split("@media(prefers-color-scheme:dark)")
    found = [dict(re.findall(r"--(\w+):(#\w{6})", part)) for part in (light, dark)]
    return found[0], found[1]


LIGHT, DARK = colours(STYLE)

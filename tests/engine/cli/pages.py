"""Reads HTML pages: their elements and words, and the colours of their style sheet. And text that attacks them."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from endstop.cli.views.html import TEMPLATES

HOSTILE = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(1)>\u202e\x00\x1b[31m&amp;\ud800"
VOID = frozenset({"br", "input", "link", "meta"})
"""Elements that have no content and no end."""
STYLE = (TEMPLATES / "page.css").read_text(encoding="utf-8")


class Parsed(HTMLParser):
    """The elements and the words of a page; it fails where they do not nest."""

    def __init__(self, markup: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self._open: list[str] = []
        self.feed(markup)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


def colours(sheet: str) -> tuple[dict[str, str], dict[str, str]]:
    """The colours of a style sheet: light and dark."""
    light, dark, *_ = sheet.split("@media(prefers-color-scheme:dark)")
    found = [dict(re.findall(r"--(\w+):(#\w{6})", part)) for part in (light, dark)]
    return found[0], found[1]


LIGHT, DARK = colours(STYLE)

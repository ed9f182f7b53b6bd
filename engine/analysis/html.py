"""A page in one file: no network, nothing to build, readable on a phone, in light and in dark, without a mouse.

What may run or be loaded is bound by the page itself: its policy (CSP) allows nothing from outside and no script but
its own, by hash, so that what a model or a tool wrote could not do anything even if it came through unescaped.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from hashlib import sha256
from html import escape

from .._sanitize import clean
from .style import STYLE


def page(title: str, lead: object, *sections: Markup, foot: object = "", script: str = "") -> str:
    """The whole file. `lead` is the sentence that says most; `script` is ours and is needed to read nothing."""
    allowed = f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" if script else "'none'"
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src {allowed}; base-uri 'none'; "
        "form-action 'none'"
    )
    head = join(
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        Markup(f"<style>{STYLE}</style>"),
    )
    body = join(
        tag("header", tag("h1", title), tag("p", lead, class_="lead")),
        tag("main", *sections),
        tag("footer", tag("p", foot)) if foot else "",
        Markup(f"<script>{script}</script>") if script else "",
        between="\n",
    )
    return f"<!doctype html>\n{tag('html', tag('head', head), tag('body', body), lang='en')}\n"


def section(id: str, heading: str, *content: object) -> Markup:
    """A part of the page under a heading of its own; empty if it has no content."""
    if not any(content):
        return Markup()
    return tag("section", tag("h2", heading, id=f"{id}-h"), *content, id=id, aria_labelledby=f"{id}-h")


def table(
    caption: str, head: Sequence[object], rows: Iterable[Sequence[object]], *, figures: Iterable[int] = ()
) -> Markup:
    """A table with a caption; the first cell of a row is its head. Cells of the columns in `figures` stand right.

    Where it is wider than a phone it can be moved sideways, with the keyboard too.
    """
    right = frozenset(figures)

    def cell(name: str, number: int, content: object, **more: object) -> Markup:
        return tag(name, content, class_="n" if number in right else None, **more)

    lines = [
        tag("tr", *(cell("td", n, one) if n else cell("th", n, one, scope="row") for n, one in enumerate(row)))
        for row in rows
    ]
    if not lines:
        return Markup()
    top = tag(
        "tr", *(cell("th", n, one, scope="col") if text(one) else tag("td") for n, one in enumerate(head))
    )  # nothing is no head
    whole = tag("table", tag("caption", caption), tag("thead", top), tag("tbody", *lines))
    return tag("div", whole, class_="wide", role="group", tabindex="0", aria_label=caption)


def figure(picture: Markup, caption: str, data: Markup | str = "") -> Markup:
    """A plot under its caption, and its figures as a table for whoever wants them."""
    if not picture:
        return Markup()
    below = tag("details", tag("summary", "as a table"), data) if data else ""
    return tag("figure", tag("figcaption", caption), picture, below)


def tiles(figures: Iterable[tuple[str, object, object]]) -> Markup:
    """Figures at a glance: what it is, the figure, and a few words more."""
    return tag(
        "dl",
        *(
            tag("div", tag("dt", name), tag("dd", tag("strong", value), tag("small", more) if text(more) else ""))
            for name, value, more in figures
        ),
        class_="tiles",
    )


def bullets(items: Iterable[object], class_: str | None = None) -> Markup:
    """A list; empty if it has no items."""
    lines = [tag("li", item) for item in items]
    return tag("ul", *lines, class_=class_) if lines else Markup()


# HTML and SVG as text, with everything escaped that is not markup already.

VOID = frozenset({"br", "link", "meta"})
"""Elements that have no content and no end."""


class Markup(str):
    """Text that is markup: it is never escaped again."""

    __slots__ = ()


def text(value: object) -> Markup:
    """A value as markup: what is markup stays, all else is cleaned of control characters and escaped."""
    if isinstance(value, Markup):
        return value
    return Markup(escape(clean(str(value)), quote=True))


def foreign(value: str) -> Markup:
    """Text that a model, a tool or a user wrote: whatever its direction of writing, it stays within itself."""
    return tag("bdi", value)


def join(*parts: object, between: str = "") -> Markup:
    """The parts one after the other."""
    return Markup(between.join(map(text, parts)))


def tag(name: str, /, *content: object, **attributes: object) -> Markup:
    """An element. `class_` is `class`, `_` is `-`; an attribute that is None is left out, one that is True is bare."""
    given = []
    for key, value in attributes.items():
        key = key.rstrip("_").replace("_", "-")
        if value is True:
            given.append(f" {key}")
        elif value is not None and value is not False:
            given.append(f' {key}="{text(value)}"')
    opening = f"<{name}{''.join(given)}>"
    if name in VOID:
        return Markup(opening)
    return Markup(f"{opening}{join(*content)}</{name}>")

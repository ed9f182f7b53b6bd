"""HTML and SVG as text, with everything escaped that is not markup already."""

from __future__ import annotations

from html import escape

from .._sanitize import clean

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

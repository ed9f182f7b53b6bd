r"""A page as one file: its style sheets and scripts are in it, and so is its data.

The file loads nothing. Its Content-Security-Policy allows only its script and its style sheet, by their hashes, so that
text of a model or a tool could do nothing even if it were shown as markup. Data is in `script` elements that browsers
do not run, as JSON in which `<` is written as `\u003c`, so that no text ends its element.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from html import escape
from typing import NamedTuple

from .module_bundle import bundle_modules, modules_of

_STYLE_LINK = re.compile(r"<link rel=stylesheet href=page/([\w./-]+)>\n?")
_SCRIPT_LINK = re.compile(r"<script type=module src=page/[\w./-]+></script>\n?")
_CHARSET = re.compile(r"<meta charset=utf-8>")
_TITLE = re.compile(r"<title>[^<]*</title>")


class SingleFile(NamedTuple):
    """A page without its data, which follows it, and its Content-Security-Policy."""

    html: str
    policy: str


def single_file(
    index: str, entry: str, files: Mapping[str, str], *, title: str, only_needed: bool = False
) -> SingleFile:
    """Return a page with all that it links to. Raises ValueError if something does not fit into a file.

    index: its HTML. entry: the module that it starts with. files: its style sheets and modules, by their names.
    only_needed: leave out the modules that `entry` does not import.
    """
    style = "\n".join(files[name] for name in _STYLE_LINK.findall(index))
    if not style or "</style" in style.lower():
        raise ValueError("the page names no style sheet, or one that does not fit into a page")
    modules = {name: text for name, text in files.items() if name.endswith(".js")}
    script = bundle_modules(entry, modules_of(entry, modules) if only_needed else modules)
    policy = (
        f"default-src 'none'; script-src {csp_source(script)}; style-src {csp_source(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    in_page = f"{policy}; require-trusted-types-for 'script'; trusted-types 'none'"
    page = _STYLE_LINK.sub("", index)
    for place, text in (
        (_TITLE, f"<title>{escape(title)} · endstop</title>"),
        (_CHARSET, f'<meta charset=utf-8>\n<meta http-equiv="Content-Security-Policy" content="{in_page}">'),
        (_SCRIPT_LINK, f'<style>{style}</style>\n<script type="module">{script}</script>\n'),  # last: it holds anything
    ):
        page = replace_once(place, text, page)
    return SingleFile(page, policy)


def csp_source(text: str) -> str:
    """Return the Content-Security-Policy source that allows this script or style sheet, by its hash."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def data_element(name: str, parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield a script element of JSON that no text in it can end. `web/page/embedded.js` reads it by its name."""
    yield f'<script type="application/json" id="held-{name}">'.encode()
    for part in parts:
        yield part.replace(b"<", rb"\u003c")
    yield b"</script>\n"


def replace_once(place: re.Pattern[str], text: str, page: str) -> str:
    """Return the page with this text at the only place that matches. Raises ValueError unless exactly one matches."""
    page, found = place.subn(lambda _: text, page)
    if found != 1:
        raise ValueError(f"the page has {found} places that match {place.pattern}, and not one")
    return page

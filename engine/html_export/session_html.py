r"""One HTML file that shows a session: the page of `endstop serve`, its styles, its script and the session's events.

The file loads nothing. Its Content-Security-Policy allows only its script and its style sheet, by their hashes, so that
text of a model or a tool could do nothing even if it were shown as markup. The data is in `script` elements that
browsers do not run. What is read first is JSON, in which `<` is written as `\u003c`, so that no text ends its element.
Events and requests are compressed JSON as base64: both hold each text, so that a page is smaller than its record.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from hashlib import sha256
from html import escape
from zlib import compressobj

import msgspec
from msgspec import Struct

from ..analysis.verdict import SessionVerdict
from ..base.sanitize import one_line, sanitize
from ..base.version import __version__
from ..decision.call_judgement import CallJudgement
from ..http.module_bundle import bundle_modules
from ..http.page_files import ENTRY, FOLDER, INDEX, SCRIPT, page_files
from ..viewer.session_list import ListedSession
from .request_table import RequestTable

LICENCE = "LICENSE"
"""Beginning of the names of the licence files next to vendored libraries."""
_STYLE_LINK = re.compile(r"<link rel=stylesheet href=page/([\w./-]+)>\n?")
_SCRIPT_LINK = re.compile(rf"<script type=module src=page/{re.escape(SCRIPT)}></script>\n?")
_CHARSET = re.compile(r"<meta charset=utf-8>")
_TITLE = re.compile(r"<title>[^<]*</title>")
_WITHOUT_SCRIPT = re.compile(r"<noscript>[^<]*+(?:<(?!/?noscript>)[^<]*+)*+</noscript>")
_NAVIGATION = re.compile(r"(?=<\w+ id=list[ >])")


class EmbeddedSession(Struct, frozen=True, kw_only=True):
    """A session as a page contains it."""

    summary: ListedSession
    """The viewer's response to `GET /sessions/ID`."""
    verdict: SessionVerdict
    """The verdict on it."""
    header: object
    """The header of its record."""
    events: Sequence[bytes]
    """Its events as JSON, in order."""
    judged: Mapping[int, CallJudgement] = {}
    """Judgements of calls, by the places of their results, or of the questions whether they may run, in `events`."""
    notices: Sequence[str] = ()
    """Notes on what could not be read of the record."""
    requests: RequestTable
    """Request sent to the model in each step."""


def session_html(sessions: Sequence[EmbeddedSession], notices: Sequence[str] = ()) -> Iterator[bytes]:
    """Yield the file in pieces. The first session is the shown one; the others are its sub-agents'.

    notices: what a reader should know about the file, in sentences.
    """
    title = one_line(sessions[0].summary.title, 200) or "a session without a prompt"
    yield _page(title, notices).encode("utf-8", "replace")
    whole = {
        "sessions": [one.summary for one in sessions],
        "verdicts": [one.verdict for one in sessions],
    }
    yield from _data("held-sessions", [msgspec.json.encode(whole)])
    yield from _data("licences", [_licences()])
    for place, one in enumerate(sessions):
        header, judged = msgspec.json.encode(one.header), msgspec.json.encode(one.judged)
        events = [b'{"header":', header, b',"judged":', judged, b',"events":[', b",\n".join(one.events), b"]}"]
        yield from _compressed(f"held-events-{place}", events)
        yield from _compressed(f"held-requests-{place}", [msgspec.json.encode(one.requests)])


def csp_source(text: str) -> str:
    """Return the Content-Security-Policy source that allows this script or style sheet, by its hash."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _data(name: str, parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield a script element of JSON, in a form that no text in it can end."""
    yield f'<script type="application/json" id="{name}">'.encode()
    for part in parts:
        yield part.replace(b"<", rb"\u003c")
    yield b"</script>\n"


def _compressed(name: str, parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield a script element of compressed JSON (zlib), as base64."""
    compressor, rest = compressobj(), b""
    yield f'<script type="application/zlib" id="{name}">'.encode()
    for part in parts:
        rest += compressor.compress(part)
        whole = len(rest) // 3 * 3
        yield b64encode(rest[:whole])
        rest = rest[whole:]
    yield b64encode(rest + compressor.flush())
    yield b"</script>\n"


def _page(title: str, notices: Sequence[str]) -> str:
    """Return the page without data: with its style sheet and script, and a text for readers without JavaScript."""
    style, script = _style_and_script()
    policy = (
        f"default-src 'none'; script-src {csp_source(script)}; style-src {csp_source(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
    about = f"A recorded session, exported with endstop {__version__}. This file holds all of it and loads nothing."
    lines = "".join(f"<p>{escape(sanitize(line))}</p>" for line in [about, *notices])
    without = (
        f"<noscript><h2>{escape(title)}</h2><p>This file shows a recorded session of an AI agent, step by step. "
        "It needs JavaScript, which is switched off here, and no network.</p></noscript>"
    )
    page = _STYLE_LINK.sub("", page_files("file")[INDEX].content.decode())
    for place, text in (
        (_TITLE, f"<title>{escape(title)} · endstop</title>"),
        (_NAVIGATION, f'<aside id=about aria-label="About this file">{lines}</aside>\n'),
        (_WITHOUT_SCRIPT, without),
        (_CHARSET, f'<meta charset=utf-8>\n<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        (_SCRIPT_LINK, f'<style>{style}</style>\n<script type="module">{script}</script>\n'),  # last: it holds anything
    ):
        page = _replace_once(place, text, page)
    return page


@cache
def _style_and_script() -> tuple[str, str]:
    """Return the page's style sheets as one text, and all modules with the libraries as another.

    Raises ValueError if they cannot be put into a page.
    """
    files = page_files("file")
    style = "\n".join(files[name].content.decode() for name in _STYLE_LINK.findall(files[INDEX].content.decode()))
    if not style or "</style" in style.lower():
        raise ValueError(f"{INDEX} names no style sheet, or one that does not fit into a page")
    modules = {
        name: file.content.decode() for name, file in files.items() if name.endswith(".js") and LICENCE not in name
    }
    return style, bundle_modules(ENTRY, modules)


@cache
def _licences() -> bytes:
    """Return the licences of the libraries in the page's script, as JSON, because the licences require it."""
    return msgspec.json.encode(
        {str(path.relative_to(FOLDER)): path.read_text("utf-8") for path in sorted(FOLDER.rglob(f"{LICENCE}*"))}
    )


def _replace_once(place: re.Pattern[str], text: str, page: str) -> str:
    """Return the page with this text at the only place that matches. Raises ValueError unless exactly one matches."""
    page, found = place.subn(lambda _: text, page)
    if found != 1:
        raise ValueError(f"{INDEX} has {found} places that match {place.pattern}, and not one")
    return page

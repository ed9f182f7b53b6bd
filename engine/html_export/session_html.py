"""One HTML file that shows a session: the page of `endstop serve`, its styles, its script and the session's events.

`http/single_file.py` makes the file; this adds the data. What is read first is JSON. Events and requests are compressed
JSON as base64: both hold each text, so that a page is smaller than its record.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from html import escape
from zlib import compressobj

import msgspec
from msgspec import Struct

from ..analysis.verdict import SessionVerdict
from ..base.sanitize import one_line, sanitize
from ..base.version import __version__
from ..decision.call_judgement import CallJudgement
from ..http.page_files import ENTRY, FOLDER, INDEX, page_files
from ..http.single_file import data_element, replace_once, single_file
from ..viewer.session_list import ListedSession
from .request_table import RequestTable

LICENCE = "LICENSE"
"""Beginning of the names of the licence files next to vendored libraries."""
_WITHOUT_SCRIPT = re.compile(r"<noscript>[^<]*+(?:<(?!/?noscript>)[^<]*+)*+</noscript>")
_TITLE = "(title)"
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
    yield from data_element("sessions", [msgspec.json.encode(whole)])
    yield from data_element("licences", [_licences()])
    for place, one in enumerate(sessions):
        header, judged = msgspec.json.encode(one.header), msgspec.json.encode(one.judged)
        events = [b'{"header":', header, b',"judged":', judged, b',"events":[', b",\n".join(one.events), b"]}"]
        yield from _compressed(f"held-events-{place}", events)
        yield from _compressed(f"held-requests-{place}", [msgspec.json.encode(one.requests)])


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
    about = f"A recorded session, exported with endstop {__version__}. This file holds all of it and loads nothing."
    lines = "".join(f"<p>{escape(sanitize(line))}</p>" for line in [about, *notices])
    without = (
        f"<noscript><h2>{escape(title)}</h2><p>This file shows a recorded session of an AI agent, step by step. "
        "It needs JavaScript, which is switched off here, and no network.</p></noscript>"
    )
    page = _file_of().replace(_TITLE, escape(title), 1)
    page = replace_once(_NAVIGATION, f'<aside id=about aria-label="About this file">{lines}</aside>\n', page)
    return replace_once(_WITHOUT_SCRIPT, without, page)


@cache
def _file_of() -> str:
    """Return the page's HTML with its style sheets, its modules and the libraries in it."""
    files = page_files("file")
    own = {
        name: file.content.decode()
        for name, file in files.items()
        if name.endswith((".js", ".css")) and LICENCE not in name
    }
    return single_file(files[INDEX].content.decode(), ENTRY, own, title=_TITLE).html


@cache
def _licences() -> bytes:
    """Return the licences of the libraries in the page's script, as JSON, because the licences require it."""
    return msgspec.json.encode(
        {str(path.relative_to(FOLDER)): path.read_text("utf-8") for path in sorted(FOLDER.rglob(f"{LICENCE}*"))}
    )

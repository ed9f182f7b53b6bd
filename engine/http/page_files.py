"""The files that a browser loads for the web page, read once and then served from memory: they are few and small.

The page's own JavaScript modules are loaded as one script, `SCRIPT`, and each library when a text needs it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from gzip import compress
from hashlib import sha256
from pathlib import Path
from typing import Literal

from ..analysis import endings
from .module_bundle import bundle_modules

FOLDER = Path(__file__).parents[1] / "web" / "page"
INDEX = "index.html"
ENTRY = "main.js"
"""The module that the page starts with; it imports the others."""
SCRIPT = "bundle.js"
"""The script that holds all of the page's own modules. `page_files` generates it; `FOLDER` has no such file."""
RULE_WORDS_MODULE = "rule_words.js"
"""The module with the words for rules and guards, which `page_files` generates from `analysis/endings.py`."""
Mode = Literal["server", "viewer", "file"]
"""Where the page gets its sessions: from a server that runs them, from a viewer of records, or from its own file. It is
the attribute `data-mode` of the root element."""
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".json": "application/json",
}
_ROOT_ELEMENT = re.compile(rb"<html\b([^<>]*?)(?:\s+data-mode=\"?\w*\"?)?(?=[\s>])")


@dataclass(frozen=True, slots=True)
class StaticFile:
    """One file of the page."""

    content: bytes
    zipped: bytes
    """The content compressed with gzip."""
    media_type: str
    etag: str


@cache
def page_files(mode: Mode = "server") -> Mapping[str, StaticFile]:
    """Return the files of the page for this mode, by their path below `FOLDER`, with `SCRIPT` among them.

    A page that is a single file has its script in it, so mode `file` has no `SCRIPT`.
    """
    contents = {
        path.relative_to(FOLDER).as_posix(): path.read_bytes()
        for path in sorted(FOLDER.rglob("*"))
        if path.suffix in _TYPES and path.is_file() and path.parent != FOLDER / "report"
    }
    contents[RULE_WORDS_MODULE] = f"export const RULES = {json.dumps(endings.RULE_WORDS)};\n".encode()
    if mode != "file":
        own = {name: content.decode() for name, content in contents.items() if name.endswith(".js") and "/" not in name}
        contents[SCRIPT] = bundle_modules(ENTRY, own).encode()
    if mode != "server":  # unchanged from the file
        contents[INDEX] = set_mode(contents[INDEX], mode)
    return {name: _static_file(name, content) for name, content in contents.items()}


def _static_file(name: str, content: bytes) -> StaticFile:
    etag = f'W/"{sha256(content).hexdigest()[:16]}"'  # weak: the same for both encodings
    return StaticFile(content, compress(content, mtime=0), _TYPES[Path(name).suffix], etag)


def set_mode(index: bytes, mode: Mode) -> bytes:
    """Return the page's HTML with this mode on its root element."""
    return _ROOT_ELEMENT.sub(rb"<html\1 data-mode=" + mode.encode(), index, count=1)

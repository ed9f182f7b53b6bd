"""Static files of the web page. They are few and small, so they are read once and kept in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from gzip import compress
from hashlib import sha256
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

FOLDER = Path(__file__).parent / "page"
INDEX = "index.html"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".json": "application/json",
}


@dataclass(frozen=True, slots=True)
class StaticFile:
    """One file of the page."""

    content: bytes
    zipped: bytes
    """The content compressed with gzip."""
    media_type: str
    etag: str


@cache
def page_files() -> Mapping[str, StaticFile]:
    """All files of the page, by their path in its folder."""
    found = {}
    for path in sorted(FOLDER.rglob("*")):
        if path.suffix in _TYPES and path.is_file():
            content = path.read_bytes()
            etag = f'W/"{sha256(content).hexdigest()[:16]}"'  # weak: the same for both encodings
            name = path.relative_to(FOLDER).as_posix()
            found[name] = StaticFile(content, compress(content, mtime=0), _TYPES[path.suffix], etag)
    return found


async def serve_page(request: Request) -> Response:
    """Serve a file of the page; at `/` the page itself."""
    file = page_files().get(request.path_params.get("name", INDEX))
    if file is None:
        raise HTTPException(404)
    headers = {"ETag": file.etag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
    if request.headers.get("if-none-match") == file.etag:
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(file.zipped, headers={**headers, "Content-Encoding": "gzip"}, media_type=file.media_type)
    return Response(file.content, headers=headers, media_type=file.media_type)

"""HTTP interface of the viewer: the page, the list, and the content of each session. It only reads.

The data has the same form as the server's (`engine/http`), so that the same page shows both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from urllib.parse import quote

from aiohttp import web
from msgspec import Struct
from msgspec.structs import replace

from ..decision import POLICIES, Policy, WrongUse
from ..decision.errors import error_text
from ..http import sse
from ..http.page_files import INDEX, page_files
from ..http.problems import MEDIA_TYPE as PROBLEM
from ..http.problems import HttpError, encode_problem
from ..http.request_checks import SECURITY_HEADERS, check_host, check_origin
from ..http.session_schemas import RequestQuery
from ..process.tokens import Tokens
from ..providers._logging import log_warning
from ..records.format import encode_line
from .catalog import Catalog, CatalogEntry
from .record_follower import follow_record, skip_to
from .session_detail import detailed_session, record_verdict, step_request
from .session_list import (
    UNREADABLE,
    ListedSession,
    ListedSessions,
    ListQuery,
    SessionRows,
    decode_list_query,
    decode_query,
    facets,
    select_sessions,
)
from .text_index import SearchFailed, TextIndex

MAX_STREAMS = 100
"""Maximum number of open event streams."""
MAX_VERDICTS = 200
"""Number of verdicts that are kept, the latest ones."""
SEND_SECONDS = 60.0
"""Maximum seconds for one write to a reader, after which the reader is dropped."""
FOREIGN_HOST = "without tokens only names of this machine are served: use localhost, --allow-host or --tokens"
_NO_TOKEN = "the token is missing or not valid: send it as Authorization: Bearer TOKEN"
FOREIGN_ORIGIN = "pages of other origins may not use this viewer"
_REPORT_POLICY = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""Content-Security-Policy of the report, which is one file with inline styles and scripts and has its own policy for
them."""
ReportPage = Callable[[Sequence[Path]], str]


class ViewerOptions(Struct, frozen=True, kw_only=True):
    """Who may use the viewer, and what it shows in addition to sessions.

    tokens: if None, everybody on this machine may use it. hosts: names that are served without tokens in addition to
    those of this machine. policies: those that each verdict compares. report: makes the HTML report over these files;
    None if there is none. texts: searches their texts; None if there is no search.
    """

    tokens: Tokens | None = None
    hosts: Collection[str] = ()
    policies: Sequence[Policy] = tuple(POLICIES.values())
    report: ReportPage | None = None
    texts: TextIndex | None = None


class ViewerApp:
    """Handler of requests."""

    def __init__(self, catalog: Catalog, options: ViewerOptions) -> None:
        self._catalog, self._options = catalog, options
        self._stopping = asyncio.Event()
        self._streams = 0
        self._verdicts: dict[str, tuple[CatalogEntry, bytes]] = {}
        """The latest verdicts with the state of the file that each was made from."""
        self._rows = SessionRows()
        self._reporting = asyncio.Lock()
        self._report: tuple[int, str] = (-1, "")

    @property
    def running(self) -> int:
        """Number of requests that a stop must wait for: always 0."""
        return 0

    def begin_stopping(self) -> None:
        """End the streams."""
        self._stopping.set()

    def application(self) -> web.Application:
        """Return the aiohttp application."""
        app = web.Application(middlewares=[self._guard])
        session = "/sessions/{id}"
        app.router.add_get("/", self._page)
        app.router.add_get("/page/{name:.+}", self._page)
        app.router.add_get("/sessions", self._list)
        app.router.add_get("/facets", self._facets)
        app.router.add_get(session, self._session)
        app.router.add_get(f"{session}/events", self._events)
        app.router.add_get(f"{session}/record", self._record)
        app.router.add_get(f"{session}/request", self._request)
        app.router.add_get(f"{session}/verdict", self._verdict)
        app.router.add_get("/report", self._show_report)
        return app

    # ---- around all requests

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Check a request, and turn every error into a response."""
        try:
            self._check(request)
            response = await handler(request)
        except HttpError as error:
            response = _problem(error.status, error.code, error.detail)
        except WrongUse as error:
            response = _problem(422, "invalid", str(error))
        except web.HTTPNotFound:
            response = _problem(404, "not_found", "there is nothing at this path: the viewer only shows sessions")
        except web.HTTPMethodNotAllowed as error:
            response = _problem(405, "method_not_allowed", "the viewer only reads: it changes and starts nothing")
            response.headers["Allow"] = ", ".join(sorted(error.allowed_methods))
        except web.HTTPException as error:
            response = _problem(error.status, "refused", error.reason)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            log_warning("a request failed", path=request.path[:200], error=error_text(error))
            response = _problem(500, "internal", "an unexpected error: the viewer printed it to its stderr")
        if not response.prepared:
            _add_headers(response)
        return response

    def _check(self, request: web.Request) -> None:
        """Raise HttpError for a request that is refused regardless of what it requests."""
        if not request.raw_path.startswith("/"):
            raise HttpError(400, "target", "the target of the request is not a path: this is not an HTTP proxy")
        values, version = partial(request.headers.getall, default=()), request.version
        if self._options.tokens is None:
            check_host(values, self._options.hosts, FOREIGN_HOST, f"{version.major}.{version.minor}")
        check_origin(values, (), FOREIGN_ORIGIN, opens=request.method in ("GET", "HEAD"))
        is_page = request.path == "/" or request.path.startswith("/page/")
        if self._options.tokens is not None and not is_page:
            kind, _, token = request.headers.get("Authorization", "").partition(" ")
            if kind.lower() != "bearer" or self._options.tokens.owner_of(token) is None:
                raise HttpError(401, "token", _NO_TOKEN)

    # ---- the page

    async def _page(self, request: web.Request) -> web.Response:
        file = page_files("viewer").get(request.match_info.get("name", INDEX))
        if file is None:
            raise web.HTTPNotFound
        headers = {"ETag": file.etag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if request.headers.get("If-None-Match") == file.etag:
            return web.Response(status=304, headers=headers)
        headers["Content-Type"] = file.media_type
        if "gzip" in request.headers.get("Accept-Encoding", ""):
            return web.Response(body=file.zipped, headers={**headers, "Content-Encoding": "gzip"})
        return web.Response(body=file.content, headers=headers)

    # ---- sessions

    async def _list(self, request: web.Request) -> web.Response:
        query = decode_list_query(request.query.items())
        reading = self._catalog.reading
        rows = self._rows.rows(self._catalog.entries())
        if query.q is None:
            sessions, more, total = select_sessions(rows, query)
            return _json(ListedSessions(sessions=sessions, next=more, total=total, reading=reading))
        if self._options.texts is None:
            raise HttpError(503, "search", "this viewer has no text search")
        searching = self._options.texts.progress
        try:
            sessions, more, total = await asyncio.to_thread(
                search_sessions, self._options.texts, self._catalog.entries(), rows, query
            )
        except SearchFailed as error:
            raise HttpError(503, "search", str(error)) from None
        return _json(ListedSessions(sessions=sessions, next=more, total=total, reading=reading, searching=searching))

    async def _facets(self, request: web.Request) -> web.Response:
        return _json(facets(self._rows.rows(self._catalog.entries())))

    async def _session(self, request: web.Request) -> web.Response:
        entry = await self._entry(request)
        return _json(await asyncio.to_thread(detailed_session, entry, self._rows.row(entry)))

    async def _record(self, request: web.Request) -> web.StreamResponse:
        entry = await self._entry(request)
        if not entry.path.is_file():
            raise HttpError(404, "unknown", f"the file {entry.file} is gone")
        name = quote(Path(entry.file).name)
        headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{name}", "Content-Type": "application/jsonl"}
        return web.FileResponse(entry.path, headers=headers)

    async def _request(self, request: web.Request) -> web.Response:
        entry, query = await self._readable(request), decode_query(request.query.items(), RequestQuery)
        return _json(await asyncio.to_thread(step_request, entry.path, query))

    async def _verdict(self, request: web.Request) -> web.Response:
        entry = await self._entry(request)
        if not entry.runs:
            return web.Response(status=204)  # asked beside the session itself, which says why it cannot be read
        known = self._verdicts.pop(entry.id, None)
        if known is None or known[0] is not entry:
            made = await asyncio.to_thread(self._make_verdict, entry)
            known = entry, made
        self._verdicts[entry.id] = known
        while len(self._verdicts) > MAX_VERDICTS:
            del self._verdicts[next(iter(self._verdicts))]
        return web.Response(body=known[1], content_type="application/json")

    def _make_verdict(self, entry: CatalogEntry) -> bytes:
        made = record_verdict(entry.path, self._options.policies, file=entry.file, is_written=entry.is_written)
        return encode_line(made)

    async def _events(self, request: web.Request) -> web.StreamResponse:
        entry = await self._readable(request)
        if self._streams >= MAX_STREAMS:
            raise HttpError(503, "too_many", f"{MAX_STREAMS} streams of events are open, which is the limit")
        last = request.headers.get("Last-Event-ID") or request.query.get("last_event_id", "")
        after = sse.parse_session_event_id(last) if last else None
        self._streams += 1
        try:
            async with await skip_to(entry.path, after) as frames:
                response = web.StreamResponse(headers={"Content-Type": sse.MEDIA_TYPE, **sse.HEADERS})
                _add_headers(response)
                await response.prepare(request)
                batches = follow_record(frames, self._stopping)
                async for chunk in sse.encode_sse(batches, with_run=True):
                    async with asyncio.timeout(SEND_SECONDS):
                        await response.write(chunk)
                return response
        finally:
            self._streams -= 1

    async def _entry(self, request: web.Request) -> CatalogEntry:
        """Return the file of the session named by the path. Raises HttpError (404)."""
        id = request.match_info["id"]
        entry = self._catalog.entry(id) or await asyncio.to_thread(self._catalog.subagent_entry, id)
        if entry is None:
            more = "; files are still being read" if self._catalog.reading is not None else ""
            raise HttpError(404, "unknown", f"there is no session {id[:100]!r}{more}")
        return entry

    async def _readable(self, request: web.Request) -> CatalogEntry:
        """Return the file of the session named by the path, if it can be read. Raises HttpError (404, 422)."""
        entry = await self._entry(request)
        if not entry.runs:
            raise HttpError(422, UNREADABLE, f"{entry.file} {entry.trouble or 'cannot be read'}")
        return entry

    # ---- the report

    async def _show_report(self, request: web.Request) -> web.Response:
        if self._options.report is None:
            raise web.HTTPNotFound
        async with self._reporting:
            generation = self._catalog.generation
            if self._report[0] != generation:
                paths = [entry.path for entry in self._catalog.entries()]  # the report names unreadable files
                self._report = generation, await asyncio.to_thread(self._options.report, paths)
        headers = {"Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": _REPORT_POLICY}
        return web.Response(body=self._report[1].encode("utf-8", "replace"), headers=headers)


def search_sessions(
    texts: TextIndex, entries: Sequence[CatalogEntry], rows: Sequence[ListedSession], query: ListQuery
) -> tuple[list[ListedSession], str | None, int]:
    """Return one page of the sessions in which the text of a query occurs, in the form of `select_sessions`.

    entries, rows: the same files. Raises SearchFailed and HttpError.
    """
    assert query.q is not None
    found = texts.search(query.q)
    steps = {entry.id: found[entry.path] for entry in entries if entry.path in found}
    sessions, more, total = select_sessions(rows, query, steps)
    return [replace(one, match=texts.match(steps[one.id], query.q)) for one in sessions], more, total


def _add_headers(response: web.StreamResponse) -> None:
    for name, value in SECURITY_HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers.setdefault("Cache-Control", "no-store")


def _json(content: object) -> web.Response:
    return web.Response(body=encode_line(content), content_type="application/json")


def _problem(status: int, code: str, detail: str) -> web.Response:
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    return web.Response(status=status, body=encode_problem(status, code, detail), content_type=PROBLEM, headers=headers)

"""The context that a request handler gets: owner, query and body of the request, and the state all handlers share."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ..http import sse as sse
from ..http.problems import HttpError
from ..providers._outage import Outages
from ..providers.clock import Clock
from ..service.errors import Refusal
from ..service.service import Service
from ..store.base import StoredRun, StoreError
from .auth import Auth
from .server_limits import Readers, ReaderSlot, RequestRates, WebLimits
from .streaming import StreamedResponse

_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}")


@dataclass(frozen=True, slots=True)
class AppState:
    """State that all request handlers share."""

    service: Service
    auth: Auth | None
    limits: WebLimits
    readers: Readers
    rates: RequestRates
    clock: Clock
    store_outages: Outages = field(default_factory=Outages)
    """Log that requests fail as the store does: once a minute, and not each."""

    def write_interval(self) -> float:
        """Return the seconds between two writes to a reader; longer while the event loop lags."""
        return self.readers.loop_lag.stretch(self.limits.write_interval)


@dataclass(frozen=True, slots=True)
class RequestContext:
    """One request, with query and body decoded as its operation declares them."""

    request: Request
    state: AppState
    owner: str
    query: Any = None
    body: Any = None

    @property
    def service(self) -> Service:
        """The service of the app."""
        return self.state.service

    @property
    def limits(self) -> WebLimits:
        """The limits of the app."""
        return self.state.limits

    @property
    def last_event_id(self) -> str:
        """Id of the event after which a stream resumes; empty: from the start."""
        return self.request.headers.get("last-event-id") or self.query.last_event_id or ""

    def stream(
        self,
        chunks: AsyncGenerator[bytes, None],
        media_type: str = sse.MEDIA_TYPE,
        *,
        headers: Mapping[str, str] = sse.HEADERS,
        on_disconnect: Callable[[], Awaitable[None]] | None = None,
        slot: ReaderSlot | None = None,
    ) -> StreamedResponse:
        """Return a response that streams `chunks`. Raises TooMany if no reader slot is free.

        on_disconnect: called if the client disconnects before the end.
        slot: a reader slot that was acquired before; None: acquires one.
        """
        paced = media_type == sse.MEDIA_TYPE and self.limits.write_interval > 0
        return StreamedResponse(
            chunks,
            media_type,
            headers=headers,
            seconds=self.limits.send_seconds,
            interval=self.state.write_interval if paced else None,
            slot=slot or self.state.readers.acquire(self.owner),
            on_disconnect=on_disconnect,
            clock=self.state.clock,
        )

    def id(self, what: str) -> str:
        """Return the `session` or `run` id in the path. Raises HttpError (404) for an invalid id."""
        id: str = self.request.path_params[f"{what}_id"]
        if not _ID.fullmatch(id):
            raise HttpError(404, what, f"there is no such {what}")
        return id


def json_response(value: Any, status: int = 200, **headers: str) -> Response:
    """Return a response with `value` as JSON."""
    return Response(msgspec.json.encode(value), status, headers, "application/json")


def cancel_on_disconnect(service: Service, run: StoredRun) -> Callable[[], Awaitable[None]]:
    """Return a function that cancels this run, for `on_disconnect=cancel`.

    It does nothing if the run has ended or the server is stopping.
    """

    async def cancel() -> None:
        if service.stopping:
            return
        try:
            session = await service.session(run.session_id)
            if session.run_id == run.id:
                await service.cancel(run.session_id, "disconnect")
        except (Refusal, StoreError):
            pass  # the run has ended meanwhile

    return cancel

"""One request on its way to the service: who asks, what for, and what all routes share."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ..providers.clock import Clock
from ..service.errors import Refusal
from ..service.service import Service
from ..store.base import StoredRun, StoreError
from . import sse as sse
from .auth import Auth
from .errors import HttpError
from .limits import Readers, ReaderSlot, RequestRates, WebLimits
from .streaming import StreamedResponse

_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}")


@dataclass(frozen=True, slots=True)
class AppState:
    """What all routes share."""

    service: Service
    auth: Auth | None
    limits: WebLimits
    readers: Readers
    rates: RequestRates
    clock: Clock

    def write_interval(self) -> float:
        """Seconds between two writes to one reader: longer while the machine has too much to do."""
        return self.readers.loop_lag.stretch(self.limits.write_interval)


@dataclass(frozen=True, slots=True)
class RequestContext:
    """One request, with its body and query as the operation takes them."""

    request: Request
    state: AppState
    owner: str
    query: Any = None
    body: Any = None

    @property
    def service(self) -> Service:
        """Who does it."""
        return self.state.service

    @property
    def limits(self) -> WebLimits:
        """What is too much."""
        return self.state.limits

    @property
    def last_event_id(self) -> str:
        """After which event a stream is resumed; empty for from its beginning."""
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
        """A response that goes on, with a reader's place; `place`: one that was taken before. Raises TooMany."""
        events = media_type == sse.MEDIA_TYPE and self.limits.write_interval > 0
        return StreamedResponse(
            chunks,
            media_type,
            headers=headers,
            seconds=self.limits.send_seconds,
            interval=self.state.write_interval if events else None,
            slot=slot or self.state.readers.acquire(self.owner),
            on_disconnect=on_disconnect,
            clock=self.state.clock,
        )

    def id(self, what: str) -> str:
        """The id in the path. Raises Refused: 404 if there can be no such thing."""
        id: str = self.request.path_params[f"{what}_id"]
        if not _ID.fullmatch(id):
            raise HttpError(404, what, f"there is no such {what}")
        return id


def json_response(value: Any, status: int = 200, **headers: str) -> Response:
    """A response with this value as JSON."""
    return Response(msgspec.json.encode(value), status, headers, "application/json")


# What becomes of a run whose reader leaves: it goes on, or it ends, too (`on_disconnect=cancel`).


def cancel_on_disconnect(service: Service, run: StoredRun) -> Callable[[], Awaitable[None]]:
    """Cancels this run when it is called, unless it has ended, or the server is stopping and ends it anyhow."""

    async def cancel() -> None:
        if service.stopping:
            return
        try:
            session = await service.session(run.session_id)
            if session.run_id == run.id:
                await service.cancel(run.session_id, "disconnect")
        except (Refusal, StoreError):
            pass  # it has ended meanwhile

    return cancel

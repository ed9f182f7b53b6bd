"""Asks the provider for a stream if the agent does not ask for one, because only a stream can be cut.

It does so only if there is something to cut: a request that offers a completion tool and leaves the model free to call
it. All other requests, and their responses, stay unchanged, byte by byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import aiohttp
import msgspec

from ..providers._logging import log_warning
from ..providers.error_replies import build_error, parse_error_value
from ..providers.errors import KINDS
from .exchange import FollowedExchange
from .offered_completion import OFFERED, completion_names
from .wire import ProxyWire, ReportedError

MOST_MODELS = 1_000
"""Maximum number of remembered models that do not stream; beyond that, the first one is dropped."""
_REFUSALS = frozenset({400, 404, 405, 415, 422, 501})
"""Statuses by which a provider may report that it does not stream."""
_STATUS_OF_KIND = {
    "auth": 401,
    "bad_request": 400,
    "context_overflow": 400,
    "not_found": 404,
    "quota": 429,
    "rate_limit": 429,
}
"""Status for an error reported in a stream, by its kind; 502, which clients retry, for any other kind."""
assert _STATUS_OF_KIND.keys() <= KINDS.keys()


class UpstreamStreaming:
    """Choice of the requests for which a stream is requested. It remembers which models do not stream.

    enabled: whether to do so at all. completion: names of the tools that complete a task; if empty, the usual ones.
    """

    def __init__(self, *, enabled: bool, completion: tuple[str, ...]) -> None:
        self._enabled = enabled
        self._completion = completion
        self._without: dict[tuple[str, str], None] = {}
        """Wires and models that do not stream, in the order in which that was found."""

    def wanted(self, exchange: FollowedExchange) -> bool:
        """Return whether the response to a request that does not stream could be cut if it did."""
        request, wire = exchange.request, exchange.wire
        can_be_cut = exchange.can_be_cut or exchange.may_be_met
        if not self._enabled or request.streams or not can_be_cut or self._key(exchange) in self._without:
            return False
        if any(request.body.get(name) is not None for name in wire.unstreamed_fields):
            return False
        if exchange.may_be_met:
            return True
        names = completion_names(request, self._completion)
        if exchange.run.offers_completion:
            names.add(OFFERED.name)
        return wire.may_call(request.body, names)

    def note_failure(self, exchange: FollowedExchange, why: str) -> None:
        """Remember that a model does not stream, and log it."""
        wire, model = key = self._key(exchange)
        said = exchange.hide(model), exchange.hide(why)
        log_warning("the provider does not stream, so responses are not cut", wire=wire, model=said[0], why=said[1])
        self._without[key] = None
        if len(self._without) > MOST_MODELS:
            del self._without[next(iter(self._without))]

    def _key(self, exchange: FollowedExchange) -> tuple[str, str]:
        return exchange.wire.name, exchange.request.model


def streamed_request(wire: ProxyWire, request: Mapping[str, Any], body: bytes) -> bytes:
    """Return the body of a request, changed only to ask for a stream. request: the body, decoded."""
    if not wire.stream_fields(request):
        return body  # its path asks for it
    fields: dict[str, Any] = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    return msgspec.json.encode({**fields, **wire.stream_fields(request)})


async def refuses_stream(reply: aiohttp.ClientResponse) -> bool:
    """Return whether a reply says that this cannot be streamed. Its body is read if it may say so."""
    return reply.status in _REFUSALS and b"stream" in (await reply.read()).lower()


def status_of(error: ReportedError) -> int:
    """Return the HTTP status with which an error in a stream would have been sent without one."""
    known = build_error(parse_error_value(error.said))
    return known.status or _STATUS_OF_KIND.get(known.kind, 502)

"""Requests to the provider: sent as they came or changed by the proxy, and counted by the budgets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter
from uuid import uuid4

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from ..budget import FIRST
from ..decision import Usage
from ..decision.errors import error_text
from ..providers._logging import log_warning
from ..providers._outage import Outage
from ..providers.errors import ProviderError, Unreachable
from ..records.known_secrets import KnownSecrets
from .agent_replies import copy_reply, error_reply
from .day_budgets import DayBudgets, Reservation
from .exchange import BUDGET
from .headers import key_of, reason_of, request_headers
from .statistics_page import Statistics, request_tokens
from .upstream_connections import Body, UpstreamConnections

REQUEST_TIMEOUT, CLIENT_CLOSED = 408, 499
"""Statuses of requests that took too long, or whose sender left: the provider may have worked on them. 499 is
nginx's."""
SERVER_ERRORS = 500
"""The lowest status that says that the server has failed (RFC 9110, section 15.6)."""


def ignore(sent: bool) -> None:
    """Ignore whether a request was sent, because nobody counts it."""


class UpstreamRequests:
    """Requests of agents to one provider.

    upstream: URL of the provider. budgets: limit the requests; None for no limit. secrets: hidden in what is written.
    now: returns the seconds of a monotonic clock.
    """

    def __init__(
        self,
        upstream: str,
        budgets: DayBudgets | None,
        statistics: Statistics,
        secrets: KnownSecrets,
        now: Callable[[], float],
    ) -> None:
        self.id = uuid4().hex
        """Id of this proxy, by which it recognises its own requests."""
        self._connections = UpstreamConnections(upstream)
        self._budgets = budgets
        self._statistics = statistics
        self._secrets = secrets
        self._outage = Outage("the provider does not answer", clock=now)

    def failure(self, error: aiohttp.ClientError) -> Unreachable:
        """Return the error for a request that failed on its way, with what to change."""
        return Unreachable(self._connections.failure_text(error))

    def refusal(self, reply: aiohttp.ClientResponse, body: str | bytes) -> ProviderError:
        """Return the error for an error reply, with what to change. body: its beginning, as far as it is there."""
        return self._connections.refusal(reply, body)

    async def open(self) -> None:
        """Open the connections to the provider."""
        await self._connections.open()

    async def close(self) -> None:
        """Close the connections to the provider."""
        await self._connections.close()

    async def reserve(
        self, incoming: web.Request, size: int, model: str, said: dict[str, str], like: Usage = FIRST
    ) -> Reservation | None:
        """Reserve a request of this size in the budgets; None without budgets. If they fail, they are open.

        said: gets the header that reports this. like: earlier usage by which the response is estimated.
        """
        if self._budgets is None:
            return None
        try:
            price = self._budgets.prices.price(model)
            held = await self._budgets.reserve(key_of(incoming), request_tokens(size), price, like)
        except Exception as error:
            log_warning("the budgets failed, and limit nothing", error=error_text(error))
            held = Reservation(open=True)
        if held.open:
            said[BUDGET] = "open"
            self._statistics.count_open_budget()
        return held

    async def send(
        self, incoming: web.Request, headers: CIMultiDict[str], body: Body, sent: Callable[[bool], None], path: str = ""
    ) -> aiohttp.ClientResponse:
        """Send a request of an agent.

        sent: told whether the provider got it and did not refuse it, also if it breaks off. path: with its query, if it
        is not the agent's.
        """
        data = body if incoming.body_exists else None
        got, began = True, perf_counter()
        try:
            reply = await self._connections.request(incoming.method, path or incoming.raw_path, headers, data)
            got = not is_refusal(reply.status)
            self._note_reply(reply, began)
            return reply
        except aiohttp.ClientError as error:
            got = not isinstance(error, aiohttp.ClientConnectorError)
            self._statistics.count_reply(None, perf_counter() - began)
            self._outage.failed(error=self._secrets(self._connections.failure_text(error)))
            raise
        finally:
            sent(got)

    def _note_reply(self, reply: aiohttp.ClientResponse, began: float) -> None:
        """Note whether the provider, or a gateway before it, answers at all, and count the reply."""
        if reply.status >= SERVER_ERRORS:
            self._outage.failed(error=f"HTTP {reply.status} {reason_of(reply)}")
        else:
            self._outage.over()
        self._count_reply(reply, began)

    def _count_reply(self, reply: aiohttp.ClientResponse, began: float) -> None:
        """Count a reply that has begun, and later its end: its connection is then released, or closed at a cut."""
        self._statistics.count_reply(reply.status, perf_counter() - began)
        if reply.connection is None:
            self._statistics.count_whole(perf_counter() - began)
        else:
            reply.connection.add_callback(lambda: self._statistics.count_whole(perf_counter() - began))

    async def send_changed(
        self, incoming: web.Request, body: bytes, sent: Callable[[bool], None], path: str = ""
    ) -> aiohttp.ClientResponse:
        """Send a request with another body than the agent's, for a response that is read here.

        sent, path: as in `send`.
        """
        headers = request_headers(incoming, self.id)
        headers["Accept-Encoding"] = "identity"
        headers.popall("Content-Length", None)
        return await self.send(incoming, headers, body, sent, path)

    async def pass_on(
        self, incoming: web.Request, body: Body, said: Mapping[str, str], sent: Callable[[bool], None] = ignore
    ) -> web.StreamResponse:
        """Pass on a request unchanged, and its response. said: headers that are added. sent: as in `send`."""
        try:
            reply = await self.send(incoming, request_headers(incoming, self.id), body, sent)
        except aiohttp.ClientError as error:
            return self.unreachable(error)
        try:
            return await copy_reply(incoming, reply, said)
        finally:
            reply.release()

    def unreachable(self, error: aiohttp.ClientError | ProviderError) -> web.Response:
        """Return the response to an agent if the provider cannot be reached: a gateway failure, which clients retry."""
        said = str(error) if isinstance(error, ProviderError) else self._connections.failure_text(error)
        return error_reply(502, self._secrets(said))


def is_refusal(status: int) -> bool:
    """Return whether a reply with this HTTP status says that the provider did nothing (RFC 9110, section 15.5)."""
    return 400 <= status < 500 and status not in (REQUEST_TIMEOUT, CLIENT_CLOSED)

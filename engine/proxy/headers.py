"""Headers of requests and replies: what is passed on, and what they say about an agent."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator

import aiohttp
from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy

from ..base.sanitize import one_line
from ..records.known_secrets import names_secret

OWN_HEADERS = "x-endstop"
"""Prefix of the proxy's own headers. In a request they are for the proxy and not for the provider; in a reply they come
only from the proxy."""
_OURS = (OWN_HEADERS, OWN_HEADERS.replace("-", "_"))
"""Forms of `OWN_HEADERS`, including that for servers that treat `_` and `-` as the same."""
VIA = f"{OWN_HEADERS}-via"
"""Header of every request that the proxy sends, with the ids of the proxies that it passed, by which a proxy recognises
its own."""
TOKEN = f"{OWN_HEADERS}-token"
"""Header with the proxy's own token: `Authorization` has the key for the provider."""
KEYS = ("authorization", "x-api-key", "api-key", "x-goog-api-key")
"""Headers that may contain a provider's key: OpenAI's, Anthropic's, Azure's, Google's."""
_PROXY_ID = re.compile(r"[0-9a-f]{32}")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
     "transfer-encoding", "upgrade", "host", "content-length", "expect"}
)  # fmt: skip
"""Headers of one connection, which are never passed on (RFC 9110, section 7.6.1), and headers that are set again."""


def key_of(incoming: web.Request) -> str:
    """Return the agent's key for the provider; empty without one."""
    return next((incoming.headers[name] for name in KEYS if incoming.headers.get(name)), incoming.query.get("key", ""))


def secrets_of(incoming: web.Request) -> Iterator[str]:
    """Yield the credentials in a request, for here or for the provider: keys, tokens, passwords, cookies."""
    for name, value in incoming.headers.items():
        if name.lower() == "cookie":
            yield from (part.partition("=")[2].strip().strip('"') for part in value.split(";"))
        elif names_secret(name):
            scheme, _, credentials = value.strip().rpartition(" ")
            yield credentials
            if scheme.lower() == "basic":
                yield from _basic_login(credentials)
    yield from (value for name, value in incoming.query.items() if names_secret(name))


def _basic_login(credentials: str) -> tuple[str, ...]:
    """Return the login and the password of `Basic` credentials (RFC 7617)."""
    try:
        login = b64decode(credentials).decode()
    except ValueError:
        return ()
    return login, login.partition(":")[2]


def agent_of(incoming: web.Request) -> str:
    """Return the agent's name according to the request."""
    return one_line(incoming.headers.get("user-agent", "").split("/")[0], 40)


def request_headers(incoming: web.Request, via_id: str) -> CIMultiDict[str]:
    """Return the headers of an agent's request for the provider. via_id: id by which the proxy recognises its own."""
    headers = passed_on(incoming.headers)
    headers[VIA] = ", ".join([*passed_proxies(incoming), via_id])
    if "content-length" in incoming.headers:
        headers["Content-Length"] = incoming.headers["content-length"]
    return headers


def passed_proxies(incoming: web.Request) -> list[str]:
    """Return the ids of the proxies that a request has passed."""
    return _PROXY_ID.findall(",".join(incoming.headers.getall(VIA, [])))


def passed_on(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    """Return the headers of a message without those of its connection, and without the proxy's own.

    A control character, which headers must not have but some parsers let through, becomes a space (RFC 9110, section
    5.5).
    """
    named = {name.strip().lower() for value in headers.getall("connection", []) for name in value.split(",")}
    left_out = _HOP_BY_HOP | named
    return CIMultiDict(
        (name, value if value.isprintable() else _CONTROL.sub(" ", value))
        for name, value in headers.items()
        if not (lowered := name.lower()).startswith(_OURS) and lowered not in left_out
    )


def reason_of(reply: aiohttp.ClientResponse) -> str:
    """Return the reason phrase of a reply, in a form that may be passed on."""
    return _CONTROL.sub(" ", reply.reason or "")

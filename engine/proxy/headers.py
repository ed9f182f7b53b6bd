"""The headers of requests and replies: what is passed on of them, and what they say of an agent."""

from __future__ import annotations

from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy

OWN_HEADERS = "x-endstop-"
"""How the headers of a request begin that are for the proxy and not for the provider."""
VIA = f"{OWN_HEADERS}via"
"""Header of every request that the proxy sends, by which it recognises its own."""
TOKEN = f"{OWN_HEADERS}token"
"""Header with the proxy's own token: `Authorization` has the key for the provider."""
KEYS = ("authorization", "x-api-key", "api-key", "x-goog-api-key")
"""Headers in which a provider's key may come: OpenAI's, Anthropic's, Azure's, Google's."""
_HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
     "transfer-encoding", "upgrade", "host", "content-length", "expect"}
)  # fmt: skip
"""Headers of one connection, which are never passed on (RFC 9110, section 7.6.1), and those that are set anew."""


def key_of(incoming: web.Request) -> str:
    """The agent's key for the provider; empty without one."""
    return next((incoming.headers[name] for name in KEYS if incoming.headers.get(name)), incoming.query.get("key", ""))


def agent_of(incoming: web.Request) -> str:
    """What a request says of its agent."""
    return incoming.headers.get("user-agent", "").split("/")[0][:40]


def request_headers(incoming: web.Request, via_id: str) -> CIMultiDict[str]:
    """The headers with which an agent's request goes to the provider. via_id: by which the proxy recognises its own."""
    via = incoming.headers.get(VIA)
    headers = passed_on(incoming.headers)
    for name in [name for name in headers if name.lower().startswith(OWN_HEADERS)]:
        headers.popall(name, None)
    headers[VIA] = f"{via}, {via_id}" if via else via_id
    if "content-length" in incoming.headers:
        headers["Content-Length"] = incoming.headers["content-length"]
    return headers


def passed_on(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    """The headers of a message without those of its connection."""
    named = {name.strip().lower() for value in headers.getall("connection", []) for name in value.split(",")}
    return CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in _HOP_BY_HOP | named)

"""Whether an agent has a proxy of endstop before it, which then stops it: of the two, one speaks.

The agent's base URL is in the variables that its hooks see. Only addresses of this machine are asked, and a URL that
the user has given: nobody else is to get a request that no person made.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

BASE_URLS = (
    "ANTHROPIC_BASE_URL",
    "OPENAI_BASE_URL",
    "OPENAI_API_BASE",
    "GOOGLE_GEMINI_BASE_URL",
    "GOOGLE_VERTEX_BASE_URL",
)
"""Variables with which agents are told where their provider is."""
HEALTH_PATH = "/endstop/health"
SECONDS = 0.1
"""Seconds for connecting, and for the answer."""
ACTS, CHECKS = "acts", "checks"
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
_MAX_BYTES = 10_000


def proxy_before(given: str, environ: Mapping[str, str]) -> str:
    """Return what a living proxy before the agent does: `acts`, `checks`, both with a space, or nothing.

    given: its URL as the user says; empty if not given. Never raises.
    """
    urls = [given] if given else [environ[name] for name in BASE_URLS if environ.get(name)]
    for url in dict.fromkeys(urls):
        found = _ask(url, anywhere=bool(given))
        if found is not None:
            return found
    return ""


def _ask(url: str, *, anywhere: bool) -> str | None:
    """Return what the proxy at a URL does; None if there is none."""
    import http.client  # only here, where it is needed at most once a session

    try:
        place = urlsplit(url)
        if place.scheme not in ("http", "https") or not (anywhere or place.hostname in _LOCAL):
            return None
        kind = http.client.HTTPConnection if place.scheme == "http" else http.client.HTTPSConnection
        connection = kind(place.hostname or "", place.port, timeout=SECONDS)
        try:
            connection.request("GET", HEALTH_PATH)
            reply = connection.getresponse()
            body = msgspec.json.decode(reply.read(_MAX_BYTES))
        finally:
            connection.close()
    except (OSError, ValueError, http.client.HTTPException):
        return None
    if not isinstance(body, dict) or body.get("proxy") != "endstop":
        return None
    return " ".join(name for name in (ACTS, CHECKS) if body.get(name) is True)

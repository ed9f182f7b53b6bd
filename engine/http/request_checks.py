"""Which requests a server without tokens refuses, and the security headers of its responses.

Such a server is for the people at this machine. Any web page that they visit could send it requests, too: through a
name of its own that resolves to this machine (DNS rebinding), or directly from its scripts (CSRF). So the `Host` must
name this machine, and requests of pages of other origins are refused.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ..process.listening import is_loopback
from .problems import HttpError

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""Headers of every response."""


def check_host(headers: Mapping[str, str], hosts: Collection[str], refusal: str) -> None:
    """Raise HttpError (421) unless `Host` names this machine or is one of `hosts`. refusal: what the error says.

    headers: by lower-case names, or a mapping that does not mind.
    """
    name = _host_name(headers.get("host", ""))
    if not (is_loopback(name) or name in hosts):
        raise HttpError(421, "host", refusal)


def check_origin(headers: Mapping[str, str], origins: Collection[str], refusal: str) -> None:
    """Raise HttpError (403) for a request of a page of another origin than the server's own and `origins`."""
    origin = headers.get("origin")
    if origin is not None:
        own = origin.partition("://")[2].lower() == headers.get("host", "").lower() != ""
        if not own and origin not in origins:
            raise HttpError(403, "origin", refusal)
    elif headers.get("sec-fetch-site") in ("cross-site", "same-site") and not _opens_page(headers):
        raise HttpError(403, "origin", refusal)


def _opens_page(headers: Mapping[str, str]) -> bool:
    return headers.get("sec-fetch-mode") == "navigate"


def _host_name(host: str) -> str:
    """The name in a `Host` header, without port and brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()

"""Which requests a server without tokens refuses, and the security headers of its responses.

Such a server is for the people and programs on this machine. Any web page that they visit could send it requests, too:
through a host name that resolves to this machine (DNS rebinding), or directly from its scripts (CSRF). So the `Host`
must name this machine, and requests of pages of other origins are refused. `Forwarded` and `X-Forwarded-Host` are
ignored: anybody can send them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence

from ..process.listening import is_own_name
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


Values = Callable[[str], Sequence[str]]
"""All values that a request has of a header, by its name in lower case."""
_AUTHORITY = re.compile(
    r"(?:\[(?P<address>[0-9a-f.]*:[0-9a-f:.]*)(?:%(?:25)?[\w.~-]+)?\]|(?P<name>[a-z0-9_.-]+?)\.?)(?::[0-9]{0,5})?"
    r"|(?P<bare>[0-9a-f.]*:[0-9a-f.]*:[0-9a-f:.]*)",
    re.ASCII,
)
"""A `Host` header (RFC 9110, section 7.2): a name or an address and optionally a port, in lower case. A last dot is
that of the root of the DNS, and a zone names an interface of this machine (RFC 6874). An IPv6 address without brackets
is taken as well."""

_ORIGIN = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#@\s]+")
_OWN_SITES = ("same-origin", "none")
"""Values that browsers send for requests of the server's pages and for those started by the user (Fetch Metadata)."""


def check_host(values: Values, hosts: Collection[str], refusal: str, version: str = "1.1") -> None:
    """Raise HttpError (421) unless `Host` names this machine or is one of `hosts`. refusal: what the error says.

    version: of HTTP. Before 1.1 a request may have no `Host`; browsers, and so web pages, always send one.
    """
    given = values("host")
    if not given and version in ("0.9", "1.0"):
        return
    name = host_name(given[0]) if len(given) == 1 else ""
    if not name or not (name in hosts or is_own_name(name)):
        raise HttpError(421, "host", refusal)


def check_origin(values: Values, origins: Collection[str], refusal: str, *, opens: bool = False) -> None:
    """Raise HttpError (403) for a request of a page whose origin is neither the server's nor in `origins`.

    opens: whether the request only opens something to look at, which a link on any page may do.
    """
    senders = values("origin")
    own = {f"{scheme}://{host.lower()}" for host in values("host") for scheme in ("http", "https")}
    others = [sender for sender in senders if sender not in origins]
    if senders and not others:
        return
    foreign = any(sender.lower() not in own for sender in others)
    is_link = opens and not senders and list(values("sec-fetch-mode")) == ["navigate"]
    if foreign or not (is_link or all(site in _OWN_SITES for site in values("sec-fetch-site"))):
        raise HttpError(403, "origin", refusal)


def is_origin(text: str) -> bool:
    """Return whether a browser could send this as `Origin` (RFC 6454): scheme, host and optional port."""
    return _ORIGIN.fullmatch(text) is not None


def host_name(host: str) -> str:
    """Return the name or address in a `Host` header; empty if it is invalid.

    Without brackets, zone, port and final dot.
    """
    found = _AUTHORITY.fullmatch(host.strip(" \t").lower())
    return "" if found is None else found["address"] or found["name"] or found["bare"]

"""What to change in the address or the key when no model answers: for errors of connections and for error replies."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlsplit

from .endpoint_url import public_url

_VERSION = re.compile(r"v\d+\w*")
_OPERATIONS = frozenset("chat completions responses messages models embeddings generate".split())
"""Last parts of the paths of requests, which are no part of a base URL."""
_NO_MODEL = re.compile(r"(?i)\bmodel|deployment|no endpoints found")
"""What a reply with status 404 says if the path is right and the model is not."""
_NEEDS_TLS = re.compile(r"(?i)https (?:port|server)")
_WEB_PAGE = re.compile(r"(?i)\s*(?:<!doctype html|<html)")


class EndpointAddress(NamedTuple):
    """An address to which requests are sent, and what the user calls it."""

    base: str = ""
    """The URL that the user gave; empty if it is not known. Credentials and query in it are not shown."""
    path: str = ""
    """The path that is added to it."""
    option: str = "api_base"
    """The name under which the user gave it."""
    keys: str = ""
    """Where a key may come from, as in `OPENAI_API_KEY`; empty if the key is not ours."""
    has_key: bool = False
    """Whether a key is sent."""
    version: str = "/v1"
    """What the paths of this API begin with."""

    def after_error(self, error: BaseException) -> str:
        """Return what to change after a connection failed, as the end of a message; empty if nothing is known."""
        for cause in _chain(error):
            match cause:
                case ssl.SSLCertVerificationError():
                    return (
                        f" (check the host in {self.option}; if the certificate is your own, name the file of its "
                        "authority in SSL_CERT_FILE)"
                    )
                case ssl.SSLError():
                    return f" (it may be a server without TLS: try {self._with_scheme('http')})"
                case socket.gaierror():
                    return f" (no host has this name: check the host in {self.option})"
                case ConnectionRefusedError():
                    return f" (nothing listens there: start the server, or check the port in {self.option})"
                case _:
                    pass
        return self._after_odd_answer(error)

    def after_reply(self, status: int, text: str, content_type: str = "") -> str:
        """Return what to change after an error reply, or an answer that is none of the API's; empty if unknown."""
        if _NEEDS_TLS.search(text):
            return f" (it is a server with TLS: try {self._with_scheme('https')})"
        is_page = content_type.startswith("text/html") or _WEB_PAGE.match(text) is not None
        if status in (404, 405) and not is_page and _NO_MODEL.search(text):
            return " (the path is right: check the name of the model)"
        if status in (404, 405) or (is_page and status < 400):
            what = "a web page answers at" if is_page else "the server has no"
            return f" ({what} {public_url(self.base + self.path)}: {self._better_path()})"
        if status < 400 and content_type == "application/json" and self._lacks_version:
            return f" (another API may answer at {public_url(self.base + self.path)}: {self._better_path()})"
        if status in (401, 403) and self.keys:
            if not self.has_key:
                return f" (no key was sent: set {self.keys}, or give api_key)"
            return f" (the key that was sent is from api_key or {self.keys}: check that it is one of this server)"
        return ""

    def _after_odd_answer(self, error: BaseException) -> str:
        """Return what to change if something else than an HTTP server seems to answer."""
        if urlsplit(self.base).scheme != "http":
            return ""
        name = type(error).__name__
        if name == "ServerDisconnectedError":
            return f" (if it always does, it may be a server with TLS: try {self._with_scheme('https')})"
        if "Bad status line" in str(error) or name == "RemoteProtocolError":
            return f" (it is no HTTP server, or one with TLS: check the port, or try {self._with_scheme('https')})"
        return ""

    def _with_scheme(self, scheme: str) -> str:
        if not self.base:
            return f"{scheme}:// in {self.option}"
        return self._named(re.sub(r"^https?", scheme, public_url(self.base)))

    @property
    def _lacks_version(self) -> bool:
        return not any(map(_VERSION.fullmatch, urlsplit(self.base + self.path).path.split("/")))

    def _better_path(self) -> str:
        """Return which path to try in place of one that the server does not have."""
        base = public_url(self.base)
        parts = urlsplit(base).path.strip("/").split("/")
        kept: list[str] = []
        for part in parts:
            if part in _OPERATIONS:
                break
            if not (_VERSION.fullmatch(part) and part in kept):
                kept.append(part)
        if kept != parts:
            return f"try {self._named(base.removesuffix('/'.join(parts)) + '/'.join(kept))}"
        if self._lacks_version:
            return f"try {self._named(base + self.version)}"
        return f"check the path in {self.option}"

    def _named(self, base: str) -> str:
        return f"{self.option} {base}" if self.option.startswith("-") else f"{self.option}={base!r}"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes, which aiohttp keeps as `os_error`."""
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield found
        inner = getattr(found, "os_error", None)
        if isinstance(inner, BaseException):
            yield inner
        found = found.__cause__ or found.__context__

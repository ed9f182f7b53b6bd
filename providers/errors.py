"""Provider errors, classified by what the caller can do about them.

    ProviderError
    ├── Unauthorized        auth: the key is missing, wrong or lacks permission (401, 403): change the key
    ├── NotFound            not_found: there is no such model or path (404): change the name
    ├── BadRequest          bad_request: the request itself is rejected (400, 422): change the request
    │   └── ContextOverflow     context_overflow: too many tokens: compact, then try again
    ├── QuotaExceeded       quota: no credit or quota is left (402, some 429): pay, or use another account
    ├── RateLimited         rate_limit: too many requests (429): wait `retry_after` seconds
    ├── Unavailable         server: the provider's own error (5xx): retry, or use another provider
    │   ├── Unreachable         connection: refused, unresolved, reset before an answer
    │   └── TimedOut            timeout: no response or no further content in time
    ├── Cancelled           cancelled: the caller cancelled the request
    ├── Degenerate          degenerate: the response repeated itself, and the engine cut it
    ├── Exhausted           exhausted: a script or a record has no more responses
    └── ProtocolError       protocol: the response violates the protocol
        └── Interrupted         interrupted: the stream ended before the response did

The loop turns an error that remains after all retries into the outcome `provider_error`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from ..decision import AttemptEnded, Usage
from ..decision.wrong_attributes import explained_attributes

SHORTEST_SECRET = 6
"""Keys shorter than this are placeholders (`x`, `none`, `EMPTY`) and not secret."""
TELLING_PART = 12
"""Fewest characters of a key's beginning that are removed from messages: a message that a server truncated may end with
a part of the key."""


@explained_attributes
class ProviderError(Exception):
    """Error of a provider that could not give a response.

    message: for people; it never contains a key.
    status: HTTP status; None if there was none.
    retry_after: seconds to wait before a retry; None if the provider did not say.
    """

    kind: ClassVar[str] = "other"

    def __init__(self, message: str, *, status: int | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.retry_after = retry_after


class Unauthorized(ProviderError):
    """The key is missing, wrong or lacks permission."""

    kind = "auth"


class NotFound(ProviderError):
    """The model or the path does not exist."""

    kind = "not_found"


class BadRequest(ProviderError):
    """The provider rejects the request."""

    kind = "bad_request"


class ContextOverflow(BadRequest):
    """The request has more tokens than the model accepts."""

    kind = "context_overflow"


class QuotaExceeded(ProviderError):
    """The account has no credit or quota left; waiting a few minutes does not help."""

    kind = "quota"


class RateLimited(ProviderError):
    """Too many requests or tokens; `retry_after` is how long to wait, if the provider says so."""

    kind = "rate_limit"


class Unavailable(ProviderError):
    """The provider has an internal error or is overloaded."""

    kind = "server"


class Unreachable(Unavailable):
    """The connection failed, or was closed before a response."""

    kind = "connection"


class TimedOut(Unavailable):
    """No response, or no further content, in time."""

    kind = "timeout"


class Cancelled(ProviderError):
    """The caller cancelled the request. Never raised by a provider; records use it for an attempt that was cut."""

    kind = "cancelled"


class Degenerate(ProviderError):
    """The response repeated itself. Never raised by a provider; records use it for an attempt that the engine cut.

    text: the response's text before the repetition.
    """

    kind = "degenerate"

    def __init__(
        self, message: str, *, status: int | None = None, retry_after: float | None = None, text: str = ""
    ) -> None:
        super().__init__(message, status=status, retry_after=retry_after)
        self.text = text


class Exhausted(ProviderError):
    """A script or a record has no more responses."""

    kind = "exhausted"


class ProtocolError(ProviderError):
    """The response violates the protocol."""

    kind = "protocol"


AWAY_STATUSES = frozenset({502, 503, 504, 520, 521, 523, 529})
"""HTTP statuses of a provider that is overloaded, or that a gateway in front of it cannot reach. 529 is Anthropic's;
520, 521 and 523 are Cloudflare's, whose 522 and 524 are timeouts."""


def too_much_received(most: int) -> ProtocolError:
    """Return the error of a response whose connection received more than `most` bytes."""
    return ProtocolError(f"more than {most} bytes were received for one response, headers and framing included")


class Interrupted(ProtocolError):
    """The stream ended before the response did."""

    kind = "interrupted"


def is_away(error: ProviderError) -> bool:
    """Return whether an error means that the provider is away for a while and will answer the same request later.

    It does if no connection can be made, a connection breaks, a response times out, the provider is overloaded, or a
    gateway cannot reach it. A request that is refused for its content (400, 401, 403, quota) will be refused again.
    """
    if isinstance(error, Unreachable | TimedOut | RateLimited | Interrupted):
        return True
    return isinstance(error, Unavailable) and error.status in AWAY_STATUSES


KINDS: dict[str, type[ProviderError]] = {
    leaf.kind: leaf
    for leaf in (
        ProviderError,
        Unauthorized,
        NotFound,
        BadRequest,
        ContextOverflow,
        QuotaExceeded,
        RateLimited,
        Unavailable,
        Unreachable,
        TimedOut,
        Cancelled,
        Degenerate,
        Exhausted,
        ProtocolError,
        Interrupted,
    )
}
"""The class of each kind of error, by `ProviderError.kind`."""

BILLED_KINDS = frozenset({"cancelled", "timeout", "interrupted"})
"""Kinds of failures after which the input is probably billed, although no output came."""


def redact(text: str, secret: str | None) -> str:
    """Remove a key from a text: providers quote it in their error messages."""
    return text.replace(secret, "***") if secret else text


def hide_secrets(text: str, secrets: Iterable[str]) -> str:
    """Remove keys and passwords from a text, also if only their beginning is left."""
    for secret in secrets:
        whole = len(secret)
        if whole >= SHORTEST_SECRET:
            for length in range(whole, min(whole, TELLING_PART) - 1, -1):
                text = redact(text, secret[:length])
    return text


def attempt_ended(
    error: ProviderError, model: str, *, beside: bool = False, usage: Usage | None = None
) -> AttemptEnded:
    """Return the chunk that reports a failed attempt with this model."""
    return AttemptEnded(
        model=model,
        kind=error.kind,
        message=error.message,
        status=error.status,
        retry_after=error.retry_after,
        usage=usage,
        beside=beside,
        text=error.text if isinstance(error, Degenerate) else "",
    )

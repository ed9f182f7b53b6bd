"""What can go wrong at a provider, told apart by what one would do about it.

    ProviderError
    ├── Unauthorized        auth: the key is missing, wrong or not allowed (401, 403): change the key
    ├── NotFound            not_found: no such model or path (404): change the name
    ├── BadRequest          bad_request: the request itself is refused (400, 422): change what is sent
    │   └── ContextOverflow     context_overflow: too many tokens: compact, then try again
    ├── QuotaExceeded       quota: no money or no allowance is left (402, some 429): pay, or use another account
    ├── RateLimited         rate_limit: too many requests (429): wait `retry_after` seconds
    ├── Unavailable         server: the provider's own trouble (5xx): try again, or another one
    │   ├── Unreachable         connection: refused, unresolved, reset before an answer
    │   └── TimedOut            timeout: no answer, or no more of it, in time
    ├── Cancelled           cancelled: nobody's fault: the caller ended the request
    ├── Degenerate          degenerate: the response repeated itself, and the engine cut it
    ├── Exhausted           exhausted: a script or a record holds no more responses
    └── Broken              protocol: the answer is not what the protocol says
        └── Interrupted         interrupted: the stream broke off before its end

The loop turns whatever is left of these after retries into the outcome `provider_error`.
"""

from __future__ import annotations

from typing import ClassVar

from ..decision import AttemptEnded, Usage


class ProviderError(Exception):
    """A provider could not give a response. `str()` is fit for people and never holds a key."""

    kind: ClassVar[str] = "other"

    def __init__(self, message: str, *, status: int | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        """HTTP status, if there was one."""
        self.retry_after = retry_after
        """Seconds that the provider asks to wait."""


class Unauthorized(ProviderError):
    """The key is missing, wrong or not allowed to do this."""

    kind = "auth"


class NotFound(ProviderError):
    """No such model, or no such path."""

    kind = "not_found"


class BadRequest(ProviderError):
    """The provider refuses the request as it is."""

    kind = "bad_request"


class ContextOverflow(BadRequest):
    """The request holds more tokens than the model takes."""

    kind = "context_overflow"


class QuotaExceeded(ProviderError):
    """The account has no money left, or has used up what it may use: no wait of a few minutes mends it."""

    kind = "quota"


class RateLimited(ProviderError):
    """Too many requests or tokens; `retry_after` says how long to wait, if the provider does."""

    kind = "rate_limit"


class Unavailable(ProviderError):
    """The provider has trouble of its own."""

    kind = "server"


class Unreachable(Unavailable):
    """No connection, or none that lived long enough for an answer."""

    kind = "connection"


class TimedOut(Unavailable):
    """No answer in time, or no more of it."""

    kind = "timeout"


class Cancelled(ProviderError):
    """The caller ended the request. Never raised by a provider: it is how a cut attempt stands in the record."""

    kind = "cancelled"


class Degenerate(ProviderError):
    """The response repeated itself. Never raised by a provider: it is how one that was cut stands in the record."""

    kind = "degenerate"

    def __init__(
        self, message: str, *, status: int | None = None, retry_after: float | None = None, text: str = ""
    ) -> None:
        super().__init__(message, status=status, retry_after=retry_after)
        self.text = text
        """The response's text before that."""


class Exhausted(ProviderError):
    """A script or a record was asked for more responses than it holds."""

    kind = "exhausted"


class ProtocolError(ProviderError):
    """The answer is not what the protocol says."""

    kind = "protocol"


class Interrupted(ProtocolError):
    """The stream broke off before its end."""

    kind = "interrupted"


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


def redact(text: str, secret: str | None) -> str:
    """`text` without the key: providers quote it in their error messages."""
    return text.replace(secret, "***") if secret else text


def attempt_ended(
    error: ProviderError, model: str, *, beside: bool = False, usage: Usage | None = None
) -> AttemptEnded:
    """An attempt at a response of this model that came to nothing, as its stream says so."""
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

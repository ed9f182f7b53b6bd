"""What litellm raises, as ProviderErrors. It imports nothing of litellm: names and attributes are enough.

Statuses map well. A refused connection comes as an InternalServerError, and after the headers nearly everything is a
MidStreamFallbackError with the cause in `original_exception`; some providers' errors escape as ValueError or
KeyError. So everything that comes out of a stream is caught.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping

from .errors import (
    ContextOverflow,
    Interrupted,
    ProviderError,
    TimedOut,
    Unavailable,
    Unreachable,
    from_status,
    redact,
)

_PREFIX = re.compile(r"^(litellm\.\w+: *|\w+Error: *|\w+Exception - *)+")
_SSL = re.compile(r" ssl:(<[^>]*>|\w+)")
_LONGEST = 2000
_REFUSED = {"ConnectError", "ClientConnectorError", "ClientConnectorDNSError", "ConnectionRefusedError"}


def error_of(error: Exception, model: str, key: str | None, *, streaming: bool) -> ProviderError:
    """The ProviderError for anything that litellm raised. `streaming`: the response had already begun."""
    cause: BaseException = getattr(error, "original_exception", None) or error
    names = {type(link).__name__ for link in _chain(error)}
    message = f"{model}: {_clean(str(getattr(cause, 'message', None) or cause), key)}"
    status = getattr(cause, "status_code", None)
    if "ContextWindowExceededError" in names:
        return ContextOverflow(message, status=400)
    if names & {"Timeout", "APITimeoutError", "TimeoutError", "ReadTimeout", "ServerTimeoutError"}:
        return TimedOut(message)
    refused = next((link for link in _chain(error) if type(link).__name__ in _REFUSED), None)
    if refused is not None:
        return Unreachable(f"{model}: cannot connect: {_clean(str(refused), key)}")
    if streaming and (said := _said_in_stream(error)) is not None:
        return from_status(_status_in(said), message)
    if streaming and not _was_answered(cause):
        return Interrupted(message)
    if isinstance(status, int) and 400 <= status <= 599:
        return from_status(status, message, _retry_after(error))
    return Unavailable(message)


def _said_in_stream(error: BaseException) -> Mapping[str, object] | None:
    """The error object that came in the place of a chunk: OpenAI's client, inside of litellm, keeps it as `body`."""
    bodies = (getattr(link, "body", None) for link in _chain(error))
    return next((body for body in bodies if isinstance(body, dict)), None)


def _status_in(said: Mapping[str, object]) -> int:
    code = str(said.get("code") or said.get("status") or "")
    return int(code) if re.fullmatch("[45][0-9][0-9]", code) else 500


def _was_answered(cause: BaseException) -> bool:
    """Whether the provider itself said what is wrong: an error object in the stream, not a broken stream."""
    return type(cause).__name__ in {
        "AuthenticationError",
        "BadRequestError",
        "ContentPolicyViolationError",
        "NotFoundError",
        "PermissionDeniedError",
        "RateLimitError",
        "ServiceUnavailableError",
    }


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        link = waiting.pop()
        if link is None or id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        waiting += [link.__cause__, link.__context__, getattr(link, "original_exception", None)]


def _retry_after(error: BaseException) -> float | None:
    for link in _chain(error):
        for headers in (getattr(link, "litellm_response_headers", None), _headers_of(link)):
            try:
                return max(0.0, float((headers or {}).get("retry-after", "")))
            except ValueError:
                continue
    return None


def _headers_of(link: BaseException) -> Mapping[str, str] | None:
    headers: Mapping[str, str] | None = getattr(getattr(link, "response", None), "headers", None)
    return headers


def _clean(text: str, key: str | None) -> str:
    """The provider's message, without litellm's own prefixes, tracebacks and any key of this environment."""
    text = _PREFIX.sub("", text.split("\nTraceback", 1)[0].strip())
    text = _SSL.sub("", text)
    for name, value in os.environ.items():
        if name.endswith(("_KEY", "_TOKEN", "_SECRET")) and len(value) >= 8:
            text = redact(text, value)
    return redact(text, key)[:_LONGEST]

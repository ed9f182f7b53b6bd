"""What litellm raises, as ProviderErrors. It imports nothing of litellm: names and attributes are enough.

Statuses map well. A refused connection comes as an InternalServerError, and after the headers nearly everything is a
MidStreamFallbackError with the cause in `original_exception`; some providers' errors escape as ValueError or
KeyError. So everything that comes out of a stream is caught.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from . import error_replies
from .error_replies import Said, said_by, said_in
from .errors import ContextOverflow, Interrupted, NotFound, ProviderError, TimedOut, Unreachable, redact

_PREFIX = re.compile(r"^(litellm\.\w+: *|\w+Error: *|\w+Exception - *)+")
_SSL = re.compile(r" ssl:(<[^>]*>|\w+)")
_LONGEST = 2000
_REFUSED = {"ConnectError", "ClientConnectorError", "ClientConnectorDNSError", "ConnectionRefusedError"}


def error_of(error: Exception, model: str, key: str | None, *, streaming: bool) -> ProviderError:
    """The ProviderError for anything that litellm raised. `streaming`: the response had already begun."""
    cause: BaseException = getattr(error, "original_exception", None) or error
    names = {type(link).__name__ for link in _chain(error)}
    message = f"{model}: {_clean(str(getattr(cause, 'message', None) or cause), key)}"
    if "ContextWindowExceededError" in names:
        return ContextOverflow(message, status=400)
    if names & {"Timeout", "APITimeoutError", "TimeoutError", "ReadTimeout", "ServerTimeoutError"}:
        return TimedOut(message)
    refused = next((link for link in _chain(error) if type(link).__name__ in _REFUSED), None)
    if refused is not None:
        return Unreachable(f"{model}: cannot connect: {_clean(str(refused), key)}")
    left = next((link for link in _chain(error) if type(link).__name__ == "LeavesHost"), None)
    if left is not None:
        return NotFound(f"{model}: {left}")
    headers = _headers(error)
    body = _body(error)
    if streaming and body is not None:  # an error in the place of a chunk: the status is litellm's own
        said = said_by(body)
        message = message if said.message in message else f"{model}: {_clean(said.message, key)}"
        return error_replies.error_of(said._replace(message=message), headers=headers)
    if streaming and not _was_answered(cause):
        return Interrupted(message)
    said = _in_words(str(getattr(cause, "message", None) or cause)) if body is None else said_by(body, headers)
    return error_replies.error_of(said._replace(message=message), status=_status(error), headers=headers)


def _status(error: BaseException) -> int | None:
    """The status of the reply itself, which is told last: litellm gives its own errors a status of their own."""
    statuses = [getattr(link, "status_code", None) for link in _chain(error)]
    return next((s for s in reversed(statuses) if isinstance(s, int) and 400 <= s <= 599), None)


def _body(error: BaseException) -> Any:
    """What the provider said: OpenAI's client, inside of litellm, keeps it as `body`. None if it did not."""
    bodies = (getattr(link, "body", None) for link in _chain(error))
    return next((body for body in bodies if isinstance(body, dict | list | str) and body), None)


def _in_words(text: str) -> Said:
    """What a message says; where it quotes the provider's reply, that."""
    for begin in ("{", "["):
        quoted = said_in(text[text.find(begin) :]) if begin in text else None
        if quoted is not None and quoted.codes:
            return quoted
    return said_in(text)


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


def _headers(error: BaseException) -> Mapping[str, str] | None:
    for link in _chain(error):
        for headers in (getattr(link, "litellm_response_headers", None), _headers_of(link)):
            if headers:
                return headers
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

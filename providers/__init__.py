"""Model providers: each turns a request into a stream of chunks. Wrappers add retries, fallbacks, limits and recording.

The wire formats of single vendors are imported on first use, because few programs need more than one.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._wrapper import Wrapper
from .chaos import Chaos
from .clock import Clock, SystemClock
from .errors import (
    KINDS,
    BadRequest,
    Cancelled,
    ContextOverflow,
    Degenerate,
    Exhausted,
    Interrupted,
    NotFound,
    ProtocolError,
    ProviderError,
    QuotaExceeded,
    RateLimited,
    TimedOut,
    Unauthorized,
    Unavailable,
    Unreachable,
)
from .fallback import Fallback
from .litellm import LiteLLM
from .openai_compatible import OpenAICompatible
from .prices import Prices
from .provider import Provider, Request, ToolChoice
from .race import Hedge, Race
from .rate_limit import RateLimit
from .record import Exchange, Record, RecordedError
from .replay import Replay
from .retry import Retry
from .scripted import Scripted, call, say
from .timeouts import Timeouts

if TYPE_CHECKING:
    from .anthropic import Anthropic
    from .gemini import Gemini
    from .openai_responses import OpenAIResponses
else:
    _VENDORS = {"Anthropic": "anthropic", "Gemini": "gemini", "OpenAIResponses": "openai_responses"}

    def __getattr__(name: str) -> Any:
        if name not in _VENDORS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f".{_VENDORS[name]}", __name__), name)
        return value


__all__ = [
    "KINDS",
    "Anthropic",
    "BadRequest",
    "Cancelled",
    "Chaos",
    "Clock",
    "ContextOverflow",
    "Degenerate",
    "Exchange",
    "Exhausted",
    "Fallback",
    "Gemini",
    "Hedge",
    "Interrupted",
    "LiteLLM",
    "NotFound",
    "OpenAICompatible",
    "OpenAIResponses",
    "Prices",
    "ProtocolError",
    "Provider",
    "ProviderError",
    "QuotaExceeded",
    "Race",
    "RateLimit",
    "RateLimited",
    "Record",
    "RecordedError",
    "Replay",
    "Request",
    "Retry",
    "Scripted",
    "SystemClock",
    "TimedOut",
    "Timeouts",
    "ToolChoice",
    "Unauthorized",
    "Unavailable",
    "Unreachable",
    "Wrapper",
    "call",
    "say",
]

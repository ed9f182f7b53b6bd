"""Model providers: each turns a request into a stream of chunks. Wrappers add retries, fallbacks, limits and recording.

A name is imported when it is first used: few programs need more than one or two of them.
"""

from typing import TYPE_CHECKING

from ..decision.public_names import lazy_names

if TYPE_CHECKING:
    from ._wrapper import Wrapper
    from .anthropic import Anthropic
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
    from .gemini import Gemini
    from .litellm import LiteLLM
    from .openai_compatible import OpenAICompatible
    from .openai_responses import OpenAIResponses
    from .prices import Prices
    from .provider import Provider, Request, ToolChoice
    from .race import Hedge, Race
    from .rate_limit import RateLimit
    from .record import Exchange, Record, RecordedError
    from .replay import Replay
    from .retry import Retry
    from .scripted import Scripted, call, say
    from .timeouts import Timeouts
else:
    __getattr__, __dir__ = lazy_names(
        globals(),
        {
            "_wrapper": "Wrapper",
            "anthropic": "Anthropic",
            "chaos": "Chaos",
            "clock": "Clock SystemClock",
            "errors": """
                KINDS BadRequest Cancelled ContextOverflow Degenerate Exhausted Interrupted NotFound ProtocolError
                ProviderError QuotaExceeded RateLimited TimedOut Unauthorized Unavailable Unreachable
            """,
            "fallback": "Fallback",
            "gemini": "Gemini",
            "litellm": "LiteLLM",
            "openai_compatible": "OpenAICompatible",
            "openai_responses": "OpenAIResponses",
            "prices": "Prices",
            "provider": "Provider Request ToolChoice",
            "race": "Hedge Race",
            "rate_limit": "RateLimit",
            "record": "Exchange Record RecordedError",
            "replay": "Replay",
            "retry": "Retry",
            "scripted": "Scripted call say",
            "timeouts": "Timeouts",
        },
    )

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

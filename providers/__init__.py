"""The voices: each turns a request into a stream of chunks; some wrap one another."""

from .chaos import Chaos
from .errors import (
    KINDS,
    BadRequest,
    Broken,
    Cancelled,
    ContextOverflow,
    Exhausted,
    Interrupted,
    NotFound,
    ProviderError,
    RateLimited,
    TimedOut,
    Unauthorized,
    Unavailable,
    Unreachable,
)
from .litellm import LiteLLM
from .openai_compatible import OpenAICompatible
from .prices import Prices
from .provider import Provider, Request, ToolChoice
from .record import Exchange, Failure, Record
from .replay import Replay
from .scripted import Scripted, call, say

__all__ = [
    "KINDS",
    "BadRequest",
    "Broken",
    "Cancelled",
    "Chaos",
    "ContextOverflow",
    "Exchange",
    "Exhausted",
    "Failure",
    "Interrupted",
    "LiteLLM",
    "NotFound",
    "OpenAICompatible",
    "Prices",
    "Provider",
    "ProviderError",
    "RateLimited",
    "Record",
    "Replay",
    "Request",
    "Scripted",
    "TimedOut",
    "ToolChoice",
    "Unauthorized",
    "Unavailable",
    "Unreachable",
    "call",
    "say",
]

"""Sessions that live longer than a request: kept in a store, read by any number of readers."""

from .errors import Conflict, Refusal, TooMany, Unavailable, Unknown
from .reading import Missed, Portion
from .service import Service
from .tape import Frame

__all__ = ["Conflict", "Frame", "Missed", "Portion", "Refusal", "Service", "TooMany", "Unavailable", "Unknown"]

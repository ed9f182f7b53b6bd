"""Sessions that live longer than a request: kept in a store, read by any number of readers."""

from .errors import Conflict, Refusal, TooMany, Unavailable, Unknown
from .event_buffer import Frame
from .follow import Frames, Gap
from .service import Service

__all__ = ["Conflict", "Frame", "Frames", "Gap", "Refusal", "Service", "TooMany", "Unavailable", "Unknown"]

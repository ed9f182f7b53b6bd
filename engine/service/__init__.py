"""The service: runs sessions in the background, stores them, and lets any number of readers follow them."""

from .errors import Conflict, Refusal, TooMany, Unavailable, Unknown
from .event_buffer import Frame
from .follow import Frames, Gap
from .service import Service

__all__ = ["Conflict", "Frame", "Frames", "Gap", "Refusal", "Service", "TooMany", "Unavailable", "Unknown"]

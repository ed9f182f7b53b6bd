"""The service: runs sessions in the background, stores them, and lets any number of readers follow them."""

from .errors import Conflict, Refusal, ServiceUnavailable, TooMany, Unknown
from .event_buffer import Frame
from .follow import Frames, Gap
from .service import Service

__all__ = ["Conflict", "Frame", "Frames", "Gap", "Refusal", "Service", "ServiceUnavailable", "TooMany", "Unknown"]

"""The service: runs sessions in the background, stores them, and lets any number of readers follow them."""

from ..decision.errors import missing_extra

try:
    from ..records.frames import Frame, Frames, Gap
    from .errors import Conflict, Forbidden, Refusal, ServiceUnavailable, TooMany, Unknown
    from .service import Service
    from .span_receiver import Receiving
except ModuleNotFoundError as error:
    raise missing_extra("endstop.service keeps sessions in a database", "server", error) from None

__all__ = [
    "Conflict", "Forbidden", "Frame", "Frames", "Gap", "Receiving", "Refusal", "Service", "ServiceUnavailable",
    "TooMany", "Unknown",
]  # fmt: skip

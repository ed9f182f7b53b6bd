"""The service over HTTP: an ASGI app to mount or to serve, its protection, and helpers for your own endpoints."""

from ..decision.errors import missing_extra

try:
    from .app import web
    from .auth import Auth, BearerTokens
    from .embedding import Disconnected, engine_of, service_of, until_disconnect
    from .server import Connection
    from .server_limits import WebLimits
except ModuleNotFoundError as error:
    raise missing_extra("endstop.web is a server", "server", error) from None

__all__ = [
    "Auth",
    "BearerTokens",
    "Connection",
    "Disconnected",
    "WebLimits",
    "engine_of",
    "service_of",
    "until_disconnect",
    "web",
]

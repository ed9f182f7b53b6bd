"""The service over HTTP: an ASGI app to mount or to serve, its protection, and helpers for endpoints of your own."""

from .app import web
from .auth import Auth, BearerTokens
from .embedding import Disconnected, engine_of, service_of, until_disconnect
from .server import Connection
from .server_limits import WebLimits

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

"""The service over HTTP: an ASGI app to mount or to serve, its protection, and what endpoints of your own need."""

from .app import web
from .connection import Connection
from .disconnect import Disconnected, until_disconnect
from .injection import engine_of, service_of
from .limits import WebLimits
from .owners import Auth, Tokens

__all__ = [
    "Auth",
    "Connection",
    "Disconnected",
    "Tokens",
    "WebLimits",
    "engine_of",
    "service_of",
    "until_disconnect",
    "web",
]

"""The service and its engine for endpoints of your own: as dependencies (FastAPI's `Depends`), or by a call."""

from __future__ import annotations

from starlette.requests import Request

from ..decision import WrongUse
from ..engine import Engine
from ..service.errors import ServiceUnavailable
from ..service.service import Service


def service_of(request: Request) -> Service:
    """The service of the app. Raises WrongUse if the lifespan of the app is not that of the service."""
    service = getattr(request.state, "endstop", None)
    if not isinstance(service, Service):
        raise WrongUse(
            "the app has no service: give the app the lifespan of the service, as in FastAPI(lifespan=service.lifespan)"
        )
    return service


def engine_of(request: Request) -> Engine:
    """The engine of the app's service, or the first of several. Raises ServiceUnavailable if there is none."""
    for engine in service_of(request).agents.values():
        return engine
    raise ServiceUnavailable("no_model", "the service has no engine")
